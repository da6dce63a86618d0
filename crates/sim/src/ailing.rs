//! Disks that hang while their machines go on to speak, and then lose their power.
//!
//! When a machine comes back, or groups are divided or joined, OSDs have work: that is when weak disks of theirs fail. What
//! such an OSD says from then on is not durable, however long it takes to be said: a member that has come back is about to
//! hear what was written without it, and maps go on. Most such machines die, soon after a map that shows who came back or
//! some time after one that resized a pool; the others go on as if nothing had been.
//!
//! Who dies of that comes back, too, and others' disks may hang then. With many OSDs more than one of them dies each time:
//! that would never end. So a fault leads to so many such times, and no more until the next one strikes.
//!
//! Some racks have one switch for all: then every disk hangs, and all machines die at once after that map. What its writers
//! alone had, and told who came back of, is then nowhere.
//!
//! Owns who ails, and when it dies. What of its disk is left decides the disk.

use crate::faults::{Fault, short_time};
use crate::node::{Disk, NodeId};
use crate::run::Run;
use crate::world::{Event, World};
use base::{Duration, Epoch, Instant, Rng};

/// Whose disks hang, and whose machines will lose their power.
#[derive(Debug)]
pub(crate) struct Ails {
    /// Whether disks hang at all, at this time.
    pub(crate) begun: bool,
    ailing: Vec<Ailing>,
    /// How often that may still begin before the next fault.
    left: u32,
    /// Decides all that: a stream of its own, so that the rest is drawn as without.
    pub(crate) rng: Rng,
    /// Decides when all ail and die together, where they may: one more.
    racks: Option<Rng>,
}

/// Who ails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ailing {
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

impl Ails {
    /// Nobody ails, yet.
    pub(crate) fn new(seed: u64, racks: bool) -> Ails {
        Ails {
            begun: false,
            ailing: Vec::new(),
            left: AILS_PER_FAULT,
            rng: Rng::new(seed ^ 0x0061_696C_696E_6721),
            racks: racks.then(|| Rng::new(seed ^ 0x0000_7261_636B_7321)),
        }
    }

    /// A fault strikes: more may begin to ail.
    pub(crate) fn has_struck(&mut self) {
        self.left = AILS_PER_FAULT;
    }

    /// Nobody does any more.
    pub(crate) fn end(&mut self) {
        self.begun = false;
        self.ailing.clear();
    }

    /// How long all machines live after the map that shows who came back, where all will die of it.
    fn whole_rack(&mut self) -> Option<Duration> {
        let rng = self.racks.as_mut()?;
        rng.chance(1, 3).then(|| short_time(rng, LASTS_MAX_NANOS))
    }
}

impl World {
    /// Lets a disk hang; false if it does not run.
    pub(crate) fn hang(&mut self, id: NodeId, until: Instant) -> bool {
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
        let ailing = &mut self.ails.ailing;
        if let Some(at) = ailing.iter().position(|ailing| ailing.node == id && ailing.until > self.now) {
            let ailing = ailing.swap_remove(at);
            let at = (self.now + ailing.lasts).min(ailing.until);
            self.plan(at, Event::Caught { kind: Fault::Crash, node: id });
        }
    }

    /// A node has come to a map that gives a pool another number of groups.
    pub(crate) fn has_resized(&mut self, id: NodeId) {
        if self.ails.begun && self.ails.rng.chance(1, 8) {
            let until = self.now + Duration::from_nanos(self.ails.rng.below(RESIZED_MAX_NANOS));
            if self.hang(id, until) && self.ails.rng.chance(3, 4) {
                self.plan(until, Event::Caught { kind: Fault::Crash, node: id });
            }
        }
    }
}

impl Run {
    /// A machine will come back then: others' disks may hang a little before.
    pub(crate) fn others_may_ail(&mut self, back_at: Instant) {
        let ails = &mut self.world.ails;
        if ails.begun && ails.left > 0 && ails.rng.chance(2, 3) {
            ails.left -= 1;
            let before = Duration::from_nanos(ails.rng.below(BEFORE_MAX_NANOS));
            self.world.plan(back_at - before, Event::Ail { back_at });
        }
    }

    /// The disks of some machines hang from now on, and beyond another's return.
    pub(crate) fn ail(&mut self, back_at: Instant) {
        let world = &mut self.world;
        world.ails.ailing.clear();
        if !world.ails.begun {
            return;
        }
        let rack = world.ails.whole_rack();
        for osd in 0..self.options.osds {
            let rng = &mut world.ails.rng;
            let until = back_at + Duration::from_nanos(rng.below(AFTER_MAX_NANOS));
            let lasts = short_time(rng, LASTS_MAX_NANOS);
            let (weak, dies) = (rng.chance(1, 2), rng.chance(3, 4));
            let node = self.cluster.osd(osd);
            if (weak || rack.is_some()) && world.hang(node, until) && (dies || rack.is_some()) {
                world.ails.ailing.push(Ailing { node, until, lasts: rack.unwrap_or(lasts) });
            }
        }
    }
}
