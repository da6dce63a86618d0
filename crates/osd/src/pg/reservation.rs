//! What a placement group needs before it recovers or is backfilled: slots, here and at its members (`reservations`).
//!
//! The way: a slot here -> one of each member, in the order of their numbers, so that no two groups wait for each
//! other -> work -> all slots are free again. Recovery needs one of every member, backfill of those who are filled. A
//! group that loses a slot to another gives up all and begins again at the queue's end. An object that a client waits for
//! needs no slot.
//!
//! The cluster's flags hold groups back: `norecover` all, `nobackfill` those that fill members, `norebalance` these too
//! where nothing is degraded. Who is held back has no slots. Nor has who meets a full store: recovery one that the map
//! calls full, backfill a member beyond the backfillfull ratio; it tries again after a while.
//!
//! Follows Ceph v16.2 `src/osd/PeeringState.cc` (`WaitLocalRecoveryReserved` to `Backfilling`, `get_recovery_priority`,
//! `get_backfill_priority`, `set_force_recovery`) and `src/osd/osd_types.h` for the priorities.
//!
//! Invariants: only a group that this OSD leads has a `Reservation`; only one that it follows in has `Lent` a slot.

use super::{Pg, Role};
use crate::core::Core;
use crate::reservations::{Side, Turn};
use base::{Duration, Epoch, OsdId};
use maps::osd_map::MapFlags;
use maps::pool_options::OptionKey;
use maps::stats::PgState;
use maps::{OsdState, PgPool};
use std::collections::BTreeSet;
use wire::messages::{PgReserve, PgReserved, SlotAnswer, SlotWork};
use wire::net::{ConnId, Envelope};

/// Of backfill (`OSD_BACKFILL_PRIORITY_BASE`).
const BACKFILL: u8 = 100;
/// Of backfill where copies lack (`OSD_BACKFILL_DEGRADED_PRIORITY_BASE`).
const BACKFILL_DEGRADED: u8 = 140;
/// Of recovery (`OSD_RECOVERY_PRIORITY_BASE`).
const RECOVERY: u8 = 180;
/// Of both where fewer members have everything than a pool needs to serve (`OSD_RECOVERY_INACTIVE_PRIORITY_BASE`).
const INACTIVE: u8 = 220;
/// The highest that is not forced (`OSD_RECOVERY_PRIORITY_MAX`).
const MAX: u8 = 253;
/// Of backfill that an operator wants first (`OSD_BACKFILL_PRIORITY_FORCED`).
const BACKFILL_FORCED: u8 = 254;
/// Of recovery that an operator wants first (`OSD_RECOVERY_PRIORITY_FORCED`).
const RECOVERY_FORCED: u8 = 255;
/// By how much a pool may be before or behind others (`OSD_POOL_PRIORITY_MAX`).
const POOL_RANGE: i64 = 10;

/// How far a group is on its way to its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Waits for a slot here.
    Local,
    /// Waits for this member's.
    Remote(OsdId),
    /// Has all.
    Reserved,
    /// Has none, because a store is too full; tries again later.
    TooFull,
}

/// The slots of a group that this OSD leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// For which work.
    pub work: SlotWork,
    /// How far it is.
    pub step: Step,
    priority: u8,
    /// The members that were asked.
    asked: BTreeSet<OsdId>,
}

/// A slot that this OSD has, or seeks, for the primary of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lent {
    conn: ConnId,
    peering: Epoch,
    work: SlotWork,
}

/// What an operator wants done before everything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forced {
    /// Recovery.
    pub recovery: bool,
    /// Backfill.
    pub backfill: bool,
}

/// A priority with what its pool adds, within its kind (`clamp_recovery_priority`).
fn clamped(base: u8, extra: usize, pool: &PgPool) -> u8 {
    let max = match base {
        BACKFILL => BACKFILL_DEGRADED - 1,
        BACKFILL_DEGRADED => RECOVERY - 1,
        RECOVERY => INACTIVE - 1,
        _ => MAX,
    };
    let of_pool = pool.options.int(OptionKey::RECOVERY_PRIORITY).unwrap_or(0).clamp(-POOL_RANGE, POOL_RANGE);
    let extra = i64::try_from(extra).unwrap_or(i64::from(MAX));
    (i64::from(base) + extra + of_pool + POOL_RANGE).min(i64::from(max)) as u8
}

