//! The log's records: their header, and the entries inside.
//!
//! Owns both forms (`FORMAT.md`, "Log"). An entry says what was asked, together with what was decided when it was
//! carried out: the blocks it was given, and the checksums of data that was written to its place directly. Carrying it
//! out again from the same state gives the same result.

use crate::extent::device::IoBuf;
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::log::body::Body;
use crate::extent::state::collection::Stretch;
use crate::extent::superblock::LogPoint;
use crate::extent::tree::keys::CollectionNumber;
use crate::hash_range::HashRange;
use crate::transaction::{Op, Part, Transaction, decode_op, encode_op};
use base::Bug;
use base::checksum::crc32c;
use bytes::Bytes;
use wire::{Decoder, Encoder, Malformed};

const MAGIC: u32 = 0x474C_584C;

/// The header's length.
pub(crate) const HEADER: usize = 64;

/// What a record says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) point: LogPoint,
    /// Every record up to this one was durable when this one was written.
    pub(crate) durable: u64,
    /// The checkpoint that was the last one then.
    pub(crate) generation: u64,
    /// The record's length in bytes, without what fills its last block.
    pub(crate) len: usize,
    /// The length without the blocks of data that lie behind its entries, if there are any.
    pub(crate) text: usize,
    /// How many entries it has.
    pub(crate) entries: u32,
    /// The checksum of everything after it.
    pub(crate) crc: u32,
}

impl Header {
    /// Fills in the header of the record into which `body` was gathered; returns its checksum.
    pub(crate) fn seal(&self, salt: u64, body: &Body, record: &mut IoBuf) -> u32 {
        let out = &mut record.as_mut()[..self.len];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&salt.to_le_bytes());
        out[16..24].copy_from_slice(&self.point.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.point.position.to_le_bytes());
        out[32..40].copy_from_slice(&self.durable.to_le_bytes());
        out[40..48].copy_from_slice(&self.generation.to_le_bytes());
        out[48..52].copy_from_slice(&(self.len as u32).to_le_bytes());
        out[52..56].copy_from_slice(&self.point.previous_crc.to_le_bytes());
        out[56..60].copy_from_slice(&self.entries.to_le_bytes());
        out[60..64].copy_from_slice(&(self.text as u32).to_le_bytes());
        let crc = body.checksum(crc32c(salt as u32, &out[8..HEADER]), HEADER);
        debug_assert_eq!(crc, crc32c(salt as u32, &out[8..]), "a known checksum was wrong");
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Reads a header by itself; whether the record is whole shows only with all of it.
    pub(crate) fn parse(salt: u64, bytes: &[u8]) -> Option<Header> {
        let mut d = Decoder::new(bytes);
        let (magic, crc) = (d.u32().ok()?, d.u32().ok()?);
        if magic != MAGIC || d.u64().ok()? != salt {
            return None;
        }
        let (sequence, position) = (d.u64().ok()?, d.u64().ok()?);
        let (durable, generation) = (d.u64().ok()?, d.u64().ok()?);
        let (len, previous_crc, entries) = (d.u32().ok()? as usize, d.u32().ok()?, d.u32().ok()?);
        let point = LogPoint { sequence, position, previous_crc };
        // Older records have no block apart, and say nothing of that.
        let text = Some(d.u32().ok()? as usize).filter(|text| *text > 0).unwrap_or(len);
        let fits = text == len || (Header::apart_start(text) < len && len.is_multiple_of(BLOCK as usize));
        (text >= HEADER && fits).then_some(Header { point, durable, generation, len, text, entries, crc })
    }

    fn apart_start(text: usize) -> usize {
        text.next_multiple_of(BLOCK as usize)
    }

    /// The blocks of data behind the entries of a record, of which these are all bytes.
    pub(crate) fn apart(&self, record: &Bytes) -> Bytes {
        if self.text == self.len { Bytes::new() } else { record.slice(Header::apart_start(self.text)..self.len) }
    }

    /// Whether these bytes, of which the first `len` are the record, are what the header says.
    pub(crate) fn matches(&self, salt: u64, bytes: &[u8]) -> bool {
        let whole = |rest| crc32c(salt as u32, rest) == self.crc || Bug::TornRecordsTaken.is_planted();
        bytes.get(8..self.len).is_some_and(whole)
    }

