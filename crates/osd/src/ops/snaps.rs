//! What snapshots do to requests: which life of the object is read, what a write has to keep, rollback.
//!
//! A write under a snapshot context that is newer than what the object has seen leaves a clone of the object as it
//! was (`keep_past`), after all ops have run. A request that reads at a snapshot is resolved to one of the object's
//! lives and runs on that one (`execute_at`). A deleted object whose clones are left stays as a whiteout: a record
//! without an object.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`find_object_context`, `make_writeable`, `_rollback_to`,
//! `_delete_oid`, `trim_object`). Read next: `clones`, which has the rules of which life a snapshot means.

use super::clones::{CloneInfo, Clones, Life, list_reply};
use super::execution::{Ask, AskOf, Execution, NOTHING, Request, Step, fail};
use super::extents::Extents;
use super::state::ObjectState;
use super::{Outcome, Plan, ask_record, bare_outcomes, data, execute, plan};
use crate::limits::CLONE_OVERLAP_RANGES_MAX;
use base::{Errno, SnapId};
use maps::SnapSet;
use std::sync::Arc;
use store::Op;
use wire::osd::{OpParams, OsdOpItem, SnapContext};

/// The highest number of a snapshot that is taken from a client. Ceph's is 2^64 - 3; nobody counts as far as this.
pub const SNAP_MAX: SnapId = SnapId(1 << 62);

/// What a request says and may know of snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Snaps<'a> {
    /// What it reads: the head, what was at a snapshot, or the object's set of snapshots.
    pub read_at: SnapId,
    /// Whether `read_at` is a clone's own number, not a snapshot's.
    pub by_clone: bool,
    /// What its writes have to keep.
    pub context: &'a SnapContext,
    /// Whether it is refused where the object has seen newer snapshots than `context`.
    pub ordered: bool,
    /// Snapshots that are being removed.
    pub removed: &'a SnapSet,
}

impl<'a> Snaps<'a> {
    /// What a request on the head says that knows no snapshots.
    #[cfg(test)]
    pub fn of_head(context: &'a SnapContext, removed: &'a SnapSet) -> Snaps<'a> {
        Snaps { read_at: SnapId::HEAD, by_clone: false, context, ordered: false, removed }
    }
}

/// A request that reads at a snapshot: finds the life that it means, asks for it, and runs on it.
pub(super) fn execute_at(request: &Request<'_>) -> Result<Outcome, Box<Ask>> {
    let none = Clones::default();
    let (snaps, clones) = (&request.snaps, request.state.info.clones.as_deref().unwrap_or(&none));
    let life = if snaps.by_clone {
        clones.life_numbered(snaps.read_at)
    } else if snaps.removed.contains(snaps.read_at) {
        None
    } else {
        clones.life_at(snaps.read_at)
    };
    let of = match life {
        Some(Life::Head) if request.state.exists => AskOf::Itself,
        Some(Life::Clone(id)) => AskOf::Life(id),
        _ => return Ok(refused(request, Errno::ENOENT)),
    };
    let Some((view, answers)) = request.answers.split_first() else {
        return match plan(request.ops, &request.circumstances.tuning) {
            Ok(Plan { mut want, .. }) => {
                ask_record(&mut want);
                Err(Box::new(Ask { of, want }))
            }
            Err(errno) => Ok(refused(request, errno)),
        };
    };
    let state = match of {
        AskOf::Itself => Ok(request.state.clone()),
        AskOf::Life(_) | AskOf::Copy => ObjectState::of(view),
    };
    // The head says that the clone is there: what lacks it, or has it without its record, is corrupt.
    let Some(state) = state.ok().filter(|state| state.exists) else { return Ok(refused(request, Errno::EIO)) };
    let snaps = Snaps { read_at: SnapId::HEAD, ..*snaps };
    let on_life = Request { state, view: Some(view), answers, snaps, ..*request };
    // What an op asks of the object itself it asks of the life that it runs on.
    execute(&on_life).map_err(|ask| Box::new(Ask { of: if ask.of == AskOf::Itself { of } else { ask.of }, ..*ask }))
}

/// The outcome of a request that is refused as a whole.
pub(super) fn refused(request: &Request<'_>, errno: Errno) -> Outcome {
    Outcome {
        result: errno.code(),
        ops: bare_outcomes(request.ops),
        changes: Vec::new(),
        restored: None,
        state: ObjectState { exists: false, ..request.state.clone() },
        user_modified: false,
        effects: Vec::new(),
        logged: false,
    }
}

