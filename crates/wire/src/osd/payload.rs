//! What operations carry in and out beside their parameters: attributes, omap, listings, notifications.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_osd_ops`) and `src/osdc/Objecter.h` (`ObjectOperation`), which
//! are where these layouts are written down. Each pair of a reader and a writer serves both the OSD and the client.

use super::{HObject, ObjectLocator, OpParams, OsdOpItem};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::{EntityAddr, EntityName, UTime};
use base::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Keys and values of an object's omap, or its attributes.
pub type KeyValues = BTreeMap<Bytes, Bytes>;

/// An attribute operation's name and value, which follow each other in the payload.
pub fn xattr_parts(item: &OsdOpItem) -> Result<(Bytes, Bytes), Malformed> {
    let OpParams::Xattr { name_len, value_len, .. } = item.params() else {
        return Err(Malformed::new("xattr operation", "has another operation's code"));
    };
    let mut d = Decoder::shared(&item.payload);
    let parts = (d.bytes(name_len as usize)?, d.bytes(value_len as usize)?);
    Ok(parts)
}

/// A class call's class, method and input, which follow each other in the payload.
pub fn call_parts(item: &OsdOpItem) -> Result<(Bytes, Bytes, Bytes), Malformed> {
    let OpParams::Call { class_len, method_len, input_len, .. } = item.params() else {
        return Err(Malformed::new("class call", "has another operation's code"));
    };
    let mut d = Decoder::shared(&item.payload);
    Ok((d.bytes(class_len as usize)?, d.bytes(method_len as usize)?, d.bytes(input_len as usize)?))
}

/// Which part of an omap to list: omap-get-keys has no prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmapRange {
    /// Begin after this key; empty is from the start.
    pub start_after: Bytes,
    /// The most entries to return.
    pub max: u64,
    /// Only keys that begin with this; omap-get-vals only.
    pub prefix: Bytes,
}

impl OmapRange {
    /// Reads the payload of omap-get-keys.
    pub fn keys(payload: &Bytes) -> Result<OmapRange, Malformed> {
        let mut d = Decoder::shared(payload);
        Ok(OmapRange { start_after: d.blob()?, max: d.u64()?, prefix: Bytes::new() })
    }

    /// Reads the payload of omap-get-vals.
    pub fn values(payload: &Bytes) -> Result<OmapRange, Malformed> {
        let mut d = Decoder::shared(payload);
        Ok(OmapRange { start_after: d.blob()?, max: d.u64()?, prefix: d.blob()? })
    }

    /// The payload of omap-get-keys.
    pub fn to_keys(&self) -> Bytes {
        let mut e = Encoder::new();
        e.blob(&self.start_after);
        e.u64(self.max);
        e.finish()
    }

    /// The payload of omap-get-vals.
    pub fn to_values(&self) -> Bytes {
        let mut e = Encoder::new();
        e.blob(&self.start_after);
        e.u64(self.max);
        e.blob(&self.prefix);
        e.finish()
    }
}

/// The answer of omap-get-keys and omap-get-vals: what was found, and whether there is more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmapPage<T> {
    /// A set of keys, or a map of keys to values.
    pub found: T,
    /// There is more after the last one.
    pub truncated: bool,
}

impl<T: Encode> Encode for OmapPage<T> {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.found);
        e.bool(self.truncated);
    }
}

impl<T: Decode> Decode for OmapPage<T> {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(OmapPage { found: d.get()?, truncated: d.bool()? })
    }
}

/// omap-cmp's payload: for each key the value to compare with and how (`CmpOp`).
pub type OmapAssertions = BTreeMap<Bytes, (Bytes, i32)>;

/// omap-rm-key-range's payload: the first key to remove and the first to keep.
pub type OmapKeyRange = (Bytes, Bytes);

/// The payload of operations that name keys: omap-get-vals-by-keys, omap-rm-keys.
pub type KeySet = BTreeSet<Bytes>;

/// The answer of stat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatReply {
    /// Bytes.
    pub size: u64,
    /// When it was last modified, by the writer's clock.
    pub mtime: UTime,
}

impl StatReply {
    /// An object's size and modification time.
    pub fn new(size: u64, mtime: Instant) -> StatReply {
        StatReply { size, mtime: mtime.into() }
    }
}

impl Encode for StatReply {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.size);
        e.put(&self.mtime);
    }
}

impl Decode for StatReply {
    const MIN_BYTES: usize = 16;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(StatReply { size: d.u64()?, mtime: d.get()? })
    }
}

/// The answer of sparse-read: extents (offset, length) that hold data, and the data back to back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SparseRead {
    /// Where the data lies.
    pub extents: BTreeMap<u64, u64>,
    /// The data.
    pub data: Bytes,
}

impl SparseRead {
    /// What stands before so many bytes of data.
    pub fn lead(extents: &BTreeMap<u64, u64>, data_len: usize) -> Bytes {
        let mut e = Encoder::new();
        e.put(extents);
        e.len(data_len);
        e.finish()
    }
}

impl Encode for SparseRead {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&SparseRead::lead(&self.extents, self.data.len()));
        e.raw(&self.data);
    }
}

impl Decode for SparseRead {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(SparseRead { extents: d.get()?, data: d.get()? })
    }
}

/// One object in a listing (`librados::ListObjectImpl`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListEntry {
    /// Its namespace.
    pub nspace: Bytes,
    /// Its name.
    pub name: Bytes,
    /// Its locator key.
    pub locator: Bytes,
}