    /// The point after this record.
    pub(crate) fn next(&self) -> LogPoint {
        let len = (self.len as u64).next_multiple_of(BLOCK);
        let LogPoint { sequence, position, .. } = self.point;
        LogPoint { sequence: sequence + 1, position: position + len, previous_crc: self.crc }
    }
}

/// What was done with a large write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DirectWrite {
    /// The place among the transaction's ops.
    pub(crate) op: usize,
    /// The checksums of the whole blocks in its middle, which lie in the blocks given first to this op.
    pub(crate) crcs: Vec<u32>,
}

/// One entry.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Entry {
    /// A transaction.
    Transaction {
        /// The changes; of large writes only the ends are there.
        transaction: Transaction,
        /// The blocks that it was given, in order.
        given: Vec<BlockRun>,
        /// Its large writes.
        direct: Vec<DirectWrite>,
    },
    /// The objects of a removed collection's stretch, `count` of them from the first, are cleared away.
    Clear {
        /// The stretch.
        stretch: Stretch,
        /// How many.
        count: u32,
    },
    /// An entry too long for the ring: it lies in blocks of data, which are free again after the next checkpoint.
    OutOfLine(OutOfLine),
}

/// Where an entry lies that is not in its record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OutOfLine {
    /// The blocks, in order.
    pub(crate) runs: Vec<BlockRun>,
    /// The entry's bytes.
    pub(crate) len: usize,
    /// Their checksum.
    pub(crate) crc: u32,
}

impl OutOfLine {
    /// How long the entry that says so is, with so many runs of blocks.
    pub(crate) fn entry_bytes(runs: usize) -> usize {
        1 + 4 + 12 * runs + 4 + 4
    }

    /// Of a body in these blocks.
    pub(crate) fn new(salt: u64, runs: Vec<BlockRun>, body: &Body) -> OutOfLine {
        let crc = body.checksum(salt as u32, 0);
        OutOfLine { runs, len: body.len(), crc }
    }

    /// Appends the entry that says so.
    pub(crate) fn encode(&self, e: &mut Encoder) {
        e.u8(OUT_OF_LINE);
        encode_runs(&self.runs, e);
        e.u32(self.len as u32);
        e.u32(self.crc);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<OutOfLine, Malformed> {
        let runs = decode_runs(d)?;
        let (len, crc) = (d.u32()? as usize, d.u32()?);
        let blocks = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.len));
        if blocks != Some((len as u64).div_ceil(BLOCK)) {
            return Err(Malformed::new("log entry", "lies in more or fewer blocks than it has"));
        }
        Ok(OutOfLine { runs, len, crc })
    }

    /// Whether these bytes are the entry.
    pub(crate) fn matches(&self, salt: u64, body: &[u8]) -> bool {
        body.len() == self.len && crc32c(salt as u32, body) == self.crc
    }
}

/// How the data of a large write is cut: a head up to the first whole block, whole blocks, a tail.
pub(crate) fn cut(offset: u64, len: usize) -> (usize, usize) {
    let head = (offset.next_multiple_of(BLOCK) - offset) as usize;
    let tail = ((offset + len as u64) % BLOCK) as usize;
    (head, tail)
}

/// Appends a transaction's entry.
pub(crate) fn encode_transaction(t: &Transaction, given: &[BlockRun], direct: &[DirectWrite], body: &mut Body) {
    body.text().u8(if t.parts.is_empty() { 1 } else { 3 });
    encode_runs(given, body.text());
    if !t.parts.is_empty() {
        body.text().len(t.parts.len());
        t.parts.iter().for_each(|part| encode_part(part, body));
    }
    encode_changes(t, direct, body);
}

fn encode_runs(runs: &[BlockRun], e: &mut Encoder) {
    e.len(runs.len());
    for run in runs {
        e.u64(run.start);
        e.u32(run.len as u32);
    }
}

fn decode_runs(d: &mut Decoder<'_>) -> Result<Vec<BlockRun>, Malformed> {
    (0..d.len(12)?).map(|_| Ok(BlockRun::new(d.u64()?, u64::from(d.u32()?)))).collect()
}

fn encode_part(part: &Part, body: &mut Body) {
    body.text().u8(if let Part::Split { .. } = part { 1 } else { 2 });
    body.text().put(&part.range());
    match part {
        Part::Split { child, .. } => encode_changes(child, &[], body),
        Part::Merge { source, .. } => body.text().put(source),
    }
}

