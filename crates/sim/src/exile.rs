//! An OSD that is marked down while it lives, and clients that are cut off with it: what it answers them from then on is
//! what others have gone on without.
//!
//! Who hears of a new map asks elsewhere, so that an OSD that answers too long is found only by clients as badly informed
//! as itself. Those hear it, and nobody else who could tell them; all are heard. They look at what there is more often
//! than usual, for what it answers is right again as soon as it has heard of the map.

use crate::node::NodeId;
use crate::run::Run;
use crate::world::Event;
use base::Duration;

/// One in how many faults brings an exile along.
const ONE_IN: u64 = 6;
/// For how long the exiled hear nobody else, at the most.
const LASTS_MAX_MS: u64 = 8000;
/// How many reads each exiled client makes beside its work, and within which time at the most.
const READS: u64 = 24;
const READS_MS: u64 = 2000;

impl Run {
    /// An OSD may be marked down where it, and some clients, do not hear of that.
    pub(crate) fn may_exile(&mut self) {
        if !self.options.exiles || !self.exile.chance(1, ONE_IN) {
            return;
        }
        let osd = self.exile.below(u64::from(self.options.osds)) as u32;
        let until = self.world.now + Duration::from_millis(self.exile.below(LASTS_MAX_MS));
        let clients: Vec<usize> = (0..self.options.clients as usize).filter(|_| self.exile.chance(1, 2)).collect();
        let exiled: Vec<NodeId> =
            clients.iter().map(|client| self.cluster.client(*client)).chain([self.cluster.osd(osd)]).collect();
        for from in (0..self.world.nodes.len()).map(NodeId).filter(|node| !exiled.contains(node)) {
            exiled.iter().for_each(|to| self.world.network.separate(from, *to, until));
        }
        for client in clients {
            for _ in 0..READS {
                let at = self.world.now + Duration::from_millis(self.exile.below(READS_MS));
                self.world.plan(at, Event::Look { client });
            }
        }
        self.mark("down", osd);
    }
}
