//! Faults as they strike, and what an operator does meanwhile.

use crate::extent_disk::HELD_MAX;
use crate::faults::Fault;
use crate::node::{Disk, NodeId};
use crate::run::{HEAL_MAX, MARK, POOL_NAME, Run};
use crate::world::Event;
use base::{Duration, OsdId, PgId};

/// The mean time between two faults of a burst: about as long as a cluster takes to notice one and to peer.
const BURST_PAUSE: Duration = Duration::from_millis(15);
/// How long a session may take from the arrival of an attempt to connect to that of what waits for it, when all is well.
const HANDSHAKE_MAX: Duration = Duration::from_secs(1);
/// The most placement groups that the pool gets.
pub(crate) const PG_NUM_MAX: u64 = 16;

impl Run {
    pub(crate) fn plan_fault(&mut self) {
        let soon = self.options.bursts && self.world.rng.chance(1, 2);
        let at = self.world.now + self.work.pause(if soon { BURST_PAUSE } else { self.options.fault_every });
        self.world.plan(at, Event::Fault);
    }

    /// One fault, by chance.
    pub(crate) fn strike(&mut self) {
        let faults = self.options.faults;
        let Some(kind) = faults.pick(&mut self.world.rng).filter(|_| self.faulty) else { return };
        self.plan_fault();
        self.world.ails.has_struck();
        if self.may_regroup() {
            return;
        }
        self.faults += 1;
        self.world.note(&format!("fault: {kind:?}"));
        if faults.has(Fault::Snapshot) {
            self.snapshot();
        }
        if faults.has(Fault::Scrub) {
            self.scrub_something();
        }
        self.look_for_scrub_errors();
        if self.world.ails.begun && self.world.ails.rng.chance(1, 4) {
            let osd = self.world.ails.rng.below(u64::from(self.options.osds)) as u32;
            self.crash(self.cluster.osd(osd), 3);
        }
        self.may_fill_a_disk();
        self.may_exile();
        if self.waits_for_moment(kind) {
            return;
        }
        match kind {
            Fault::Cut => self.world.cut_some_pipe(),
            Fault::Apart | Fault::OneWay | Fault::SlowLink => self.strike_link(kind),
            Fault::Island => self.strike_island(),
            Fault::Slow => {
                let until = self.world.now + self.some_ms(3000);
                self.world.network.slow_down(until);
            }
            Fault::Crash => {
                let osd = self.some_osd();
                self.crash(self.cluster.osd(osd), 1);
            }
            Fault::Power | Fault::Monitor => self.take_power(kind),
            Fault::Stall => {
                let (node, until) = (self.some_node(), self.world.now + self.some_ms(8000));
                self.world.stall(node, until);
            }
            Fault::SlowDisk => self.slow_some_disk(),
            Fault::GiveUp => {
                let osd = self.some_osd();
                self.world.give_up_some_session(self.cluster.osd(osd));
            }
            Fault::Move => {
                let osd = self.some_osd();
                self.move_away_or_back(osd);
            }
            Fault::Down => {
                let osd = self.some_osd();
                if self.world.rng.chance(2, 3) {
                    // Nor does it hear of it at once.
                    let until = self.world.now + self.some_ms(8000);
                    self.world.network.separate(self.cluster.mon(), self.cluster.osd(osd), until);
                }
                self.mark("down", osd);
            }
            Fault::Resize => self.resize(),
            Fault::Snapshot | Fault::Scrub => unreachable!("these come with others"),
        }
    }

    fn slow_some_disk(&mut self) {
        let (osd, until) = (self.some_osd(), self.world.now + self.some_ms(5000));
        match &mut self.world.nodes[self.cluster.osd(osd).0].disk {
            Disk::Osd(disk) => disk.slow_down(until),
            Disk::Extent(disk) => disk.hold(until.min(self.world.now + HELD_MAX)),
            Disk::Mon(_) | Disk::None => {}
        }
    }

    fn strike_link(&mut self, kind: Fault) {
        let (from, to, until) = (self.some_node(), self.some_node(), self.world.now + self.some_ms(8000));
        let network = &mut self.world.network;
        match kind {
            Fault::SlowLink => network.slow_link(from, to, until),
            _ => network.separate(from, to, until),
        }
        if kind == Fault::Apart {
            network.separate(to, from, until);
        }
    }

    fn strike_island(&mut self) {
        let (nodes, until) = (self.world.nodes.len(), self.world.now + self.some_ms(12_000));
        let on_it: Vec<bool> = (0..nodes).map(|_| self.world.rng.chance(1, 3)).collect();
        let (deaf_alone, noticed) = (self.world.rng.chance(1, 4), self.world.rng.chance(1, 3));
        for (here, there) in (0..nodes).flat_map(|here| (0..nodes).map(move |there| (here, there))) {
            if on_it[there] && !on_it[here] {
                self.world.network.separate(NodeId(here), NodeId(there), until);
                if !deaf_alone {
                    self.world.network.separate(NodeId(there), NodeId(here), until);
                }
            }
        }
        // An operator may be faster than other OSDs.
        for osd in 0..self.options.osds {
            if noticed && on_it[self.cluster.osd(osd).0] {
                self.mark("down", osd);
            }
        }
    }

    fn some_ms(&mut self, max: u64) -> Duration {
        Duration::from_millis(self.world.rng.below(max))
    }

    fn some_node(&mut self) -> NodeId {
        NodeId(self.world.rng.below(self.world.nodes.len() as u64) as usize)
    }

    fn some_osd(&mut self) -> u32 {
        self.world.rng.below(u64::from(self.options.osds)) as u32
    }

