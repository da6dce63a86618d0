//! What a PG's record says of its scrubs: when there were any, of which version, and how many errors are left.
//!
//! Owns the encoding (ours, version 1, inside the record's). Its counterparts in Ceph are fields of `pg_history_t` and
//! `object_stat_sum_t` (v16.2 `src/osd/osd_types.h`).

use base::EVersion;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// The outcome of a PG's scrubs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubRecord {
    /// The last write before the last scrub.
    pub last: EVersion,
    /// When that ended.
    pub stamp: UTime,
    /// The last write before the last deep scrub.
    pub last_deep: EVersion,
    /// When that ended.
    pub deep_stamp: UTime,
    /// When a scrub last found nothing wrong.
    pub clean_stamp: UTime,
    /// Errors that a scrub finds without reading data, and that nobody has repaired.
    pub shallow_errors: u64,
    /// Errors in data and maps that nobody has repaired.
    pub deep_errors: u64,
}

impl ScrubRecord {
    /// The record of a PG that is new at this time: there is nothing to be scrubbed yet.
    pub fn new_at(stamp: UTime) -> ScrubRecord {
        ScrubRecord { stamp, deep_stamp: stamp, clean_stamp: stamp, ..ScrubRecord::default() }
    }

    /// All errors.
    pub fn errors(&self) -> u64 {
        self.shallow_errors + self.deep_errors
    }

    /// This one or another holder's, whichever tells of a later scrub.
    pub fn or_later(self, other: ScrubRecord) -> ScrubRecord {
        let at = |record: &ScrubRecord| record.stamp.max(record.deep_stamp);
        if at(&other) > at(&self) { other } else { self }
    }
}

impl Encode for ScrubRecord {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.last);
        e.put(&self.stamp);
        e.put(&self.last_deep);
        e.put(&self.deep_stamp);
        e.put(&self.clean_stamp);
        e.u64(self.shallow_errors);
        e.u64(self.deep_errors);
    }
}

impl Decode for ScrubRecord {
    const MIN_BYTES: usize = 64;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(ScrubRecord {
            last: d.get()?,
            stamp: d.get()?,
            last_deep: d.get()?,
            deep_stamp: d.get()?,
            clean_stamp: d.get()?,
            shallow_errors: d.u64()?,
            deep_errors: d.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Epoch;

    #[test]
    fn it_round_trips_and_the_later_one_counts() {
        let at = |secs| UTime { secs, nanos: 7 };
        let version = EVersion::new(Epoch(3), 9);
        let old = ScrubRecord::new_at(at(10));
        let new = ScrubRecord { last: version, stamp: at(20), shallow_errors: 2, deep_errors: 1, ..old.clone() };
        assert_eq!(ScrubRecord::from_bytes(&new.to_bytes()), Ok(new.clone()));
        assert_eq!((new.errors(), new.to_bytes().len()), (3, ScrubRecord::MIN_BYTES));
        assert_eq!(old.clone().or_later(new.clone()), new);
        assert_eq!(new.clone().or_later(old), new);
    }
}
