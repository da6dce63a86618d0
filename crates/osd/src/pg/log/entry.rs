//! One write, as a log names it.
//!
//! Owns the encoding of entries (ours, version 2, or 3 for what was given up), on disk and between holders. Its
//! counterpart in Ceph is `pg_log_entry_t` (v16.2 `src/osd/osd_types.h`). Read next: `packed`, how a log holds them.

use crate::pg::info::Totals;
use base::{EVersion, SnapId};
use bytes::Bytes;
use store::ObjectId;
use wire::osd::OsdReqId;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// What an operator made of an object of which no holder was left (`lost`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// It is as it was at this version.
    Reverted(EVersion),
    /// It is gone.
    Deleted,
}

impl Encode for Lost {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Lost::Reverted(to) => {
                e.u8(0);
                e.put(to);
            }
            Lost::Deleted => e.u8(1),
        }
    }
}

impl Decode for Lost {
    const MIN_BYTES: usize = 1;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.u8()? {
            0 => Ok(Lost::Reverted(d.get()?)),
            1 => Ok(Lost::Deleted),
            _ => Err(Malformed::new("lost object", "is nothing that it may be")),
        }
    }
}

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// Its place in the PG's history.
    pub version: EVersion,
    /// The version its object had before; zero for a new one.
    pub prior: EVersion,
    /// The object.
    pub object: ObjectId,
    /// Its clones that the write made, changed or removed.
    pub clones: Vec<SnapId>,
    /// Whether the write left no object; of a write aside, whether it gave up what there was.
    pub deletes: bool,
    /// Whether it changed nothing that anybody sees: it failed, or there was nothing to do, and it is here so that a
    /// resent request gets the same answer (Ceph's `ERROR` entries); or it wrote a part of a copy aside.
    pub changes_nothing: bool,
    /// Whose it is; nobody's for a write aside.
    pub reqid: OsdReqId,
    /// The user version it gave the object.
    pub user_version: u64,
    /// What the client was answered.
    pub result: i32,
    /// Results and outputs of its ops, where the client wanted them.
    pub outputs: Vec<(i32, Bytes)>,
    /// What the PG holds after it.
    pub totals: Totals,
    /// What the object was given up for; none for a write.
    pub lost: Option<Lost>,
}

/// What an entry's encoding begins with: a write, or what was given up.
const WRITE: u8 = 2;
const GIVEN_UP: u8 = 3;

impl Encode for LogEntry {
    fn encode(&self, e: &mut Encoder) {
        e.u8(if self.lost.is_some() { GIVEN_UP } else { WRITE });
        e.put(&self.version);
        e.put(&self.prior);
        e.put(&self.object);
        e.put(&self.clones);
        e.bool(self.deletes);
        e.bool(self.changes_nothing);
        e.put(&self.reqid);
        e.u64(self.user_version);
        e.i32(self.result);
        e.put(&self.outputs);
        e.put(&self.totals);
        if let Some(lost) = &self.lost {
            e.put(lost);
        }
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 118;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let format = d.u8()?;
        if !matches!(format, WRITE | GIVEN_UP) {
            return Err(Malformed::new("log entry", "has an unknown version"));
        }
        Ok(LogEntry {
            version: d.get()?,
            prior: d.get()?,
            object: d.get()?,
            clones: d.get()?,
            deletes: d.bool()?,
            changes_nothing: d.bool()?,
            reqid: d.get()?,
            user_version: d.u64()?,
            result: d.i32()?,
            outputs: d.get()?,
            totals: d.get()?,
            lost: if format == GIVEN_UP { Some(d.get()?) } else { None },
        })
    }
}
