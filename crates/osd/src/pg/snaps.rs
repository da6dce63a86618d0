//! A PG's part in snapshots: what its pool says of them, and the index from snapshots to clones.
//!
//! Owns the record object whose map names, for each snapshot, the clones that stand for it; it is changed in the same
//! transactions as they are, and so the same on every member. Its counterpart in Ceph is `SnapMapper` (v16.2
//! `src/osd/SnapMapper.h`).
//!
//! Read next: `ops::snaps` for what snapshots do to objects; `trimming` for how removed ones go away.

use super::Pg;
use super::client_io::ClientRequest;
use super::trimming::Turn;
use crate::ops::clones::Clones;
use crate::ops::snaps::Snaps;
use crate::ops::state::{ObjectInfo, ObjectState};
use base::{Bug, SnapId};
use bytes::Bytes;
use maps::pool::PoolFlags;
use maps::{OsdMap, PgPool, SnapSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{ObjectId, Op, Transaction};
use wire::osd::{RequestFlags, SnapContext};
use wire::{Decode, Encoder, Malformed};

/// What a PG knows of its pool's snapshots.
#[derive(Debug, Default)]
pub struct PgSnaps {
    pool: Option<Arc<PgPool>>,
    queue: Option<Arc<BTreeMap<base::PoolId, SnapSet>>>,
    /// What writes have to keep, where that is the pool's decision.
    context: Option<SnapContext>,
    /// Snapshots being removed.
    pub removed: SnapSet,
    /// Of these, those of which nothing is left here; known in this interval only.
    pub purged: SnapSet,
    /// What is to be trimmed cannot be read: nothing more is, until a map says anew what is to be removed.
    pub failed: bool,
    /// The turn of trimming that is under way.
    pub turn: Option<Turn>,
}

impl PgSnaps {
    /// Follows a new map.
    pub fn follow(&mut self, map: &OsdMap, id: base::PoolId) {
        let Some(pool) = map.pool(id) else { return };
        if self.pool.as_ref().is_none_or(|known| !Arc::ptr_eq(known, pool)) {
            self.context = pool
                .flags
                .contains(PoolFlags::POOL_SNAPS)
                .then(|| SnapContext { seq: pool.snap_seq, snaps: pool.snaps.keys().rev().copied().collect() });
            self.pool = Some(Arc::clone(pool));
        }
        if self.queue.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &map.removed_snaps_queue)) {
            self.removed = map.removed_snaps_queue.get(&id).cloned().unwrap_or_default();
            self.purged.intersect_with(&self.removed);
            self.failed = false;
            self.queue = Some(Arc::clone(&map.removed_snaps_queue));
        }
    }

    /// What a request may know.
    pub fn of_request<'a>(&'a self, request: &'a ClientRequest) -> Snaps<'a> {
        let (message, flags) = (&request.message, request.message.flags);
        let pools = self.context.as_ref().filter(|_| !flags.has(RequestFlags::ENFORCE_SNAPC));
        Snaps {
            read_at: message.snap,
            by_clone: flags.has(RequestFlags::MAP_SNAP_CLONE),
            context: pools.unwrap_or(&message.snap_context),
            ordered: flags.has(RequestFlags::ORDERSNAP),
            removed: &self.removed,
        }
    }

    /// Nothing of the last interval counts.
    pub fn begin_interval(&mut self) {
        self.purged = SnapSet::default();
        self.failed = false;
        if !Bug::TrimmingNotResumed.is_planted() {
            self.turn = None;
        }
    }

    /// Whether something is to be trimmed.
    pub fn has_to_trim(&self) -> bool {
        self.removed.size() > self.purged.size()
    }

    /// What is to be trimmed.
    pub fn to_trim(&self) -> SnapSet {
        let mut left = self.removed.clone();
        left.subtract(&self.purged);
        left
    }
}

/// The object of a PG's collection whose map is the index.
pub fn index_object() -> ObjectId {
    ObjectId::record("snaps")
}

/// An entry of the index: snapshot, big-endian, so that a snapshot's entries are neighbours; then the clone.
pub fn index_key(snap: SnapId, clone: &ObjectId) -> Bytes {
    let mut e = Encoder::with_capacity(48);
    e.raw(&index_prefix(snap));
    e.put(clone);
    e.finish()
}