    /// Marks an OSD out, or in again: placement groups move.
    fn move_away_or_back(&mut self, osd: u32) {
        let is_out = self.map().is_some_and(|map| map.is_out(OsdId(osd as i32)));
        self.mark(if is_out { "in" } else { "out" }, osd);
    }

    pub(crate) fn mark(&mut self, verb: &str, osd: u32) {
        self.marks += 1;
        self.command(MARK | self.marks, format!(r#"{{"prefix":"osd {verb}","ids":["{osd}"]}}"#));
    }

    fn resize(&mut self) {
        let pg_num = 1 + self.world.rng.below(PG_NUM_MAX);
        self.ask_for_groups(pg_num);
    }

    /// The pool gets so many groups, step by step.
    pub(crate) fn ask_for_groups(&mut self, pg_num: u64) {
        self.marks += 1;
        let words = format!(r#""pool":"{POOL_NAME}","var":"pg_num","val":"{pg_num}""#);
        self.command(MARK | self.marks, format!(r#"{{"prefix":"osd pool set",{words}}}"#));
    }

    /// The power of every OSD goes, or the monitor's.
    pub(crate) fn take_power(&mut self, kind: Fault) {
        match kind {
            Fault::Power => (0..self.options.osds).for_each(|osd| self.crash(self.cluster.osd(osd), 3)),
            _ => self.crash(self.cluster.mon(), 3),
        }
    }

    /// A machine is away for some part of the longest outage.
    pub(crate) fn crash(&mut self, node: NodeId, part: u64) {
        self.world.note(&format!("{} loses power", self.world.nodes[node.0].name));
        let spared = self.can_spare_disk(node);
        self.world.kill(node);
        let longest = u64::try_from(self.options.outage.as_millis()).unwrap_or(u64::MAX) / part;
        let at = self.world.now + self.some_ms(longest.max(1));
        self.world.plan(at, Event::Start(node));
        self.others_may_ail(at);
        self.may_lose_disk(node, spared);
    }

    /// Ends all faults and waits until every request has ended; false if one does not.
    pub(crate) fn heal(&mut self) -> bool {
        self.world.network.heal();
        self.world.empty_disks();
        let arrived = self.world.network.arrives_by() + HANDSHAKE_MAX;
        self.world.ambush = None;
        self.world.ails.end();
        self.world.regroups.end();
        for id in 0..self.world.nodes.len() {
            self.cluster.start(&mut self.world, NodeId(id));
        }
        self.bring_in();
        let osds = self.options.osds as usize;
        if !self.wait_for(HEAL_MAX, |run| run.osds_up(0) == osds && run.work.in_flight() == 0) {
            let (up, waiting) = (self.osds_up(0), self.work.in_flight());
            return self.fail(format!(
                "{HEAL_MAX:?} after the last fault {up} of {osds} OSDs are up, {waiting} requests wait"
            ));
        }
        // A write that its client has given up on may still be on its way, where nodes were apart: what is read at last is
        // what there is for good.
        self.wait_for(HEAL_MAX, |run| run.world.now >= arrived);
        // What was on its way to a monitor that was away must not change anything later.
        if !self.wait_for(HEAL_MAX, |run| run.commands_under_way() == 0) {
            let waiting = self.commands_under_way();
            return self.fail(format!("{HEAL_MAX:?} after the last fault {waiting} commands wait"));
        }
        self.bring_in();
        self.give_up_what_is_lost();
        let settled = |run: &mut Run| {
            run.known_pool().is_some_and(|pool| {
                (pool.pg_num, pool.pgp_num, pool.pg_num_pending)
                    == (pool.pg_num_target, pool.pg_num_target, pool.pg_num_target)
            })
        };
        if !self.wait_for(HEAL_MAX, settled) {
            let pool = self.known_pool();
            let counts = pool.map(|p| (p.pg_num, p.pgp_num, p.pg_num_pending, p.pg_num_target));
            let unsettled: Vec<_> =
                self.world.nodes.iter().filter_map(|node| node.osd()).flat_map(|osd| osd.unsettled()).collect();
            return self.fail(format!(
                "{HEAL_MAX:?} after the last fault the pool's pg_num does not settle: {counts:?}; {unsettled:?}"
            ));
        }
        // A write that its client has given up on may wait in an OSD, for room or for its group.
        self.wait_for(HEAL_MAX, |run| run.left_in_hand().is_none());
        true
    }

    /// How many commands the monitor has not answered.
    fn commands_under_way(&self) -> usize {
        self.world.nodes[self.cluster.client(0).0].client().map_or(0, |client| client.commands_under_way())
    }

    /// Marks in whoever is out; a command may be lost with a monitor's session.
    fn bring_in(&mut self) {
        let out = |run: &Run| -> Vec<u32> {
            let is_out = |osd: &u32| run.map().is_some_and(|map| map.is_out(OsdId(*osd as i32)));
            (0..run.options.osds).filter(is_out).collect()
        };
        for _ in 0..20 {
            if out(self).is_empty() {
                break;
            }
            out(self).into_iter().for_each(|osd| self.mark("in", osd));
            self.wait_for(Duration::from_secs(5), |run| out(run).is_empty());
        }
    }

    /// The pool's placement groups, by the newest map that a client has.
    pub(crate) fn pgs(&self) -> Vec<PgId> {
        let pg_num = self.known_pool().map_or(0, |pool| pool.pg_num);
        (0..pg_num).map(|seed| PgId::new(self.pool, seed)).collect()
    }
}
