//! Transactions: changes to one collection that happen together.
//!
//! Owns their form and the format in which an OSD sends them to its replicas (ours, version 1). Payloads are slices
//! of the client's message; the encoding leaves large ones out and hands them back as one buffer to carry beside it.
//!
//! Invariant: each op's object index is inside `objects`; the constructors and the decoder see to it.

use crate::contract::{AheadId, StoreError};
use crate::hash_range::HashRange;
use crate::id::RECORD;
use crate::id::{CollectionId, ObjectId};
use crate::limits::OBJECT_BYTES_MAX;
use base::sums::Sums;
use bytes::{Bytes, BytesMut};
use wire::{Decode, Decoder, Encoder, Malformed};

/// One change to one object.
///
/// Every change but `Remove`, `RemoveAttr` and the removals from the map creates an object that is missing; those do
/// nothing to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Only creates.
    Touch,
    /// Overwrites or extends the data.
    Write(u64, Bytes),
    /// Makes `len` bytes from `offset` read as zeros, and extends the object to their end.
    Zero(u64, u64),
    /// Sets the size; what is cut off is gone, what is added reads as zeros.
    Truncate(u64),
    /// Removes the object with everything it has.
    Remove,
    /// Sets an attribute.
    SetAttr(Bytes, Bytes),
    /// Removes an attribute.
    RemoveAttr(Bytes),
    /// Removes all attributes.
    ClearAttrs,
    /// Sets entries of the map.
    OmapSet(Vec<(Bytes, Bytes)>),
    /// Removes entries.
    OmapRemove(Vec<Bytes>),
    /// Removes the entries from the first key up to, without, the second.
    OmapRemoveRange(Bytes, Bytes),
    /// Removes all entries and the header.
    OmapClear,
    /// Sets the map's header.
    OmapHeader(Bytes),
    /// Makes the object at this index of the table a copy of this one, in place of what it was.
    CloneTo(u16),
    /// Gives this object the name at this index of the table, in place of what has that name.
    RenameTo(u16),
}

/// What a transaction does between its collection and another one, before its own ops. Nothing is copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The objects of a range become those of a new collection, which these ops then give records: attributes and
    /// maps of objects under `RECORD`.
    Split {
        /// Which objects.
        range: HashRange,
        /// The new collection, created by this, and its records.
        child: Transaction,
    },
    /// The objects of a range take the place of the collection's own in that range. Whatever else the other collection
    /// has goes, and so does it.
    Merge {
        /// Which objects.
        range: HashRange,
        /// The other collection.
        source: CollectionId,
    },
}

impl Part {
    /// The other collection.
    pub fn other(&self) -> CollectionId {
        match self {
            Part::Split { child, .. } => child.collection,
            Part::Merge { source, .. } => *source,
        }
    }

    /// Which objects change their collection.
    pub fn range(&self) -> HashRange {
        match self {
            Part::Split { range, .. } | Part::Merge { range, .. } => *range,
        }
    }

    /// Whether it is what it may be; records are never part of a range.
    fn is_sound(&self) -> bool {
        let record = |child: &Transaction| {
            let data = child.ops.iter().any(|(_, op)| !op.is_of_records());
            child.create && child.parts.is_empty() && !data && child.objects.iter().all(|id| id.snap() == RECORD)
        };
        self.range().first() > 0 && if let Part::Split { child, .. } = self { record(child) } else { true }
    }
}

/// Changes to one collection, atomic and ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The collection.
    pub collection: CollectionId,
    /// Whether the collection is created first; it must not exist.
    pub create: bool,
    /// Whether the collection is removed with all its objects; then there are no ops.
    pub remove: bool,
    /// What happens first between it and other collections.
    pub parts: Vec<Part>,
    /// The objects that ops name by index.
    pub objects: Vec<ObjectId>,
    /// The changes, in order.
    pub ops: Vec<(u16, Op)>,
    /// By their places among the ops, writes of data that the store has been given ahead. This is between the store and its
    /// user: it does not travel.
    pub ahead: Vec<(usize, AheadId)>,
    /// What is known of the checksums of the data that is written. This does not travel with it.
    pub sums: Sums,
}

impl Op {
    /// Whether it concerns attributes or a map only.
    fn is_of_records(&self) -> bool {
        !matches!(self, Op::Write(..) | Op::Zero(..) | Op::Truncate(_) | Op::CloneTo(_) | Op::RenameTo(_))
    }
}

