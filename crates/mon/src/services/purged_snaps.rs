//! Which snapshots of each pool are removed and trimmed for good.
//!
//! Owns the record that outlives the OSD map's queue: once a snapshot is purged the map forgets it, but who asks to
//! remove it again has to be told that it is gone. Numbers that were only counted past (by removals) are in it too, so
//! that it stays a few intervals. Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`lookup_purged_snap`,
//! `insert_purged_snap_update`).

use crate::store::{BadStore, Batch, Image, decode_value};
use base::{PoolId, SnapId};
use maps::SnapSet;
use std::collections::BTreeMap;

const PREFIX: &str = "purged_snaps";

/// The service.
#[derive(Debug, Default)]
pub struct PurgedSnaps {
    by_pool: BTreeMap<PoolId, SnapSet>,
    batch: Batch,
}

impl PurgedSnaps {
    /// From the store.
    pub fn load(image: &Image) -> Result<PurgedSnaps, BadStore> {
        let mut by_pool = BTreeMap::new();
        for (key, value) in image.prefix(PREFIX) {
            let snaps = decode_value(PREFIX, key, value)?;
            // A key that is no number was not written here; it says nothing about any pool.
            if let Ok(pool) = key.parse() {
                by_pool.insert(PoolId(pool), snaps);
            }
        }
        Ok(PurgedSnaps { by_pool, batch: Batch::default() })
    }

    /// Whether a snapshot is gone for good.
    pub fn contains(&self, pool: PoolId, snap: SnapId) -> bool {
        self.by_pool.get(&pool).is_some_and(|snaps| snaps.contains(snap))
    }

    /// Notes that these are gone for good.
    pub fn add(&mut self, pool: PoolId, snaps: &SnapSet) {
        let all = self.by_pool.entry(pool).or_default();
        all.union_with(snaps);
        self.batch.encode(PREFIX, pool.to_string(), all);
    }

    /// Forgets a pool that is gone.
    pub fn forget(&mut self, pool: PoolId) {
        if self.by_pool.remove(&pool).is_some() {
            self.batch.remove(PREFIX, pool.to_string());
        }
    }

    /// Moves the unwritten changes to `batch`.
    pub fn flush(&mut self, batch: &mut Batch) {
        batch.append(&mut self.batch);
    }

    /// Whether there are unwritten changes.
    pub fn dirty(&self) -> bool {
        !self.batch.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_purged_is_found_again_after_a_restart() {
        let mut snaps = PurgedSnaps::default();
        snaps.add(PoolId(3), &SnapSet::interval(SnapId(2), 3));
        snaps.add(PoolId(3), &SnapSet::interval(SnapId(5), 1));
        snaps.add(PoolId(4), &SnapSet::interval(SnapId(9), 1));
        snaps.forget(PoolId(4));
        let mut batch = Batch::default();
        snaps.flush(&mut batch);
        assert!(!snaps.dirty());
        let mut image = Image::default();
        image.apply(&batch.into_writes());
        let again = PurgedSnaps::load(&image).expect("our own record");
        let gone = |pool, snap| again.contains(PoolId(pool), SnapId(snap));
        assert!(gone(3, 2) && gone(3, 5) && !gone(3, 6) && !gone(3, 1) && !gone(4, 9));
    }
}
