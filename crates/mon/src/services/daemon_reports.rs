//! What daemons report to whoever does the manager's duties: their counters and health metrics.
//!
//! Follows Ceph v16.2 `src/mgr/DaemonState.cc` (`DaemonPerfCounters::update`) and `src/mgr/DaemonHealthMetric.h`. Nothing
//! of it is stored: a daemon says it again within seconds.
//!
//! Invariant: a report that does not fit its declarations changes nothing, and declarations live as long as the session
//! that made them: an OSD that was marked down and came back on it does not make them again.

use crate::limits::COUNTERS_PER_DAEMON_MAX;
use base::{Duration, Instant, OsdId};
use maps::OsdMap;
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Malformed};
use wire::messages::{CounterType, MgrReport};
use wire::net::ConnId;

/// The bit of counters that are means.
const MEAN: u8 = 4;

/// Requests that take too long (`daemon_metric::SLOW_OPS`).
const SLOW_OPS: u8 = 0;

/// What a counter said last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reported {
    /// The number, or a mean's sum (in nanoseconds where it is one of times).
    pub value: u64,
    /// How many were added up, for means.
    pub count: u64,
    /// By how much it grew a second between the last two reports.
    pub per_second: u64,
}

/// What one daemon has reported.
#[derive(Clone, Debug, Default)]
pub struct DaemonReport {
    /// Its counters by path.
    pub counters: BTreeMap<String, (CounterType, Reported)>,
    /// How many requests take too long, and the age of the oldest in seconds.
    pub slow_ops: (u32, u32),
    /// Its options as far as something gave them a value: by name, and by the number of what gave it (`CONF_*`).
    pub config: Option<BTreeMap<String, BTreeMap<i32, String>>>,
}

/// What was heard of an OSD on one session.
#[derive(Debug)]
struct Heard {
    session: ConnId,
    at: Instant,
    /// It has reported since it was last down.
    current: bool,
    report: DaemonReport,
}

/// All daemons' reports.
#[derive(Debug, Default)]
pub struct DaemonReports {
    osds: BTreeMap<OsdId, Heard>,
}

/// A health metric: its kind and its two numbers.
struct Metric(u8, u32, u32);

impl Decode for Metric {
    const MIN_BYTES: usize = 15;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("DaemonHealthMetric", 1, |d, _| Ok(Metric(d.u8()?, d.u32()?, d.u32()?)))
    }
}

fn per_second(growth: u64, apart: Option<Duration>) -> u64 {
    match apart.map(|apart| apart.as_nanos()) {
        None | Some(0) => 0,
        Some(ns) => u64::try_from(u128::from(growth) * 1_000_000_000 / ns).unwrap_or(u64::MAX),
    }
}

impl DaemonReports {
    /// Takes the report that an OSD made on a session.
    pub fn take(&mut self, now: Instant, session: ConnId, osd: OsdId, m: &MgrReport) -> Result<(), Malformed> {
        let before = self.osds.get(&osd).filter(|heard| heard.session == session);
        let mut report = before.map(|heard| heard.report.clone()).unwrap_or_default();
        if report.counters.len() + m.declared.len() > 2 * COUNTERS_PER_DAEMON_MAX {
            return Err(Malformed::new("MgrReport", "declares too many counters"));
        }
        m.undeclared.iter().for_each(|path| drop(report.counters.remove(path)));
        for kind in &m.declared {
            report.counters.insert(kind.path.clone(), (kind.clone(), Reported::default()));
        }
        if report.counters.len() > COUNTERS_PER_DAEMON_MAX {
            return Err(Malformed::new("MgrReport", "declares too many counters"));
        }
        // What is declared now has no former value to have grown from.
        let apart = before.map(|heard| now.since(heard.at)).filter(|_| m.declared.is_empty());
        let mut d = Decoder::shared(&m.packed);
        d.versioned("packed counters", 1, |d, _| {
            for (kind, reported) in report.counters.values_mut() {
                let value = d.u64()?;
                reported.per_second = per_second(value.saturating_sub(reported.value), apart);
                reported.value = value;
                if kind.kind & MEAN != 0 {
                    reported.count = d.u64()?;
                    d.u64()?;
                }
            }
            match d.remaining() {
                0 => Ok(()),
                _ => Err(Malformed::new("MgrReport", "has counters that were not declared")),
            }
        })?;
        let mut rest = Decoder::shared(&m.metrics.0);
        let metrics: Vec<Metric> = rest.get()?;
        // Empty where nothing has changed since the last report.
        let config = rest.blob()?;
        if !config.is_empty() {
            report.config = Some(Decoder::shared(&config).get()?);
        }
        let slow = metrics.iter().find(|metric| metric.0 == SLOW_OPS);
        report.slow_ops = slow.map_or((0, 0), |metric| (metric.1, metric.2));
        self.osds.insert(osd, Heard { session, at: now, current: true, report });
        Ok(())
    }

    /// Follows a new map: what OSDs that are down said is over. What one has declared holds while its session stands,
    /// whatever becomes of it in the map: it declares once a session.
    pub fn follow(&mut self, map: &OsdMap, stands: impl Fn(ConnId) -> bool) {
        self.osds.retain(|osd, heard| map.exists(*osd) || stands(heard.session));
        for (osd, heard) in &mut self.osds {
            heard.current &= map.is_up(*osd);
        }
    }

    /// What an OSD reported.
    pub fn of(&self, osd: OsdId) -> Option<&DaemonReport> {
        self.osds.get(&osd).filter(|heard| heard.current).map(|heard| &heard.report)
    }

