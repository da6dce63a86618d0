//! What an object knows of its past: which snapshots it has seen, and its clones, each with the snapshots that it
//! stands for and what it still shares with the life after it.
//!
//! Owns the rules of which life a snapshot's number means, and the record's encoding (ours, version 1). Ceph's
//! counterpart is `SnapSet` (v16.2 `src/osd/osd_types.h`); what clients are told of it is encoded as Ceph's
//! `obj_list_snap_response_t`.
//!
//! Invariants: clones are in ascending order of their numbers, none above `seq`; a clone's snapshots are ascending,
//! none above the clone's number.

use super::extents::Extents;
use base::SnapId;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// A past life of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloneInfo {
    /// Its number: the newest snapshot there was when it was made.
    pub id: SnapId,
    /// The snapshots that it stands for, ascending; fewer as snapshots are removed.
    pub snaps: Vec<SnapId>,
    /// Its size in bytes.
    pub size: u64,
    /// What it shares with the next life (the next clone, or the head).
    pub overlap: Extents,
}

impl CloneInfo {
    /// The bytes that it has for itself.
    pub fn own_bytes(&self) -> u64 {
        self.size.saturating_sub(self.overlap.bytes())
    }
}

/// An object's past.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clones {
    /// The newest snapshot that a write has taken account of.
    pub seq: SnapId,
    /// The clones, oldest first.
    pub list: Vec<CloneInfo>,
}

/// One of an object's lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// The present one.
    Head,
    /// A clone.
    Clone(SnapId),
}

impl Clones {
    /// The clone of that number.
    pub fn get(&self, id: SnapId) -> Option<&CloneInfo> {
        self.list.binary_search_by_key(&id, |clone| clone.id).ok().map(|at| &self.list[at])
    }

    /// The life that a snapshot means: none where the object did not exist, or the snapshot is not kept any more.
    pub fn life_at(&self, snap: SnapId) -> Option<Life> {
        if snap > self.seq {
            return Some(Life::Head);
        }
        let at = self.list.partition_point(|clone| clone.id < snap);
        self.list.get(at).filter(|clone| clone.snaps.contains(&snap)).map(|clone| Life::Clone(clone.id))
    }

    /// The life that a clone's own number means (`CEPH_OSD_FLAG_MAP_SNAP_CLONE`).
    pub fn life_numbered(&self, id: SnapId) -> Option<Life> {
        if id > self.seq { Some(Life::Head) } else { self.get(id).map(|clone| Life::Clone(clone.id)) }
    }

    /// The bytes that clones have for themselves.
    pub fn own_bytes(&self) -> u64 {
        self.list.iter().map(CloneInfo::own_bytes).sum()
    }

    /// What the head shares with the clone at `at` and all after it.
    pub fn shared_since(&self, at: usize) -> Extents {
        let mut overlaps = self.list[at..].iter().map(|clone| &clone.overlap);
        let first = overlaps.next().cloned().unwrap_or_default();
        overlaps.fold(first, |all, overlap| all.intersection(overlap))
    }

    /// Takes a clone out; what the one before shared with it and it shared with the one after, those two share.
    pub fn remove(&mut self, at: usize) {
        let gone = self.list.remove(at);
        if let Some(before) = at.checked_sub(1) {
            let overlap = &mut self.list[before].overlap;
            *overlap = overlap.intersection(&gone.overlap);
        }
    }

    /// Every pair of a snapshot and a clone that stands for it, in order of clones.
    pub fn pairs(&self) -> impl Iterator<Item = (SnapId, SnapId)> + '_ {
        self.list.iter().flat_map(|clone| clone.snaps.iter().map(|snap| (*snap, clone.id)))
    }
}

/// Seq, then per clone: number, snapshots, size, overlap.
impl Encode for Clones {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.seq);
        e.len(self.list.len());
        for clone in &self.list {
            e.put(&clone.id);
            e.put(&clone.snaps);
            e.u64(clone.size);
            e.put(&clone.overlap);
        }
    }
}