impl Pg {
    /// Wants slots for the work that is to be done, or gives back those for work that is not. The work, if it may be done.
    pub(super) fn seek_slots(&mut self, core: &mut Core) -> Option<SlotWork> {
        let sought = self.work_to_do().filter(|work| !self.is_held_back(core, *work));
        let current = self.recovery.reservation.as_ref().map(|reservation| reservation.work);
        if current != sought {
            self.give_slots_back(core);
            if let Some(work) = sought {
                self.begin_reserving(core, work);
            }
        } else if let Some(work) = sought {
            self.follow_priority(core, work);
        }
        self.reserved_work()
    }

    /// The work for which it has all slots.
    pub(super) fn reserved_work(&self) -> Option<SlotWork> {
        let reserved = self.recovery.reservation.as_ref().filter(|reservation| reservation.step == Step::Reserved);
        reserved.map(|reservation| reservation.work)
    }

    /// Whether the cluster's flags forbid this work.
    pub(super) fn is_held_back(&self, core: &Core, work: SlotWork) -> bool {
        let flags = core.map.flags;
        let fills = work == SlotWork::Backfill;
        flags.contains(MapFlags::NORECOVER)
            || fills && flags.contains(MapFlags::NOBACKFILL)
            || fills && flags.contains(MapFlags::NOREBALANCE) && !self.lacks_copies(core)
    }

    /// Whether it has fewer copies than it should, or has just been given the last of them.
    fn lacks_copies(&self, core: &Core) -> bool {
        let size = core.map.pool(self.id.pool).map_or(0, |pool| usize::from(pool.size));
        self.sets.acting.len() < size || self.lacking(core).degraded > 0
    }

    fn begin_reserving(&mut self, core: &mut Core, work: SlotWork) {
        let priority = self.slot_priority(core, work);
        let reservation = Reservation { work, step: Step::Local, priority, asked: BTreeSet::new() };
        self.recovery.reservation = Some(reservation);
        core.stats_changed = true;
        let full = |osd: &OsdId| core.map.state(*osd).contains(OsdState::FULL);
        if work == SlotWork::Recovery && (full(&core.me()) || self.recovery.members.keys().any(full)) {
            return self.wait_for_room(core);
        }
        core.reservations.local.request(self.id, priority);
    }

    /// A store is too full: gives up what there is and tries again later.
    fn wait_for_room(&mut self, core: &mut Core) {
        let Some(work) = self.recovery.reservation.as_ref().map(|reservation| reservation.work) else { return };
        let priority = self.slot_priority(core, work);
        self.give_slots_back(core);
        let reservation = Reservation { work, step: Step::TooFull, priority, asked: BTreeSet::new() };
        self.recovery.reservation = Some(reservation);
        let wait: Duration = match work {
            SlotWork::Backfill => core.reservations.backfill_retry,
            _ => core.reservations.recovery_retry,
        };
        core.reservations.retry_at(core.now + wait, self.id);
        core.stats_changed = true;
    }

    /// There may be room by now.
    pub fn retry_reserving(&mut self, core: &mut Core) {
        if self.recovery.reservation.take_if(|reservation| reservation.step == Step::TooFull).is_some() {
            self.go_on_recovering(core);
        }
    }

    /// Gives all slots back, and wants none.
    pub(super) fn give_slots_back(&mut self, core: &mut Core) {
        let Some(reservation) = self.recovery.reservation.take() else { return };
        core.reservations.local.release(self.id);
        core.reservations.forget_retry(self.id);
        core.stats_changed = true;
        for osd in &reservation.asked {
            self.ask_for_slot(core, *osd, &reservation, false);
        }
    }

    fn ask_for_slot(&self, core: &mut Core, osd: OsdId, reservation: &Reservation, wanted: bool) {
        let Some(peering) = self.led_peering() else { return };
        let (pg, map_epoch, work, priority) = (self.id, core.epoch(), reservation.work, reservation.priority);
        core.send_osd(osd, Envelope::new(PgReserve { pg, map_epoch, peering, work, priority, wanted }));
    }

    /// A slot here or, for another's primary, of this OSD has been given or taken away.
    pub fn slot_turn(&mut self, core: &mut Core, side: Side, turn: Turn) {
        match (side, turn) {
            (Side::Local, Turn::Granted) => self.reserve_next(core),
            (Side::Local, Turn::Preempted) => self.slot_lost(core),
            (Side::Remote, Turn::Granted) => self.tell_borrower(core, SlotAnswer::Granted),
            (Side::Remote, Turn::Preempted) => {
                self.tell_borrower(core, SlotAnswer::Revoked);
                self.lent = None;
            }
        }
    }

