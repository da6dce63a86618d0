//! Letting answers wait a moment for the others of their crowd.
//!
//! Of reads that come as a crowd some are answered from memory and some by the disk, a few at a time. Each part that is
//! written by itself costs a system call and wakes the client once more, whose next requests then come in as many parts.
//! So answers wait while the disk owes more of them than are ready.
//!
//! Three rules keep that cheap. It is for crowds (`linger`): who has one request under way has its answer at once. An
//! answer waits for so many turns at most. And no disk is waited for that has been slow of late: how long a wait takes,
//! or would take, is measured all the time.
//!
//! Refuses to know what the answers are.

use base::{Duration, Instant};

/// Turns that an answer waits at most. A crowd's last answer then comes no later than it would alone: whatever the disk
/// ends makes a turn.
const TURNS_MAX: u32 = 3;

/// Waits that take longer than this, on average, are not worth it. On a flash drive and busy cores they take half of it.
const WAIT_MAX: Duration = Duration::from_micros(500);

/// A longer wait counts as this one: a single jerk should not be remembered for long.
const COUNTED_MAX: Duration = Duration::from_millis(4);

/// A thread's answers that are ready, and how long such ones have waited.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    since: Option<Instant>,
    turns: u32,
    /// How long a wait takes, averaged over some sixteen.
    average: Duration,
}

impl Gather {
    /// Whether what a turn that ended `now` leaves to be written should wait for the next turn: `ready` answers are to be
    /// written, the disk owes `owed` more.
    pub(crate) fn waits(&mut self, now: Instant, is_crowd: bool, ready: u64, owed: u64) -> bool {
        if is_crowd && (1..owed).contains(&ready) && self.turns < TURNS_MAX {
            self.since.get_or_insert(now);
            self.turns += 1;
            return self.average < WAIT_MAX;
        }
        self.turns = 0;
        if let Some(since) = self.since.take() {
            self.average = (self.average * 15 + now.since(since).min(COUNTED_MAX)) / 16;
        }
        false
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
            waited = gather.waits(*now, true, 4, 6);
            *now = *now + Duration::from_micros(rest_us);
            assert!(!gather.waits(*now, true, 10, 0), "all are there");
        }
        waited
    }

    #[test]
    fn answers_wait_for_the_larger_part_of_their_crowd() {
        let mut gather = Gather::default();
        assert!(gather.waits(Instant::ZERO, true, 4, 6));
        assert!(!gather.waits(Instant::ZERO, true, 6, 4), "the larger part is there");
        assert!(!gather.waits(Instant::ZERO, true, 0, 6), "there is nothing to wait");
        assert!(!gather.waits(Instant::ZERO, false, 1, 6), "nobody's crowd");
    }

    #[test]
    fn no_answer_waits_for_many_turns() {
        let mut gather = Gather::default();
        let waits: Vec<bool> = (0..5).map(|_| gather.waits(Instant::ZERO, true, 1, 100)).collect();
        assert_eq!(waits, [true, true, true, false, true]);
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
