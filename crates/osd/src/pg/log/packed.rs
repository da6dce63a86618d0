//! A log's entries in memory, some 17 bytes each.
//!
//! An OSD holds thousands of entries for each of its PGs and looks at hardly any of them again. So they lie in chunks of
//! bytes, one after the other, each as what differs from its chunk's first one, in integers of as many bytes as they
//! need, and of its object's name what comes after the beginning that they share. Of one that overwrites what is there, as
//! most do, only what tells it from the others is written. Versions, requests and objects are read without the rest, and
//! without taking memory.
//!
//! This is no format: nothing of it leaves the process, and what is read was written here. Invariant: all chunks but the
//! last have `CHUNK_ENTRIES` entries, of which the first chunk may have forgotten some.

use super::entry::{LogEntry, Lost};
use crate::pg::info::Totals;
use base::{EVersion, Epoch, SnapId};
use bytes::Bytes;
use std::collections::VecDeque;
use store::ObjectId;
use wire::osd::OsdReqId;
use wire::types::{EntityName, EntityType};

/// Entries of a chunk: few enough to walk through for one of them, enough for the chunk itself not to count.
const CHUNK_ENTRIES: usize = 64;

/// Bytes that a chunk gets at first; what is left over goes when it is full.
const CHUNK_BYTES: usize = CHUNK_ENTRIES * 24;

/// The size of an entry that does not fit in one byte follows in four.
const LONG: u8 = u8::MAX;

const DELETES: u8 = 1;
const CHANGES_NOTHING: u8 = 2;
const HAS_REQUEST: u8 = 4;
const HAS_CLONES: u8 = 8;
const HAS_OUTPUTS: u8 = 16;
const REVERTED: u8 = 32;
const LOST: u8 = 64;
/// See [`is_usual`].
const USUAL: u8 = 128;

/// What the entries of a chunk are told apart from.
#[derive(Clone, Debug)]
struct Base {
    version: EVersion,
    totals: Totals,
    reqid: OsdReqId,
    /// Of its object.
    name: Box<[u8]>,
}

impl Base {
    fn of(entry: &LogEntry) -> Base {
        let LogEntry { version, totals, reqid, .. } = *entry;
        Base { version, totals, reqid, name: entry.object.name().into() }
    }

    /// With how many bytes of its name another one begins.
    fn shared_with(&self, name: &[u8]) -> usize {
        self.name.iter().zip(name).take_while(|(ours, theirs)| ours == theirs).count()
    }
}

#[derive(Clone, Debug)]
struct Chunk {
    base: Base,
    bytes: Vec<u8>,
}

impl Chunk {
    /// Bytes of memory that it takes beside itself.
    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.base.name.len()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedEntries {
    chunks: VecDeque<Chunk>,
    /// How many entries of the first chunk are forgotten, and their bytes.
    skipped: usize,
    skipped_bytes: usize,
    len: usize,
    /// What the chunks take.
    bytes: usize,
}

impl PackedEntries {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.chunks.capacity() * size_of::<Chunk>()
    }

    pub(super) fn push_back(&mut self, entry: &LogEntry) {
        if self.end().is_multiple_of(CHUNK_ENTRIES) {
            let chunk = Chunk { base: Base::of(entry), bytes: Vec::with_capacity(CHUNK_BYTES) };
            self.bytes += chunk.held_bytes();
            self.chunks.push_back(chunk);
        }
        let chunk = self.chunks.back_mut().expect("there is one with room");
        let before = chunk.held_bytes();
        pack(entry, &chunk.base, &mut chunk.bytes);
        self.len += 1;
        if (self.skipped + self.len).is_multiple_of(CHUNK_ENTRIES) {
            // Shrinking in place would leave the rest to nobody.
            chunk.bytes = chunk.bytes.clone();
        }
        self.bytes = self.bytes - before + chunk.held_bytes();
    }