/// What the entries of a snapshot begin with.
pub fn index_prefix(snap: SnapId) -> [u8; 8] {
    snap.0.to_be_bytes()
}

/// The clone that an entry names.
pub fn indexed_clone(key: &Bytes) -> Result<ObjectId, Malformed> {
    if key.len() < 8 {
        return Err(Malformed::new("snapshot index", "has a key without a snapshot"));
    }
    ObjectId::from_bytes(&key.slice(8..))
}

/// The entries of a head's clones.
pub fn index_entries<'a>(head: &'a ObjectId, clones: &'a Clones) -> impl Iterator<Item = (Bytes, Bytes)> + 'a {
    clones.pairs().map(|(snap, clone)| (index_key(snap, &head.with_snap(clone)), Bytes::new()))
}

/// The entries that a head's record stands for; none for what is no head, or has no past.
pub fn entries_of_record(id: &ObjectId, record: &Bytes) -> Vec<(Bytes, Bytes)> {
    if id.snap() != SnapId::HEAD {
        return Vec::new();
    }
    let clones = ObjectInfo::from_bytes(record).ok().and_then(|info| info.clones);
    clones.map(|clones| index_entries(id, &clones).collect()).unwrap_or_default()
}

/// What a write changes beside its object.
#[derive(Debug, Default)]
pub struct AroundWrite {
    /// Clones made, removed, or standing for fewer snapshots.
    pub touched: Vec<SnapId>,
    removed: Vec<SnapId>,
    index: Vec<Op>,
}

impl AroundWrite {
    /// Begins the transaction of a write: the clone that it leaves, the clone that it restores. The head is the
    /// transaction's first object.
    pub fn begin(
        t: &mut Transaction,
        head: &ObjectId,
        before: &ObjectState,
        after: &ObjectState,
        restored: Option<SnapId>,
    ) -> AroundWrite {
        let mut around = AroundWrite::default();
        if before.info.clones == after.info.clones && restored.is_none() {
            return around;
        }
        let none = Clones::default();
        let old = before.info.clones.as_deref().unwrap_or(&none);
        let new = after.info.clones.as_deref().unwrap_or(&none);
        for clone in new.list.iter().filter(|clone| old.get(clone.id).is_none()) {
            let id = head.with_snap(clone.id);
            t.clone_object(head, &id);
            // It keeps what users saw of the object; its past is the head's to tell.
            let info = ObjectInfo {
                version: after.info.version,
                clones: None,
                whiteout: false,
                watchers: None,
                ..before.info.clone()
            };
            t.push(&id, Op::SetAttr(crate::ops::state::INFO_ATTR, info.to_attr()));
        }
        if let Some(from) = restored {
            t.clone_object(&head.with_snap(from), head);
        }
        let differs =
            |clone: &&crate::ops::clones::CloneInfo| new.get(clone.id).is_none_or(|now| now.snaps != clone.snaps);
        around.touched = old.list.iter().filter(differs).map(|clone| clone.id).collect();
        around.touched.extend(new.list.iter().map(|clone| clone.id).filter(|id| old.get(*id).is_none()));
        around.removed = old.list.iter().map(|clone| clone.id).filter(|id| new.get(*id).is_none()).collect();
        if around.touched.is_empty() {
            return around;
        }
        let (was, is): (BTreeSet<_>, BTreeSet<_>) = (old.pairs().collect(), new.pairs().collect());
        let key = |(snap, clone): &(SnapId, SnapId)| index_key(*snap, &head.with_snap(*clone));
        let added: Vec<_> = is.difference(&was).map(|pair| (key(pair), Bytes::new())).collect();
        let gone: Vec<_> = was.difference(&is).map(key).collect();
        if !added.is_empty() {
            around.index.push(Op::OmapSet(added));
        }
        if !gone.is_empty() {
            around.index.push(Op::OmapRemove(gone));
        }
        around
    }

    /// Ends the transaction of a write: clones that go, and the index.
    pub fn end(&mut self, t: &mut Transaction, head: &ObjectId) {
        for clone in self.removed.drain(..) {
            t.push(&head.with_snap(clone), Op::Remove);
        }
        for op in self.index.drain(..) {
            t.push(&index_object(), op);
        }
    }
}

impl Pg {
    /// Follows what a new map says of the pool's snapshots.
    pub fn follow_snaps(&mut self, map: &OsdMap) {
        self.snaps.follow(map, self.id.pool);
    }
}
