//! Who should serve a PG now: the up set as far as its members have what the log reaches, others who have it in the
//! places of those who do not, until they are filled.
//!
//! Follows Ceph v16.2 `src/osd/PeeringState.cc` (`calc_replicated_acting`, `choose_acting`). The wish goes to the monitor
//! as `pg_temp`; what comes of it is a new interval.

use super::Pg;
use super::info::PgInfo;
use super::peering::Answer;
use crate::core::{Core, Level};
use base::{Bug, EVersion, OsdId};
use std::collections::{BTreeMap, BTreeSet};

/// What OSDs have said.
type Answers = BTreeMap<OsdId, Answer>;

impl Pg {
    /// Who should serve, by what everybody said; `authority` has the log that all will have.
    pub(super) fn choose_acting(&self, core: &Core, answers: &Answers, authority: OsdId) -> Vec<OsdId> {
        let nothing = PgInfo::default();
        let info = |osd: &OsdId| answers.get(osd).and_then(|answer| answer.info.as_ref()).unwrap_or(&nothing);
        let log_tail = info(&authority).log_tail;
        let reaches = |osd: &OsdId, tail: EVersion| {
            let info = info(osd);
            answers.contains_key(osd) && info.last_backfill.is_max() && info.last_update >= tail
        };
        let primary = if reaches(&self.sets.up_primary, log_tail) { self.sets.up_primary } else { authority };
        let tail = log_tail.min(info(&primary).log_tail);
        let size = core.map.pool(self.id.pool).map_or(1, |pool| usize::from(pool.size));
        let mut wanted = vec![primary];
        let mut others: Vec<OsdId> = answers.keys().copied().collect();
        others.sort_by_key(|osd| (core::cmp::Reverse(info(osd).last_update), *osd));
        // Who is up belongs; who serves already is kept rather than replaced by another who might.
        let up = self.sets.up.iter().map(|osd| (*osd, false));
        let spare = self.sets.acting.iter().chain(&others).map(|osd| (*osd, true));
        for (osd, spare) in up.chain(spare) {
            let room = !spare || wanted.len() < size;
            if room && !wanted.contains(&osd) && core.map.is_up(osd) && reaches(&osd, tail) {
                wanted.push(osd);
            }
        }
        wanted
    }

    /// Whether `wanted` serves; if not, asks the monitor for that.
    pub(super) fn is_served_by(&self, core: &mut Core, wanted: Vec<OsdId>) -> bool {
        let set = |osds: &[OsdId]| osds.iter().copied().collect::<BTreeSet<_>>();
        let are = |osds: &[OsdId], primary: OsdId| wanted.first() == Some(&primary) && set(osds) == set(&wanted);
        let sets = &self.sets;
        let back = are(&sets.up, sets.up_primary);
        // Where the up set may serve, the map shall say no more than that.
        let differs = back && (&sets.up, sets.up_primary) != (&sets.acting, sets.acting_primary);
        if (!differs || Bug::PgTempKept.is_planted()) && are(&sets.acting, sets.acting_primary) {
            return true;
        }
        core.log(Level::Info, format!("pg {}: {:?} should serve, not {:?}", self.id, wanted, sets.acting));
        core.wishes.wish(self.id, if back { Vec::new() } else { wanted });
        false
    }
}
