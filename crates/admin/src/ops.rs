//! Operations as they are shown: under way, of late, slow.
//!
//! Owns the shape (v16.2 `src/common/TrackedOp.cc`, `src/osd/OpRequest.cc`) and the bounded history: the slowest
//! operations of the last while. An operation's stages are time stamps in the request itself; nothing is formatted
//! until somebody asks, and an operation that is not among the slowest costs the history one comparison.

use crate::format::Value;
use crate::format::quantity::local_time;
use crate::object;
use base::{Duration, Instant};
use std::collections::VecDeque;

/// An operation as a person sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct OpView {
    /// What is asked, of which object, by whom.
    pub description: String,
    /// When it arrived.
    pub initiated: Instant,
    /// When it was done; none while it is under way.
    pub done: Option<Instant>,
    /// How far it is, in Ceph's words.
    pub flag_point: &'static str,
    /// Who asks: entity, address, and the request's number there.
    pub client: Option<(String, String, u64)>,
    /// What a daemon shows of it in place of the two above, where they mean nothing.
    pub info: Option<Value>,
    /// Its stages in order.
    pub events: Vec<(String, Instant)>,
}

fn seconds(span: Duration) -> Value {
    Value::Float(span.as_secs_f64())
}

impl OpView {
    /// As `dump_ops_in_flight` and its kin show it.
    pub fn value(&self, now: Instant) -> Value {
        let end = self.done.unwrap_or(now);
        let mut data = Value::object();
        if self.info.is_none() {
            data.push("flag_point", self.flag_point);
        }
        if let Some((client, addr, tid)) = &self.client {
            data.push("client_info", object! { "client" => client, "client_addr" => addr, "tid" => *tid });
        }
        let mut ends = self.events.iter().skip(1).map(|(_, at)| *at);
        let events = self.events.iter().map(|(name, at)| {
            // The last stage lasts until now, and that of a finished operation shows the whole.
            let span = ends.next().map_or_else(
                || if self.done.is_some() { end.since(self.initiated) } else { end.since(*at) },
                |next| next.since(*at),
            );
            object! { "event" => name, "time" => local_time(*at), "duration" => seconds(span) }
        });
        data.push("events", Value::Array(events.collect()));
        if let Some(info) = &self.info {
            data.push("info", info.clone());
        }
        object! {
            "description" => &self.description,
            "initiated_at" => local_time(self.initiated),
            "age" => seconds(now.since(self.initiated)),
            "duration" => seconds(end.since(self.initiated)),
            "type_data" => data,
        }
    }
}

/// The operations under way, as `ops` and `dump_ops_in_flight` show them.
pub fn in_flight_value(now: Instant, ops: &[OpView]) -> Value {
    object! { "ops" => Value::array(ops.iter().map(|op| op.value(now))), "num_ops" => ops.len() }
}

/// Those that take longer than `complaint`, as `dump_blocked_ops` shows them.
pub fn blocked_value(now: Instant, ops: &[OpView], complaint: Duration) -> Value {
    let blocked: Vec<Value> =
        ops.iter().filter(|op| now.since(op.initiated) > complaint).map(|op| op.value(now)).collect();
    let count = blocked.len();
    let complaint = crate::format::value::percent_g(complaint.as_secs_f64(), 6);
    object! { "ops" => Value::Array(blocked), "complaint_time" => Value::Digits(complaint), "num_blocked_ops" => count }
}

/// An operation that a history can keep.
pub trait Tracked {
    /// When it arrived.
    fn initiated(&self) -> Instant;
    /// When it was done.
    fn done(&self) -> Instant;
    /// How it looks.
    fn view(&self) -> OpView;

    /// How long it took.
    fn took(&self) -> Duration {
        self.done().since(self.initiated())
    }
}

/// How much a history keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryLimits {
    /// Operations (`osd_op_history_size`).
    pub ops: usize,
    /// For how long (`osd_op_history_duration`).
    pub age: Duration,
    /// Slow operations (`osd_op_history_slow_op_size`).
    pub slow_ops: usize,
    /// What counts as slow (`osd_op_history_slow_op_threshold`).
    pub slow: Duration,
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        let (age, slow) = (Duration::from_secs(600), Duration::from_secs(10));
        HistoryLimits { ops: 20, age, slow_ops: 20, slow }
    }
}

/// The slowest operations of the last while, and the last slow ones.
#[derive(Debug)]
pub struct History<T> {
    limits: HistoryLimits,
    kept: Vec<T>,
    /// What an operation must exceed to be kept: the least of a full history.
    floor: Option<Duration>,
    /// When the oldest one kept is too old.
    expiry: Instant,
    slow: VecDeque<OpView>,
}

impl<T> Default for History<T> {
    fn default() -> History<T> {
        let limits = HistoryLimits::default();
        History { limits, kept: Vec::new(), floor: None, expiry: Instant::ZERO, slow: VecDeque::new() }
    }
}

impl<T: Tracked> History<T> {
    /// Keeps to other limits from now on.
    pub fn set_limits(&mut self, limits: HistoryLimits) {
        self.limits = limits;
        self.kept.sort_by_key(|op| core::cmp::Reverse(op.took()));
        self.kept.truncate(limits.ops);
        self.slow.truncate(limits.slow_ops);
        self.settle();
    }

    /// Whether an operation that took so long would be kept.
    pub fn wants(&self, took: Duration) -> bool {
        self.limits.ops > 0 && self.floor.is_none_or(|floor| took > floor) || took >= self.limits.slow
    }

