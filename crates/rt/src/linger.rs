//! Staying awake a moment after work, when more of it is about to come.
//!
//! A core that sleeps is slow to wake, a virtual one most of all: tens of microseconds, several times in the way of one
//! replicated write. So a reactor that runs out of work looks for more for a moment before it sleeps, as a guest's
//! kernel does in place of halting (Linux, Documentation/virt/guest-halt-polling.rst).
//!
//! Three rules keep that cheap. After each look the core goes to whoever else wants it. A wait in vain ends the habit,
//! until work has once more followed work closely; so an idle thread sleeps. And where messages come in crowds, which
//! share the price of a wake-up, the thread sleeps as soon as it can: there its time is worth more to its clients. Where
//! the crowds are large, it does not even push them aside when it wakes (`preemption`).
//!
//! Refuses to know what the work is.

use base::{Duration, Instant};

/// One message, in the units of the average.
const MESSAGE: u32 = 256;

/// Messages found at a time, on average, from which on they count as a crowd.
const CROWD: u32 = 5 * MESSAGE / 2;

/// Messages found at a time, on average, from which on those who send them should be done before this thread begins.
const LARGE_CROWD: u32 = 4 * MESSAGE;

/// More messages at a time than this count as so many: a burst should not be remembered for long.
const MESSAGES_MAX: u32 = 64;

/// How many messages are found at a time, averaged over some sixteen times that there were any.
#[derive(Debug, Default)]
pub(crate) struct Found(u32);

impl Found {
    /// Takes note of so many, at least one.
    pub(crate) fn note(&mut self, messages: u64) {
        let found = u32::try_from(messages).unwrap_or(MESSAGES_MAX).min(MESSAGES_MAX) * MESSAGE;
        self.0 = (15 * self.0 + found) / 16;
    }

    /// Whether they come in crowds.
    pub(crate) fn are_crowds(&self) -> bool {
        self.0 >= CROWD
    }
}

/// A thread's habit of staying awake.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    /// Whether work came soon the last time that there was none.
    pays: bool,
    idle_since: Option<Instant>,
    /// By a turn.
    found: Found,
    gives_way: bool,
}

impl Linger {
    /// Takes note of a turn that ended `now`, and of how many messages it found.
    pub(crate) fn worked(&mut self, now: Instant, messages: u64, limit: Duration) {
        if messages == 0 {
            return;
        }
        self.found.note(messages);
        self.pays = self.idle_since.replace(now).is_some_and(|since| now.since(since) < limit);
        // Between the two it stays as it is, so that the habit is not changed at every turn.
        self.gives_way = self.found.0 >= if self.gives_way { CROWD } else { LARGE_CROWD };
    }

    /// Whether whoever sends should be done sending before this thread gets their core.
    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way
    }

    /// Whether to look for more rather than sleep.
    pub(crate) fn stays_awake(&self, now: Instant, limit: Duration) -> bool {
        let soon = self.idle_since.is_some_and(|since| now.since(since) < limit);
        self.pays && soon && !self.found.are_crowds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(100);

    /// A thread that found so many messages every so many microseconds, a thousand times, and the time now.
    fn after(messages: u64, every_us: u64) -> (Linger, Instant) {
        let (mut linger, mut now) = (Linger::default(), Instant::ZERO);
        for _ in 0..1000 {
            now = now + Duration::from_micros(every_us);
            linger.worked(now, messages, LIMIT);
        }
        (linger, now)
    }

    #[test]
    fn what_comes_one_by_one_and_soon_is_waited_for_so_long() {
        let (linger, now) = after(1, 60);
        assert!(linger.stays_awake(now + Duration::from_micros(99), LIMIT));
        assert!(!linger.stays_awake(now + Duration::from_micros(100), LIMIT));
    }

    #[test]
    fn what_comes_late_or_in_crowds_is_slept_for() {
        for (messages, every_us) in [(1, 100), (1, 1_000_000), (3, 60), (1000, 60)] {
            let (linger, now) = after(messages, every_us);
            assert!(!linger.stays_awake(now, LIMIT), "{messages} messages every {every_us} us");
        }
    }

    #[test]
    fn a_wait_in_vain_ends_the_habit_until_work_follows_work_again() {
        let (mut linger, mut now) = after(1, 60);
        now = now + Duration::from_millis(1);
        linger.worked(now, 1, LIMIT);
        assert!(!linger.stays_awake(now, LIMIT));
        now = now + Duration::from_micros(60);
        linger.worked(now, 1, LIMIT);
        assert!(linger.stays_awake(now, LIMIT));
    }

    #[test]
    fn turns_that_find_nothing_change_nothing() {
        let (mut linger, now) = after(1, 60);
        linger.worked(now + Duration::from_micros(90), 0, LIMIT);
        assert!(!linger.stays_awake(now + Duration::from_micros(100), LIMIT));
    }

    #[test]
    fn large_crowds_are_given_way_to_until_they_are_none() {
        let (mut linger, mut now) = after(3, 60);
        assert!(!linger.gives_way());
        for (messages, gives_way) in [(8, true), (3, true), (1, false), (3, false)] {
            for _ in 0..100 {
                now = now + Duration::from_micros(60);
                linger.worked(now, messages, LIMIT);
            }
            assert_eq!(linger.gives_way(), gives_way, "{messages} messages at a time");
        }
    }

    #[test]
    fn a_burst_is_soon_forgotten() {
        let (mut linger, mut now) = after(10_000, 60);
        for _ in 0..80 {
            now = now + Duration::from_micros(60);
            linger.worked(now, 1, LIMIT);
        }
        assert!(linger.stays_awake(now, LIMIT));
    }
}