    /// Forgets the oldest entry; gives its version.
    pub(super) fn pop_front(&mut self) -> Option<EVersion> {
        let oldest = self.iter_from(0).next()?;
        let (version, size) = (oldest.version(), oldest.size());
        self.len -= 1;
        self.skipped += 1;
        self.skipped_bytes += size;
        if self.skipped == CHUNK_ENTRIES {
            self.bytes -= self.chunks.pop_front().map_or(0, |chunk| chunk.held_bytes());
            (self.skipped, self.skipped_bytes) = (0, 0);
        }
        Some(version)
    }

    /// Takes the newest entry out.
    pub(super) fn pop_back(&mut self) -> Option<LogEntry> {
        let newest = self.get(self.len.checked_sub(1)?);
        let (entry, size) = (newest.open(), newest.size());
        self.len -= 1;
        let chunk = self.chunks.back_mut().expect("its entry was just there");
        chunk.bytes.truncate(chunk.bytes.len() - size);
        if chunk.bytes.is_empty() {
            self.bytes -= self.chunks.pop_back().map_or(0, |chunk| chunk.held_bytes());
        }
        Some(entry)
    }

    /// The entry at a place, which there has to be.
    pub(super) fn get(&self, at: usize) -> Packed<'_> {
        self.iter_from(at).next().expect("callers name entries that are held")
    }

    /// The entries from a place on, oldest first.
    pub(super) fn iter_from(&self, at: usize) -> impl Iterator<Item = Packed<'_>> {
        let place = self.skipped + at;
        let walks = self.chunks.range((place / CHUNK_ENTRIES).min(self.chunks.len())..);
        let first = if place < CHUNK_ENTRIES { self.skipped_bytes } else { 0 };
        let pass = if place < CHUNK_ENTRIES { at } else { place % CHUNK_ENTRIES };
        let starts = [first].into_iter().chain(core::iter::repeat(0));
        walks.zip(starts).flat_map(|(chunk, start)| Walk { base: &chunk.base, rest: &chunk.bytes[start..] }).skip(pass)
    }

    /// How many entries are not newer than this version.
    pub(super) fn up_to(&self, version: EVersion) -> usize {
        let begun = self.chunks.partition_point(|chunk| chunk.base.version <= version);
        let Some(last) = begun.checked_sub(1) else { return 0 };
        let before = (last * CHUNK_ENTRIES).saturating_sub(self.skipped);
        before + self.iter_from(before).take(CHUNK_ENTRIES).take_while(|entry| entry.version() <= version).count()
    }

    /// The newest entry from a place on that is wanted.
    pub(super) fn newest_of(&self, from: usize, wanted: impl Fn(&Packed<'_>) -> bool) -> Option<Packed<'_>> {
        let first = (self.skipped + from) / CHUNK_ENTRIES;
        (first..self.chunks.len()).rev().find_map(|chunk| {
            let start = (chunk * CHUNK_ENTRIES).saturating_sub(self.skipped);
            let end = (chunk + 1) * CHUNK_ENTRIES - self.skipped;
            let start = start.max(from);
            self.iter_from(start).take(end - start).filter(|entry| wanted(entry)).last()
        })
    }

    fn end(&self) -> usize {
        self.skipped + self.len
    }
}

struct Walk<'a> {
    base: &'a Base,
    rest: &'a [u8],
}

impl<'a> Iterator for Walk<'a> {
    type Item = Packed<'a>;

    fn next(&mut self) -> Option<Packed<'a>> {
        let (&short, rest) = self.rest.split_first()?;
        let mut reader = Reader { rest, usual: false };
        let size = if short == LONG { reader.u32() as usize } else { usize::from(short) };
        let packed = Packed { base: self.base, bytes: reader.take(size) };
        self.rest = reader.rest;
        Some(packed)
    }
}

/// An entry as it lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    base: &'a Base,
    bytes: &'a [u8],
}

