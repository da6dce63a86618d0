//! What an operator does for a cluster that has lost a disk for good: gives up objects of which no holder is left.
//!
//! There are such objects, and nothing is wrong: of a write that was never answered there may be one copy, on that disk.
//! The group has it in its log and waits for it. What was answered has other copies; were it given up, reads would show.

use crate::node::Node;
use crate::run::{HEAL_MAX, MARK, Run};
use base::{Duration, OsdId, PgId};
use client::CommandId;

/// How long an OSD has to find what it lacks, or to give it up, before it is asked (again).
const PATIENCE: Duration = Duration::from_secs(10);

impl Run {
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