    /// Asks the next member, or begins to work.
    fn reserve_next(&mut self, core: &mut Core) {
        let Some(mut reservation) = self.recovery.reservation.take() else {
            return core.reservations.local.release(self.id);
        };
        let needed = |filled: bool| reservation.work == SlotWork::Recovery || filled;
        let members = self.recovery.members.iter();
        let needed = members.filter(|(_, member)| needed(member.is_backfilled())).map(|(osd, _)| *osd);
        let next = { needed }.find(|osd| reservation.asked.last().is_none_or(|last| last < osd));
        reservation.step = next.map_or(Step::Reserved, Step::Remote);
        if let Some(osd) = next {
            reservation.asked.insert(osd);
            self.ask_for_slot(core, osd, &reservation, true);
        }
        self.recovery.reservation = Some(reservation);
        if next.is_none() {
            core.stats_changed = true;
            self.go_on_recovering(core);
        }
    }

    /// Another group needs a slot more: begins again.
    fn slot_lost(&mut self, core: &mut Core) {
        self.give_slots_back(core);
        self.go_on_recovering(core);
    }

    /// A member says what becomes of its slot.
    pub fn handle_reserved(&mut self, core: &mut Core, from: OsdId, message: &PgReserved) {
        if message.work == SlotWork::Scrub {
            return self.handle_scrub_reserved(core, from, message);
        }
        let current = self.led_peering() == Some(message.peering);
        let Some(reservation) = &self.recovery.reservation else { return };
        if !current || reservation.work != message.work || !reservation.asked.contains(&from) {
            return;
        }
        match message.answer {
            SlotAnswer::Granted if reservation.step == Step::Remote(from) => self.reserve_next(core),
            SlotAnswer::Granted => {}
            SlotAnswer::Revoked => self.slot_lost(core),
            SlotAnswer::TooFull | SlotAnswer::Refused => self.wait_for_room(core),
        }
    }

    /// Says again what is wanted of a member that may not have heard it.
    pub(super) fn resume_reserving(&mut self, core: &mut Core, osd: OsdId) {
        if let Some(reservation) = self.recovery.reservation.clone().filter(|r| r.asked.contains(&osd)) {
            self.ask_for_slot(core, osd, &reservation, true);
        }
        // Where this OSD follows, the primary asks again for what it wants, and may have done so already.
        let is_lost = self.lent.is_some_and(|lent| core.sessions.get(lent.conn).is_none());
        if is_lost && matches!(self.role, Role::Replica(primary, _) if primary == osd) {
            self.take_slot_back(core);
        }
    }
}

/// A member's slots.
impl Pg {
    /// The primary wants a slot, or gives one back.
    pub fn handle_reserve(&mut self, core: &mut Core, conn: ConnId, from: OsdId, message: &PgReserve) {
        if !matches!(self.role, Role::Replica(primary, p) if primary == from && p == message.peering) {
            return;
        }
        if message.work == SlotWork::Scrub {
            return self.handle_scrub_reserve(core, conn, message);
        }
        if !message.wanted {
            return self.take_slot_back(core);
        }
        self.lent = Some(Lent { conn, peering: message.peering, work: message.work });
        if message.work == SlotWork::Backfill && core.is_backfill_full() {
            return self.refuse_backfill(core, conn, message.peering);
        }
        core.reservations.remote.request(self.id, message.priority);
        if core.reservations.remote.has(self.id) {
            self.tell_borrower(core, SlotAnswer::Granted);
        }
    }

    /// This store is too full to be filled further: whoever has asked, or sent a part, on this session hears it, even where
    /// it has no slot here any more.
    pub(super) fn refuse_backfill(&mut self, core: &mut Core, conn: ConnId, peering: Epoch) {
        let (pg, map_epoch, work, answer) = (self.id, core.epoch(), SlotWork::Backfill, SlotAnswer::TooFull);
        core.send(conn, Envelope::new(PgReserved { pg, map_epoch, peering, work, answer }));
        self.take_slot_back(core);
    }