/// Payloads at least this long travel beside the encoding: below it a copy is cheaper than another slice.
const CARRIED_BYTES_MIN: usize = 512;

/// Room for what a holder usually adds to a transaction that came to it: an entry of its log, and its record.
const OBJECTS_ADDED: usize = 1;
const OPS_ADDED: usize = 2;

impl Transaction {
    /// No changes to `collection` yet.
    pub fn new(collection: CollectionId) -> Transaction {
        let (parts, objects, ops, ahead) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Transaction { collection, create: false, remove: false, parts, objects, ops, ahead, sums: Sums::default() }
    }

    /// Refuses what cannot be done as a whole, for a store to ask before it does anything. `exists` says whether it has
    /// a collection. Errors: `CollectionExists`, `NoCollection`, `TooLarge`, `BadPart`.
    pub(crate) fn check(&self, exists: impl Fn(&CollectionId) -> bool) -> Result<(), StoreError> {
        let is_as_wanted = |id: &CollectionId, new: bool| match (new, exists(id)) {
            (true, true) => Err(StoreError::CollectionExists),
            (false, false) => Err(StoreError::NoCollection),
            _ => Ok(()),
        };
        is_as_wanted(&self.collection, self.create)?;
        for (at, part) in self.parts.iter().enumerate() {
            let twice = self.parts[..at].iter().any(|other| other.other() == part.other());
            if self.remove || twice || part.other() == self.collection || !part.is_sound() {
                return Err(StoreError::BadPart);
            }
            is_as_wanted(&part.other(), matches!(part, Part::Split { .. }))?;
        }
        let end = |op: &Op| match op {
            Op::Write(offset, data) => offset.checked_add(data.len() as u64),
            Op::Zero(offset, len) => offset.checked_add(*len),
            Op::Truncate(size) => Some(*size),
            _ => Some(0),
        };
        let fits = |op: &Op| end(op).is_some_and(|end| end <= OBJECT_BYTES_MAX);
        if self.ops.iter().all(|(_, op)| fits(op)) { Ok(()) } else { Err(StoreError::TooLarge) }
    }

    /// Creates `collection`.
    pub fn create(collection: CollectionId) -> Transaction {
        Transaction { create: true, ..Transaction::new(collection) }
    }

    /// Removes `collection` and all its objects.
    pub fn remove(collection: CollectionId) -> Transaction {
        Transaction { remove: true, ..Transaction::new(collection) }
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.parts.is_empty() && !self.create && !self.remove
    }

    /// Bytes of objects' data that it writes and of which the store has not been given any ahead.
    pub fn data_bytes(&self) -> u64 {
        let is_ahead = |at: usize| self.ahead.iter().any(|(op, _)| *op == at);
        let written = |(at, (_, op)): (usize, &(u16, Op))| match op {
            Op::Write(_, data) if !is_ahead(at) => data.len() as u64,
            _ => 0,
        };
        self.ops.iter().enumerate().map(written).sum()
    }

    /// The index of `object` in the table, which it joins if need be.
    pub fn object(&mut self, object: &ObjectId) -> u16 {
        // The last one first: ops on one object follow each other.
        match self.objects.iter().rposition(|o| o == object) {
            Some(at) => at as u16,
            None => {
                self.objects.push(object.clone());
                u16::try_from(self.objects.len() - 1).expect("callers bound the objects of one transaction")
            }
        }
    }

    /// Appends a change to `object`.
    pub fn push(&mut self, object: &ObjectId, op: Op) {
        let at = self.object(object);
        self.ops.push((at, op));
    }

    /// Appends a write of data that the store has been given ahead, under this name.
    pub fn push_ahead(&mut self, object: &ObjectId, op: Op, id: AheadId) {
        self.ahead.push((self.ops.len(), id));
        self.push(object, op);
    }

    /// Appends a copy of `from` to `to`.
    pub fn clone_object(&mut self, from: &ObjectId, to: &ObjectId) {
        let to = self.object(to);
        self.push(from, Op::CloneTo(to));
    }

    /// Appends the renaming of `from` to `to`.
    pub fn rename(&mut self, from: &ObjectId, to: &ObjectId) {
        let to = self.object(to);
        self.push(from, Op::RenameTo(to));
    }