fn encode_changes(t: &Transaction, direct: &[DirectWrite], body: &mut Body) {
    let e = body.text();
    e.put(&t.collection);
    e.u8(u8::from(t.create) | u8::from(t.remove) << 1);
    e.put(&t.objects);
    e.len(t.ops.len());
    let mut direct = direct.iter().peekable();
    for (at, (object, op)) in t.ops.iter().enumerate() {
        let e = body.text();
        e.u16(*object);
        match (op, direct.next_if(|d| d.op == at)) {
            (Op::Write(offset, data), Some(direct)) => {
                let (head, tail) = cut(*offset, data.len());
                e.u8(DIRECT);
                e.u64(*offset);
                e.blob(&data[..head]);
                e.blob(&data[data.len() - tail..]);
                e.put(&direct.crcs);
            }
            (Op::Write(offset, data), None) => match body.append_apart(data, &t.sums) {
                Some(block) => {
                    let e = body.text();
                    e.u8(APART);
                    e.u64(*offset);
                    e.len(data.len());
                    e.u32(block);
                }
                None => {
                    let e = body.text();
                    e.u8(1);
                    e.u64(*offset);
                    body.blob(data, &t.sums);
                }
            },
            _ => encode_op(op, e, &mut Default::default()),
        }
    }
}

/// The tag of a large write; the others are `transaction`'s.
const DIRECT: u8 = 64;

/// The tag of a write whose data lies behind the record's entries.
const APART: u8 = 65;

/// The kind of an entry that lies elsewhere.
const OUT_OF_LINE: u8 = 5;

/// Appends the entry of a clearing.
pub(crate) fn encode_clear(stretch: Stretch, count: u32, e: &mut Encoder) {
    e.u8(4);
    e.put(&stretch);
    e.u32(count);
}

impl Entry {
    /// Reads an entry. The data of a large write's middle comes back as zeros.
    pub(crate) fn decode(bytes: &Bytes, apart: &Bytes) -> Result<Entry, Malformed> {
        let mut d = Decoder::shared(bytes);
        let entry = match d.u8()? {
            kind @ (1 | 3) => decode_transaction(&mut d, kind == 3, apart)?,
            2 => {
                let stretch = Stretch { number: CollectionNumber(d.u64()?), range: HashRange::ALL };
                Entry::Clear { stretch, count: d.u32()? }
            }
            4 => Entry::Clear { stretch: d.get()?, count: d.u32()? },
            OUT_OF_LINE => Entry::OutOfLine(OutOfLine::decode(&mut d)?),
            _ => return Err(Malformed::new("log entry", "is of an unknown kind")),
        };
        d.finish("log entry")?;
        Ok(entry)
    }
}

fn decode_transaction(d: &mut Decoder<'_>, has_parts: bool, apart: &Bytes) -> Result<Entry, Malformed> {
    let given = decode_runs(d)?;
    let mut parts = Vec::new();
    for _ in 0..if has_parts { d.len(10)? } else { 0 } {
        parts.push(decode_part(d, apart)?);
    }
    let (transaction, direct) = decode_changes(d, apart)?;
    Ok(Entry::Transaction { transaction: Transaction { parts, ..transaction }, given, direct })
}

fn decode_part(d: &mut Decoder<'_>, apart: &Bytes) -> Result<Part, Malformed> {
    let (kind, range) = (d.u8()?, d.get()?);
    match kind {
        1 => Ok(Part::Split { range, child: decode_changes(d, apart)?.0 }),
        2 => Ok(Part::Merge { range, source: d.get()? }),
        _ => Err(Malformed::new("log entry", "has a part of an unknown kind")),
    }
}

