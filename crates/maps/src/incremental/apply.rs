//! Applying an incremental to the map before it.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc`, `OSDMap::apply_incremental`. Everything that can go wrong is checked before
//! anything changes: a refused incremental leaves the map as it was. What is shared with maps of other epochs is
//! copied only where it changes.

use super::Incremental;
use crate::limits;
use crate::osd_map::{MapFlags, OsdMap};
use crate::osd_state::{OsdAddrs, OsdInfo, OsdState, OsdXInfo, WEIGHT_ONE};
use crate::release::Release;
use crate::snap_set::SnapSet;
use base::{Epoch, OsdId, PoolId};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::codec::{Decode, Malformed};
use wire::types::{EntityAddr, UTime, Uuid};

/// Why an incremental was not applied. Its sender is to blame, or the caller who kept the wrong map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApplyError {
    /// It belongs to another cluster.
    #[error("the incremental is of cluster {0}")]
    OtherCluster(Uuid),
    /// It is not the one that follows.
    #[error("the incremental leads to epoch {got}, the map is at {have}")]
    NotNext {
        /// The map's epoch.
        have: Epoch,
        /// The incremental's epoch.
        got: Epoch,
    },
    /// It holds a CRUSH map or a whole map that does not decode.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It speaks of something that the map does not have.
    #[error("the incremental does not fit the map: {0}")]
    Inconsistent(&'static str),
}

/// Adds to and takes from a blocklist.
fn follow_list(list: &mut Arc<BTreeMap<EntityAddr, UTime>>, new: &BTreeMap<EntityAddr, UTime>, old: &[EntityAddr]) {
    if new.is_empty() && old.is_empty() {
        return;
    }
    let list = Arc::make_mut(list);
    for (addr, until) in new {
        // One that is there already keeps its time, as C++'s insert of a range does.
        list.entry(*addr).or_insert(*until);
    }
    for addr in old {
        list.remove(addr);
    }
}

