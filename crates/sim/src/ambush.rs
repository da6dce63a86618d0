//! Power that goes at a telling moment: just after a machine has spoken while its disk had something still to do, or while
//! one does what a new map asks of it.
//!
//! Of random moments nearly none is between a word and the write that it stands for, or amid a peering; a cluster that
//! speaks too early is found at these. Here a fault that takes the power waits for one. What was said is on its way by
//! then, and arrives. Who was caught may not be the last: the next one may wait for the map that this led to.

use crate::faults::{Fault, short_time};
use crate::node::{Disk, NodeId};
use crate::run::Run;
use crate::world::{Event, World};

/// A fault that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ambush {
    kind: Fault,
    moment: Moment,
}

/// What it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moment {
    /// A machine has spoken, and its disk is not done.
    Word,
    /// An OSD whose disk is not done with what came before has come to a new map.
    Map,
}

/// One in how many words the fault takes, and one in how many maps: the first one is not always what matters.
const TAKEN_ONE_IN: (u64, u64) = (4, 2);
/// At most so long after a word it strikes: long enough for others to act on what they heard.
const AFTER_WORD_NANOS: u64 = 1_000_000;
/// At most so long after a map: about as long as a peering takes where disks are slow.
const AFTER_MAP_NANOS: u64 = 200_000_000;

impl World {
    /// From now on this fault waits for its moment; one that waited before does so no longer.
    fn lie_in_wait(&mut self, kind: Fault, moment: Moment) {
        self.ambush = Some(Ambush { kind, moment });
    }

    /// A node has sent something.
    pub(crate) fn has_spoken(&mut self, id: NodeId) {
        self.note_moment(id, Moment::Word, AFTER_WORD_NANOS);
    }

    /// A node has come to a new map.
    pub(crate) fn has_moved_on(&mut self, id: NodeId) {
        self.note_moment(id, Moment::Map, AFTER_MAP_NANOS);
    }

    fn note_moment(&mut self, id: NodeId, what: Moment, after_max: u64) {
        let Some(Ambush { kind, moment }) = self.ambush else { return };
        let owes = match (kind, &self.nodes[id.0].disk) {
            (Fault::Monitor, Disk::Mon(disk)) => disk.owes(),
            (Fault::Crash | Fault::Power, Disk::Osd(disk)) => disk.owes(),
            (Fault::Crash | Fault::Power, Disk::Extent(disk)) => disk.owes(),
            _ => 0,
        };
        // Every disk has the new map to write.
        let (least, one_in) = if moment == Moment::Map { (2, TAKEN_ONE_IN.1) } else { (1, TAKEN_ONE_IN.0) };
        if moment == what && owes >= least && self.rng.chance(1, one_in) {
            self.ambush = None;
            let after = short_time(&mut self.rng, after_max);
            self.plan(self.now + after, Event::Caught { kind, node: id });
        }
    }
}

impl Run {
    /// Whether a fault of this kind waits for its moment.
    pub(crate) fn waits_for_moment(&mut self, kind: Fault) -> bool {
        let takes_power = matches!(kind, Fault::Crash | Fault::Power | Fault::Monitor);
        let waits = self.options.ambushes && takes_power && self.world.rng.chance(2, 3);
        if waits {
            let map = kind != Fault::Monitor && self.world.rng.chance(1, 2);
            self.world.lie_in_wait(kind, if map { Moment::Map } else { Moment::Word });
        }
        waits
    }

    /// The moment has come, on this node.
    pub(crate) fn strike_caught(&mut self, kind: Fault, node: NodeId) {
        if !self.faulty {
            return;
        }
        self.world.note(&format!("caught: {kind:?}"));
        match kind {
            Fault::Crash => {
                self.crash(node, 1);
                if self.options.ambushes && self.world.rng.chance(3, 4) {
                    self.world.lie_in_wait(kind, Moment::Map);
                }
            }
            kind => self.take_power(kind),
        }
    }
}
