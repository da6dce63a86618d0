//! Memory: what the store's cache may have of what the OSD aims at (`osd_memory_target`).
//!
//! Owns the division. The program's own pages, the logs of placement groups, data on its way to its place and what the
//! store says that it holds beside are counted; all else, requests under way, what the allocator keeps, is what the
//! process has beyond what is counted. The cache has the rest.
//! Ceph's OSD does the same with its caches (v16.2 `src/os/bluestore/BlueStore.cc`, `MempoolThread`, and
//! `src/common/PriorityCache.cc`): the process's mapped memory against the target, once a second, with a least size.
//!
//! What the cache lets go stays with the allocator for some seconds, and is there for what it holds next: writes that leave
//! nothing valid of what was kept are no reason to keep less from then on. So what it held lately counts as the cache's, not
//! as all else. The allocator may keep it for longer: a cache that made up for all of that would shrink to nothing and gain
//! nothing. So there is a most that all else is believed to be. Where the process has other daemons in it, it is taken to be
//! that much.
//!
//! Invariants: the cache's bound moves by small steps, not at all for small differences, and never below its least size.

use crate::counters::MemoryCounters;
use crate::osd::Osd;
use base::{Duration, Instant};

/// How often memory is divided anew (`osd_memory_cache_resize_interval`).
const INTERVAL: Duration = Duration::from_secs(1);

/// The cache's least part of the target. Below it, reads of metadata would take the place of memory.
const CACHE_PART_MIN: u64 = 8;

/// What is taken for the program's own pages where they cannot be measured, or be told from other daemons'.
const PROGRAM_BYTES: u64 = 12 << 20;

/// What an OSD has that nobody counts, at the most: so much (a process without load has half of it), and so large a part
/// of the target, about what the allocator keeps after minutes of small writes and reads. Ceph expects 15 % of its larger
/// process (`osd_memory_expected_fragmentation`).
const OTHER_BYTES_MAX: u64 = 12 << 20;
const OTHER_PART_MAX: u64 = 5;

/// A step: this part of the target.
const STEP_PART: u64 = 32;

/// What is less than this part of the target is no reason for a step.
const IDLE_PART: u64 = 64;

/// The most data on its way falls towards what there is now by this part each time: it comes and goes with every
/// checkpoint, of which there are several a second or one a minute.
const DECAY_PART: u64 = 32;

/// All else follows what is measured by this part each time. So does the most that the cache held lately.
const FOLLOW_PART: u64 = 8;

/// Memory that a process has, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resident {
    /// All of it.
    pub all: u64,
    /// The program and its libraries: pages of files.
    pub program: u64,
}

/// What a look at memory finds, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryUse {
    /// What the process has, where it is this OSD's alone.
    resident: Option<Resident>,
    /// What the cache holds.
    cache: u64,
    /// Data not yet in its place.
    waiting: u64,
    /// What else the store says that it holds.
    store: u64,
    /// The logs of placement groups.
    logs: u64,
}

/// See the module. Sizes in bytes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    due: Instant,
    target: u64,
    seen: MemoryUse,
    /// The most data on its way lately: it comes and goes with each checkpoint.
    waiting: u64,
    /// The most that the cache held lately.
    held: u64,
    other: Option<u64>,
    cache_max: Option<u64>,
    /// An operator wants the cache emptied.
    emptied: bool,
}

