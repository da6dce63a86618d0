//! The states of a placement group, as bits and as text.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.{h,cc}` (`PG_STATE_*`, `pg_state_string`). The table is in the order of the
//! text: "active+clean+scrubbing+deep".

use core::fmt;

/// States of a placement group; several at once. Bits unknown here are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgState(pub u64);

macro_rules! states {
    ($($name:ident = $bit:literal, $text:literal, $doc:literal;)*) => {
        impl PgState {
            $(#[doc = $doc] pub const $name: PgState = PgState(1 << $bit);)*

            const NAMES: &'static [(u64, &'static str)] = &[$((1 << $bit, $text)),*];
        }
    };
}

states! {
    STALE = 17, "stale", "Its OSDs do not report any more.";
    CREATING = 0, "creating", "Being made.";
    ACTIVE = 1, "active", "Serves ops.";
    ACTIVATING = 24, "activating", "Peered, about to serve.";
    CLEAN = 2, "clean", "Every copy is where it should be.";
    RECOVERY_WAIT = 22, "recovery_wait", "Waits for a turn to recover.";
    RECOVERY_TOOFULL = 28, "recovery_toofull", "An OSD is too full to recover to.";
    RECOVERING = 14, "recovering", "Missing copies are being made.";
    FORCED_RECOVERY = 30, "forced_recovery", "An operator put it first.";
    DOWN = 4, "down", "An OSD that is needed to know the truth is down.";
    RECOVERY_UNFOUND = 5, "recovery_unfound", "Recovery stopped: objects nobody has.";
    BACKFILL_UNFOUND = 6, "backfill_unfound", "Backfill stopped: objects nobody has.";
    UNDERSIZED = 23, "undersized", "Has fewer OSDs than the pool's size.";
    DEGRADED = 10, "degraded", "Some copies are missing.";
    REMAPPED = 18, "remapped", "Served by other OSDs than placement says.";
    PREMERGE = 7, "premerge", "Waits to be merged.";
    SCRUBBING = 8, "scrubbing", "Copies are being compared.";
    DEEP_SCRUB = 19, "deep", "Data is being compared, too.";
    INCONSISTENT = 11, "inconsistent", "Copies differ.";
    PEERING = 12, "peering", "Its OSDs are agreeing on the truth.";
    REPAIR = 13, "repair", "Differences are being mended.";
    BACKFILL_WAIT = 15, "backfill_wait", "Waits for a turn to backfill.";
    BACKFILLING = 20, "backfilling", "A whole copy is being made.";
    FORCED_BACKFILL = 31, "forced_backfill", "An operator put it first.";
    BACKFILL_TOOFULL = 21, "backfill_toofull", "An OSD is too full to backfill to.";
    INCOMPLETE = 16, "incomplete", "What is left is not enough to know the truth.";
    PEERED = 25, "peered", "Agreed, but too few OSDs to serve.";
    SNAPTRIM = 26, "snaptrim", "Removed snapshots are being trimmed.";
    SNAPTRIM_WAIT = 27, "snaptrim_wait", "Waits for a turn to trim.";
    SNAPTRIM_ERROR = 29, "snaptrim_error", "Trimming stopped.";
    FAILED_REPAIR = 32, "failed_repair", "Not everything could be mended.";
    LAGGY = 33, "laggy", "Its leases ran out: slow heartbeats.";
    WAIT = 34, "wait", "Waits for an earlier primary's lease to run out.";
}

impl PgState {
    /// Are all of these set?
    pub fn contains(self, states: PgState) -> bool {
        self.0 & states.0 == states.0
    }

    /// With these set.
    pub const fn with(self, states: PgState) -> PgState {
        PgState(self.0 | states.0)
    }

    /// With these clear.
    pub fn without(self, states: PgState) -> PgState {
        PgState(self.0 & !states.0)
    }

    /// The names of the states that are set, in the text's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name)
    }

    /// The state of that name; "unknown" is none at all.
    pub fn from_name(name: &str) -> Option<PgState> {
        match name {
            "unknown" => Some(PgState(0)),
            _ => Self::NAMES.iter().find(|(_, known)| *known == name).map(|(bit, _)| PgState(*bit)),
        }
    }
}

impl fmt::Display for PgState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.names();
        f.write_str(names.next().unwrap_or("unknown"))?;
        names.try_for_each(|name| write!(f, "+{name}"))
    }
}

impl fmt::Debug for PgState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_cephs_order() {
        let state = PgState::DEEP_SCRUB.with(PgState::CLEAN).with(PgState::SCRUBBING).with(PgState::ACTIVE);
        assert_eq!(state.to_string(), "active+clean+scrubbing+deep");
        assert_eq!(PgState(0).to_string(), "unknown");
        assert_eq!(
            PgState::UNDERSIZED.with(PgState::DEGRADED).with(PgState::PEERED).to_string(),
            "undersized+degraded+peered"
        );
    }

    #[test]
    fn every_name_is_of_one_bit_and_found_again() {
        let mut seen = 0u64;
        for (bit, name) in PgState::NAMES {
            assert_eq!((bit.count_ones(), seen & bit), (1, 0), "{name}");
            seen |= bit;
            assert_eq!(PgState::from_name(name), Some(PgState(*bit)));
        }
    }
}