impl Packed<'_> {
    /// Its place in the PG's history.
    pub fn version(&self) -> EVersion {
        self.start().0
    }

    /// Whose it is.
    pub fn reqid(&self) -> OsdReqId {
        let (_, flags, mut reader) = self.start();
        reader.reqid(flags, &self.base.reqid)
    }

    /// Whether it is about this object.
    pub fn is_about(&self, object: &ObjectId) -> bool {
        let (_, flags, mut reader) = self.start();
        reader.reqid(flags, &self.base.reqid);
        let (hash, snap, namespace, key, [shared, rest]) = reader.named(&self.base.name);
        (hash, snap, namespace, key) == (object.hash(), object.snap(), object.namespace(), object.key())
            && object.name().strip_prefix(shared) == Some(rest)
    }

    /// Whether it wrote a part of a copy aside, or gave such parts up.
    pub fn is_aside(&self) -> bool {
        let (_, flags, _) = self.start();
        flags & (CHANGES_NOTHING | HAS_REQUEST) == CHANGES_NOTHING
    }

    /// The entry as a whole.
    pub fn open(&self) -> LogEntry {
        let (version, flags, mut reader) = self.start();
        let reqid = reader.reqid(flags, &self.base.reqid);
        let object = reader.object(&self.base.name);
        let prior = reader.version(version);
        let (user_version, result, totals) = reader.outcome(version, &self.base.totals);
        let clones = if flags & HAS_CLONES == 0 { 0 } else { reader.unsigned() };
        let clones = (0..clones).map(|_| SnapId(reader.unsigned())).collect();
        let outputs = if flags & HAS_OUTPUTS == 0 { 0 } else { reader.unsigned() };
        let outputs = (0..outputs).map(|_| (reader.signed() as i32, Bytes::copy_from_slice(reader.text()))).collect();
        let lost = match flags & (LOST | REVERTED) {
            0 => None,
            LOST => Some(Lost::Deleted),
            _ => Some(Lost::Reverted(reader.version(version))),
        };
        let (deletes, changes_nothing) = (flags & DELETES != 0, flags & CHANGES_NOTHING != 0);
        LogEntry {
            version,
            prior,
            object,
            clones,
            deletes,
            changes_nothing,
            reqid,
            user_version,
            result,
            outputs,
            totals,
            lost,
        }
    }

    fn start(&self) -> (EVersion, u8, Reader<'_>) {
        let mut reader = Reader { rest: self.bytes, usual: false };
        let flags = reader.byte();
        reader.usual = flags & USUAL != 0;
        (reader.version(self.base.version), flags, reader)
    }

    /// Its bytes with those that say how many there are.
    fn size(&self) -> usize {
        self.bytes.len() + if self.bytes.len() < usize::from(LONG) { 1 } else { 5 }
    }
}

/// Whether what most entries have in common is as it mostly is, and not written: a request of the same kind of client, to
/// the head of an object with a name only, that succeeded and changed nothing of what the PG holds in the same interval as
/// the chunk's first entry and the object's one before.
fn is_usual(entry: &LogEntry, base: &Base) -> bool {
    let (reqid, object) = (&entry.reqid, &entry.object);
    let same_requester = (reqid.name.kind, reqid.inc) == (base.reqid.name.kind, base.reqid.inc);
    let plain_object = object.snap() == SnapId::HEAD && object.namespace().is_empty() && object.key().is_empty();
    let same_epoch = [entry.version.epoch, entry.prior.epoch] == [base.version.epoch; 2];
    let plain_outcome = (entry.user_version, entry.result) == (entry.version.version, 0) && entry.totals == base.totals;
    same_requester && plain_object && same_epoch && plain_outcome && entry.lost.is_none()
}

