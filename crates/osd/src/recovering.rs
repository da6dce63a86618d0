//! The OSD's part in recovery: slots that are handed out, turns in the queue, what others pull, what operators want first.
//!
//! Read next: `reservations`, `recovery_pace`, `push_pace`, `pull_pace`, `pg::reservation`, `pg::recovery`.

use crate::osd::{Osd, Work, WorkOf};
use crate::scheduler::WorkClass;
use base::{Duration, PgId};
use wire::messages::{OsdForceRecovery, SlotWork, force_recovery};

impl Osd {
    /// Tells placement groups which slots they get, and lose.
    pub(crate) fn hand_out_slots(&mut self) {
        while let Some((id, side, turn)) = self.core.reservations.next_turn() {
            match self.pgs.get_mut(&id) {
                Some(pg) => pg.slot_turn(&mut self.core, side, turn),
                None => unreachable!("a group that goes gives its slots back"),
            }
        }
    }

    /// Lets groups that met full stores try again.
    pub(crate) fn retry_reserving(&mut self) {
        while let Some(id) = self.core.reservations.pop_retry(self.core.now) {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.retry_reserving(&mut self.core);
            }
        }
    }

    /// Schedules the turns of recovery that the pace allows.
    pub(crate) fn schedule_recovery(&mut self) {
        let now = self.core.now;
        while let Some(pg) = self.core.pace.next(now) {
            let cost_bytes = self.pgs.get(&pg).map_or(0, |pg| pg.recovery_cost_bytes());
            self.scheduler.enqueue(now, WorkClass::Recovery, cost_bytes, Work { pg, what: WorkOf::Recover });
        }
    }

    /// Answers pulls of other OSDs, as far as their pace allows.
    pub(crate) fn answer_pulls(&mut self) {
        while let Some((pg, pulled)) = self.core.pulls.take() {
            if let Some(pg) = self.pgs.get(&pg) {
                pg.answer_pull(&mut self.core, pulled);
            }
        }
    }

    /// Lets objects be held for members, as far as their pace allows.
    pub(crate) fn hold_for_members(&mut self) {
        while let Some((pg, head)) = self.core.pushes.take(self.core.now) {
            if let Some(pg) = self.pgs.get_mut(&pg) {
                pg.give_now(&mut self.core, head);
            }
        }
    }

    /// An operator wants groups recovered or backfilled first, or no longer (`ceph pg force-recovery` and its like).
    pub(crate) fn asked_to_force(&mut self, message: &OsdForceRecovery) {
        if message.fsid != self.core.config.fsid {
            return;
        }
        let is = |bit: u8| message.options & bit != 0;
        let named: Vec<PgId> = message.pgs.iter().map(|spg| spg.pg).collect();
        for pg in named {
            let Some(pg) = self.pgs.get_mut(&pg).filter(|pg| pg.is_primary()) else { continue };
            for (bit, work) in
                [(force_recovery::RECOVERY, SlotWork::Recovery), (force_recovery::BACKFILL, SlotWork::Backfill)]
            {
                if is(bit) {
                    pg.force(&mut self.core, work, !is(force_recovery::CANCEL));
                }
            }
        }
        self.run();
    }

    /// How many groups recover at once, and when those try again that could not.
    pub(crate) fn apply_slot_options(&mut self) {
        let settings = &self.core.settings;
        let seconds = |name: &str| Duration::from_secs_f64(settings.number(name).clamp(0.01, 86_400.0));
        let slots = &mut self.core.reservations;
        let least = settings.number("osd_min_recovery_priority").clamp(0.0, 255.0) as u8;
        slots.set(settings.number("osd_max_backfills") as usize, least);
        slots.recovery_retry = seconds("osd_recovery_retry_interval");
        slots.backfill_retry = seconds("osd_backfill_retry_interval");
    }
}
