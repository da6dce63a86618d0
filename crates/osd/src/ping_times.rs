//! How long another OSD takes to answer pings: the last, and by minutes of late.
//!
//! Owns what `dump_osd_network` shows of one peer. Spans and means as in Ceph v16.2 `src/osd/OSD.h`
//! (`HeartbeatInfo`, `hb_average_count`): each minute's pings make one mean, one least and one most, of which the last
//! 1, 5 and 15 are looked at.

use admin::{Value, object};
use base::{Duration, Instant};
use std::collections::VecDeque;

/// Minutes that are remembered.
const MINUTES_KEPT: usize = 15;

/// The spans that are shown, in minutes.
const SPANS: [(&str, usize); 3] = [("1min", 1), ("5min", 5), ("15min", MINUTES_KEPT)];

/// The answers of one minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Minute {
    began: Instant,
    count: u32,
    sum: Duration,
    min: Duration,
    max: Duration,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PingTimes {
    /// The newest last; it is not over yet.
    minutes: VecDeque<Minute>,
    last: Duration,
    last_at: Instant,
}

impl PingTimes {
    /// A ping was answered after this time.
    pub fn note(&mut self, now: Instant, took: Duration) {
        (self.last, self.last_at) = (took, now);
        match self.minutes.back_mut().filter(|minute| now < minute.began + Duration::from_secs(60)) {
            Some(minute) => {
                minute.count += 1;
                minute.sum += took;
                (minute.min, minute.max) = (minute.min.min(took), minute.max.max(took));
            }
            None => {
                if self.minutes.len() == MINUTES_KEPT {
                    self.minutes.pop_front();
                }
                self.minutes.push_back(Minute { began: now, count: 1, sum: took, min: took, max: took });
            }
        }
    }

    /// The longest of the means shown; none before the first answer.
    pub fn worst(&self) -> Option<Duration> {
        SPANS.iter().filter_map(|(_, minutes)| self.mean(*minutes)).max()
    }

    fn of_late(&self, minutes: usize) -> impl Iterator<Item = &Minute> {
        self.minutes.iter().rev().take(minutes)
    }

    fn mean(&self, minutes: usize) -> Option<Duration> {
        let (count, sum) =
            self.of_late(minutes).fold((0, Duration::ZERO), |(count, sum), m| (count + m.count, sum + m.sum));
        (count > 0).then(|| sum / count)
    }

    /// The members that an entry of `dump_osd_network` has of these, in milliseconds.
    pub fn value(&self) -> Value {
        let spans = |of: &dyn Fn(usize) -> Option<Duration>| {
            Value::members(SPANS.map(|(name, minutes)| (name, millis(of(minutes).unwrap_or_default()))))
        };
        object! {
            "average" => spans(&|minutes| self.mean(minutes)),
            "min" => spans(&|minutes| self.of_late(minutes).map(|m| m.min).min()),
            "max" => spans(&|minutes| self.of_late(minutes).map(|m| m.max).max()),
            "last" => millis(self.last),
        }
    }

    /// When the last answer came.
    pub fn last_at(&self) -> Instant {
        self.last_at
    }
}

fn millis(span: Duration) -> Value {
    Value::Digits(format!("{:.3}", span.as_secs_f64() * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_told_apart_and_old_ones_go() {
        let (mut times, at) = (PingTimes::default(), Instant::from_secs);
        assert_eq!((times.worst(), times.mean(1)), (None, None));
        for second in 0..60 * 20 {
            // The first minute is the slowest, and forgotten at the end.
            let ms = if second < 60 { 900 } else { 1 + second % 2 * 2 };
            times.note(at(1000 + second), Duration::from_millis(ms));
            if second == 65 {
                assert_eq!(times.worst(), Some(Duration::from_millis(900 * 60 + 3 + 1 + 3 + 1 + 3 + 1) / 66));
            }
        }
        assert_eq!((times.minutes.len(), times.last_at()), (MINUTES_KEPT, at(1000 + 60 * 20 - 1)));
        assert_eq!([1, 5, 15].map(|minutes| times.mean(minutes)), [Some(Duration::from_millis(2)); 3]);
        let shown = times.value().to_json();
        assert!(
            shown.starts_with(r#"{"average":{"1min":2.000,"5min":2.000,"15min":2.000},"min":{"1min":1.000"#),
            "{shown}"
        );
        assert!(shown.ends_with(r#""15min":3.000},"last":3.000}"#), "{shown}");
    }
}
