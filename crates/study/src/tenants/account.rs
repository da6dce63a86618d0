//! What each tenant asked for and got while it was measured.

use base::{Duration, Instant};
use std::collections::VecDeque;

/// How long a stretch of time is in which no more than a second's limit should be served.
const SECOND: Duration = Duration::from_secs(1);

/// The account of one tenant; times before it was opened do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) asked: u64,
    pub(super) served: u64,
    /// Requests that wait in queues.
    waiting: u32,
    /// Since when none waits, if none does.
    idle_since: Option<Instant>,
    idle: Duration,
    /// When the requests of the last second were served, and the most that were in any second.
    recent: VecDeque<Instant>,
    pub(super) most_in_a_second: usize,
    latencies_us: Vec<u32>,
}

impl Account {
    /// An account that is open from then on.
    pub(super) fn open(from: Instant) -> Account {
        Account { idle_since: Some(from), ..Account::default() }
    }

    /// A request has come to a queue.
    pub(super) fn queued(&mut self, now: Instant, measured: bool) {
        self.asked += u64::from(measured);
        self.waiting += 1;
        if let Some(since) = self.idle_since.take() {
            self.idle += now.since(since);
        }
    }

    /// A request was asked for that cannot be sent, as so many wait already.
    pub(super) fn unsent(&mut self, measured: bool) {
        self.asked += u64::from(measured);
    }

    /// How many requests wait in queues.
    pub(super) fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// A request has left its queue for the device.
    pub(super) fn begun(&mut self, now: Instant, from: Instant) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.idle_since = Some(now.max(from));
        }
    }

    /// A request has been served, after so long; only what is measured is told.
    pub(super) fn served(&mut self, now: Instant, latency: Duration) {
        self.served += 1;
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|at| now.since(*at) >= SECOND) {
            self.recent.pop_front();
        }
        self.most_in_a_second = self.most_in_a_second.max(self.recent.len());
        self.latencies_us.push(latency.as_micros().try_into().unwrap_or(u32::MAX));
    }

    /// The percentage of the time up to `end` in which a request of its waited in some queue.
    pub(super) fn backlog_percent(&self, from: Instant, end: Instant) -> f64 {
        let idle = self.idle + self.idle_since.map_or(Duration::ZERO, |since| end.since(since));
        100.0 * (1.0 - idle.as_secs_f64() / end.since(from).as_secs_f64())
    }

    /// In milliseconds, what 99% of its latencies are not above; 0 for none.
    pub(super) fn p99_ms(&mut self) -> f64 {
        let Some(place) = (self.latencies_us.len() * 99).div_ceil(100).checked_sub(1) else { return 0.0 };
        let (_, latency, _) = self.latencies_us.select_nth_unstable(place);
        f64::from(*latency) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_tells_backlog_latency_and_the_busiest_second() {
        let ms = |ms: u64| Instant::from_secs(10) + Duration::from_millis(ms);
        let (from, end) = (ms(0), ms(4000));
        let mut account = Account::open(from);
        for at in [0, 1000, 1500] {
            account.queued(ms(at), true);
        }
        (0..2).for_each(|_| account.begun(ms(2000), from));
        assert_eq!(account.backlog_percent(from, end), 100.0, "one waits still");
        account.begun(ms(3000), from);
        assert_eq!(account.backlog_percent(from, end), 75.0);
        account.unsent(true);
        assert_eq!((account.asked, account.waiting()), (4, 0), "what is not sent is asked for and does not wait");
        for n in 1..=200 {
            account.served(ms(10 * n), Duration::from_micros(n));
        }
        assert_eq!((account.asked, account.served, account.most_in_a_second), (4, 200, 100));
        assert_eq!(account.p99_ms(), 0.198);
        assert_eq!(Account::open(from).p99_ms(), 0.0);
    }
}
