//! An operator who changes the number of placement groups again and again, and machines that die amid that.
//!
//! Groups are divided and joined in memory at once, and on a disk later: what is between is found only where a disk has
//! not done what one map asks when the next one comes, and where power goes then. So a disk may be stuck with groups that it
//! has to divide or to join, while it goes on with the rest, and its machine dies when the next map asks for the same.
//! Data moves as fast as it can, as operators let it who want such a change done, and in the first half of a run nothing
//! else goes wrong: joins then follow one another within seconds.
//!
//! Owns whose disk is stuck, and when its machine dies. What of its disk is left decides the disk.

use crate::faults::Fault;
use crate::node::{Disk, NodeId};
use crate::run::Run;
use crate::strikes::PG_NUM_MAX;
use crate::world::{Event, World};
use base::{Duration, Instant, Rng};

/// One in how many faults lets the operator think otherwise while the last change is not done.
const ANEW_ONE_IN: u64 = 8;
/// How many groups more or fewer at the most.
const CHANGE_MAX: u64 = 8;
/// One in how many disks that have groups to divide or to join are stuck with that.
const STICKS_ONE_IN: u64 = 2;
/// For how long at the most: joins follow one another in steps of a second.
const STICKS_MAX_NANOS: u64 = 10_000_000_000;
/// At most so long after the next such map its machine dies.
const LASTS_MAX_NANOS: u64 = 20_000_000;

/// What all this is decided by.
#[derive(Debug)]
pub(crate) struct Regroups {
    /// Whether it happens at all, and now.
    wanted: bool,
    active: bool,
    /// Until when nothing else goes wrong.
    alone_until: Instant,
    /// A stream of its own, so that the rest is drawn as without.
    rng: Rng,
    /// Whose disk is stuck, and until when.
    stuck: Vec<(NodeId, Instant)>,
}

impl Regroups {
    pub(crate) fn new(seed: u64, wanted: bool) -> Regroups {
        Regroups {
            wanted,
            active: false,
            alone_until: Instant::ZERO,
            rng: Rng::new(seed ^ 0x0072_6567_726F_7570),
            stuck: Vec::new(),
        }
    }

    /// Faults begin, of other kinds not before `alone_until`.
    pub(crate) fn begin(&mut self, alone_until: Instant) {
        (self.active, self.alone_until) = (self.wanted, alone_until);
    }

    /// Faults end.
    pub(crate) fn end(&mut self) {
        self.active = false;
    }
}

impl World {
    /// A node has come to a map that gives a pool another number of groups.
    pub(crate) fn has_regrouped(&mut self, id: NodeId) {
        let owes = match &self.nodes[id.0].disk {
            Disk::Osd(disk) => disk.owes_parts(),
            Disk::Extent(disk) => disk.owes() > 0,
            Disk::Mon(_) | Disk::None => false,
        };
        let World { regroups, now, .. } = self;
        if !regroups.active || !owes {
            return;
        }
        regroups.stuck.retain(|(_, until)| *until > *now);
        if let Some(at) = regroups.stuck.iter().position(|(node, _)| *node == id) {
            regroups.stuck.swap_remove(at);
            // Short times more often than long ones.
            let lasts = Duration::from_nanos(regroups.rng.below(LASTS_MAX_NANOS) >> regroups.rng.below(16));
            let at = *now + lasts;
            self.plan(at, Event::Caught { kind: Fault::Crash, node: id });
        } else if regroups.rng.chance(1, STICKS_ONE_IN) {
            let until = *now + Duration::from_nanos(regroups.rng.below(STICKS_MAX_NANOS));
            regroups.stuck.push((id, until));
            self.stick(id, until);
        }
    }

    /// A disk does not get done with groups that it has to divide or to join.
    fn stick(&mut self, id: NodeId, until: Instant) {
        let node = &mut self.nodes[id.0];
        match &mut node.disk {
            Disk::Osd(disk) => disk.stick(self.now, until),
            Disk::Extent(disk) => disk.hold(until),
            Disk::Mon(_) | Disk::None => {}
        }
        let line = format!("the disk of {} is stuck with the groups of a new map", node.name);
        self.note(&line);
    }
}

impl Run {
    /// The pool may get some groups more, or fewer. True where nothing else is to go wrong yet: of what is broken nothing is
    /// joined.
    pub(crate) fn may_regroup(&mut self) -> bool {
        let Some(pool) = self.known_pool() else { return false };
        let World { regroups, now, .. } = &mut self.world;
        if !regroups.active {
            return false;
        }
        let alone = *now < regroups.alone_until;
        let (at_target, at) = (pool.pg_num == pool.pg_num_target, u64::from(pool.pg_num_target));
        if regroups.rng.chance(1, if at_target { 1 } else { ANEW_ONE_IN }) {
            let change = 1 + regroups.rng.below(CHANGE_MAX);
            let more = at == 1 || regroups.rng.chance(1, 3);
            let pg_num = if more { (at + change).min(PG_NUM_MAX) } else { at.saturating_sub(change).max(1) };
            self.world.note(&format!("the pool is to have {pg_num} groups"));
            self.faults += 1;
            self.ask_for_groups(pg_num);
        }
        alone
    }
}
