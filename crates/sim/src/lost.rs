//! A disk that is lost for good, and what an operator does then: gives up objects of which no holder is left.
//!
//! There are such objects, and nothing is wrong: of a write that was never answered there may be one copy, on that disk.
//! The group has it in its log and waits for it. What was answered has other copies; were it given up, reads would show.

use crate::node::{Node, NodeId};
use crate::run::{HEAL_MAX, MARK, Run};
use base::{Duration, OsdId, PgId};
use client::CommandId;

/// How long an OSD has to find what it lacks, or to give it up, before it is asked (again).
const PATIENCE: Duration = Duration::from_secs(10);

impl Run {
    /// Whether every group serves and has everything that was acknowledged without this machine's disk. Two members had it
    /// when it was acknowledged; one of them may have written over it since, which nobody else knows of, and lack it now.
    pub(crate) fn can_spare_disk(&self, node: NodeId) -> bool {
        let Some(osd) = self.osd_of(node).filter(|_| self.options.disk_loss && !self.disk_lost) else { return false };
        let osds = || self.world.nodes.iter().filter_map(Node::osd);
        self.pgs().into_iter().all(|pg| {
            let said: Vec<bool> = osds().filter_map(|leader| leader.spares(pg, OsdId(osd as i32))).collect();
            !said.is_empty() && said.iter().all(|spared| *spared)
        })
    }

    fn osd_of(&self, node: NodeId) -> Option<u32> {
        (0..self.options.osds).find(|osd| self.cluster.osd(*osd) == node)
    }

    /// A machine that has lost its power has, once in a run, lost what it kept, too; `spared` says that nobody needs it.
    /// No group serves with fewer than two members there.
    pub(crate) fn may_lose_disk(&mut self, node: NodeId, spared: bool) {
        let may = spared && self.options.min_size >= 2 && self.faulty;
        let Some(osd) = self.osd_of(node).filter(|_| may && self.world.ails.rng.chance(2, 3)) else { return };
        self.disk_lost = true;
        let world = &mut self.world;
        let line = format!("{} loses its disk", world.nodes[node.0].name);
        world.note(&line);
        let seed = world.ails.rng.u64();
        world.nodes[node.0].disk.replace(osd, seed);
    }

    /// Has groups that lack objects for good give them up, until all are clean. Groups find that out one after the other, as
    /// each gets to recover.
    pub(crate) fn give_up_what_is_lost(&mut self) {
        let end = self.world.now + HEAL_MAX;
        let clean = |run: &mut Run| run.world.nodes.iter().filter_map(Node::osd).all(|osd| osd.unsettled().is_empty());
        while self.disk_lost && self.world.now < end && !self.wait_for(PATIENCE, clean) {
            if !self.world.failures.is_empty() {
                break;
            }
            for (osd, pg) in self.lacking() {
                self.give_up(osd, pg);
            }
        }
    }

    /// The groups that lack objects for good as far as they know, and who leads them.
    fn lacking(&self) -> Vec<(OsdId, PgId)> {
        let of = |osd: u32| {
            let engine = self.world.nodes[self.cluster.osd(osd).0].osd();
            let pgs = engine.map_or_else(Vec::new, |engine| engine.with_unfound());
            pgs.into_iter().map(move |pg| (OsdId(osd as i32), pg))
        };
        (0..self.options.osds).flat_map(of).collect()
    }

    fn give_up(&mut self, osd: OsdId, pg: PgId) {
        self.marks += 1;
        let json = format!(r#"{{"prefix":"pg","pgid":"{pg}","cmd":"mark_unfound_lost","mulcmd":"revert"}}"#);
        let first = self.cluster.client(0);
        let client = self.world.nodes[first.0].client_mut().expect("clients run all the time");
        while client.poll_reply().is_some() {}
        client.tell(CommandId(MARK | self.marks), osd, json);
        self.world.settle(first);
    }
}
