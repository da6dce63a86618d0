//! Reading the log: which records there are after a crash, and whether one is missing that had been acknowledged.
//!
//! Owns the end of the log. A record counts if it is whole and continues the one before it. Where the next one is not,
//! the log ends; but if a later record is found that says that the missing one was durable, the log is damaged, and
//! that is an error.

use crate::extent::device::{IoBuf, ReadAt};
use crate::extent::layout::{BLOCK, Geometry};
use crate::extent::log::record::{HEADER, Header};
use crate::extent::superblock::{LogPoint, OpenError, Superblock};
use bytes::Bytes;
use wire::Malformed;

/// How far behind the log's end later records are looked for, in bytes: more than what one damaged record can hide.
const SEARCH_BYTES: u64 = 8 << 20;

/// How far ahead the log is read.
const AHEAD_BYTES: u64 = 1 << 20;

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) header: Header,
    pub(crate) entries: Vec<Bytes>,
    /// Blocks of data that these name.
    pub(crate) apart: Bytes,
}

/// The log as it is found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) records: Vec<Record>,
    /// Where the next record goes.
    pub(crate) next: LogPoint,
    /// The last record known to have been durable.
    pub(crate) durable: u64,
}

/// Reads the log from a superblock's point on, up to, without, the record `end` if one is named.
pub(crate) fn read(device: &mut dyn ReadAt, sb: &Superblock, end: Option<u64>) -> Result<Found, OpenError> {
    let (salt, geometry) = (sb.label.salt, sb.geometry);
    let mut found = Found { records: Vec::new(), next: sb.log, durable: sb.log.sequence.saturating_sub(1) };
    let mut ring = Ring { device, geometry, at: 0, bytes: Bytes::new() };
    while end != Some(found.next.sequence) {
        let Some((header, bytes)) = ring.next_record(salt, found.next)? else { break };
        if header.generation > sb.generation {
            return Err(Malformed::new("extent store", "has a log that is newer than its superblock").into());
        }
        found.next = header.next();
        found.durable = found.durable.max(header.durable);
        found.records.push(Record { header, entries: cut(&header, &bytes)?, apart: header.apart(&bytes) });
        // A record may have gone around the ring's end early.
        if found.next.position - sb.log.position > 2 * geometry.log_bytes() {
            return Err(Malformed::new("log", "is longer than its ring").into());
        }
    }
    if found.durable >= found.next.sequence || later_record(ring.device, &geometry, salt, found.next)? {
        return Err(Malformed::new("log", "lacks a record that had been acknowledged").into());
    }
    Ok(found)
}

fn read_bytes(device: &mut dyn ReadAt, offset: u64, len: usize) -> Result<Bytes, OpenError> {
    let mut buf = IoBuf::to_fill(len);
    device.read_at(offset, &mut buf)?;
    Ok(Bytes::from_owner(buf))
}

/// The log's ring, read some way ahead: most records are short, and each follows the one before.
struct Ring<'a> {
    device: &'a mut dyn ReadAt,
    geometry: Geometry,
    /// Where in the ring the bytes come from that were read last.
    at: u64,
    bytes: Bytes,
}

impl Ring<'_> {
    /// So many bytes at a place in the ring, which has them.
    fn read(&mut self, at: u64, len: usize) -> Result<Bytes, OpenError> {
        let has = |ring: &Ring<'_>| {
            let from = at.checked_sub(ring.at)? as usize;
            (from + len <= ring.bytes.len()).then(|| ring.bytes.slice(from..from + len))
        };
        if let Some(bytes) = has(self) {
            return Ok(bytes);
        }
        let len = len.next_multiple_of(BLOCK as usize) as u64;
        let ahead = len.max(AHEAD_BYTES.min(self.geometry.log_bytes() - at));
        let bytes = read_bytes(self.device, self.geometry.log_start() * BLOCK + at, ahead as usize)?;
        (self.at, self.bytes) = (at, bytes);
        Ok(has(self).expect("it was just read"))
    }

    /// The record at a point, or at the ring's next beginning where it did not fit before its end.
    fn next_record(&mut self, salt: u64, point: LogPoint) -> Result<Option<(Header, Bytes)>, OpenError> {
        let size = self.geometry.log_bytes();
        let around = LogPoint { position: point.position.next_multiple_of(size), ..point };
        for point in [point, around] {
            let at = point.position % size;
            let first = self.read(at, BLOCK as usize)?;
            let Some(header) = Header::parse(salt, &first) else { continue };
            if header.point != point || header.len as u64 > size - at {
                continue;
            }
            let bytes = self.read(at, header.len)?;
            if header.matches(salt, &bytes) {
                return Ok(Some((header, bytes)));
            }
        }
        Ok(None)
    }
}

/// Whether behind the log's end a whole record claims that the one at `point` was durable.
fn later_record(device: &mut dyn ReadAt, geometry: &Geometry, salt: u64, point: LogPoint) -> Result<bool, OpenError> {
    let behind = point.position % geometry.log_bytes();
    Ok(later_record_from(device, geometry, salt, point, behind)?
        || later_record_from(device, geometry, salt, point, 0)?)
}

fn later_record_from(
    device: &mut dyn ReadAt,
    geometry: &Geometry,
    salt: u64,
    point: LogPoint,
    from: u64,
) -> Result<bool, OpenError> {
    let size = geometry.log_bytes();
    let mut ahead = 0;
    while ahead < SEARCH_BYTES.min(size) {
        let at = (from + ahead) % size;
        let len = (1 << 20).min(size - at);
        let bytes = read_bytes(device, geometry.log_start() * BLOCK + at, len as usize)?;
        for (index, block) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            let Some(header) = Header::parse(salt, block) else { continue };
            let at = at + index as u64 * BLOCK;
            if header.point.sequence <= point.sequence
                || header.durable < point.sequence
                || header.point.position % size != at
                || header.len as u64 > size - at
            {
                continue;
            }
            let whole = read_bytes(device, geometry.log_start() * BLOCK + at, header.len)?;
            if header.matches(salt, &whole) {
                return Ok(true);
            }
        }
        ahead += len;
    }
    Ok(false)
}

/// The entries of a whole record.
fn cut(header: &Header, bytes: &Bytes) -> Result<Vec<Bytes>, Malformed> {
    let bad = Malformed::new("log record", "has an entry beyond its end");
    let (mut entries, mut at) = (Vec::new(), HEADER);
    while at < header.text {
        let body = at.checked_add(4).filter(|&body| body <= header.text).ok_or(bad.clone())?;
        let len = u32::from_le_bytes(bytes[at..body].try_into().expect("four bytes")) as usize;
        at = body.checked_add(len).filter(|&end| end <= header.text).ok_or(bad.clone())?;
        entries.push(bytes.slice(body..at));
    }
    if entries.len() == header.entries as usize { Ok(entries) } else { Err(bad) }
}