impl Memory {
    /// What the cache may have from now on.
    fn divide(&mut self, target: u64, seen: MemoryUse) -> u64 {
        (self.target, self.seen) = (target, seen);
        self.waiting = most_lately(self.waiting, seen.waiting, DECAY_PART);
        let may_hold = self.cache_max.unwrap_or(0);
        self.held = most_lately(self.held, seen.cache, FOLLOW_PART).min(may_hold.max(seen.cache));
        let other_max = OTHER_BYTES_MAX + target / OTHER_PART_MAX;
        let program = seen.resident.map_or(PROGRAM_BYTES, |resident| resident.program);
        let fixed = program + self.waiting + seen.logs + seen.store;
        let measured = seen.resident.map_or(other_max, |resident| resident.all.saturating_sub(fixed + self.held));
        let measured = measured.min(other_max);
        let other = self.other.map_or(measured, |other| followed(other.min(other_max), measured));
        self.other = Some(other);
        let least = target / CACHE_PART_MIN;
        let goal = target.saturating_sub(fixed + other).max(least);
        let (step, idle) = (target / STEP_PART, target / IDLE_PART);
        // From below: what has once been too much may not all come back.
        let now = self.cache_max.unwrap_or(least);
        let next = if goal.abs_diff(now) < idle { now } else { goal.clamp(now.saturating_sub(step), now + step) };
        *self.cache_max.insert(next)
    }

    /// What there is to show.
    pub(crate) fn counters(&self) -> MemoryCounters {
        let mut shown = MemoryCounters::default();
        shown.target_bytes.0 = self.target;
        let resident = self.seen.resident.unwrap_or_default();
        (shown.mapped_bytes.0, shown.program_bytes.0) = (resident.all, resident.program);
        shown.cache_bytes.0 = self.cache_max.unwrap_or(0);
        shown.log_bytes.0 = self.seen.logs;
        shown.waiting_bytes.0 = self.waiting;
        shown.store_bytes.0 = self.seen.store;
        shown.other_bytes.0 = self.other.unwrap_or(0);
        shown
    }
}

/// The most that there was lately: it falls towards what there is now by one of so many parts.
fn most_lately(before: u64, now: u64, parts: u64) -> u64 {
    now.max(before - before.saturating_sub(now).div_ceil(parts))
}

fn followed(before: u64, now: u64) -> u64 {
    if now < before { before - (before - now) / FOLLOW_PART } else { before + (now - before).div_ceil(FOLLOW_PART) }
}

impl Osd {
    /// Lets the store's cache go, where it has one; what is used from then on is kept again.
    pub(crate) fn empty_cache(&mut self) {
        self.memory.emptied = self.core.store_counters.is_some();
    }

    /// When memory is to be divided anew, where there is a store that has a cache.
    pub fn memory_due(&self) -> Option<Instant> {
        self.core.store_counters.as_ref().map(|_| if self.memory.emptied { Instant::ZERO } else { self.memory.due })
    }

