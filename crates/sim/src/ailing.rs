//! Disks that hang while their machines go on to speak, and then lose their power; and a disk that is lost for good.
//!
//! When a machine comes back, or groups are divided or joined, OSDs have work: that is when weak disks of theirs fail. What
//! such an OSD says from then on is not durable, however long it takes to be said: a member that has come back is about to
//! hear what was written without it, and maps go on. Most such machines die, soon after a map that shows who came back or
//! some time after one that resized a pool; the others go on as if nothing had been.
//!
//! Who dies of that comes back, too, and others' disks may hang then. With many OSDs more than one of them dies each time:
//! that would never end. So a fault leads to so many such times, and no more until the next one strikes.
//!
//! Owns who ails, and when it dies. What of its disk is left decides the disk.

use crate::faults::Fault;
use crate::node::{Disk, NodeId};
use crate::run::Run;
use crate::world::{Event, World};
use base::{Duration, Epoch, Instant};

/// Who ails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ailing {
    node: NodeId,
    /// Until when its disk hangs.
    until: Instant,
    /// How long after a map that shows more OSDs as up it dies.
    lasts: Duration,
}

/// How often, after a fault, a machine's return lets others' disks hang. In clusters of three to six OSDs nearly all faults
/// lead to fewer: of 60 drawn runs four had one that led to more.
pub(crate) const AILS_PER_FAULT: u32 = 8;
/// How long before a machine comes back others' disks begin to hang at the most: time for some writes.
const BEFORE_MAX_NANOS: u64 = 500_000_000;
/// How long afterwards they hang at the most: a start and a peering take less.
const AFTER_MAX_NANOS: u64 = 2_000_000_000;
/// How long at most a machine lives with the map that shows who came back: long enough for slow disks of others.
const LASTS_MAX_NANOS: u64 = 200_000_000;
/// How long at most a disk hangs from a map on that has resized a pool: long enough for further steps.
const RESIZED_MAX_NANOS: u64 = 1_000_000_000;

impl World {
    /// Lets a disk hang; false if it does not run.
    fn hang(&mut self, id: NodeId, until: Instant) -> bool {
        let node = &mut self.nodes[id.0];
        let hangs = match &mut node.disk {
            _ if node.running.is_none() => false,
            Disk::Osd(disk) => {
                disk.hang(until);
                true
            }
            Disk::Extent(disk) => {
                disk.hold(until);
                true
            }
            Disk::Mon(_) | Disk::None => false,
        };
        if hangs {
            let line = format!("the disk of {} hangs", self.nodes[id.0].name);
            self.note(&line);
        }
        hangs
    }

    /// A node has come to a map that shows more OSDs as up than its last one.
    pub(crate) fn has_company(&mut self, id: NodeId, epoch: Epoch) {
        self.rushes.has_company(self.now, epoch);
        if let Some(at) = self.ailing.iter().position(|ailing| ailing.node == id && ailing.until > self.now) {
            let ailing = self.ailing.swap_remove(at);
            let at = (self.now + ailing.lasts).min(ailing.until);
            self.plan(at, Event::Caught { kind: Fault::Crash, node: id });
        }
    }

    /// A node has come to a map that gives a pool another number of groups.
    pub(crate) fn has_resized(&mut self, id: NodeId) {
        if self.disks_ail && self.ails.chance(1, 8) {
            let until = self.now + Duration::from_nanos(self.ails.below(RESIZED_MAX_NANOS));
            if self.hang(id, until) && self.ails.chance(3, 4) {
                self.plan(until, Event::Caught { kind: Fault::Crash, node: id });
            }
        }
    }
}

impl Run {
    /// A machine will come back then: others' disks may hang a little before.
    pub(crate) fn others_may_ail(&mut self, back_at: Instant) {
        if self.world.disks_ail && self.world.ails_left > 0 && self.world.ails.chance(2, 3) {
            self.world.ails_left -= 1;
            let before = Duration::from_nanos(self.world.ails.below(BEFORE_MAX_NANOS));
            self.world.plan(back_at - before, Event::Ail { back_at });
        }
    }

    /// The disks of some machines hang from now on, and beyond another's return.
    pub(crate) fn ail(&mut self, back_at: Instant) {
        let world = &mut self.world;
        world.ailing.clear();
        let osds = if world.disks_ail { self.options.osds } else { 0 };
        for osd in 0..osds {
            let until = back_at + Duration::from_nanos(world.ails.below(AFTER_MAX_NANOS));
            // Short times more often than long ones.
            let lasts = Duration::from_nanos(world.ails.below(LASTS_MAX_NANOS) >> world.ails.below(8));
            let (weak, dies) = (world.ails.chance(1, 2), world.ails.chance(3, 4));
            let node = self.cluster.osd(osd);
            if weak && world.hang(node, until) && dies {
                world.ailing.push(Ailing { node, until, lasts });
            }
        }
    }

    /// A machine that has lost its power has, once in a run, lost what it kept, too. Where no group serves with fewer than
    /// two members, another one has everything that was acknowledged.
    pub(crate) fn may_lose_disk(&mut self, node: NodeId) {
        let osd = (0..self.options.osds).find(|osd| self.cluster.osd(*osd) == node);
        let may = self.options.disk_loss && !self.disk_lost && self.options.min_size >= 2 && self.faulty;
        let world = &mut self.world;
        if let Some(osd) = osd.filter(|_| may && world.ails.chance(1, 3)) {
            self.disk_lost = true;
            let line = format!("{} loses its disk", world.nodes[node.0].name);
            world.note(&line);
            let seed = world.ails.u64();
            world.nodes[node.0].disk.replace(osd, seed);
        }
    }
}