/// Refuses a write whose snapshot context cannot be, or is too old for a client that wants to know.
pub(super) fn check_context(request: &Request<'_>) -> Result<(), Errno> {
    let context = request.snaps.context;
    let seen = request.state.info.clones.as_ref().map_or(SnapId(0), |clones| clones.seq);
    if request.snaps.ordered && context.seq < seen {
        // Ceph's name for it is EOLDSNAPC.
        return Err(Errno::ERESTART);
    }
    if context.is_valid() && context.seq < SNAP_MAX { Ok(()) } else { Err(Errno::EINVAL) }
}

/// `list-snaps`: the clones, and the head if there is one.
pub(super) fn list(x: &mut Execution) -> Step {
    if x.request.snaps.read_at != SnapId::DIR {
        return fail(Errno::EINVAL);
    }
    let state = &x.request.state;
    x.result = 0;
    let head_size = state.exists.then_some(state.size);
    Ok(list_reply(state.info.clones.as_deref().unwrap_or(&Clones::default()), head_size))
}

/// `rollback`: the object becomes what it was at a snapshot; where it was not there then, it is deleted.
pub(super) fn roll_back(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Snap { snap } = item.params() else { return fail(Errno::EINVAL) };
    let request = x.request;
    let state = &request.state;
    let none = Clones::default();
    let clones = state.info.clones.as_deref().unwrap_or(&none);
    let life = if x.request.snaps.removed.contains(snap) { None } else { clones.life_at(snap) };
    x.result = 0;
    match life {
        Some(Life::Head) if state.exists => x.changes.push(Op::Touch),
        Some(Life::Clone(id)) => {
            let at = clones.list.partition_point(|clone| clone.id < id);
            x.note_written();
            let kept = clones.shared_since(at);
            x.written.union_with(&Extents::range(0, x.state.size).difference(&kept));
            x.ensure_exists();
            x.changes = vec![Op::Touch];
            x.restored = Some(id);
            x.state.size = clones.list[at].size;
            x.start_size = x.state.size;
        }
        _ if x.request.state.info.watchers.is_some() => return fail(Errno::EBUSY),
        _ if x.state.exists => return data::delete(x),
        _ => {}
    }
    NOTHING
}

/// The bytes that changes write or cut off, of an object of `size` bytes.
pub(super) fn written(changes: &[Op], mut size: u64) -> Extents {
    let mut all = Extents::default();
    for op in changes {
        let end = match op {
            Op::Write(offset, data) => {
                all.insert(*offset, data.len() as u64);
                size.max(offset + data.len() as u64)
            }
            Op::Zero(offset, len) => {
                all.insert(*offset, *len);
                size.max(offset + len)
            }
            Op::Truncate(to) => {
                all.insert(*to, size.saturating_sub(*to));
                *to
            }
            Op::Remove => {
                all.insert(0, size);
                0
            }
            _ => size,
        };
        size = end;
    }
    all
}

/// After all ops of a write: clones what was there if a snapshot wants it, and accounts for what was written since.
pub(super) fn keep_past(x: &mut Execution) {
    let request = x.request;
    let (before, snaps) = (&request.state, &request.snaps);
    x.state.info.whiteout = false;
    x.state.info.clones = None;
    if before.info.clones.is_none() && snaps.context.seq == SnapId(0) {
        return;
    }
    let mut clones = before.info.clones.as_deref().cloned().unwrap_or_default();
    if before.exists {
        let newer = snaps.context.snaps.iter().copied().take_while(|snap| *snap > clones.seq);
        let mut kept_for: Vec<SnapId> = newer.filter(|snap| !snaps.removed.contains(*snap)).collect();
        kept_for.reverse();
        if !kept_for.is_empty() {
            let overlap = Extents::range(0, before.size);
            clones.list.push(CloneInfo { id: snaps.context.seq, snaps: kept_for, size: before.size, overlap });
        }
    }
    x.note_written();
    if let Some(newest) = clones.list.last_mut() {
        newest.overlap = newest.overlap.difference(&x.written);
        newest.overlap.keep_longest(CLONE_OVERLAP_RANGES_MAX);
    }
    clones.seq = clones.seq.max(snaps.context.seq);
    if x.state.exists || !clones.list.is_empty() {
        x.state.info.whiteout = !x.state.exists;
        x.state.info.clones = Some(match &before.info.clones {
            Some(same) if **same == clones => Arc::clone(same),
            _ => Arc::new(clones),
        });
    }
}

