//! Whether what a placement group's log has told stays told.
//!
//! When a group begins to serve, its members agree on a log. Every later one has the same entries up to there, but for
//! those that it has forgotten at its old end; and what follows was written since. So neither is anything lost that
//! was agreed on, nor does a write come back that was given up when the members agreed without it.
//!
//! A split and a merge make other logs of it; they begin anew.

use base::hash::FixedHashMap;
use base::{EVersion, Epoch, PgId};
use maps::PgPool;
use osd::testimony::ShownLog;

/// What was agreed on last, group by group.
#[derive(Debug, Default)]
pub(crate) struct Logs(FixedHashMap<PgId, Agreed>);

/// A log that members have agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Agreed {
    peering: Epoch,
    /// How many groups its pool has, and since when.
    resized: (u32, Epoch, Epoch),
    log: ShownLog,
}

impl Logs {
    /// Whether a group has begun to serve since this was looked at last.
    pub(crate) fn is_new(&self, pg: PgId, peering: Epoch) -> bool {
        self.0.get(&pg).is_none_or(|agreed| agreed.peering < peering)
    }

    /// A group has begun to serve with this log; says what is wrong with that.
    pub(crate) fn agreed(&mut self, pg: PgId, peering: Epoch, pool: &PgPool, mut log: ShownLog) -> Option<String> {
        // What came since may yet be given up.
        log.entries.retain(|(version, _)| version.epoch < peering);
        let resized = (pool.pg_num, pool.last_force_op_resend_prenautilus, pool.last_force_op_resend_preluminous);
        let now = Agreed { peering, resized, log };
        let before = self.0.insert(pg, now.clone()).filter(|before| before.resized == now.resized)?;
        let wrong = contradiction(&before, &now)?;
        Some(format!("pg {pg} in peering {peering}, after that of {}: {wrong}", before.peering))
    }
}

fn contradiction(before: &Agreed, now: &Agreed) -> Option<String> {
    let head = before.log.entries.last().map_or(before.log.tail, |(version, _)| *version);
    let both = before.log.tail.max(now.log.tail);
    let common = |agreed: &Agreed| {
        let within = |version: &EVersion| *version > both && *version <= head;
        agreed.log.entries.iter().copied().filter(|(version, _)| within(version)).collect::<Vec<_>>()
    };
    let (was, is) = (common(before), common(now));
    if was != is {
        let lost = was.iter().find(|entry| !is.contains(entry));
        let come = is.iter().find(|entry| !was.contains(entry));
        return Some(format!("its log has lost {lost:?} and has got {come:?}"));
    }
    let back = now.log.entries.iter().find(|(version, _)| *version > head && version.epoch < before.peering);
    back.map(|entry| format!("its log has {entry:?}, which was given up"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::osd::OsdReqId;

    fn log(tail: (u32, u64), entries: &[(u32, u64)]) -> ShownLog {
        let version = |(epoch, version): (u32, u64)| EVersion::new(Epoch(epoch), version);
        let entries = entries.iter().map(|at| (version(*at), OsdReqId { tid: at.1, ..OsdReqId::default() }));
        ShownLog { tail: version(tail), entries: entries.collect() }
    }

    fn look(logs: &mut Logs, peering: u32, log: ShownLog) -> Option<String> {
        logs.agreed(PgId::new(base::PoolId(1), 0), Epoch(peering), &PgPool::default(), log)
    }

    #[test]
    fn logs_grow_at_one_end_and_are_forgotten_at_the_other() {
        let mut logs = Logs::default();
        assert_eq!(look(&mut logs, 3, log((0, 0), &[(1, 1), (1, 2), (3, 3)])), None);
        assert_eq!(look(&mut logs, 5, log((1, 1), &[(1, 2), (4, 3)])), None, "the third had just come");
        assert_eq!(look(&mut logs, 6, log((5, 9), &[(5, 10)])), None, "nothing in common");
    }

    #[test]
    fn what_is_lost_or_comes_back_is_noticed() {
        let mut logs = Logs::default();
        assert_eq!(look(&mut logs, 3, log((0, 0), &[(1, 1), (1, 2)])), None);
        assert!(look(&mut logs, 4, log((0, 0), &[(1, 1)])).is_some_and(|why| why.contains("lost")));
        assert!(look(&mut logs, 5, log((0, 0), &[(1, 1), (1, 2)])).is_some_and(|why| why.contains("given up")));
        assert!(look(&mut logs, 6, log((0, 0), &[(1, 1), (2, 2)])).is_some_and(|why| why.contains("has got")));
    }
}