impl OsdMap {
    /// Makes this map the one of the next epoch. To check that the result is the monitor's, compare
    /// [`OsdMap::encoded`]'s checksum with [`Incremental::full_crc`].
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.epoch != Epoch(1) && inc.fsid != self.fsid {
            return Err(ApplyError::OtherCluster(inc.fsid));
        }
        if Some(inc.epoch.0) != self.epoch.0.checked_add(1) {
            return Err(ApplyError::NotNext { have: self.epoch, got: inc.epoch });
        }
        if !inc.full_map.is_empty() {
            let full = OsdMap::from_bytes(&inc.full_map)?;
            if full.epoch != inc.epoch || full.fsid != inc.fsid {
                return Err(ApplyError::Inconsistent("its whole map is of another epoch or cluster"));
            }
            *self = full;
            return Ok(());
        }
        let crush = self.check(inc)?;
        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        if let Some(flags) = inc.new_flags {
            self.flags = flags;
        }
        if let Some(max_osd) = inc.new_max_osd {
            self.osds.resize(max_osd as usize);
        }
        self.apply_pools(inc);
        self.apply_snaps(inc);
        self.apply_weights(inc);
        self.apply_states(inc);
        self.apply_osd_details(inc);
        self.apply_mappings(inc);
        self.apply_blocklist(inc);
        self.apply_settings(inc);
        if let Some(crush) = crush {
            self.crush = Arc::new(crush);
            self.crush_version = self.crush_version.wrapping_add(1);
            let crush = &self.crush;
            self.device_class_flags.retain(|class, _| crush.class_name(*class).is_some());
        }
        if let Some(stretch) = inc.new_stretch {
            self.stretch = stretch;
        }
        Ok(())
    }

    /// Refuses what does not fit this map; gives the CRUSH map if there is a new one.
    fn check(&self, inc: &Incremental) -> Result<Option<CrushMap>, ApplyError> {
        let max_osd = inc.new_max_osd.unwrap_or(self.max_osd() as u32);
        if max_osd > limits::MAX_OSD {
            return Err(ApplyError::Inconsistent("max_osd is beyond what is supported"));
        }
        let ids = (inc.new_up.keys())
            .chain(inc.new_state.keys())
            .chain(inc.new_weight.keys())
            .chain(inc.new_primary_affinity.keys())
            .chain(inc.new_up_thru.keys())
            .chain(inc.new_last_clean_interval.keys())
            .chain(inc.new_lost.keys())
            .chain(inc.new_uuid.keys())
            .chain(inc.new_xinfo.keys());
        for osd in ids {
            if u32::try_from(osd.0).map_or(true, |id| id >= max_osd) {
                return Err(ApplyError::Inconsistent("it names an OSD that is not below max_osd"));
            }
        }
        for (pool, purged) in &inc.new_purged_snaps {
            let queued = self.removed_snaps_queue.get(pool);
            let covered = match inc.new_removed_snaps.get(pool) {
                None => queued.is_some_and(|queued| queued.contains_all(purged)),
                Some(removed) => {
                    let mut all = queued.cloned().unwrap_or_default();
                    all.union_with(removed);
                    all.contains_all(purged)
                }
            };
            if !covered {
                return Err(ApplyError::Inconsistent("it purges snapshots that were not removed"));
            }
        }
        match inc.crush.is_empty() {
            true => Ok(None),
            false => Ok(Some(CrushMap::from_bytes(&inc.crush)?)),
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        if let Some(max) = inc.new_pool_max {
            self.pool_max = max;
        }
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = inc.epoch;
            self.pools.insert(*id, Arc::new(pool));
        }
        self.pool_names.extend(inc.new_pool_names.iter().map(|(id, name)| (*id, name.clone())));
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
    }

    fn apply_snaps(&mut self, inc: &Incremental) {
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        if inc.new_removed_snaps.is_empty() && inc.new_purged_snaps.is_empty() {
            return;
        }
        let queue: &mut BTreeMap<PoolId, SnapSet> = Arc::make_mut(&mut self.removed_snaps_queue);
        for (pool, removed) in &inc.new_removed_snaps {
            queue.entry(*pool).or_default().union_with(removed);
        }
        for (pool, purged) in &inc.new_purged_snaps {
            if let Some(snaps) = queue.get_mut(pool) {
                snaps.subtract(purged);
                if snaps.is_empty() {
                    queue.remove(pool);
                }
            }
        }
    }

    fn apply_weights(&mut self, inc: &Incremental) {
        for (osd, weight) in &inc.new_weight {
            let at = osd.0 as usize;
            self.osds.weight[at] = *weight;
            // A weight for an OSD nobody heard of makes it exist, and one that comes in is no longer new.
            if *weight > 0 {
                let state = &mut self.osds.state[at];
                *state = state.with(OsdState::EXISTS).without(OsdState::AUTOOUT.with(OsdState::NEW));
                self.osds.xinfo[at].old_weight = 0;
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.osds.set_primary_affinity(osd.0 as usize, *affinity);
        }
    }

    fn apply_states(&mut self, inc: &Incremental) {
        for (osd, bits) in &inc.new_state {
            let at = osd.0 as usize;
            let bits = if bits.0 == 0 { OsdState::UP } else { *bits };
            let state = self.osds.state[at];
            if state.contains(OsdState::UP) && bits.contains(OsdState::UP) {
                self.osds.info[at].down_at = inc.epoch;
                self.osds.xinfo[at].down_stamp = inc.modified;
            }
            if state.contains(OsdState::EXISTS) && bits.contains(OsdState::EXISTS) {
                self.forget(at);
            } else {
                self.osds.state[at] = state.flipped(bits);
            }
        }
        for (osd, addrs) in &inc.new_up {
            let at = osd.0 as usize;
            let state = &mut self.osds.state[at];
            *state = state.with(OsdState::EXISTS.with(OsdState::UP)).without(OsdState::STOP);
            self.osds.addrs[at] = Arc::new(addrs.clone());
            self.osds.info[at].up_from = inc.epoch;
        }
        if inc.new_last_up_change != UTime::default() {
            self.last_up_change = inc.new_last_up_change;
        }
        if inc.new_last_in_change != UTime::default() {
            self.last_in_change = inc.new_last_in_change;
        }
    }

    /// Clears all that is known of an OSD but its weight.
    fn forget(&mut self, at: usize) {
        Arc::make_mut(&mut self.osds.uuid)[at] = Uuid::default();
        self.osds.info[at] = OsdInfo::default();
        self.osds.xinfo[at] = OsdXInfo::default();
        self.osds.set_primary_affinity(at, WEIGHT_ONE);
        self.osds.addrs[at] = Arc::new(OsdAddrs::default());
        self.osds.state[at] = OsdState::default();
    }

    fn apply_osd_details(&mut self, inc: &Incremental) {
        let table = &mut self.osds;
        for (osd, up_thru) in &inc.new_up_thru {
            table.info[osd.0 as usize].up_thru = *up_thru;
        }
        for (osd, (begin, end)) in &inc.new_last_clean_interval {
            let info = &mut table.info[osd.0 as usize];
            info.last_clean_begin = *begin;
            info.last_clean_end = *end;
        }
        for (osd, lost_at) in &inc.new_lost {
            table.info[osd.0 as usize].lost_at = *lost_at;
        }
        for (osd, xinfo) in &inc.new_xinfo {
            table.xinfo[osd.0 as usize] = *xinfo;
        }
        for (osd, uuid) in &inc.new_uuid {
            Arc::make_mut(&mut table.uuid)[osd.0 as usize] = *uuid;
        }
    }

    fn apply_mappings(&mut self, inc: &Incremental) {
        if !inc.new_pg_temp.is_empty() {
            let pg_temp = Arc::make_mut(&mut self.pg_temp);
            for (pg, osds) in &inc.new_pg_temp {
                if osds.is_empty() {
                    pg_temp.remove(pg);
                } else {
                    pg_temp.insert(*pg, osds.clone());
                }
            }
        }
        if !inc.new_primary_temp.is_empty() {
            let primary_temp = Arc::make_mut(&mut self.primary_temp);
            for (pg, osd) in &inc.new_primary_temp {
                if *osd == OsdId::NONE {
                    primary_temp.remove(pg);
                } else {
                    primary_temp.insert(*pg, *osd);
                }
            }
        }
        if !inc.new_pg_upmap.is_empty() || !inc.old_pg_upmap.is_empty() {
            let upmap = Arc::make_mut(&mut self.pg_upmap);
            upmap.extend(inc.new_pg_upmap.iter().map(|(pg, osds)| (*pg, osds.clone())));
            for pg in &inc.old_pg_upmap {
                upmap.remove(pg);
            }
        }
        if !inc.new_pg_upmap_items.is_empty() || !inc.old_pg_upmap_items.is_empty() {
            let items = Arc::make_mut(&mut self.pg_upmap_items);
            items.extend(inc.new_pg_upmap_items.iter().map(|(pg, pairs)| (*pg, pairs.clone())));
            for pg in &inc.old_pg_upmap_items {
                items.remove(pg);
            }
        }
    }

    fn apply_blocklist(&mut self, inc: &Incremental) {
        follow_list(&mut self.blocklist, &inc.new_blocklist, &inc.old_blocklist);
        follow_list(&mut self.range_blocklist, &inc.new_range_blocklist, &inc.old_range_blocklist);
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        if !inc.new_erasure_code_profiles.is_empty() || !inc.old_erasure_code_profiles.is_empty() {
            let profiles = Arc::make_mut(&mut self.erasure_code_profiles);
            for name in &inc.old_erasure_code_profiles {
                profiles.remove(name);
            }
            profiles.extend(inc.new_erasure_code_profiles.clone());
        }
        for (flags, changes) in [
            (&mut self.crush_node_flags, &inc.new_crush_node_flags),
            (&mut self.device_class_flags, &inc.new_device_class_flags),
        ] {
            flags.extend(changes);
            flags.retain(|_, bits| *bits != 0);
        }
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { Epoch(0) } else { inc.epoch };
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        for (ratio, new) in [
            (&mut self.nearfull_ratio, inc.new_nearfull_ratio),
            (&mut self.backfillfull_ratio, inc.new_backfillfull_ratio),
            (&mut self.full_ratio, inc.new_full_ratio),
        ] {
            *ratio = new.unwrap_or(*ratio);
        }
        if let Some(release) = inc.new_require_min_compat_client.filter(|release| *release > Release::UNKNOWN) {
            self.require_min_compat_client = release;
        }
        if let Some(release) = inc.new_require_osd_release {
            self.require_osd_release = release;
            if release >= Release::LUMINOUS {
                let legacy = MapFlags::REQUIRE_JEWEL.with(MapFlags::REQUIRE_KRAKEN).with(MapFlags::REQUIRE_LUMINOUS);
                self.flags = self.flags.without(legacy).with(MapFlags::RECOVERY_DELETES);
            }
            if release >= Release::NAUTILUS {
                self.flags = self.flags.with(MapFlags::PGLOG_HARDLIMIT);
            }
        }
    }
}