    /// The payload bytes it carries.
    pub fn payload_bytes(&self) -> usize {
        self.ops.iter().map(|(_, op)| if let Op::Write(_, data) = op { data.len() } else { 0 }).sum()
    }

    /// Appends the encoding to `e`; the returned buffer has to travel beside it. Splits and merges do not travel: each
    /// holder makes its own.
    pub fn encode_with_payload(&self, e: &mut Encoder) -> Bytes {
        assert!(self.parts.is_empty(), "every holder splits and merges by itself");
        let mut carried = Carried::default();
        e.u8(1);
        e.put(&self.collection);
        e.u8(u8::from(self.create) | u8::from(self.remove) << 1);
        e.put(&self.objects);
        e.len(self.ops.len());
        for (at, op) in &self.ops {
            e.u16(*at);
            encode_op(op, e, &mut carried);
        }
        carried.finish()
    }

    /// Reads an encoding and the buffer that travelled beside it. Payloads are slices of `payload` or of the
    /// decoder's own buffer.
    pub fn decode_with_payload(d: &mut Decoder<'_>, payload: &Bytes) -> Result<Transaction, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("transaction", "has an unknown version"));
        }
        let collection = d.get()?;
        let flags = d.u8()?;
        let mut t = Transaction::new(collection);
        (t.create, t.remove) = (flags & 1 != 0, flags & 2 != 0);
        let len = d.len(ObjectId::MIN_BYTES)?;
        t.objects.reserve_exact(len + OBJECTS_ADDED);
        for _ in 0..len {
            t.objects.push(d.get()?);
        }
        let len = d.len(3)?;
        t.ops.reserve_exact(len + OPS_ADDED);
        for _ in 0..len {
            let at = d.u16()?;
            let op = decode_op(d, payload)?;
            let target = match op {
                Op::CloneTo(to) | Op::RenameTo(to) => at.max(to),
                _ => at,
            };
            if usize::from(target) >= t.objects.len() {
                return Err(Malformed::new("transaction", "names an object that it does not list"));
            }
            t.ops.push((at, op));
        }
        Ok(t)
    }
}

/// The payloads that travel beside an encoding: one shared as it is, more joined by a copy.
#[derive(Default)]
pub(crate) struct Carried {
    first: Bytes,
    joined: Option<BytesMut>,
    len: usize,
}

impl Carried {
    /// Takes a payload and says where in the carried buffer it begins.
    fn add(&mut self, data: &Bytes) -> usize {
        let at = self.len;
        self.len += data.len();
        if at == 0 {
            self.first = data.clone();
        } else {
            let first = &self.first;
            self.joined.get_or_insert_with(|| BytesMut::from(first.as_ref())).extend_from_slice(data);
        }
        at
    }

    fn finish(self) -> Bytes {
        match self.joined {
            Some(joined) => joined.freeze(),
            None => self.first,
        }
    }
}

/// Appends one change; large payloads go beside the encoding.
pub(crate) fn encode_op(op: &Op, e: &mut Encoder, carried: &mut Carried) {
    match op {
        Op::Touch => e.u8(0),
        Op::Write(offset, data) => {
            let carry = data.len() >= CARRIED_BYTES_MIN;
            e.u8(if carry { 2 } else { 1 });
            e.u64(*offset);
            if carry {
                let at = carried.add(data);
                e.u64(at as u64);
                e.u64(data.len() as u64);
            } else {
                e.blob(data);
            }
        }
        Op::Zero(offset, len) => {
            e.u8(3);
            e.u64(*offset);
            e.u64(*len);
        }
        Op::Truncate(size) => {
            e.u8(4);
            e.u64(*size);
        }
        Op::Remove => e.u8(5),
        Op::SetAttr(name, value) => {
            e.u8(6);
            e.blob(name);
            e.blob(value);
        }
        Op::RemoveAttr(name) => {
            e.u8(7);
            e.blob(name);
        }
        Op::ClearAttrs => e.u8(8),
        Op::OmapSet(entries) => {
            e.u8(9);
            e.put(entries);
        }
        Op::OmapRemove(keys) => {
            e.u8(10);
            e.put(keys);
        }
        Op::OmapRemoveRange(first, end) => {
            e.u8(11);
            e.blob(first);
            e.blob(end);
        }
        Op::OmapClear => e.u8(12),
        Op::OmapHeader(header) => {
            e.u8(13);
            e.blob(header);
        }
        Op::CloneTo(to) => {
            e.u8(14);
            e.u16(*to);
        }
        Op::RenameTo(to) => {
            e.u8(15);
            e.u16(*to);
        }
    }
}