impl Decode for Clones {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let seq: SnapId = d.get()?;
        let count = d.len(24)?;
        let mut list: Vec<CloneInfo> = Vec::with_capacity(count);
        for _ in 0..count {
            let clone = CloneInfo { id: d.get()?, snaps: d.get()?, size: d.u64()?, overlap: d.get()? };
            let ordered = list.last().is_none_or(|before| before.id < clone.id) && clone.id <= seq;
            let snaps = clone.snaps.is_sorted_by(|a, b| a < b) && clone.snaps.last().is_none_or(|s| *s <= clone.id);
            if !ordered || !snaps {
                return Err(Malformed::new("clones", "are not in order"));
            }
            list.push(clone);
        }
        Ok(Clones { seq, list })
    }
}

/// Ceph's `obj_list_snap_response_t` (v16.2 `src/include/rados/rados_types.hpp`, `src/osd/osd_types.h`): the clones,
/// and the head of this size where there is one.
pub fn list_reply(clones: &Clones, head_size: Option<u64>) -> bytes::Bytes {
    let one = |e: &mut Encoder, id: SnapId, snaps: &[SnapId], overlap: &Extents, size: u64| {
        e.versioned(1, 1, |e| {
            e.put(&id);
            e.len(snaps.len());
            snaps.iter().for_each(|snap| e.put(snap));
            e.put(overlap);
            e.u64(size);
        });
    };
    let mut e = Encoder::new();
    e.versioned(2, 1, |e| {
        e.len(clones.list.len() + usize::from(head_size.is_some()));
        for clone in &clones.list {
            one(e, clone.id, &clone.snaps, &clone.overlap, clone.size);
        }
        if let Some(size) = head_size {
            one(e, SnapId::HEAD, &[], &Extents::default(), size);
        }
        e.put(&clones.seq);
    });
    e.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clone(id: u64, snaps: &[u64], size: u64, shared: &[(u64, u64)]) -> CloneInfo {
        let mut overlap = Extents::default();
        shared.iter().for_each(|(offset, len)| overlap.insert(*offset, *len));
        CloneInfo { id: SnapId(id), snaps: snaps.iter().copied().map(SnapId).collect(), size, overlap }
    }

    fn sample() -> Clones {
        let list = vec![clone(4, &[3, 4], 100, &[(0, 50)]), clone(7, &[7], 80, &[(0, 20), (40, 40)])];
        Clones { seq: SnapId(9), list }
    }

    #[test]
    fn a_snapshot_means_the_first_clone_that_stands_for_it() {
        let clones = sample();
        let lives: Vec<_> = (1..=10).map(|snap| clones.life_at(SnapId(snap))).collect();
        let (four, seven) = (Some(Life::Clone(SnapId(4))), Some(Life::Clone(SnapId(7))));
        // 1, 2: not there yet. 5, 6: the clone that would have it does not. 8, 9: removed before the next write.
        assert_eq!(lives, [None, None, four, four, None, None, seven, None, None, Some(Life::Head)]);
        assert_eq!(clones.life_numbered(SnapId(7)), seven);
        assert_eq!((clones.life_numbered(SnapId(3)), clones.life_numbered(SnapId(10))), (None, Some(Life::Head)));
    }

    #[test]
    fn the_neighbours_of_a_removed_clone_share_what_both_shared_with_it() {
        let mut clones = sample();
        assert_eq!(clones.own_bytes(), 50 + 20);
        assert_eq!(clones.shared_since(0), clones.list[0].overlap.intersection(&clones.list[1].overlap));
        clones.remove(1);
        assert_eq!(clones.list, [clone(4, &[3, 4], 100, &[(0, 20), (40, 10)])]);
        clones.remove(0);
        assert_eq!(clones, Clones { seq: SnapId(9), list: vec![] });
    }

    #[test]
    fn records_round_trip_and_disorder_is_refused() {
        let clones = sample();
        assert_eq!(Clones::from_bytes(&clones.to_bytes()), Ok(clones.clone()));
        let mut swapped = clones.clone();
        swapped.list.swap(0, 1);
        assert!(Clones::from_bytes(&swapped.to_bytes()).is_err());
        let mut beyond = clones;
        beyond.seq = SnapId(6);
        assert!(Clones::from_bytes(&beyond.to_bytes()).is_err());
    }
}