/// Appends an entry. What `Packed::open` reads is written here, in the same order.
fn pack(entry: &LogEntry, base: &Base, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(0);
    let lost = match entry.lost {
        None => 0,
        Some(Lost::Deleted) => LOST,
        Some(Lost::Reverted(_)) => LOST | REVERTED,
    };
    let has_request = entry.reqid != OsdReqId::default();
    let usual = is_usual(entry, base);
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    out.push(
        flag(entry.deletes, DELETES)
            | flag(entry.changes_nothing, CHANGES_NOTHING)
            | flag(has_request, HAS_REQUEST)
            | flag(!entry.clones.is_empty(), HAS_CLONES)
            | flag(!entry.outputs.is_empty(), HAS_OUTPUTS)
            | flag(usual, USUAL)
            | lost,
    );
    let version = entry.version;
    put_version(out, version, base.version, usual);
    if has_request {
        put_request(out, &entry.reqid, &base.reqid, usual);
    }
    put_object(out, &entry.object, base, usual);
    put_version(out, entry.prior, version, usual);
    if !usual {
        put_near(out, entry.user_version, version.version);
        put_signed(out, i64::from(entry.result));
        let (totals, near) = (&entry.totals, &base.totals);
        put_near(out, totals.objects, near.objects);
        put_near(out, totals.clones, near.clones);
        put_near(out, totals.bytes, near.bytes);
    }
    if !entry.clones.is_empty() {
        put_unsigned(out, entry.clones.len() as u64);
        entry.clones.iter().for_each(|clone| put_unsigned(out, clone.0));
    }
    if !entry.outputs.is_empty() {
        put_unsigned(out, entry.outputs.len() as u64);
        for (result, output) in &entry.outputs {
            put_signed(out, i64::from(*result));
            put_text(out, output);
        }
    }
    if let Some(Lost::Reverted(to)) = entry.lost {
        put_version(out, to, version, usual);
    }
    let size = out.len() - start - 1;
    match u8::try_from(size) {
        Ok(short) if short != LONG => out[start] = short,
        _ => {
            out[start] = LONG;
            let size = u32::try_from(size).expect("an entry came in one message");
            out.splice(start + 1..start + 1, size.to_le_bytes());
        }
    }
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small where the value is near zero, on either side.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, (value << 1 ^ value >> 63) as u64);
}

fn put_near(out: &mut Vec<u8>, value: u64, near: u64) {
    put_signed(out, value.wrapping_sub(near) as i64);
}

fn put_version(out: &mut Vec<u8>, value: EVersion, near: EVersion, same_epoch: bool) {
    put_near(out, value.version, near.version);
    if !same_epoch {
        put_near(out, u64::from(value.epoch.0), u64::from(near.epoch.0));
    }
}

fn put_request(out: &mut Vec<u8>, reqid: &OsdReqId, near: &OsdReqId, usual: bool) {
    put_near(out, reqid.name.num as u64, near.name.num as u64);
    put_near(out, reqid.tid, near.tid);
    if !usual {
        put_unsigned(out, u64::from(reqid.name.kind.0));
        put_signed(out, i64::from(reqid.inc));
    }
}

