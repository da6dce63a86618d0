//! The maps that nodes come to: whether they are the same for all, and what a new one sets off.

use super::World;
use crate::node::NodeId;
use base::Epoch;
use base::checksum::crc32c;
use maps::OsdMap;
use std::sync::Arc;

/// Maps kept to compare others with: nodes come to each soon after one another.
const NEWEST_MAPS_KEPT: usize = 16;

impl World {
    /// Looks at the map that a node has come to: epochs go up, and each stands for one map.
    pub(super) fn note_map(&mut self, id: NodeId) {
        let node = &self.nodes[id.0];
        let (Some(map), Some(running)) = (node.map(), &node.running) else { return };
        if map.epoch == running.epoch {
            return;
        }
        let map = Arc::clone(map);
        let (up, pg_nums) = (map.osd_counts().up, map.pools.values().map(|pool| pool.pg_num).sum());
        let more_up = up > running.osds_up;
        let resized = pg_nums != running.pg_nums && running.epoch > Epoch(0);
        if map.epoch < running.epoch {
            let what = format!("{} went back from map {} to {}", node.name, running.epoch, map.epoch);
            self.failures.push(what);
        }
        if !self.is_known(&map) {
            self.failures.push(format!("{} has another map {} than others", self.nodes[id.0].name, map.epoch));
        }
        if let Some(running) = &mut self.nodes[id.0].running {
            (running.epoch, running.osds_up, running.pg_nums) = (map.epoch, up, pg_nums);
        }
        self.has_moved_on(id);
        if more_up {
            self.has_company(id, map.epoch);
        }
        if resized {
            self.has_resized(id);
            self.has_regrouped(id);
        }
    }

    /// Whether a map is the one that others of its epoch have seen, if they have. What is equal would be encoded alike.
    fn is_known(&mut self, map: &Arc<OsdMap>) -> bool {
        if self.newest_maps.iter().any(|known| known.epoch == map.epoch && known == map) {
            return true;
        }
        let sum = crc32c(0, &map.encoded().bytes);
        let known = *self.maps.entry(map.epoch).or_insert(sum) == sum;
        if known {
            self.newest_maps.truncate(NEWEST_MAPS_KEPT - 1);
            self.newest_maps.push_front(Arc::clone(map));
        }
        known
    }
}