/// What it takes to forget the removed snapshots of a clone: the clone goes with its last, a whiteout with its last
/// clone. None where the object has no such clone, or nothing of it is to be forgotten.
pub fn trim(before: &ObjectState, clone: SnapId, removed: &SnapSet) -> Option<Outcome> {
    let mut clones = Clones::clone(before.info.clones.as_deref()?);
    let at = clones.list.binary_search_by_key(&clone, |c| c.id).ok()?;
    let snaps = &mut clones.list[at].snaps;
    let had = snaps.len();
    snaps.retain(|snap| !removed.contains(*snap));
    if snaps.len() == had {
        return None;
    }
    if snaps.is_empty() {
        clones.remove(at);
    }
    let mut state = before.clone();
    let changes = if !state.exists && clones.list.is_empty() {
        state = ObjectState::default();
        vec![Op::Remove]
    } else {
        state.info.clones = Some(Arc::new(clones));
        vec![Op::Touch]
    };
    Some(Outcome {
        result: 0,
        ops: Vec::new(),
        changes,
        restored: None,
        state,
        user_modified: false,
        effects: Vec::new(),
        logged: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn with_clones(exists: bool, list: &[(u64, &[u64])]) -> ObjectState {
        let list = list.iter().map(|(id, snaps)| CloneInfo {
            id: SnapId(*id),
            snaps: snaps.iter().copied().map(SnapId).collect(),
            size: 10,
            overlap: Extents::range(0, 4),
        });
        let clones = Clones { seq: SnapId(9), list: list.collect() };
        let mut state = ObjectState { exists, size: if exists { 10 } else { 0 }, ..ObjectState::default() };
        state.info.whiteout = !exists;
        state.info.clones = Some(Arc::new(clones));
        state
    }

    fn removed(snaps: &[u64]) -> SnapSet {
        let mut set = SnapSet::default();
        snaps.iter().for_each(|snap| set.insert(SnapId(*snap)));
        set
    }

    #[test]
    fn what_is_written_is_known_from_the_changes() {
        let data = |len| Bytes::from(vec![1; len]);
        let of = |changes: &[Op], size| written(changes, size).iter().map(|e| (e.offset, e.len)).collect::<Vec<_>>();
        assert_eq!(of(&[Op::Write(5, data(3)), Op::Zero(20, 2)], 10), [(5, 3), (20, 2)]);
        assert_eq!(of(&[Op::Truncate(4)], 10), [(4, 6)]);
        assert_eq!(of(&[Op::Truncate(14)], 10), [], "what is added was not there");
        assert_eq!(of(&[Op::Write(10, data(2)), Op::Remove, Op::Write(0, data(1))], 10), [(0, 12)]);
        assert_eq!(of(&[Op::Touch, Op::OmapClear], 10), []);
    }

    #[test]
    fn a_clone_goes_with_its_last_snapshot_and_a_whiteout_with_its_last_clone() {
        let state = with_clones(true, &[(3, &[2, 3]), (5, &[5])]);
        let left = |outcome: &Outcome| {
            let clones = outcome.state.info.clones.as_ref().expect("it has a past");
            clones.pairs().map(|(snap, clone)| (snap.0, clone.0)).collect::<Vec<_>>()
        };
        let some = trim(&state, SnapId(3), &removed(&[2, 7])).expect("there is something");
        assert_eq!(left(&some), [(3, 3), (5, 5)]);
        assert_eq!(left(&trim(&state, SnapId(3), &removed(&[2, 3])).expect("there is something")), [(5, 5)]);
        assert!(trim(&state, SnapId(3), &removed(&[7])).is_none(), "nothing of it is removed");
        assert!(trim(&state, SnapId(4), &removed(&[3])).is_none(), "there is no such clone");
        let last = trim(&with_clones(false, &[(3, &[3])]), SnapId(3), &removed(&[3])).expect("there is something");
        assert_eq!((last.changes.as_slice(), last.state), (&[Op::Remove][..], ObjectState::default()));
        let kept = trim(&with_clones(true, &[(3, &[3])]), SnapId(3), &removed(&[3])).expect("there is something");
        assert!(kept.state.exists && kept.state.totals().clones == 0);
    }
}