    fn tell_borrower(&mut self, core: &mut Core, answer: SlotAnswer) {
        let Some(Lent { conn, peering, work }) = self.lent else { return };
        let (pg, map_epoch) = (self.id, core.epoch());
        core.send(conn, Envelope::new(PgReserved { pg, map_epoch, peering, work, answer }));
    }

    /// The primary needs the slot no more.
    pub(super) fn take_slot_back(&mut self, core: &mut Core) {
        if self.lent.take().is_some() {
            core.reservations.remote.release(self.id);
        }
    }
}

/// Priorities.
impl Pg {
    /// How urgent this work is.
    fn slot_priority(&self, core: &Core, work: SlotWork) -> u8 {
        let Some(pool) = core.map.pool(self.id.pool) else { return 0 };
        let (size, min_size) = (usize::from(pool.size), usize::from(pool.min_size));
        let acting = self.sets.acting.len();
        let degraded = self.lacking(core).degraded > 0;
        match work {
            SlotWork::Backfill if self.forced.backfill => BACKFILL_FORCED,
            SlotWork::Backfill if acting < min_size => clamped(INACTIVE, min_size - acting, pool),
            SlotWork::Backfill if acting < size => clamped(BACKFILL_DEGRADED, size - acting, pool),
            SlotWork::Backfill if degraded => clamped(BACKFILL_DEGRADED, 0, pool),
            SlotWork::Backfill => clamped(BACKFILL, 0, pool),
            _ if self.forced.recovery => RECOVERY_FORCED,
            _ => {
                let whole = self.whole_members();
                let base = if degraded && whole < min_size { INACTIVE } else { RECOVERY };
                clamped(base, if base == INACTIVE { min_size - whole } else { 0 }, pool)
            }
        }
    }

    /// Members of the acting set that lack nothing.
    fn whole_members(&self) -> usize {
        let whole = |osd: &&OsdId| match self.recovery.members.get(*osd) {
            Some(member) => member.missing.is_empty(),
            None => self.missing.is_empty(),
        };
        self.sets.acting.iter().filter(whole).count()
    }

    /// What this work is worth may have changed since slots were asked for.
    fn follow_priority(&mut self, core: &mut Core, work: SlotWork) {
        let priority = self.slot_priority(core, work);
        let Some(reservation) = self.recovery.reservation.as_mut().filter(|r| r.priority != priority) else { return };
        reservation.priority = priority;
        if reservation.step != Step::TooFull {
            core.reservations.local.request(self.id, priority);
        }
        if let Some(reservation) = self.recovery.reservation.clone()
            && let Step::Remote(osd) = reservation.step
        {
            self.ask_for_slot(core, osd, &reservation, true);
        }
    }

    /// An operator wants this work first, or no longer; whether that is new.
    pub fn force(&mut self, core: &mut Core, work: SlotWork, on: bool) -> bool {
        let busy = match work {
            SlotWork::Backfill => PgState::BACKFILL_WAIT.with(PgState::BACKFILLING),
            _ => PgState::RECOVERY_WAIT.with(PgState::RECOVERING),
        };
        let state = crate::stats::pg_state(core, self);
        let needs = state.0 & busy.with(PgState::DEGRADED).0 != 0;
        let forced = match work {
            SlotWork::Backfill => &mut self.forced.backfill,
            _ => &mut self.forced.recovery,
        };
        if *forced == on || on && !needs {
            return false;
        }
        *forced = on;
        core.stats_changed = true;
        self.go_on_recovering(core);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::pool_options::OptionValue;

    #[test]
    fn a_pool_moves_its_groups_within_their_kind() {
        let with = |priority: i64| {
            let mut pool = PgPool::default();
            pool.options.0.insert(OptionKey::RECOVERY_PRIORITY, OptionValue::Int(priority));
            pool
        };
        assert_eq!(clamped(RECOVERY, 0, &PgPool::default()), 190);
        assert_eq!(clamped(BACKFILL, 0, &with(-10)), 100);
        assert_eq!(clamped(BACKFILL, 0, &with(10)), 120);
        assert_eq!(clamped(BACKFILL_DEGRADED, 2, &with(99)), 162);
        assert_eq!(clamped(BACKFILL_DEGRADED, 60, &with(0)), 179, "still behind recovery");
        assert_eq!(clamped(INACTIVE, 2, &with(0)), 232);
        assert_eq!(clamped(INACTIVE, 99, &with(0)), 253);
    }
}