    /// The OSDs' reports.
    pub fn osds(&self) -> impl Iterator<Item = (OsdId, &DaemonReport)> {
        self.osds.iter().filter(|(_, heard)| heard.current).map(|(osd, heard)| (*osd, &heard.report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Incremental, OsdState};
    use wire::codec::Encoder;
    use wire::messages::Rest;

    const NOW: Instant = Instant::from_secs(9);

    fn counter(path: &str, kind: u8) -> CounterType {
        CounterType { path: path.to_owned(), kind, ..CounterType::default() }
    }

    fn report(declared: Vec<CounterType>, values: &[u64], slow: Option<(u32, u32)>) -> MgrReport {
        let (mut packed, mut rest) = (Encoder::new(), Encoder::new());
        packed.versioned(1, 1, |e| values.iter().for_each(|v| e.u64(*v)));
        rest.len(slow.iter().count());
        if let Some((count, oldest)) = slow {
            rest.versioned(1, 1, |e| {
                e.u8(SLOW_OPS);
                e.u32(count);
                e.u32(oldest);
            });
        }
        rest.len(0);
        MgrReport {
            daemon_name: "0".to_owned(),
            declared,
            packed: packed.finish(),
            undeclared: Vec::new(),
            service_name: String::new(),
            daemon_status: None,
            metrics: Rest(rest.finish()),
        }
    }

    #[test]
    fn counters_are_declared_once_and_packed_by_name() {
        let (mut reports, osd, session) = (DaemonReports::default(), OsdId(0), ConnId(9));
        let kinds = vec![counter("osd.op_w", 10), counter("osd.op_latency", 5)];
        let taken = reports.take(NOW, session, osd, &report(kinds, &[7_000, 2, 2, 5], Some((3, 40))));
        assert_eq!(taken, Ok(()));
        let later = NOW + Duration::from_secs(3);
        assert_eq!(reports.take(later, session, osd, &report(vec![], &[9_000, 4, 4, 6], None)), Ok(()));
        let (_, shown) = reports.osds().next().expect("there is one");
        assert_eq!(shown.counters["osd.op_w"].1, Reported { value: 6, count: 0, per_second: 0 });
        assert_eq!(shown.counters["osd.op_latency"].1, Reported { value: 9_000, count: 4, per_second: 666 });
        assert_eq!(shown.slow_ops, (0, 0));
    }

    /// An OSD that `ceph osd down` marked down keeps its session and comes back: its reports once lost their meaning, as
    /// what it had declared was forgotten, and its counters were never seen again.
    #[test]
    fn declarations_outlive_a_mark_down() {
        let (mut reports, osd, session) = (DaemonReports::default(), OsdId(0), ConnId(9));
        let mut map = OsdMap::new(Default::default());
        let mut flip = |reports: &mut DaemonReports, bits: OsdState| {
            let mut inc = Incremental::new(Default::default(), map.epoch.next(), Default::default());
            inc.new_max_osd = Some(1);
            inc.new_state.insert(osd, bits);
            map.apply(&inc).expect("the next map");
            reports.follow(&map, |conn| conn == session);
        };
        flip(&mut reports, OsdState::EXISTS.with(OsdState::UP));
        reports.take(NOW, session, osd, &report(vec![counter("a", 10)], &[1], Some((3, 40)))).expect("fits");
        flip(&mut reports, OsdState::UP);
        assert!(reports.of(osd).is_none());
        flip(&mut reports, OsdState::UP);
        assert!(reports.of(osd).is_none(), "what it said before it was down is over");
        reports.take(NOW, session, osd, &report(vec![], &[5], None)).expect("fits");
        assert_eq!(reports.of(osd).expect("current").counters["a"].1.value, 5);
    }

    /// `ceph osd down` and `ceph osd rm` of an OSD that runs: what it said next could not be read, and where it was given
    /// its number back it was not heard again before its next session.
    #[test]
    fn declarations_outlive_a_removal_while_their_session_stands() {
        let (mut reports, osd, session) = (DaemonReports::default(), OsdId(0), ConnId(9));
        let nobody = OsdMap::new(Default::default());
        reports.take(NOW, session, osd, &report(vec![counter("a", 10)], &[1], None)).expect("fits");
        reports.follow(&nobody, |conn| conn == session);
        assert!(reports.of(osd).is_none());
        reports.take(NOW, session, osd, &report(vec![], &[5], None)).expect("what it declared holds");
        reports.follow(&nobody, |_| false);
        assert!(reports.take(NOW, session, osd, &report(vec![], &[6], None)).is_err());
    }

    #[test]
    fn a_new_session_declares_anew() {
        let (mut reports, osd) = (DaemonReports::default(), OsdId(0));
        reports
            .take(NOW, ConnId(1), osd, &report(vec![counter("a", 10), counter("b", 10)], &[1, 2], None))
            .expect("fits");
        assert!(reports.take(NOW, ConnId(2), osd, &report(vec![], &[3], None)).is_err());
        reports.take(NOW, ConnId(2), osd, &report(vec![counter("b", 10)], &[3], None)).expect("fits");
        assert_eq!(reports.of(osd).expect("current").counters.keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let (mut reports, osd, session) = (DaemonReports::default(), OsdId(0), ConnId(9));
        assert!(reports.take(NOW, session, osd, &report(vec![counter("a", 10)], &[], None)).is_err());
        let many = (0..=COUNTERS_PER_DAEMON_MAX).map(|n| counter(&n.to_string(), 10)).collect();
        assert!(reports.take(NOW, session, osd, &report(many, &[], None)).is_err());
        assert_eq!(reports.osds().count(), 0);
    }
}
