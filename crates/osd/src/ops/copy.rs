//! Copying an object from elsewhere: `copy-get` at the source, `copy-from` at the copy.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_copy_get`, `finish_copyfrom`). `copy-from` cannot read its source
//! itself: it stops with a question, the primary fetches the source part by part (`copies`), and the op runs again with
//! what that came to. Where the source did not fit into one part, its parts lie aside as a life of the copy of their own
//! (`STAGED`), and the op only puts that in place.
//!
//! Invariant: a copy gets all of what its source is, data, attributes and map, of one version, or nothing.

use super::execution::{Ask, AskOf, Execution, NOTHING, Step, Stop, fail};
use super::extents::Extents;
use super::state::{USER_ATTR_PREFIX, user_attr};
use crate::limits::{COPY_PART_BYTES_MAX, PUSH_OMAP_ENTRIES_MAX};
use base::Errno;
use bytes::Bytes;
use store::{AttrsWant, Extent, ObjectWant, OmapWant, Op, STAGED};
use wire::Encode;
use wire::osd::OsdOpItem;
use wire::osd::copy::{CopyData, CopySource, copy_get_parts};
use wire::osd::payload::KeyValues;

/// What fetching a source came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The source's version.
    pub user_version: u64,
    /// Its last part, which says of the whole what that is; all of it if nothing is staged.
    pub last: CopyData,
    /// Whether all of it lies aside.
    pub staged: bool,
}

/// Adds what `copy-get` reads first.
pub(super) fn plan_get(item: &OsdOpItem, want: &mut ObjectWant) {
    let Ok((cursor, max)) = copy_get_parts(&item.payload) else { return };
    if !cursor.attrs_done {
        want.attrs = AttrsWant::All;
    }
    if !cursor.data_done {
        want.data.push(Extent { offset: cursor.data_offset, len: max.min(COPY_PART_BYTES_MAX) });
    }
}

/// `copy-get`: the next part of the object.
pub(super) fn get(x: &mut Execution, item: &OsdOpItem) -> Step {
    let Ok((mut cursor, max)) = copy_get_parts(&item.payload) else { return fail(Errno::EINVAL) };
    let max = max.min(COPY_PART_BYTES_MAX);
    let info = &x.state.info;
    let mut part = CopyData {
        size: x.state.size,
        mtime: info.mtime,
        truncate_seq: info.truncate_seq,
        truncate_size: info.truncate_size,
        ..CopyData::default()
    };
    if !cursor.attrs_done {
        let users = x.view.attrs.iter().filter(|(name, _)| name.first() == Some(&USER_ATTR_PREFIX));
        part.attrs = users.map(|(name, value)| (name.slice(1..), value.clone())).collect();
        cursor.attrs_done = true;
    }
    if !cursor.data_done {
        part.data = x.take_data();
        cursor.data_offset += part.data.len() as u64;
        cursor.data_done = cursor.data_offset >= part.size;
    }
    let left = max.saturating_sub(part.data.len() as u64);
    if cursor.data_done && !cursor.omap_done && left > 0 {
        let range = OmapWant::Range {
            after: cursor.omap_after.clone(),
            prefix: Bytes::new(),
            entries: PUSH_OMAP_ENTRIES_MAX,
            bytes: left,
            values: true,
        };
        let omap_header = cursor.omap_after.is_empty();
        let want = ObjectWant { omap_header, omap: vec![range], ..ObjectWant::default() };
        let view = x.ask(AskOf::Itself, want)?;
        part.omap_header = view.omap_header.clone();
        if let Some(found) = view.omap.first().filter(|found| !found.entries.is_empty()) {
            part.omap = found.entries.to_bytes();
            cursor.omap_after = found.entries.last().map_or(Bytes::new(), |(key, _)| key.clone());
        }
        cursor.omap_done = view.omap.first().is_none_or(|found| !found.more);
    }
    part.cursor = cursor;
    x.result = 0;
    Ok(part.to_bytes())
}

/// `copy-from` and `copy-from2`.
pub(super) fn from(x: &mut Execution, item: &OsdOpItem) -> Step {
    let Ok(source) = CopySource::of(item) else { return fail(Errno::EINVAL) };
    let copied = match x.request.copied {
        Some(Ok(copied)) => copied,
        Some(Err(errno)) => return fail(*errno),
        None => return Err(Stop::Ask(Box::new(Ask { of: AskOf::Copy, want: ObjectWant::default() }))),
    };
    let whole = &copied.last;
    x.note_written();
    x.written.union_with(&Extents::range(0, x.state.size));
    x.ensure_exists();
    x.changes = if copied.staged { vec![Op::Touch] } else { contents(whole).ok_or(Errno::EIO)? };
    if copied.staged {
        x.restored = Some(STAGED);
        x.start_size = whole.size;
    }
    x.state.size = whole.size;
    let info = &mut x.state.info;
    info.user_version = copied.user_version;
    info.mtime = whole.mtime;
    (info.truncate_seq, info.truncate_size) = source.truncation.unwrap_or((whole.truncate_seq, whole.truncate_size));
    x.result = 0;
    NOTHING
}

/// The changes that make an object of its only part; none if the source sent what cannot be read.
fn contents(part: &CopyData) -> Option<Vec<Op>> {
    let mut changes = vec![Op::Remove, Op::Truncate(part.size)];
    changes.extend(part_changes(part, 0)?);
    Some(changes)
}

/// The changes that a part of a source makes to its copy; its data begins at `offset`.
pub fn part_changes(part: &CopyData, offset: u64) -> Option<Vec<Op>> {
    let mut changes = Vec::new();
    if !part.data.is_empty() {
        changes.push(Op::Write(offset, part.data.clone()));
    }
    changes.extend(part.attrs.iter().map(|(name, value)| Op::SetAttr(user_attr(name), value.clone())));
    if !part.omap_header.is_empty() {
        changes.push(Op::OmapHeader(part.omap_header.clone()));
    }
    if !part.omap.is_empty() {
        let entries: KeyValues = wire::Decode::from_bytes(&part.omap).ok()?;
        changes.push(Op::OmapSet(entries.into_iter().collect()));
    }
    Some(changes)
}
