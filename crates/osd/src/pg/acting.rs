//! Who should serve a PG now: the up set as far as its members have what the log reaches, others who have it in the
//! places of those who do not, until they are filled.
//!
//! A member whose log reaches and who lacks many objects would hold the writes to all of them. Where enough others serve
//! it does not: it only logs those writes and recovers beside them (asynchronous recovery), and serves again once it has
//! everything. Nor does it lead while it lacks much: its reads would wait.
//!
//! Follows Ceph v16.2 `src/osd/PeeringState.cc` (`calc_replicated_acting`, `choose_async_recovery_replicated`,
//! `choose_acting`). The wish goes to the monitor as `pg_temp`; what comes of it is a new interval.

use super::Pg;
use super::info::PgInfo;
use super::peering::Answer;
use crate::core::{Core, Level};
use base::{Bug, EVersion, OsdId};
use std::collections::{BTreeMap, BTreeSet};

/// How much those who serve may lack, in objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryLimits {
    /// A member, where enough others serve (`osd_async_recovery_min_cost`).
    pub member_lacks_max: u64,
    /// The primary (`osd_force_auth_primary_missing_objects`).
    pub primary_lacks_max: u64,
}

/// What OSDs have said.
type Answers = BTreeMap<OsdId, Answer>;

impl Pg {
    /// Who should serve, by what everybody said; `authority` has the log that all will have.
    pub(super) fn choose_acting(&self, core: &Core, answers: &Answers, authority: OsdId) -> Vec<OsdId> {
        let nothing = PgInfo::default();
        let info = |osd: &OsdId| answers.get(osd).and_then(|answer| answer.info.as_ref()).unwrap_or(&nothing);
        let (log_tail, head) = (info(&authority).log_tail, info(&authority).last_update);
        let reaches = |osd: &OsdId, tail: EVersion| {
            let info = info(osd);
            let touches = info.last_update >= tail && info.log_tail <= head;
            answers.contains_key(osd) && info.last_backfill.is_listed() && touches
        };
        // Versions alone may deceive: after a split there are some that a log passed through without an entry.
        let surely = |osd: &OsdId| {
            let is_entry = |version| self.log.contains(version);
            authority != core.me() || is_entry(info(osd).last_update) || is_entry(info(osd).log_tail)
        };
        // What it lacks, at the most: each write after its last may have been to another object.
        let newest = head.version;
        let lacks = |osd: &OsdId| {
            let known = answers.get(osd).map_or(0, |answer| answer.missing);
            known + newest.saturating_sub(info(osd).last_update.version)
        };
        let limits = core.recovery_limits;
        let leads = |osd: &OsdId| reaches(osd, log_tail) && surely(osd) && lacks(osd) <= limits.primary_lacks_max;
        let chosen = core.map.primary_temp.get(&self.id).copied();
        let primary = chosen.into_iter().chain([self.sets.up_primary]).find(leads).unwrap_or(authority);
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
        let min_size = core.map.pool(self.id.pool).map_or(1, |pool| usize::from(pool.min_size));
        let mut costly: Vec<(u64, OsdId)> = wanted[1..].iter().map(|osd| (lacks(osd), *osd)).collect();
        costly.retain(|(cost, osd)| *cost > limits.member_lacks_max && self.sets.up.contains(osd));
        costly.sort_unstable();
        let spared = wanted.len().saturating_sub(min_size);
        costly.iter().rev().take(spared).for_each(|(_, costly)| wanted.retain(|osd| osd != costly));
        wanted
    }

    /// Whether `wanted` serves; if not, asks the monitor for that.
    pub(super) fn is_served_by(&self, core: &mut Core, wanted: Vec<OsdId>) -> bool {
        let set = |osds: &[OsdId]| osds.iter().copied().collect::<BTreeSet<_>>();
        let are = |osds: &[OsdId], primary: OsdId| wanted.first() == Some(&primary) && set(osds) == set(&wanted);
        let sets = &self.sets;
        // Whom an operator has chosen to lead the up set leads it.
        let chosen = core.map.primary_temp.get(&self.id).copied();
        let back = are(&sets.up, chosen.unwrap_or(sets.up_primary)) || are(&sets.up, sets.up_primary);
        // Where the up set may serve, the map shall say no more than that.
        let differs = back && (&sets.up, wanted.first()) != (&sets.acting, Some(&sets.acting_primary));
        if (!differs || Bug::PgTempKept.is_planted()) && are(&sets.acting, sets.acting_primary) {
            return true;
        }
        core.log(Level::Info, format!("pg {}: {:?} should serve, not {:?}", self.id, wanted, sets.acting));
        core.wishes.wish(self.id, if back { Vec::new() } else { wanted });
        false
    }
}
