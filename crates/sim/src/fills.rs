//! Disks that fill up for a while, because something else takes their room, and have room again.
//!
//! Owns how much is taken, and when. What an OSD makes of it is the engine's: it says so to the monitor and to others, the
//! map calls it nearly full or full, clients hold writes back or hear that there is no space, and nothing is recovered to
//! where there is no room. What would not fit a disk refuses, which ends its OSD: no OSD may let it come to that.

use crate::node::{Disk, NodeId};
use crate::run::Run;
use crate::world::World;
use base::Duration;
use osd::room::Room;

/// The size of disks that fill up: the reserve in which an OSD takes nothing more is 3 percent of it.
pub(crate) const SMALL_STORE_BYTES: u64 = 64 << 20;
/// What is left of a disk at the least, in thousandths: room for what is under way when it fills up at once ...
const LEFT_MIN: u64 = 20;
/// ... and at the most, about: above it nobody calls it full.
const LEFT_MAX: u64 = 180;
/// How long it stays so at the most.
const LASTS_MAX_NANOS: u64 = 15_000_000_000;

impl Run {
    /// A disk fills up, by chance.
    pub(crate) fn may_fill_a_disk(&mut self) {
        if !self.options.full_disks || !self.world.fills.chance(1, 3) {
            return;
        }
        let fills = &mut self.world.fills;
        let osd = fills.below(u64::from(self.options.osds)) as u32;
        // Little more often than much: there are four marks in the last fifth, three of them in the last tenth.
        let left = LEFT_MIN + (fills.below(LEFT_MAX - LEFT_MIN) >> fills.below(4));
        let lasts = Duration::from_nanos(fills.below(LASTS_MAX_NANOS));
        self.world.fill(self.cluster.osd(osd), left, lasts);
    }
}

impl World {
    /// Something else takes a disk's room until so many thousandths are left, for so long.
    pub(crate) fn fill(&mut self, id: NodeId, left: u64, lasts: Duration) {
        let until = self.now + lasts;
        let node = &mut self.nodes[id.0];
        if let Disk::Osd(disk) = &mut node.disk {
            disk.fill(SMALL_STORE_BYTES / 1000 * left, until);
            let line = format!("the disk of {} fills up until {left} thousandths are left", node.name);
            self.note(&line);
        }
    }

    /// Whatever has taken room gives it back.
    pub(crate) fn empty_disks(&mut self) {
        for node in &mut self.nodes {
            if let Disk::Osd(disk) = &mut node.disk {
                disk.fill(SMALL_STORE_BYTES, self.now);
            }
        }
    }

    /// Tells an OSD how much room its disk has, if its disk keeps an account; whether it has something to say then.
    pub(crate) fn tell_room(&mut self, id: NodeId) -> bool {
        let (now, shown) = (self.now, self.shown(id));
        let node = &mut self.nodes[id.0];
        let Some(running) = node.running.as_mut().filter(|_| node.busy_until <= now && node.inbox.is_empty()) else {
            return false;
        };
        match (&mut node.disk, running.engine.osd_mut()) {
            (Disk::Osd(disk), Some(osd)) => disk.room(now).is_some_and(|(total, free)| {
                osd.handle_timer(shown);
                osd.note_room(Room { total, free });
                true
            }),
            _ => false,
        }
    }
}
