//! What a PG's holder knows about it, and keeps: the record by which peering decides.
//!
//! Owns the record's encoding (ours, version 5; of versions 3 and 4 it reads what there is). Its counterparts in Ceph
//! are `pg_info_t` and `pg_history_t`.

use super::scrub::record::ScrubRecord;
use base::{EVersion, Epoch, PoolId};
use bytes::Bytes;
use store::ObjectId;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// The attribute of the PG's record object that holds the `PgInfo`.
pub const INFO_KEY: Bytes = Bytes::from_static(b"info");

/// The object of a PG's collection that holds its record.
pub fn info_object() -> ObjectId {
    ObjectId::record("info")
}

/// What a PG holds, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Objects, with whiteouts and clones.
    pub objects: u64,
    /// Of these, clones.
    pub clones: u64,
    /// Bytes of their data; what a clone shares with the life after it counts once.
    pub bytes: u64,
}

impl Totals {
    /// Counts something as `after` that was counted as `before`.
    pub fn change(&mut self, before: Totals, after: Totals) {
        // What was only guessed may be less than what goes.
        let change = |total: &mut u64, before, after| *total = total.saturating_add(after).saturating_sub(before);
        change(&mut self.objects, before.objects, after.objects);
        change(&mut self.clones, before.clones, after.clones);
        change(&mut self.bytes, before.bytes, after.bytes);
    }
}

impl Encode for Totals {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.objects);
        e.u64(self.clones);
        e.u64(self.bytes);
    }
}

impl Decode for Totals {
    const MIN_BYTES: usize = 24;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Totals { objects: d.u64()?, clones: d.u64()?, bytes: d.u64()? })
    }
}

impl Totals {
    /// Each of `parts` equal parts.
    pub fn divided(&self, parts: u64) -> Totals {
        Totals { objects: self.objects / parts, clones: self.clones / parts, bytes: self.bytes / parts }
    }
}

/// How far the objects of a holder are those of its log, what it is missing aside. A holder whose log does not reach
/// the others' any more is filled in the order of objects; beyond this place it has what it happens to have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LastBackfill(Option<ObjectId>);

impl LastBackfill {
    /// Everything.
    pub const MAX: LastBackfill = LastBackfill(None);

    /// Nothing yet.
    pub fn nothing() -> LastBackfill {
        // The records of a PG come before every object.
        LastBackfill(Some(ObjectId::record("")))
    }

    /// Up to, without, `end`.
    pub fn before(end: ObjectId) -> LastBackfill {
        LastBackfill(Some(end))
    }

    /// The place after every object: who is filled up to there has everything but the word that it is complete.
    pub fn last_place() -> ObjectId {
        ObjectId::new(u32::MAX, &[0xFF; 257], b"", b"", base::SnapId::HEAD)
    }

    /// Every object has been compared, or was the log's all along: what is not as it should be is known to be missing.
    pub fn listed() -> LastBackfill {
        LastBackfill(Some(LastBackfill::last_place()))
    }

    /// Whether what is not as it should be is known to be missing.
    pub fn is_listed(&self) -> bool {
        self.0.as_ref().is_none_or(|end| *end == LastBackfill::last_place())
    }

    /// Where it ends; none for everything.
    pub fn end(&self) -> Option<&ObjectId> {
        self.0.as_ref()
    }

    /// As Ceph shows the place of an object of this pool (v16.2 `src/common/hobject.cc`).
    pub fn shown(&self, pool: PoolId) -> String {
        match &self.0 {
            Some(_) if *self == LastBackfill::nothing() => "MIN".to_owned(),
            Some(end) if !self.is_listed() => format!("{}:{end:?}", pool.0),
            _ => "MAX".to_owned(),
        }
    }

    /// Whether it is everything.
    pub fn is_max(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `head` and its clones are before its end.
    pub fn covers(&self, head: &ObjectId) -> bool {
        self.0.as_ref().is_none_or(|end| head < end)
    }
}

impl Encode for LastBackfill {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0);
    }
}

impl Decode for LastBackfill {
    const MIN_BYTES: usize = 1;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(LastBackfill(d.get()?))
    }
}

/// A PG's record.
///
/// `last_update`, `last_user_version` and `totals` are those of the newest log entry, where there is one: a write
/// stores its entry, not the record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgInfo {
    /// The newest write.
    pub last_update: EVersion,
    /// The write before the oldest log entry.
    pub log_tail: EVersion,
    /// The newest user version.
    pub last_user_version: u64,
    /// The map in which the PG was last made ready to serve with this holder as a member (`last_epoch_started`).
    pub last_epoch_started: Epoch,
    /// The map in which it was last known to be clean.
    pub last_epoch_clean: Epoch,
    /// How far its objects are those of its log.
    pub last_backfill: LastBackfill,
    /// What it holds.
    pub totals: Totals,
    /// What scrubs have come to.
    pub scrubs: ScrubRecord,
    /// How many PGs the pool had when this holder split or merged the PG last; 0 where nothing is stored yet.
    pub pg_num: u32,
    /// The map with which that was done, or the first one.
    pub resized_at: Epoch,
    /// Whether `totals` are a guess and the index of snapshots lacks clones since the PG was split (`survey`).
    pub unsettled: bool,
}

impl Encode for PgInfo {
    fn encode(&self, e: &mut Encoder) {
        e.u8(5);
        e.put(&self.last_update);
        e.put(&self.log_tail);
        e.u64(self.last_user_version);
        e.put(&self.last_epoch_started);
        e.put(&self.last_epoch_clean);
        e.put(&self.last_backfill);
        e.put(&self.totals);
        e.put(&self.scrubs);
        e.u32(self.pg_num);
        e.put(&self.resized_at);
        e.bool(self.unsettled);
    }
}

impl Decode for PgInfo {
    const MIN_BYTES: usize = 66;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let version = d.u8()?;
        if !matches!(version, 3..=5) {
            return Err(Malformed::new("pg info", "has an unknown version"));
        }
        let mut info = PgInfo {
            last_update: d.get()?,
            log_tail: d.get()?,
            last_user_version: d.u64()?,
            last_epoch_started: d.get()?,
            last_epoch_clean: d.get()?,
            last_backfill: d.get()?,
            totals: d.get()?,
            scrubs: if version >= 4 { d.get()? } else { ScrubRecord::default() },
            ..PgInfo::default()
        };
        if version >= 5 {
            (info.pg_num, info.resized_at, info.unsettled) = (d.u32()?, d.get()?, d.bool()?);
        }
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SnapId;

    #[test]
    fn how_far_a_holder_is_filled_is_shown_as_ceph_does() {
        let object = ObjectId::new(0x8000_0001, b"space", b"", b"name", SnapId(12));
        let all = [LastBackfill::nothing(), LastBackfill::before(object), LastBackfill::listed(), LastBackfill::MAX];
        assert_eq!(all.map(|last| last.shown(PoolId(3))), ["MIN", "3:80000001:space::name:c", "MAX", "MAX"]);
    }
}