fn put_object(out: &mut Vec<u8>, object: &ObjectId, base: &Base, usual: bool) {
    out.extend_from_slice(&object.hash().to_le_bytes());
    if !usual {
        put_unsigned(out, SnapId::HEAD.0.wrapping_sub(object.snap().0));
        [object.namespace(), object.key()].into_iter().for_each(|text| put_text(out, text));
    }
    let shared = base.shared_with(object.name());
    put_unsigned(out, shared as u64);
    put_text(out, &object.name()[shared..]);
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_unsigned(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads what the functions above wrote.
struct Reader<'a> {
    rest: &'a [u8],
    /// Whether the entry is a usual one.
    usual: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four bytes were taken"))
    }

    fn unsigned(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    }

    fn signed(&mut self) -> i64 {
        let value = self.unsigned();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    fn near(&mut self, near: u64) -> u64 {
        near.wrapping_add(self.signed() as u64)
    }

    fn version(&mut self, near: EVersion) -> EVersion {
        let version = self.near(near.version);
        let epoch = if self.usual { near.epoch } else { Epoch(self.near(u64::from(near.epoch.0)) as u32) };
        EVersion { epoch, version }
    }

    fn text(&mut self) -> &'a [u8] {
        let len = self.unsigned() as usize;
        self.take(len)
    }

    fn reqid(&mut self, flags: u8, near: &OsdReqId) -> OsdReqId {
        if flags & HAS_REQUEST == 0 {
            return OsdReqId::default();
        }
        let (num, tid) = (self.near(near.name.num as u64) as i64, self.near(near.tid));
        let (kind, inc) = match self.usual {
            true => (near.name.kind, near.inc),
            false => (EntityType(self.unsigned() as u8), self.signed() as i32),
        };
        OsdReqId { name: EntityName { kind, num }, tid, inc }
    }

    /// What an object's id consists of: hash, snapshot, namespace, key, and the name in two parts.
    fn named(&mut self, near: &'a [u8]) -> (u32, SnapId, &'a [u8], &'a [u8], [&'a [u8]; 2]) {
        let hash = self.u32();
        let (snap, namespace, key): (_, &[u8], &[u8]) = match self.usual {
            true => (SnapId::HEAD, &[], &[]),
            false => (SnapId(SnapId::HEAD.0.wrapping_sub(self.unsigned())), self.text(), self.text()),
        };
        let shared = self.unsigned() as usize;
        (hash, snap, namespace, key, [&near[..shared], self.text()])
    }

    /// The user's version, the result, and what the PG holds after it.
    fn outcome(&mut self, version: EVersion, near: &Totals) -> (u64, i32, Totals) {
        if self.usual {
            return (version.version, 0, *near);
        }
        let (user_version, result) = (self.near(version.version), self.signed() as i32);
        let (objects, clones) = (self.near(near.objects), self.near(near.clones));
        (user_version, result, Totals { objects, clones, bytes: self.near(near.bytes) })
    }

    fn object(&mut self, near: &'a [u8]) -> ObjectId {
        let (hash, snap, namespace, key, name) = self.named(near);
        ObjectId::new(hash, namespace, key, &name.concat(), snap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    /// Mostly what writes look like, now and then what nobody expects.
    fn draw(rng: &mut Rng, version: u64) -> LogEntry {
        let odd = |rng: &mut Rng, usual: u64| if rng.chance(1, 8) { rng.u64() } else { usual };
        let text =
            |rng: &mut Rng, len_max: u64| -> Vec<u8> { (0..rng.below(len_max)).map(|_| rng.u64() as u8).collect() };
        let version = EVersion::new(Epoch(odd(rng, 7) as u32), odd(rng, version));
        let reqid = OsdReqId {
            name: EntityName { kind: EntityType(odd(rng, 8) as u8), num: odd(rng, 4123) as i64 },
            tid: odd(rng, 100_000),
            inc: odd(rng, 0) as i32,
        };
        let (namespace, key) =
            if rng.chance(1, 4) { (text(rng, 20), text(rng, 300)) } else { (Vec::new(), Vec::new()) };
        let snap = SnapId(odd(rng, SnapId::HEAD.0));
        let beginning = &b"rbd_data.1034a5b6c7d8.00000000000000"[..rng.below(37) as usize];
        let few = if rng.chance(1, 4) { rng.below(5) } else { 0 };
        LogEntry {
            version,
            prior: EVersion::new(Epoch(odd(rng, 7) as u32), odd(rng, version.version.wrapping_sub(900))),
            object: ObjectId::new(rng.u64() as u32, &namespace, &key, &[beginning, &text(rng, 40)].concat(), snap),
            clones: (0..few).map(|_| SnapId(odd(rng, 3))).collect(),
            deletes: rng.chance(1, 4),
            changes_nothing: rng.chance(1, 4),
            reqid: if rng.chance(1, 4) { OsdReqId::default() } else { reqid },
            user_version: odd(rng, version.version),
            result: odd(rng, 0) as i32,
            outputs: (0..few).map(|_| (odd(rng, 0) as i32, Bytes::from(text(rng, 100)))).collect(),
            totals: Totals { objects: odd(rng, 500), clones: odd(rng, 0), bytes: odd(rng, 500 << 22) },
            lost: match rng.below(8) {
                0 => Some(Lost::Deleted),
                1 => Some(Lost::Reverted(EVersion::new(Epoch(odd(rng, 3) as u32), odd(rng, 4)))),
                _ => None,
            },
        }
    }

    #[test]
    fn what_comes_out_is_what_went_in_whatever_it_is() {
        let mut rng = Rng::new(5);
        let (mut packed, mut plain) = (PackedEntries::default(), VecDeque::new());
        let (mut usual, mut looked_at) = (0, 0);
        for n in 0..20_000 {
            match rng.below(100) {
                0..55 => {
                    let entry = draw(&mut rng, n);
                    packed.push_back(&entry);
                    plain.push_back(entry);
                }
                55..90 => {
                    let oldest = plain.pop_front();
                    assert_eq!(packed.pop_front(), oldest.map(|entry: LogEntry| entry.version));
                }
                90..95 => assert_eq!(packed.pop_back(), plain.pop_back()),
                95 => {
                    let from = rng.below(plain.len() as u64 + 1) as usize;
                    let opened: Vec<LogEntry> = packed.iter_from(from).map(|entry| entry.open()).collect();
                    assert!(opened.iter().eq(plain.range(from..)));
                }
                _ if plain.is_empty() => {}
                _ => {
                    let (at, other) = (rng.below(plain.len() as u64), rng.below(plain.len() as u64) as usize);
                    let (entry, expected) = (packed.get(at as usize), &plain[at as usize]);
                    assert_eq!((entry.version(), entry.reqid()), (expected.version, expected.reqid));
                    assert!(entry.is_about(&expected.object));
                    usual += usize::from(entry.start().1 & USUAL != 0);
                    looked_at += 1;
                    assert_eq!(entry.is_about(&plain[other].object), plain[other].object == expected.object);
                }
            }
            let bytes: usize = packed.chunks.iter().map(Chunk::held_bytes).sum();
            assert_eq!((packed.len(), packed.bytes), (plain.len(), bytes));
        }
        assert!((looked_at / 20..looked_at / 2).contains(&usual), "{usual} of {looked_at} were usual");
        while packed.pop_front().is_some() {}
        assert!(packed.chunks.len() <= 1, "what is forgotten takes nothing");
    }

    #[test]
    fn writes_to_an_image_take_few_bytes_each() {
        let (mut rng, mut packed) = (Rng::new(7), PackedEntries::default());
        for n in 0..6400 {
            let name = format!("rbd_data.1034a5b6c7d8.{:016x}", rng.below(128));
            let name_of = EntityName { kind: EntityType::CLIENT, num: 94_123 };
            packed.push_back(&LogEntry {
                version: EVersion::new(Epoch(12), 40_000 + n),
                prior: EVersion::new(Epoch(12), 39_900 + n - rng.below(100)),
                object: ObjectId::new(rng.u64() as u32, b"", b"", name.as_bytes(), SnapId::HEAD),
                clones: Vec::new(),
                deletes: false,
                changes_nothing: false,
                reqid: OsdReqId { name: name_of, tid: 900_000 + 32 * n + rng.below(32), inc: 0 },
                user_version: 40_000 + n,
                result: 0,
                outputs: Vec::new(),
                totals: Totals { objects: 128, clones: 0, bytes: 128 << 22 },
                lost: None,
            });
        }
        assert!(packed.bytes() / packed.len() < 20, "{} bytes each", packed.bytes() / packed.len());
    }

    #[test]
    fn places_are_found_by_version() {
        let mut packed = PackedEntries::default();
        let version = |n: u64| EVersion::new(Epoch(2 + n as u32 / 100), 10 * n);
        let mut rng = Rng::new(6);
        for n in 0..300 {
            packed.push_back(&LogEntry { version: version(n), ..draw(&mut rng, n) });
        }
        for forgotten in 0..300 {
            for n in [forgotten, 63, 64, 65, 128, 200, 298, 299].into_iter().filter(|n| *n >= forgotten) {
                let at = (n - forgotten) as usize;
                assert_eq!(packed.up_to(version(n)), at + 1);
                assert_eq!(
                    packed.up_to(EVersion { version: 10 * n - n.min(1), ..version(n) }),
                    at + usize::from(n == 0)
                );
                let newest = packed.newest_of(at, |entry| entry.version().version <= 10 * n).map(|e| e.version());
                assert_eq!(newest, Some(version(n)));
                assert!(packed.newest_of(at, |entry| entry.version() < version(n)).is_none());
            }
            packed.pop_front();
        }
        assert_eq!((packed.len(), packed.up_to(version(300))), (0, 0));
    }
}