    /// Takes a finished operation that `wants` wants.
    pub fn keep(&mut self, now: Instant, op: T) {
        if op.took() >= self.limits.slow && self.limits.slow_ops > 0 {
            if self.slow.len() >= self.limits.slow_ops {
                self.slow.pop_front();
            }
            self.slow.push_back(op.view());
        }
        self.expire(now);
        if self.floor.is_some_and(|floor| op.took() <= floor) || self.limits.ops == 0 {
            return;
        }
        if self.kept.len() >= self.limits.ops
            && let Some((least, _)) = self.kept.iter().enumerate().min_by_key(|(_, op)| op.took())
        {
            self.kept.swap_remove(least);
        }
        self.kept.push(op);
        self.settle();
    }

    /// Forgets what is too old.
    pub fn expire(&mut self, now: Instant) {
        if now >= self.expiry && !self.kept.is_empty() {
            let age = self.limits.age;
            self.kept.retain(|op| op.initiated() + age > now);
            self.settle();
        }
    }

    fn settle(&mut self) {
        let full = self.kept.len() >= self.limits.ops;
        self.floor = self.kept.iter().map(Tracked::took).min().filter(|_| full);
        let oldest = self.kept.iter().map(Tracked::initiated).min();
        self.expiry = oldest.map_or(Instant::ZERO, |at| at + self.limits.age);
    }

    /// As `dump_historic_ops` shows it, or `dump_historic_ops_by_duration`.
    pub fn value(&mut self, now: Instant, by_duration: bool) -> Value {
        self.expire(now);
        let mut kept: Vec<&T> = self.kept.iter().collect();
        match by_duration {
            true => kept.sort_by_key(|op| core::cmp::Reverse(op.took())),
            false => kept.sort_by_key(|op| op.initiated()),
        }
        object! {
            "size" => self.limits.ops,
            "duration" => self.limits.age.as_secs(),
            "ops" => Value::array(kept.into_iter().map(|op| op.view().value(now))),
        }
    }

    /// As `dump_historic_slow_ops` shows it.
    pub fn slow_value(&self, now: Instant) -> Value {
        let threshold = crate::format::value::percent_g(self.limits.slow.as_secs_f64(), 6);
        object! {
            "num to keep" => self.limits.slow_ops,
            "threshold to keep" => Value::Digits(threshold),
            "Ops" => Value::array(self.slow.iter().map(|op| op.value(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Op(u64, u64);

    impl Tracked for Op {
        fn initiated(&self) -> Instant {
            Instant::from_secs(self.0)
        }
        fn done(&self) -> Instant {
            Instant::from_secs(self.0 + self.1)
        }
        fn view(&self) -> OpView {
            OpView {
                description: format!("op {}", self.1),
                initiated: self.initiated(),
                done: Some(self.done()),
                flag_point: "started",
                client: None,
                info: None,
                events: vec![("initiated".to_owned(), self.initiated()), ("done".to_owned(), self.done())],
            }
        }
    }

    fn names(value: &Value, list: &str) -> Vec<String> {
        let text = value.member(list).expect("there is a list").to_json();
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let ops = parsed.as_array().expect("a list").iter();
        ops.map(|op| op["description"].as_str().expect("text").to_owned()).collect()
    }

    #[test]
    fn the_slowest_of_late_are_kept() {
        let mut history = History::default();
        history.set_limits(HistoryLimits { ops: 3, slow_ops: 1, ..HistoryLimits::default() });
        for (at, took) in [(1000, 5), (1010, 1), (1020, 3), (1030, 4), (1040, 2), (1050, 11), (1060, 12)] {
            let op = Op(at, took);
            if history.wants(op.took()) {
                history.keep(op.done(), op);
            }
        }
        let now = Instant::from_secs(1100);
        assert_eq!(names(&history.value(now, false), "ops"), ["op 5", "op 11", "op 12"]);
        assert_eq!(names(&history.value(now, true), "ops"), ["op 12", "op 11", "op 5"]);
        assert!(!history.wants(Duration::from_secs(5)) && history.wants(Duration::from_secs(6)));
        assert_eq!(names(&history.slow_value(now), "Ops"), ["op 12"]);
        let later = Instant::from_secs(1655);
        assert_eq!(names(&history.value(later, true), "ops"), ["op 12"]);
        assert!(history.wants(Duration::from_nanos(1)), "there is room again");
    }

    #[test]
    fn an_operation_looks_like_cephs() {
        let text = Op(1_795_291_110, 2).view().value(Instant::from_secs(1_795_291_115)).to_json();
        let expected = concat!(
            r#"{"description":"op 2","initiated_at":"2026-11-21T19:58:30.000000+0000","age":5,"duration":2,"#,
            r#""type_data":{"flag_point":"started","events":["#,
            r#"{"event":"initiated","time":"2026-11-21T19:58:30.000000+0000","duration":2},"#,
            r#"{"event":"done","time":"2026-11-21T19:58:32.000000+0000","duration":2}]}}"#,
        );
        assert_eq!(text, expected);
        let blocked =
            blocked_value(Instant::from_secs(100), &[Op(10, 0).view(), Op(99, 0).view()], Duration::from_secs(30));
        assert_eq!(names(&blocked, "ops"), ["op 0"]);
        assert!(blocked.to_json().ends_with(r#""complaint_time":30,"num_blocked_ops":1}"#));
    }
}
