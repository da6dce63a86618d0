//! Waiting for the disk in place of the sockets, so that a crowd is answered together.
//!
//! Of reads that come as a crowd some are answered from memory and some by the disk, a few at a time. Each part that is
//! written by itself costs a system call and wakes the client once more, whose next requests then come in as many parts.
//! So where the disk owes more answers than are ready the thread waits until it owes no more than are: for the disk alone,
//! which wakes it once, where looking after its sockets meanwhile would wake it for every answer. What arrives there in
//! that time is a crowd by then.
//!
//! Of writes that come as a crowd none can be answered before the disk has made their group durable, and what comes
//! meanwhile goes with the next group, which begins no sooner. So the thread waits for that, too: what came is a crowd by
//! then, where each would have woken it. Reads could be answered in the meantime; while there are some nobody waits so. The
//! writes that other daemons send come one by one where several share a crowd, and wait for their commit in any case.
//!
//! Three rules keep that cheap. It is for crowds (`linger`): who has one request under way has its answer at once, and while
//! somebody like that asks, those beside him do not wait either, as he would with them. A turn waits once for each. And no
//! disk is waited for that has been slow of late: how long a wait takes, or would take, is measured all the time.
//!
//! Refuses to know what the answers are.

use base::{Duration, Instant};

/// Waits for reads that take longer than this, on average, are not worth it. On a flash drive and busy cores they take
/// half of it.
const READS_MAX: Duration = Duration::from_micros(500);

/// The same for a group of commits.
const COMMIT_MAX: Duration = Duration::from_millis(1);

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

/// For so long after a read more of them are expected.
const READS_FOR: Duration = Duration::from_millis(50);

/// How long waits took, averaged over some sixteen.
#[derive(Debug, Default)]
struct Pace(Duration);

impl Pace {
    /// Takes note of one.
    fn took(&mut self, wait: Duration) {
        self.0 = (self.0 * 15 + wait.min(COUNTED_MAX)) / 16;
    }
}

/// How long the answers of a thread's crowds wait, or would.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    reads: Pace,
    /// When a wait for reads would have begun that was none, and the turns since.
    since: Option<Instant>,
    turns: u32,
    commits: Pace,
    /// A group of commits that nobody waits for, and when it was first seen.
    seen: Option<(u64, Instant)>,
    /// How many reads were answered, and when that last changed.
    answered: u64,
    read_at: Option<Instant>,
    /// When somebody last asked who asks one by one; and when a client did.
    alone_at: Option<Instant>,
    client_at: Option<Instant>,
}

impl Gather {
    /// Takes note that somebody asked who does not ask in crowds: a client, or another daemon.
    pub(crate) fn asked_alone(&mut self, now: Instant, client: bool) {
        self.alone_at = Some(now);
        if client {
            self.client_at = Some(now);
        }
    }

    /// For how many more answers those of a turn that ended `now` should wait, if at all: `ready` are to be written, the disk
    /// owes `owed` more.
    pub(crate) fn wanted(&mut self, now: Instant, is_crowd: bool, ready: u64, owed: u64) -> Option<u64> {
        let beside = self.alone_at.is_some_and(|at| now.since(at) < ALONE_FOR);
        if is_crowd && !beside && (1..owed).contains(&ready) {
            if self.reads.0 < READS_MAX {
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

    /// Takes note of how long a wait for reads took.
    pub(crate) fn waited(&mut self, took: Duration) {
        self.reads.took(took);
    }

    /// Whether to wait, at the end of a turn, for the group of commits that the disk is about: its number, where there is
    /// one. So many reads were answered since the daemon began to count.
    pub(crate) fn wants_commit(&mut self, now: Instant, is_crowd: bool, reads: u64, group: Option<u64>) -> bool {
        if reads != core::mem::replace(&mut self.answered, reads) {
            self.read_at = Some(now);
        }
        if let Some((_, since)) = self.seen.take_if(|(number, _)| group != Some(*number)) {
            self.commits.took(now.since(since));
        }
        let reading = self.read_at.is_some_and(|at| now.since(at) < READS_FOR);
        let beside = self.client_at.is_some_and(|at| now.since(at) < ALONE_FOR);
        let Some(number) = group.filter(|_| is_crowd && !reading && !beside) else { return false };
        let quick = self.commits.0 < COMMIT_MAX;
        if !quick {
            self.seen.get_or_insert((number, now));
        }
        quick
    }

    /// Takes note of how long a wait for a commit took.
    pub(crate) fn waited_for_commit(&mut self, took: Duration) {
        self.commits.took(took);
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
        gather.asked_alone(Instant::ZERO, false);
        assert_eq!(gather.wanted(Instant::ZERO + ALONE_FOR / 2, true, 4, 6), None);
        assert_eq!(gather.wanted(Instant::ZERO + ALONE_FOR, true, 4, 6), Some(1), "he seems to be done");
    }

    /// So many groups of writes, each durable after a while; whether the last one was waited for.
    fn commits(gather: &mut Gather, now: &mut Instant, count: u64, took_us: u64) -> bool {
        let mut waited = false;
        for group in 0..count {
            waited = gather.wants_commit(*now, true, 0, Some(group));
            let took = Duration::from_micros(took_us);
            *now = *now + took;
            if waited {
                gather.waited_for_commit(took.min(LIMIT));
            } else {
                assert!(!gather.wants_commit(*now, true, 0, None), "there is none");
            }
        }
        waited
    }

    #[test]
    fn a_crowd_of_writes_waits_for_its_commit() {
        let (mut gather, now) = (Gather::default(), Instant::ZERO);
        assert!(gather.wants_commit(now, true, 0, Some(7)));
        assert!(!gather.wants_commit(now, false, 0, Some(8)), "nobody's crowd");
        assert!(!gather.wants_commit(now, true, 3, Some(8)), "there are reads");
        assert!(gather.wants_commit(now + READS_FOR, true, 3, Some(8)), "they seem to be done");
        gather.asked_alone(now + READS_FOR, false);
        assert!(gather.wants_commit(now + READS_FOR, true, 3, Some(8)), "it was a daemon");
        gather.asked_alone(now + READS_FOR, true);
        assert!(!gather.wants_commit(now + READS_FOR, true, 3, Some(8)), "beside one who asks one by one");
    }

    #[test]
    fn no_commit_is_waited_for_on_a_slow_disk_until_it_is_quick_again() {
        let (mut gather, mut now) = (Gather::default(), Instant::ZERO);
        assert!(commits(&mut gather, &mut now, 100, 400), "a flash drive");
        assert!(!commits(&mut gather, &mut now, 10, 8_000), "a disk that turns");
        assert!(commits(&mut gather, &mut now, 60, 400), "a flash drive again");
        assert!(commits(&mut gather, &mut now, 1, 300_000) && commits(&mut gather, &mut now, 2, 400), "one jerk");
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
