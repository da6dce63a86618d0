//! When a PG is to be scrubbed.
//!
//! Follows Ceph v16.2 `src/osd/PG.cc` (`sched_scrub`) and `src/osd/OSD.cc` (`ScrubJob`): every `osd_scrub_min_interval`, stretched by chance, in the hours for it; after
//! `osd_scrub_max_interval` at any hour; deep after `osd_deep_scrub_interval`. A pool may have intervals of its own, and
//! flags of the map or the pool forbid what nobody asked for. Chance is the group's number, so that groups do not all
//! come at once and each comes at the same time wherever it is. The machine's load is not looked at.

use super::{Kind, Pg};
use crate::core::Core;
use crate::scrub_pace::ScrubOptions;
use admin::format::quantity::local_time;
use admin::{Value, object};
use base::checksum::crc32c;
use base::{Duration, Instant};
use maps::PgPool;
use maps::osd_map::MapFlags;
use maps::pool::PoolFlags;
use maps::pool_options::OptionKey;

/// How urgent a scrub is: the smaller the sooner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Urgency {
    unasked: bool,
    due: Instant,
}

impl Pg {
    /// The scrub that is due, and how urgently.
    pub fn due_scrub(&self, core: &Core) -> Option<(Urgency, Kind)> {
        let idle = self.scrubbing.current.is_none() && core.now >= self.scrubbing.not_before;
        if !idle || !self.is_clean() {
            return None;
        }
        if let Some(kind) = self.scrubbing.wanted {
            return Some((Urgency { unasked: false, due: Instant::ZERO }, kind));
        }
        let pool = core.map.pool(self.id.pool)?;
        let forbids = |map: MapFlags, flag: PoolFlags| core.map.flags.contains(map) || pool.flags.contains(flag);
        let (options, record) = (&core.scrubs.options, &self.info.scrubs);
        let Times { due, deep_due, deadline } = self.scrub_times(options, pool);
        let no_deep = forbids(MapFlags::NODEEP_SCRUB, PoolFlags::NODEEP_SCRUB);
        let deep = !no_deep && core.now >= deep_due;
        let shallow = !forbids(MapFlags::NOSCRUB, PoolFlags::NOSCRUB) && core.now >= due;
        let overdue = core.now >= deadline;
        if !deep && !shallow || !overdue && !is_hour(options.hours, core.now) {
            return None;
        }
        // What a deep scrub found, a shallow one would not see.
        let deep = deep || record.deep_errors > 0 && !no_deep;
        let due = if deep { deep_due.min(due) } else { due };
        Some((Urgency { unasked: true, due }, Kind { deep, ..Kind::default() }))
    }

    fn scrub_times(&self, options: &ScrubOptions, pool: &PgPool) -> Times {
        let intervals = Intervals::of(options, pool);
        let (last, last_deep) = (Instant::from(self.info.scrubs.stamp), Instant::from(self.info.scrubs.deep_stamp));
        let stretch = f64::from(crc32c(self.id.seed, &self.id.pool.0.to_le_bytes()) % 1024) / 1024.0;
        let due = last + intervals.min.mul_f64(1.0 + stretch * options.stretch);
        Times { due, deep_due: last_deep + intervals.deep, deadline: last + intervals.max }
    }

    /// As `dump_scrubs` shows it, on the primary. One that was asked for is due since ever.
    pub fn scrub_schedule(&self, core: &Core) -> Option<Value> {
        let pool = core.map.pool(self.id.pool).filter(|_| self.is_primary())?;
        let times = self.scrub_times(&core.scrubs.options, pool);
        let forced = self.scrubbing.wanted.is_some();
        let due = if forced { Instant::ZERO } else { times.due.min(times.deep_due) };
        Some(object! {
            "pgid" => self.id.to_string(),
            "sched_time" => local_time(due),
            "deadline" => local_time(if forced { due } else { times.deadline }),
            "forced" => forced,
        })
    }
}

/// When a group's scrubs are due.
struct Times {
    due: Instant,
    deep_due: Instant,
    /// After it at any hour.
    deadline: Instant,
}

struct Intervals {
    min: Duration,
    max: Duration,
    deep: Duration,
}

impl Intervals {
    fn of(options: &ScrubOptions, pool: &PgPool) -> Intervals {
        let own = |option: OptionKey, general: Duration| {
            let seconds = pool.options.double(option).filter(|seconds| *seconds > 0.0);
            seconds.map_or(general, |seconds| Duration::from_secs_f64(seconds.min(1e9)))
        };
        Intervals {
            min: own(OptionKey::SCRUB_MIN_INTERVAL, options.min_interval),
            max: own(OptionKey::SCRUB_MAX_INTERVAL, options.max_interval),
            deep: own(OptionKey::DEEP_SCRUB_INTERVAL, options.deep_interval),
        }
    }
}

/// Whether scrubs may begin at this hour, UTC.
fn is_hour((begin, end): (u64, u64), now: Instant) -> bool {
    let hour = now.secs() / 3600 % 24;
    match begin.cmp(&end) {
        core::cmp::Ordering::Equal => true,
        core::cmp::Ordering::Less => hour >= begin && hour < end,
        core::cmp::Ordering::Greater => hour >= begin || hour < end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_span_midnight() {
        let at = |hour: u64| Instant::from_secs(1_700_006_400 + hour * 3600);
        assert_eq!(at(0).secs() % 86_400, 0, "midnight");
        assert!(is_hour((0, 0), at(5)) && is_hour((7, 7), at(5)));
        assert!(is_hour((4, 6), at(5)) && !is_hour((4, 6), at(6)) && !is_hour((4, 6), at(3)));
        assert!(is_hour((22, 6), at(23)) && is_hour((22, 6), at(5)) && !is_hour((22, 6), at(12)));
    }
}
