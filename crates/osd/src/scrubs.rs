//! The OSD's part in scrubs: who asks for them, which placement group is next, and their turns in the queue.
//!
//! Read next: `scrub_pace`, `pg::scrub`.

use crate::osd::{Osd, Work, WorkOf};
use crate::pg::scrub::Kind;
use crate::pg::scrub::record::ScrubRecord;
use crate::scheduler::WorkClass;
use crate::scrub_pace::ScrubOptions;
use base::{Duration, PgId};
use wire::messages::OsdScrub;

impl Osd {
    /// An operator wants placement groups scrubbed (`ceph pg scrub`); an empty list means all that this OSD leads.
    pub(crate) fn asked_to_scrub(&mut self, message: &OsdScrub) {
        if message.fsid != self.core.config.fsid {
            return;
        }
        let kind = Kind { deep: message.deep || message.repair, repair: message.repair, requested: true };
        let named: Vec<PgId> = message.pgs.iter().map(|spg| spg.pg).collect();
        for (id, pg) in &mut self.pgs {
            if named.is_empty() || named.contains(id) {
                pg.want_scrub(&mut self.core, kind);
            }
        }
        self.tick_scrubs();
        self.run();
    }

    /// Lets scrubs go on whose time has come, and begins the next one that is due.
    pub(crate) fn tick_scrubs(&mut self) {
        let now = self.core.now;
        while let Some(id) = self.core.scrubs.pop_timer(now) {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.scrub_timer(&mut self.core);
            }
        }
        while self.life.up && self.life.stopping.is_none() && self.core.scrubs.is_time(now) {
            let due = self.pgs.values().filter_map(|pg| Some((pg.due_scrub(&self.core)?, pg.id)));
            let Some(((_, kind), id)) = due.min_by_key(|((urgency, _), id)| (*urgency, *id)) else { break };
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.begin_scrub(&mut self.core, kind);
            }
            // There may be room for another.
            if self.core.scrubs.has_place() {
                self.core.scrubs.look_soon();
            }
        }
    }

    /// What scrubs of a PG came to, if this OSD leads it and none is wanted or under way.
    pub fn scrub_record(&self, id: PgId) -> Option<&ScrubRecord> {
        let pg = self.pgs.get(&id).filter(|pg| pg.is_clean())?;
        let idle = pg.scrubbing.current.is_none() && pg.scrubbing.wanted.is_none();
        idle.then_some(&pg.info.scrubs)
    }

    /// Puts the turns that scrubs want into the queue.
    pub(crate) fn schedule_scrubs(&mut self) {
        for (pg, cost_bytes) in self.core.scrubs.take_turns() {
            let work = Work { pg, what: WorkOf::Scrub };
            self.scheduler.enqueue(self.core.now, WorkClass::BestEffort, cost_bytes, work);
        }
    }

    /// The options of scrubs.
    pub(crate) fn apply_scrub_options(&mut self) {
        let settings = &self.core.settings;
        let seconds = |name: &str| Duration::from_secs_f64(settings.number(name).clamp(0.0, 1e9));
        let options = ScrubOptions {
            max: (settings.number("osd_max_scrubs") as usize).max(1),
            sleep: seconds("osd_scrub_sleep").min(Duration::from_secs(60)),
            range_objects: (settings.number("osd_scrub_chunk_max") as usize).clamp(1, 1024),
            auto_repair: settings.value("osd_scrub_auto_repair") == "true",
            auto_repair_errors_max: settings.number("osd_scrub_auto_repair_num_errors") as u64,
            min_interval: seconds("osd_scrub_min_interval"),
            max_interval: seconds("osd_scrub_max_interval"),
            deep_interval: seconds("osd_deep_scrub_interval"),
            stretch: settings.number("osd_scrub_interval_randomize_ratio").clamp(0.0, 10.0),
            hours: (settings.number("osd_scrub_begin_hour") as u64, settings.number("osd_scrub_end_hour") as u64),
        };
        if self.core.scrubs.options != options {
            self.core.scrubs.options = options;
            self.core.scrubs.look_soon();
        }
    }
}
