//! How far a recovery of the cluster is: one event from the first copy that is missing or misplaced until all groups are
//! clean again, and the events of the past.
//!
//! Follows Ceph v16.2 `src/pybind/mgr/progress/module.py` (`GlobalRecoveryEvent`) for names and for what is shown, but goes by
//! copies where that goes by placement groups: it moves while one group is filled.

use crate::format::{Value, quantity};
use crate::limits::PROGRESS_EVENTS_KEPT_MAX;
use crate::object;
use base::{Duration, Instant};
use std::collections::VecDeque;

/// The characters between a bar's brackets.
const BAR_CHARS: usize = 28;

/// One recovery.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    number: u64,
    began: Instant,
    ended: Option<Instant>,
    /// The most that there was to do.
    total: u64,
    left: u64,
}

impl Event {
    const MESSAGE: &str = "Global Recovery Event";

    /// Its name among events.
    pub fn id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.number)
    }

    /// The part that is done.
    pub fn done(&self) -> f64 {
        1.0 - self.left as f64 / self.total.max(1) as f64
    }

    fn span(&self, now: Instant) -> Duration {
        self.ended.unwrap_or(now).since(self.began)
    }

    /// How long it has taken, a bar, and how long it may take; the bar so far from the line's start.
    pub fn text(&self, now: Instant, indent: usize) -> String {
        let (done, age) = (self.done(), quantity::age(self.ended.map_or(self.span(now), |ended| now.since(ended))));
        let filled = (done * BAR_CHARS as f64) as usize;
        let bar = format!("[{}{}]", "=".repeat(filled), ".".repeat(BAR_CHARS.saturating_sub(filled)));
        let rest = match self.ended {
            None if done > 0.0 => {
                let left = Duration::from_secs_f64((self.span(now).as_secs_f64() * (1.0 - done) / done).min(1e9));
                format!("(remaining: {})", quantity::age(left))
            }
            _ => String::new(),
        };
        format!("{} ({age})\n{:indent$}{bar} {rest}", Self::MESSAGE, "")
    }

    /// As `progress json` shows it.
    pub fn value(&self) -> Value {
        let secs = |at: Instant| at.secs() as f64 + f64::from(at.subsec_nanos()) / 1e9;
        let mut value = object! {
            "id" => self.id(),
            "message" => Self::MESSAGE,
            "refs" => Value::array([Value::array(["global"])]),
            "started_at" => secs(self.began),
            "progress" => self.done(),
            "add_to_ceph_s:" => true,
        };
        if let Some(ended) = self.ended {
            value.push("finished_at", secs(ended));
        }
        value
    }
}

/// The recovery that goes on, and those of the past.
#[derive(Clone, Default, Debug)]
pub struct Progress {
    current: Option<Event>,
    completed: VecDeque<Event>,
    begun: u64,
}

impl Progress {
    /// So many copies are missing or misplaced now, in so many groups that are not clean.
    pub fn follow(&mut self, now: Instant, copies: u64, unclean: u64) {
        let left = copies + unclean;
        match &mut self.current {
            None if copies > 0 => {
                self.begun += 1;
                self.current = Some(Event { number: self.begun, began: now, ended: None, total: left, left });
            }
            None => {}
            Some(event) => {
                event.total = event.total.max(left);
                event.left = left;
            }
        }
        if unclean == 0
            && let Some(event) = self.current.take()
        {
            self.completed.push_back(Event { ended: Some(now), left: 0, ..event });
        }
        while self.completed.len() > PROGRESS_EVENTS_KEPT_MAX {
            self.completed.pop_front();
        }
    }

    /// Forgets what is over, and what goes on as if it began now.
    pub fn clear(&mut self) {
        self.current = None;
        self.completed.clear();
    }

    /// What goes on.
    pub fn current(&self) -> Option<&Event> {
        self.current.as_ref()
    }

    /// What is over, the latest last.
    pub fn completed(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.completed.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_one_event_from_the_first_missing_copy_to_the_last() {
        let mut progress = Progress::default();
        let at = Instant::from_secs;
        progress.follow(at(1), 0, 3);
        assert!(progress.current().is_none(), "groups that peer lack nothing");
        progress.follow(at(2), 90, 10);
        progress.follow(at(4), 190, 10);
        progress.follow(at(12), 45, 5);
        let event = progress.current().expect("it goes on");
        assert_eq!(event.done(), 0.75);
        let text = "Global Recovery Event (10s)\n      [=====================.......] (remaining: 3s)";
        assert_eq!(event.text(at(12), 6), text);
        progress.follow(at(14), 0, 1);
        assert!(progress.current().is_some(), "until all are clean");
        progress.follow(at(15), 0, 0);
        assert!(progress.current().is_none());
        let text = "Global Recovery Event (5s)\n    [============================] ";
        assert_eq!(progress.completed().map(|event| event.text(at(20), 4)).collect::<Vec<_>>(), [text]);
        (0..100).for_each(|i| [9, 0].into_iter().for_each(|copies| progress.follow(at(30 + i), copies, copies)));
        assert_eq!(progress.completed().count(), PROGRESS_EVENTS_KEPT_MAX);
        progress.clear();
        assert_eq!(progress.completed().count(), 0);
    }
}
