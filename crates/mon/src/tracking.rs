//! Requests on their way through the monitor, and the slowest of late: `ops`, `dump_historic_ops`.
//!
//! Follows Ceph v16.2 `src/mon/MonOpRequest.h` for the shape. A request is handled at once; what may take time is the
//! batch that its answer waits for. So a request is under way as long as that batch is not on disk.
//!
//! Invariant: the queue's batches never decrease: requests end in the order in which they came.

use crate::mon::Mon;
use crate::outbox::PersistId;
use admin::ops::{History, HistoryLimits, OpView, Tracked};
use admin::{Value, object};
use base::{Duration, Instant};
use std::collections::VecDeque;
use wire::messages::Message;

/// Requests under way that are remembered; more are waiting for the disk only if it has stopped.
const UNDER_WAY_MAX: usize = 1024;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    seq: u64,
    description: String,
    source: String,
    initiated: Instant,
    done: Option<Instant>,
}

impl Tracked for Request {
    fn initiated(&self) -> Instant {
        self.initiated
    }

    fn done(&self) -> Instant {
        self.done.unwrap_or(self.initiated)
    }

    fn view(&self) -> OpView {
        let mut events: Vec<(String, Instant)> =
            ["initiated", "mon:_ms_dispatch", "mon:dispatch_op"].map(|name| (name.to_owned(), self.initiated)).into();
        match self.done {
            Some(at) => events.push(("done".to_owned(), at)),
            None => events.push(("wait_for_finished_proposal".to_owned(), self.initiated)),
        }
        let info = object! {
            "seq" => self.seq,
            "src_is_mon" => false,
            "source" => self.source.as_str(),
            "forwarded_to_leader" => false,
        };
        OpView {
            description: self.description.clone(),
            initiated: self.initiated,
            done: self.done,
            flag_point: "",
            client: None,
            info: Some(info),
            events,
        }
    }
}

/// What is kept of requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    count: u64,
    under_way: VecDeque<(PersistId, Request)>,
    history: History<Request>,
}

impl Requests {
    /// Keeps to other limits from now on.
    pub(crate) fn set_limits(&mut self, limits: HistoryLimits) {
        self.history.set_limits(limits);
    }

    /// A request that has arrived; counts it.
    pub(crate) fn begin(&mut self, now: Instant, description: String, source: String) -> Request {
        self.count += 1;
        Request { seq: self.count, description, source, initiated: now, done: None }
    }

    /// It has been handled: it is done, or its answer waits for a batch.
    pub(crate) fn handled(&mut self, now: Instant, request: Request, waits_for: Option<PersistId>) {
        match waits_for {
            Some(batch) if self.under_way.len() < UNDER_WAY_MAX => self.under_way.push_back((batch, request)),
            _ => self.finish(now, request),
        }
    }

    /// A batch is on disk.
    pub(crate) fn persisted(&mut self, now: Instant, batch: PersistId) {
        while self.under_way.front().is_some_and(|(waits_for, _)| *waits_for <= batch) {
            let (_, request) = self.under_way.pop_front().expect("the front was just seen");
            self.finish(now, request);
        }
    }

    fn finish(&mut self, now: Instant, request: Request) {
        if self.history.wants(now.since(request.initiated)) {
            self.history.keep(now, Request { done: Some(now), ..request });
        }
    }

    /// Those under way, as `ops` shows them.
    pub(crate) fn under_way_value(&self, now: Instant) -> Value {
        let views: Vec<OpView> = self.under_way.iter().map(|(_, request)| request.view()).collect();
        admin::ops::in_flight_value(now, &views)
    }

    /// The slowest of late, as `dump_historic_ops` shows them.
    pub(crate) fn history_value(&mut self, now: Instant) -> Value {
        self.history.value(now, false)
    }

    /// The last slow ones, as `dump_historic_slow_ops` shows them.
    pub(crate) fn slow_value(&self, now: Instant) -> Value {
        self.history.slow_value(now)
    }
}

/// A message in a line, as Ceph prints the ones that people look for.
pub(crate) fn describe(message: &Message) -> String {
    match message {
        Message::MonCommand(m) => format!("mon_command({} v {})", m.command.concat(), m.paxos.version),
        Message::Command(m) => format!("command({})", m.command.concat()),
        Message::MgrCommand(m) => format!("mgr_command({})", m.command.concat()),
        Message::MonSubscribe(m) => {
            let topics: Vec<String> = m.what.iter().map(|(what, from)| format!("{what}={}", from.start)).collect();
            format!("mon_subscribe({{{}}})", topics.join(","))
        }
        Message::Log(m) => {
            let first = m.entries.first().map_or(0, |entry| entry.seq);
            format!("log({} entries from seq {first})", m.entries.len())
        }
        Message::PgStats(m) => format!("pg_stats({} pgs v {})", m.pg_stats.len(), m.epoch),
        other => other.name().to_owned(),
    }
}

impl Mon {
    /// Takes over how much is kept of requests.
    pub(crate) fn apply_history_options(&mut self) {
        let number = |name: &str| self.option_number(name).clamp(0.0, 1e6);
        let limits = HistoryLimits {
            ops: number("mon_op_history_size") as usize,
            age: Duration::from_secs_f64(number("mon_op_history_duration")),
            slow_ops: number("mon_op_history_slow_op_size") as usize,
            slow: Duration::from_secs_f64(number("mon_op_history_slow_op_threshold")),
        };
        self.requests.set_limits(limits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_under_way_until_their_batch_is_on_disk() {
        let mut requests = Requests::default();
        let at = Instant::from_secs;
        let [one, two, three] = ["one", "two", "three"].map(|name| requests.begin(at(5), name.into(), "x".into()));
        requests.handled(at(5), one, None);
        requests.handled(at(5), two, Some(PersistId(1)));
        requests.handled(at(5), three, Some(PersistId(2)));
        let shown = requests.under_way_value(at(6)).to_json();
        assert!(shown.contains(r#""num_ops":2"#) && shown.contains("wait_for_finished_proposal"), "{shown}");
        assert!(!shown.contains("flag_point") && shown.contains(r#""info":{"seq":2,"src_is_mon":false"#), "{shown}");
        requests.persisted(at(7), PersistId(1));
        assert!(requests.under_way_value(at(7)).to_json().contains(r#""num_ops":1"#));
        requests.persisted(at(20), PersistId(2));
        let history = requests.history_value(at(20)).to_json();
        assert!(["one", "two", "three"].iter().all(|name| history.contains(name)), "{history}");
        let slow = requests.slow_value(at(20)).to_json();
        assert!(slow.contains("three") && !slow.contains("two"), "{slow}");
    }
}