impl Encode for ListEntry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.nspace);
            e.put(&self.name);
            e.put(&self.locator);
        });
    }
}

impl Decode for ListEntry {
    const MIN_BYTES: usize = 18;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("ListObjectImpl", 1, |d, _| Ok(ListEntry { nspace: d.get()?, name: d.get()?, locator: d.get()? }))
    }
}

/// The answer of pgnls (`pg_nls_response_t`): where to go on, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListReply {
    /// The cursor for the next request; the placement group's end when done.
    pub handle: HObject,
    /// The objects.
    pub entries: Vec<ListEntry>,
}

impl Encode for ListReply {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.handle);
            // The entries are written bare here, without the envelope each has elsewhere.
            e.len(self.entries.len());
            for entry in &self.entries {
                e.put(&entry.nspace);
                e.put(&entry.name);
                e.put(&entry.locator);
            }
        });
    }
}

impl Decode for ListReply {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("pg_nls_response_t", 1, |d, _| {
            let handle = d.get()?;
            let len = d.len(12)?;
            let entry = |d: &mut Decoder<'_>| Ok(ListEntry { nspace: d.get()?, name: d.get()?, locator: d.get()? });
            let entries = (0..len).map(|_| entry(d)).collect::<Result<_, Malformed>>()?;
            Ok(ListReply { handle, entries })
        })
    }
}

/// The answer of pgls (`pg_ls_response_t`): names and locator keys of objects in one namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OldListReply {
    /// The cursor for the next request; beyond everything when done.
    pub handle: HObject,
    /// The objects: name and locator key.
    pub entries: Vec<(Bytes, Bytes)>,
}

impl Encode for OldListReply {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.put(&self.handle);
        e.put(&self.entries);
    }
}

impl Decode for OldListReply {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("pg_ls_response_t", "has an unknown version"));
        }
        Ok(OldListReply { handle: d.get()?, entries: d.get()? })
    }
}

/// The cursor at the start of a pgnls payload.
pub fn list_cursor(payload: &Bytes) -> Result<HObject, Malformed> {
    // A request without a payload begins at the start.
    if payload.is_empty() { Ok(HObject::MIN) } else { Decoder::shared(payload).get() }
}

/// One watcher of an object (`watch_item_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watcher {
    /// Who.
    pub name: EntityName,
    /// Its handle.
    pub cookie: u64,
    /// After how many seconds of silence it is dropped.
    pub timeout_s: u32,
    /// Where it is, of no particular protocol.
    pub addr: EntityAddr,
}

impl Encode for Watcher {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.name);
            e.u64(self.cookie);
            e.u32(self.timeout_s);
            e.put(&self.addr);
        });
    }
}

impl Decode for Watcher {
    const MIN_BYTES: usize = 28;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("watch_item_t", 2, |d, _| {
            Ok(Watcher { name: d.get()?, cookie: d.u64()?, timeout_s: d.u32()?, addr: d.get()? })
        })
    }
}

/// The answer of list-watchers (`obj_list_watch_response_t`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WatcherList {
    /// The watchers, by handle.
    pub watchers: Vec<Watcher>,
}

impl Encode for WatcherList {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| e.put(&self.watchers));
    }
}

impl Decode for WatcherList {
    const MIN_BYTES: usize = 10;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("obj_list_watch_response_t", 1, |d, _| Ok(WatcherList { watchers: d.get()? }))
    }
}

/// notify's payload: what the client sends to the watchers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NotifyRequest {
    /// 1.
    pub protocol: u32,
    /// Seconds to wait for acknowledgements.
    pub timeout_s: u32,
    /// What the watchers get.
    pub payload: Bytes,
}

impl Encode for NotifyRequest {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.protocol);
        e.u32(self.timeout_s);
        e.put(&self.payload);
    }
}

impl Decode for NotifyRequest {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(NotifyRequest { protocol: d.u32()?, timeout_s: d.u32()?, payload: d.get()? })
    }
}

/// notify-ack's payload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NotifyAck {
    /// Which notification.
    pub notify_id: u64,
    /// The acknowledging watch.
    pub cookie: u64,
    /// What the notifier gets back.
    pub payload: Bytes,
}

impl Encode for NotifyAck {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.notify_id);
        e.u64(self.cookie);
        e.put(&self.payload);
    }
}

impl Decode for NotifyAck {
    const MIN_BYTES: usize = 16;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (notify_id, cookie) = (d.u64()?, d.u64()?);
        // Old clients leave the payload out.
        let payload = if d.remaining() == 0 { Bytes::new() } else { d.get()? };
        Ok(NotifyAck { notify_id, cookie, payload })
    }
}

/// What came of a notification: who answered what, and who did not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NotifyReply {
    /// Answers by client number and handle, in this order.
    pub answers: Vec<((u64, u64), Bytes)>,
    /// Those who did not answer in time.
    pub missed: Vec<(u64, u64)>,
}

impl Encode for NotifyReply {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.answers);
        e.put(&self.missed);
    }
}

impl Decode for NotifyReply {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(NotifyReply { answers: d.get()?, missed: d.get()? })
    }
}

/// A locator for an object's other name, as redirects carry it (`request_redirect_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    /// Where.
    pub locator: ObjectLocator,
    /// Under which name; empty is unchanged.
    pub object: Bytes,
}

impl Encode for Redirect {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.locator);
            e.put(&self.object);
            e.u32(0); // operations to prepend, never used
        });
    }
}

impl Decode for Redirect {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("request_redirect_t", 1, |d, _| Ok(Redirect { locator: d.get()?, object: d.get()? }))
    }
}
