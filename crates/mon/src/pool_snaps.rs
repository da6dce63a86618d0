//! Snapshots of pools as the monitor gives them out and takes them back.
//!
//! A pool has snapshots of its own, with names, or its clients keep theirs, by numbers that the monitor gives out;
//! never both. A removed snapshot stands in the OSD map's queue until every placement group of the pool has reported
//! that nothing of it is left; then it leaves the queue.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_pool_op`, `try_prune_purged_snaps`) and `src/osd/osd_types.cc`
//! (`pg_pool_t::add_snap` and its neighbours). Read next: `pool_ops` and `commands::osd_pool`, which ask for it.

use crate::mon::Mon;
use base::{Errno, Instant, PoolId, SnapId};
use maps::pool::PoolFlags;
use maps::{PgPool, SnapSet};

/// What came of asking for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    /// The next epoch has it.
    Now,
    /// It was so already.
    Before,
}

impl Mon {
    /// The pool as the next epoch has it, if its snapshots are of this kind. EINVAL if they are of the other.
    fn pool_for_snaps(&mut self, id: PoolId, other: PoolFlags) -> Result<&PgPool, Errno> {
        let pool = self.osds.upcoming().pool(id).ok_or(Errno::ENOENT)?;
        if pool.flags.contains(other) { Err(Errno::EINVAL) } else { Ok(pool) }
    }

    /// Takes a snapshot of a pool.
    pub(crate) fn make_pool_snap(&mut self, now: Instant, id: PoolId, name: &str) -> Result<Made, Errno> {
        if self.pool_for_snaps(id, PoolFlags::SELFMANAGED_SNAPS)?.snap_by_name(name).is_some() {
            return Ok(Made::Before);
        }
        let epoch = self.osds.next_epoch();
        self.osds.edit_pool(id, |pool| {
            pool.add_snap(name, now.into(), epoch);
        });
        Ok(Made::Now)
    }

    /// Removes a snapshot of a pool.
    pub(crate) fn remove_pool_snap(&mut self, id: PoolId, name: &str) -> Result<Made, Errno> {
        let found = self.pool_for_snaps(id, PoolFlags::SELFMANAGED_SNAPS)?.snap_by_name(name);
        let Some(snap) = found.map(|snap| snap.id) else { return Ok(Made::Before) };
        let epoch = self.osds.next_epoch();
        self.osds.edit_pool(id, |pool| {
            pool.remove_snap(snap, epoch);
        });
        self.osds.change().new_removed_snaps.entry(id).or_default().insert(snap);
        Ok(Made::Now)
    }

    /// Gives out a number for a snapshot that clients keep themselves.
    pub(crate) fn make_selfmanaged_snap(&mut self, id: PoolId) -> Result<SnapId, Errno> {
        self.pool_for_snaps(id, PoolFlags::POOL_SNAPS)?;
        let epoch = self.osds.next_epoch();
        let mut snap = SnapId(0);
        self.osds.edit_pool(id, |pool| snap = pool.add_selfmanaged_snap(epoch));
        Ok(snap)
    }

    /// Takes the number of such a snapshot back. ENOENT for one that was never given out.
    pub(crate) fn remove_selfmanaged_snap(&mut self, id: PoolId, snap: SnapId) -> Result<Made, Errno> {
        let newest = self.pool_for_snaps(id, PoolFlags::POOL_SNAPS)?.snap_seq;
        let queued = self.osds.upcoming().removed_snaps_queue.get(&id).is_some_and(|queue| queue.contains(snap));
        if queued || self.purged_snaps.contains(id, snap) {
            return Ok(Made::Before);
        }
        if snap > newest {
            return Err(Errno::ENOENT);
        }
        let epoch = self.osds.next_epoch();
        let mut counted = SnapId(0);
        self.osds.edit_pool(id, |pool| {
            pool.remove_selfmanaged_snap(epoch);
            counted = pool.snap_seq;
        });
        self.osds.change().new_removed_snaps.entry(id).or_default().insert(snap);
        // Nobody will ever have the number that the removal took.
        self.purged_snaps.add(id, &SnapSet::interval(counted, 1));
        Ok(Made::Now)
    }

    /// Ends the removal of snapshots of which no placement group has anything left.
    pub(crate) fn prune_purged_snaps(&mut self) {
        if self.osds.map().removed_snaps_queue.is_empty() || self.osds.pending().is_some() {
            return;
        }
        let map = self.osds.map();
        let purged: Vec<(PoolId, SnapSet)> = (map.removed_snaps_queue.iter())
            .filter_map(|(id, queue)| {
                let mut gone = queue.clone();
                gone.intersect_with(&self.stats.purged_by_all(map, *id)?);
                (!gone.is_empty()).then_some((*id, gone))
            })
            .collect();
        for (id, snaps) in purged {
            self.purged_snaps.add(id, &snaps);
            self.osds.change().new_purged_snaps.insert(id, snaps);
        }
    }

    /// Forgets what is known of the snapshots of a pool that is being deleted.
    pub(crate) fn forget_snaps(&mut self, id: PoolId) {
        self.purged_snaps.forget(id);
        if let Some(queue) = self.osds.upcoming().removed_snaps_queue.get(&id).cloned() {
            self.osds.change().new_purged_snaps.insert(id, queue);
        }
    }
}
