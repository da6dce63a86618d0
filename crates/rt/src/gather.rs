//! Letting answers wait a moment for the others of their crowd.
//!
//! Of reads that come as a crowd some are answered from memory and some by the disk, a few at a time. Each part that is
//! written by itself costs a system call and wakes the client once more, whose next requests then come in as many parts.
//! So where the disk owes more answers than are ready the thread waits until it owes no more than are: for the disk alone,
//! which wakes it once, where looking after its sockets meanwhile would wake it for every answer. What arrives there in
//! that time is a crowd by then.
//!
//! Three rules keep that cheap. It is for crowds (`linger`): who has one request under way has its answer at once, and while
//! somebody like that asks, those beside him do not wait either, as he would with them. A turn waits once. And no disk is
//! waited for that has been slow of late: how long a wait takes, or would take, is measured all the time.
//!
//! Refuses to know what the answers are.

use base::{Duration, Instant};

/// Waits that take longer than this, on average, are not worth it. On a flash drive and busy cores they take half of it.
const WAIT_MAX: Duration = Duration::from_micros(500);

/// The longest wait: a disk that hangs should not keep the thread from all else. It lies behind the kernel's next tick: with
/// 300 us, for which a clock has to be set each time, a wait in a virtual machine cost more than it gained.
pub(crate) const LIMIT: Duration = Duration::from_millis(10);

/// A longer wait counts as this one: a single jerk should not be remembered for long.
const COUNTED_MAX: Duration = Duration::from_millis(4);

/// Where none is waited for, so many turns are taken to be the wait, unless the larger part is there before.
const TURNS_MAX: u32 = 3;

/// For so long somebody who asks one by one is expected to ask again. Daemons' own messages come one by one, too, but few a
/// second.
const ALONE_FOR: Duration = Duration::from_millis(50);

/// How long the answers of a thread's crowds wait, or would.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Averaged over some sixteen.
    average: Duration,
    /// When a wait would have begun that was none, and the turns since.
    since: Option<Instant>,
    turns: u32,
    /// When somebody last asked who asks one by one.
    alone_at: Option<Instant>,
}

impl Gather {
    /// Takes note that somebody asked who does not ask in crowds.
    pub(crate) fn asked_alone(&mut self, now: Instant) {
        self.alone_at = Some(now);
    }

    /// For how many more answers those of a turn that ended `now` should wait, if at all: `ready` are to be written, the disk
    /// owes `owed` more.
    pub(crate) fn wanted(&mut self, now: Instant, is_crowd: bool, ready: u64, owed: u64) -> Option<u64> {
        let beside = self.alone_at.is_some_and(|at| now.since(at) < ALONE_FOR);
        if is_crowd && !beside && (1..owed).contains(&ready) {
            if self.average < WAIT_MAX {
                (self.since, self.turns) = (None, 0);
                return Some((owed - ready).div_ceil(2));
            }
            if self.turns < TURNS_MAX {
                self.since.get_or_insert(now);
                self.turns += 1;
                return None;
            }
        }
        self.turns = 0;
        if let Some(since) = self.since.take() {
            self.waited(now.since(since));
        }
        None
    }

    /// Takes note of how long a wait took.
    pub(crate) fn waited(&mut self, took: Duration) {
        self.average = (self.average * 15 + took.min(COUNTED_MAX)) / 16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ten reads four are answered at once, and the rest after a while; so many crowds of them, and whether the last
    /// one's answers waited.
    fn crowds(gather: &mut Gather, now: &mut Instant, count: u32, rest_us: u64) -> bool {
        let mut waited = false;
        for _ in 0..count {
            let rest = Duration::from_micros(rest_us);
            waited = gather.wanted(*now, true, 4, 6).is_some();
            *now = *now + rest;
            if waited {
                gather.waited(rest.min(LIMIT));
            } else {
                assert_eq!(gather.wanted(*now, true, 6, 0), None, "all are there");
            }
        }
        waited
    }

    #[test]
    fn answers_wait_for_the_larger_part_of_their_crowd() {
        let mut gather = Gather::default();
        assert_eq!(gather.wanted(Instant::ZERO, true, 4, 6), Some(1));
        assert_eq!(gather.wanted(Instant::ZERO, true, 1, 8), Some(4), "five are there then, and three owed");
        assert_eq!(gather.wanted(Instant::ZERO, true, 6, 4), None, "the larger part is there");
        assert_eq!(gather.wanted(Instant::ZERO, true, 0, 6), None, "there is nothing to wait");
        assert_eq!(gather.wanted(Instant::ZERO, false, 1, 6), None, "nobody's crowd");
    }

    #[test]
    fn nobody_waits_beside_who_asks_one_by_one() {
        let mut gather = Gather::default();
        gather.asked_alone(Instant::ZERO);
        assert_eq!(gather.wanted(Instant::ZERO + ALONE_FOR / 2, true, 4, 6), None);
        assert_eq!(gather.wanted(Instant::ZERO + ALONE_FOR, true, 4, 6), Some(1), "he seems to be done");
    }

    #[test]
    fn no_slow_disk_is_waited_for_until_it_is_quick_again() {
        let (mut gather, mut now) = (Gather::default(), Instant::ZERO);
        assert!(crowds(&mut gather, &mut now, 100, 90), "a flash drive");
        assert!(!crowds(&mut gather, &mut now, 3, 8_000), "a disk that turns");
        assert!(crowds(&mut gather, &mut now, 40, 90), "a flash drive again");
        assert!(crowds(&mut gather, &mut now, 1, 300_000) && crowds(&mut gather, &mut now, 2, 90), "one jerk");
    }
}