/// Reads one change.
pub(crate) fn decode_op(d: &mut Decoder<'_>, payload: &Bytes) -> Result<Op, Malformed> {
    Ok(match d.u8()? {
        0 => Op::Touch,
        1 => Op::Write(d.u64()?, d.blob()?),
        2 => {
            let (offset, at, len) = (d.u64()?, d.u64()?, d.u64()?);
            let end = at.checked_add(len).filter(|&end| end <= payload.len() as u64);
            let end = end.ok_or(Malformed::new("transaction", "has a payload beyond what it carries"))?;
            Op::Write(offset, payload.slice(at as usize..end as usize))
        }
        3 => Op::Zero(d.u64()?, d.u64()?),
        4 => Op::Truncate(d.u64()?),
        5 => Op::Remove,
        6 => Op::SetAttr(d.blob()?, d.blob()?),
        7 => Op::RemoveAttr(d.blob()?),
        8 => Op::ClearAttrs,
        9 => Op::OmapSet(d.get()?),
        10 => Op::OmapRemove(d.get()?),
        11 => Op::OmapRemoveRange(d.blob()?, d.blob()?),
        12 => Op::OmapClear,
        13 => Op::OmapHeader(d.blob()?),
        14 => Op::CloneTo(d.u16()?),
        15 => Op::RenameTo(d.u16()?),
        _ => return Err(Malformed::new("transaction", "has an unknown op")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{PgId, PoolId, SnapId};

    fn object(name: &str) -> ObjectId {
        ObjectId::new(7, b"", b"", name.as_bytes(), SnapId::HEAD)
    }

    fn sample() -> Transaction {
        let mut t = Transaction::new(CollectionId::Pg(PgId::new(PoolId(1), 3)));
        let (a, b) = (object("a"), object("b"));
        t.push(&a, Op::Write(10, Bytes::from(vec![1; 4096])));
        t.push(&a, Op::SetAttr(Bytes::from_static(b"_"), Bytes::from_static(b"info")));
        t.push(&b, Op::Write(0, Bytes::from(vec![2; 5000])));
        t.push(&b, Op::Write(9, Bytes::from_static(b"small")));
        t.push(&b, Op::OmapSet(vec![(Bytes::from_static(b"k"), Bytes::from_static(b"v"))]));
        t.push(&b, Op::OmapRemoveRange(Bytes::from_static(b"a"), Bytes::from_static(b"c")));
        t.rename(&b, &object("c"));
        t.clone_object(&a, &b);
        t
    }

    #[test]
    fn round_trips_with_its_payload_beside_it() {
        let t = sample();
        let mut e = Encoder::new();
        let payload = t.encode_with_payload(&mut e);
        assert_eq!(payload.len(), 9096);
        let bytes = e.finish();
        assert!(bytes.len() < 400, "large payloads are not in the encoding: {}", bytes.len());
        let mut d = Decoder::shared(&bytes);
        assert_eq!(Transaction::decode_with_payload(&mut d, &payload), Ok(t));
        assert_eq!(d.remaining(), 0);
    }

    #[test]
    fn one_payload_is_carried_without_a_copy() {
        let data = Bytes::from(vec![7; 4096]);
        let mut t = Transaction::new(CollectionId::Meta);
        t.push(&object("a"), Op::Write(0, data.clone()));
        let carried = t.encode_with_payload(&mut Encoder::new());
        assert_eq!(carried.as_ptr(), data.as_ptr());
    }

    #[test]
    fn hostile_encodings_are_refused() {
        let mut e = Encoder::new();
        let payload = sample().encode_with_payload(&mut e);
        let bytes = e.finish();
        for cut in 0..bytes.len() {
            assert!(Transaction::decode_with_payload(&mut Decoder::new(&bytes[..cut]), &payload).is_err());
        }
        let short = payload.slice(1..);
        assert!(Transaction::decode_with_payload(&mut Decoder::new(&bytes), &short).is_err());
    }
}