    /// Divides memory anew; gives what the store's cache may have, in bytes. `resident` is what the process has, where it
    /// is this OSD's alone.
    pub fn divide_memory(&mut self, now: Instant, resident: Option<Resident>) -> u64 {
        let counts = self.core.store_counters.as_ref();
        let [cache, waiting, store] = counts.map_or([0; 3], |counts| {
            let beside = counts.space_bytes.0 + counts.buffer_bytes.0 + counts.change_bytes.0;
            [counts.cache_bytes.0, counts.waiting_bytes.0, beside]
        });
        if core::mem::take(&mut self.memory.emptied) {
            self.memory.due = now;
            return 0;
        }
        let logs = self.pgs.values().map(|pg| pg.log.bytes() as u64).sum();
        self.memory.due = now + INTERVAL;
        let target = self.core.settings.number("osd_memory_target") as u64;
        self.memory.divide(target, MemoryUse { resident, cache, waiting, store, logs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TARGET: u64 = 60 * MIB;
    const STORE: u64 = 4 * MIB;

    /// A process: its cache holds what it may, and of what it once had the allocator gives this part back.
    struct Process {
        memory: Memory,
        cache: u64,
        logs: u64,
        waiting: [u64; 2],
        uncounted: u64,
        kept: u64,
    }

    impl Process {
        fn new() -> Process {
            Process { memory: Memory::default(), cache: 0, logs: 0, waiting: [0; 2], uncounted: 8 * MIB, kept: 0 }
        }

        fn resident(&self) -> u64 {
            let waiting = self.waiting[0].max(self.waiting[1]);
            PROGRAM_BYTES + STORE + self.logs + waiting + self.cache + self.uncounted + self.kept
        }

        /// Seconds with the cache in full use; gives the sizes that it had.
        fn run(&mut self, seconds: u64, returned: bool) -> Vec<u64> {
            let pass = |second: u64| {
                let waiting = self.waiting[second as usize % 2];
                let resident = Some(Resident { all: self.resident(), program: PROGRAM_BYTES });
                let (cache, store, logs) = (self.cache, STORE, self.logs);
                let next = self.memory.divide(TARGET, MemoryUse { resident, cache, waiting, store, logs });
                self.kept = if returned { 0 } else { (self.kept + self.cache).saturating_sub(next) };
                self.cache = next;
                next
            };
            (0..seconds).map(pass).collect()
        }
    }

    #[test]
    fn the_cache_has_what_is_left_and_the_whole_is_the_target() {
        let mut process = Process::new();
        process.run(60, true);
        assert!(process.resident().abs_diff(TARGET) <= TARGET / IDLE_PART, "{}", process.resident());
        (process.logs, process.waiting) = (6 * MIB, [2 * MIB, 10 * MIB]);
        let sizes = process.run(60, true);
        assert!(sizes.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= TARGET / STEP_PART), "by steps: {sizes:?}");
        assert!(sizes.windows(2).all(|pair| pair[1] <= pair[0]), "and never back: {sizes:?}");
        assert!(process.resident() <= TARGET + TARGET / IDLE_PART, "{}", process.resident());
        assert!(process.resident() >= TARGET - TARGET / 8, "{}", process.resident());
    }

    #[test]
    fn what_swings_does_not_make_the_cache_swing() {
        let mut process = Process::new();
        process.waiting = [2 * MIB, 12 * MIB];
        process.run(60, true);
        let sizes = process.run(100, true);
        let (least, most) = (sizes.iter().min().expect("some"), sizes.iter().max().expect("some"));
        assert!(most - least <= TARGET / STEP_PART, "{least} to {most}");
    }

    #[test]
    fn what_the_cache_loses_at_once_is_soon_its_own_again() {
        let mut process = Process::new();
        let before = *process.run(60, true).last().expect("some");
        // All of it is written over; the allocator gives a tenth of what it has of that back each second.
        let mut kept = before;
        for _ in 0..20 {
            let resident = Some(Resident { all: process.resident() - process.cache + kept, program: PROGRAM_BYTES });
            let seen = MemoryUse { resident, store: STORE, ..MemoryUse::default() };
            let next = process.memory.divide(TARGET, seen);
            assert!(before - next <= TARGET / 10, "{before} to {next}");
            kept -= kept / 10;
        }
    }

    #[test]
    fn an_allocator_that_gives_nothing_back_does_not_take_the_whole_cache() {
        let mut process = Process::new();
        process.run(60, false);
        process.logs = 6 * MIB;
        process.run(100, false);
        assert!(
            process.cache
                >= TARGET - PROGRAM_BYTES - STORE - OTHER_BYTES_MAX - TARGET / OTHER_PART_MAX - process.logs - MIB,
            "{}",
            process.cache
        );
        process.logs = 90 * MIB;
        process.run(100, false);
        assert!(process.cache.abs_diff(TARGET / CACHE_PART_MIN) < TARGET / IDLE_PART, "{}", process.cache);
    }

    #[test]
    fn among_other_daemons_the_cache_has_less_than_what_is_not_counted() {
        let mut memory = Memory::default();
        let seen = MemoryUse { logs: 4 * MIB, ..MemoryUse::default() };
        let mut last_of = |target| (0..40).map(|_| memory.divide(target, seen)).last().expect("some");
        let (usual, larger) = (last_of(TARGET), last_of(2 * TARGET));
        assert!(usual.abs_diff(20 * MIB) < TARGET / IDLE_PART, "{usual}");
        assert!(larger.abs_diff(68 * MIB) < 2 * TARGET / IDLE_PART, "{larger}");
    }
}