fn decode_changes(d: &mut Decoder<'_>, apart: &Bytes) -> Result<(Transaction, Vec<DirectWrite>), Malformed> {
    let mut transaction = Transaction::new(d.get()?);
    let flags = d.u8()?;
    (transaction.create, transaction.remove) = (flags & 1 != 0, flags & 2 != 0);
    transaction.objects = d.get()?;
    let mut direct = Vec::new();
    for op in 0..d.len(3)? {
        let at = d.u16()?;
        let change = if d.peek().first() == Some(&DIRECT) {
            d.skip(1)?;
            let (offset, head, tail) = (d.u64()?, d.slice()?, d.slice()?);
            let crcs: Vec<u32> = d.get()?;
            let mut data = vec![0; head.len() + crcs.len() * BLOCK as usize + tail.len()];
            data[..head.len()].copy_from_slice(head);
            let tail_at = data.len() - tail.len();
            data[tail_at..].copy_from_slice(tail);
            if offset.checked_add(data.len() as u64).is_none() || cut(offset, data.len()) != (head.len(), tail.len()) {
                return Err(Malformed::new("log entry", "has a large write that does not fit its blocks"));
            }
            direct.push(DirectWrite { op, crcs });
            Op::Write(offset, data.into())
        } else if d.peek().first() == Some(&APART) {
            d.skip(1)?;
            let (offset, len, block) = (d.u64()?, d.u32()? as usize, d.u32()? as usize);
            let (at, end) = (block * BLOCK as usize, block * BLOCK as usize + len);
            if end > apart.len() || offset.checked_add(len as u64).is_none() {
                return Err(Malformed::new("log entry", "has a write whose data is not there"));
            }
            Op::Write(offset, apart.slice(at..end))
        } else {
            decode_op(d, &Bytes::new())?
        };
        let target = if let Op::CloneTo(to) | Op::RenameTo(to) = change { at.max(to) } else { at };
        if usize::from(target) >= transaction.objects.len() {
            return Err(Malformed::new("log entry", "names an object that it does not list"));
        }
        transaction.ops.push((at, change));
    }
    Ok((transaction, direct))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CollectionId, ObjectId};

    const SALT: u64 = 77;
    const BLOCK_BYTES: usize = BLOCK as usize;

    /// A record of one transaction as it lies in the log, and its header as it is read.
    fn record(body: Body, transaction: &Transaction) -> (Header, Bytes) {
        let mut body = body;
        body.text().raw(&[0; HEADER]);
        body.sized(|body| encode_transaction(transaction, &[], &[], body));
        let mut buf = body.gather();
        let (len, text) = (body.len(), body.text_len());
        let point = LogPoint { sequence: 5, position: 0, previous_crc: 3 };
        Header { point, durable: 4, generation: 2, len, text, entries: 1, crc: 0 }.seal(SALT, &body, &mut buf);
        let bytes = Bytes::from_owner(buf);
        (Header::parse(SALT, &bytes).expect("a record"), bytes)
    }

    fn transaction(data: &[&[u8]]) -> Transaction {
        let mut transaction = Transaction::new(CollectionId::Meta);
        let object = transaction.object(&ObjectId::record("name"));
        let writes = data.iter().map(|data| Op::Write(8192, Bytes::copy_from_slice(data)));
        transaction.ops.extend(writes.map(|op| (object, op)));
        transaction
    }

    #[test]
    fn data_is_found_where_the_record_has_it() {
        let whole = [[1; BLOCK_BYTES], [2; BLOCK_BYTES], [3; BLOCK_BYTES]].concat();
        let (two, one) = whole.split_at(2 * BLOCK_BYTES);
        for data in [&[two, b"some", one][..], &[b"some"], &[one]] {
            let transaction = transaction(data);
            let has_blocks = data.iter().any(|data| data.len() >= BLOCK_BYTES);
            for (body, apart) in [(Body::of_record(), has_blocks), (Body::default(), false)] {
                let (header, bytes) = record(body, &transaction);
                assert!(header.matches(SALT, &bytes));
                assert_eq!(header.text < header.len, apart);
                let text = bytes.slice(HEADER + 4..header.text);
                let decoded = Entry::decode(&text, &header.apart(&bytes)).expect("ours");
                assert_eq!(
                    decoded,
                    Entry::Transaction { transaction: transaction.clone(), given: vec![], direct: vec![] }
                );
                if apart {
                    let less = header.apart(&bytes).slice(..header.len - header.text.next_multiple_of(BLOCK_BYTES) - 1);
                    assert!(Entry::decode(&text, &less).is_err(), "data beyond the record's end");
                }
            }
        }
    }

    #[test]
    fn headers_whose_lengths_contradict_each_other_are_refused() {
        let (header, bytes) = record(Body::of_record(), &transaction(&[&[1; BLOCK_BYTES]]));
        let with_text = |text: usize| {
            let mut bytes = bytes.to_vec();
            bytes[60..64].copy_from_slice(&(text as u32).to_le_bytes());
            Header::parse(SALT, &bytes).map(|header| header.text)
        };
        assert_eq!(with_text(header.text), Some(header.text));
        assert_eq!(with_text(0), Some(header.len), "an older record");
        for text in [1, HEADER - 1, header.len - 1, header.len + 1, u32::MAX as usize] {
            assert_eq!(with_text(text), None, "{text}");
        }
    }
}
