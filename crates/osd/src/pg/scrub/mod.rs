//! Scrub: the primary compares the members' copies, range by range, while the PG serves.
//!
//! The way: places on all members (`scrub_pace`) -> the next range of whole objects -> writes to it wait until those
//! before them are durable everywhere -> every member, this one too, looks at what it has (`scan`) and shows it -> the
//! copies are compared (`compare`) -> the range is free again. A write that comes to a range meanwhile makes the scrub
//! begin it again with half as many objects, a few times; then it waits for that object, which is read at once. At the
//! end the record says what it came to (`record`), clients may ask (`found`), and what is wrong may be mended
//! (`repair`).
//!
//! Follows the scheme of Ceph v16.2 `src/osd/pg_scrubber.cc`, with its words in the cluster log.
//!
//! Invariants: only a PG that is clean is scrubbed, within one interval; while copies are looked at nobody writes to
//! them.
//!
//! Read next: `due`.

pub mod compare;
pub mod due;
pub mod found;
pub mod record;
pub mod repair;
pub mod scan;
pub mod shown;

use super::{Pg, PgCommit, PgRead, Role};
use crate::cluster_log::Level as ClusterLevel;
use crate::core::{Core, Level};
use crate::limits::{
    SCRUB_FAILED_WAIT, SCRUB_FOUND_MAX, SCRUB_HOLD_LOOK, SCRUB_HOLD_MAX, SCRUB_PREEMPTIONS_MAX, SCRUB_RANGE_AGAIN,
};
use crate::ops::OpClass;
use base::{Bug, Epoch, Instant, OsdId, SnapId};
use compare::compare;
use found::Findings;
use record::ScrubRecord;
use scan::Scan;
use shown::ShownObjects;
use std::collections::{BTreeMap, BTreeSet};
use store::{ListEntry, ListWant, ObjectId, ReadRequest, ReadWhat};
use wire::messages::{PgReserve, PgReserved, PgScrub, PgScrubEnd, PgScrubbed, SlotAnswer, SlotWork};
use wire::net::{ConnId, Envelope};
use wire::types::UTime;
use wire::{Decode, Encode};

/// What kind of a scrub it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kind {
    /// Data and maps are read.
    pub deep: bool,
    /// What is found is mended.
    pub repair: bool,
    /// Somebody has asked for it; it is due at any time.
    pub requested: bool,
}

impl Kind {
    /// Both.
    fn with(self, other: Option<Kind>) -> Kind {
        let other = other.unwrap_or_default();
        Kind {
            deep: self.deep || other.deep,
            repair: self.repair || other.repair,
            requested: self.requested || other.requested,
        }
    }

    /// How Ceph's cluster log calls it.
    fn word(self) -> &'static str {
        match (self.repair, self.deep) {
            (true, _) => "repair",
            (false, true) => "deep-scrub",
            (false, false) => "scrub",
        }
    }
}

/// How far a scrub is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// Waits for these members' places.
    Reserving(BTreeSet<OsdId>),
    /// The store lists the next range.
    Choosing,
    /// Writes to the range are to end; at this time it is given up for now.
    Holding(Instant),
    /// Waits for these members to show what they have.
    Comparing(BTreeSet<OsdId>),
    /// Waits for a time.
    Pausing,
}

/// A scrub of a PG that this OSD leads.
#[derive(Debug)]
pub struct Scrub {
    kind: Kind,
    peering: Epoch,
    step: Step,
    members: BTreeSet<OsdId>,
    /// The first place of the range; none for the beginning.
    from: Option<ObjectId>,
    /// The first place after it; none for the end.
    to: Option<ObjectId>,
    /// How often this range was begun in vain.
    attempts: u32,
    /// Tells what belongs to this attempt.
    round: u32,
    maps: BTreeMap<OsdId, ShownObjects>,
    findings: Findings,
    shallow_errors: u64,
    deep_errors: u64,
}

impl Scrub {
    /// Whether an object's writes have to wait.
    fn holds(&self, head: &ObjectId) -> bool {
        let inside =
            || self.from.as_ref().is_none_or(|from| from <= head) && self.to.as_ref().is_none_or(|to| head < to);
        matches!(self.step, Step::Holding(_) | Step::Comparing(_)) && inside()
    }

    fn is_urgent(&self) -> bool {
        self.attempts >= SCRUB_PREEMPTIONS_MAX
    }
}

/// What a PG knows of its scrubs beside its record.
#[derive(Debug, Default)]
pub struct Scrubbing {
    /// The one under way.
    pub current: Option<Box<Scrub>>,
    /// The one that was asked for.
    pub wanted: Option<Kind>,
    /// Not before this time, because it cannot be done.
    not_before: Instant,
    /// What the last one of this interval has found.
    pub findings: Option<Findings>,
    /// What was mended is to be looked at again.
    pub check: bool,
    /// It was, and there still was something wrong.
    pub failed_repair: bool,
    /// The session on which the primary was given a place here.
    lent_on: Option<ConnId>,
    rounds: u32,
}

impl Scrubbing {
    /// What is going on, once all members take part.
    pub fn kind(&self) -> Option<Kind> {
        let current = self.current.as_ref().filter(|scrub| !matches!(scrub.step, Step::Reserving(_)));
        current.map(|scrub| scrub.kind)
    }

    /// Whether an object's writes have to wait.
    pub fn holds(&self, head: &ObjectId) -> bool {
        self.current.as_ref().is_some_and(|scrub| scrub.holds(head))
    }
}

impl Pg {
    /// Somebody asks for a scrub.
    pub fn want_scrub(&mut self, core: &mut Core, kind: Kind) {
        if self.is_primary() {
            self.scrubbing.wanted = Some(kind.with(self.scrubbing.wanted));
            self.scrubbing.not_before = Instant::ZERO;
            core.scrubs.look_soon();
        }
    }

    /// Begins a scrub for which there is a place here: asks the other members for theirs.
    pub fn begin_scrub(&mut self, core: &mut Core, kind: Kind) {
        let Some(peering) = self.active_peering().filter(|_| self.is_clean()) else { return };
        if !core.scrubs.take_place(self.id) {
            return;
        }
        self.scrubbing.wanted = None;
        let me = core.me();
        let members: BTreeSet<OsdId> = self.sets.acting.iter().copied().filter(|osd| *osd != me).collect();
        for osd in &members {
            self.ask_for_place(core, *osd, peering, true);
        }
        self.scrubbing.current = Some(Box::new(Scrub {
            kind,
            peering,
            step: Step::Reserving(members.clone()),
            members,
            from: None,
            to: None,
            attempts: 0,
            round: 0,
            maps: BTreeMap::new(),
            findings: Findings::default(),
            shallow_errors: 0,
            deep_errors: 0,
        }));
        self.start_if_reserved(core);
    }

    /// Wants a member's place, or gives it back.
    fn ask_for_place(&self, core: &mut Core, osd: OsdId, peering: Epoch, wanted: bool) {
        let (pg, map_epoch, work, priority) = (self.id, core.epoch(), SlotWork::Scrub, 0);
        core.send_osd(osd, Envelope::new(PgReserve { pg, map_epoch, peering, work, priority, wanted }));
    }

    /// The primary wants a place, or gives one back.
    pub(super) fn handle_scrub_reserve(&mut self, core: &mut Core, conn: ConnId, message: &PgReserve) {
        if !message.wanted {
            return self.take_place_back(core);
        }
        let granted = core.scrubs.take_place(self.id);
        self.scrubbing.lent_on = granted.then_some(conn);
        let answer = if granted { SlotAnswer::Granted } else { SlotAnswer::Refused };
        let (pg, map_epoch, peering, work) = (self.id, core.epoch(), message.peering, message.work);
        core.send(conn, Envelope::new(PgReserved { pg, map_epoch, peering, work, answer }));
    }

    /// A member has a place, or has none.
    pub(super) fn handle_scrub_reserved(&mut self, core: &mut Core, from: OsdId, message: &PgReserved) {
        let Some(scrub) = self.scrubbing.current.as_mut().filter(|s| s.peering == message.peering) else { return };
        let Step::Reserving(waiting) = &mut scrub.step else { return };
        if !waiting.remove(&from) {
            return;
        }
        if message.answer == SlotAnswer::Granted {
            return self.start_if_reserved(core);
        }
        let salt = core.me().0 as u64 * 5 + u64::from(self.id.seed) + core.now.0 / 1000;
        self.give_up_scrub(core, true);
        core.scrubs.refused(core.now, salt);
    }

    fn start_if_reserved(&mut self, core: &mut Core) {
        let Some(scrub) = &self.scrubbing.current else { return };
        if !matches!(&scrub.step, Step::Reserving(waiting) if waiting.is_empty()) {
            return;
        }
        let text = format!("{} {} starts", self.id, scrub.kind.word());
        core.cluster_log.line(core.now, ClusterLevel::DEBUG, text);
        core.stats_changed = true;
        self.choose_range(core);
    }

    /// Lists what comes next.
    fn choose_range(&mut self, core: &mut Core) {
        self.scrubbing.rounds += 1;
        let collection = self.collection();
        let Some(scrub) = &mut self.scrubbing.current else { return };
        (scrub.step, scrub.round) = (Step::Choosing, self.scrubbing.rounds);
        let max = (core.scrubs.options.range_objects >> scrub.attempts.min(31)).max(1);
        let what = ReadWhat::List(ListWant { from: scrub.from.clone(), max, attr: None });
        core.read(self.id, PgRead::ScrubRange(scrub.round), ReadRequest { collection, what });
    }

    /// The store has listed the beginning of what comes next: the range ends between two objects.
    pub(super) fn range_read(&mut self, core: &mut Core, round: u32, entries: &[ListEntry], next: Option<ObjectId>) {
        let Some(scrub) = self.scrubbing.current.as_mut().filter(|scrub| scrub.round == round) else { return };
        scrub.to = next.map(|next| {
            let start = next.with_snap(SnapId(0));
            let before = entries.iter().any(|entry| entry.id < start);
            if before { start } else { next.with_snap(SnapId(u64::MAX)) }
        });
        scrub.step = Step::Holding(core.now + SCRUB_HOLD_MAX);
        for (head, queue) in &mut self.objects {
            queue.scrubbed = scrub.holds(head);
        }
        self.look_at_range(core);
    }

    /// Asks everybody if nobody writes to the range any more.
    fn look_at_range(&mut self, core: &mut Core) {
        let Some(scrub) = &mut self.scrubbing.current else { return };
        let Step::Holding(until) = scrub.step else { return };
        let written = |queue: &super::order::ObjectQueue| queue.scrubbed && (queue.writers > 0 || queue.exclusive);
        if self.objects.values().any(written) && !Bug::ScrubAmidWrites.is_planted() {
            if core.now >= until {
                return self.range_again(core);
            }
            return core.scrubs.wake_at(core.now + SCRUB_HOLD_LOOK, self.id);
        }
        scrub.step = Step::Comparing(scrub.members.iter().copied().chain([core.me()]).collect());
        scrub.maps.clear();
        let (peering, round, urgent) = (scrub.peering, scrub.round, scrub.is_urgent());
        let place = |place: &Option<ObjectId>| place.as_ref().map(Encode::to_bytes);
        for osd in &scrub.members {
            let (pg, map_epoch, deep) = (self.id, core.epoch(), scrub.kind.deep);
            let (from, to) = (place(&scrub.from), place(&scrub.to));
            core.send_osd(*osd, Envelope::new(PgScrub { pg, map_epoch, peering, round, from, to, deep, urgent }));
        }
        let scan = Scan::new((peering, round), scrub.from.clone(), scrub.to.clone(), scrub.kind.deep, urgent);
        self.start_scan(core, scan);
    }

    /// A client's request has to wait: it may come first.
    pub(super) fn preempt_scrub(&mut self, core: &mut Core, head: &ObjectId, class: OpClass) {
        let held = class != OpClass::Read && self.objects.get(head).is_some_and(|queue| queue.scrubbed);
        let comparing = |scrub: &Scrub| matches!(scrub.step, Step::Comparing(_)) && !scrub.is_urgent();
        if held && self.scrubbing.current.as_ref().is_some_and(|scrub| comparing(scrub)) {
            self.range_again(core);
        }
    }

    /// Gives the range free and tries again a little later.
    fn range_again(&mut self, core: &mut Core) {
        self.scan = None;
        if let Some(scrub) = &mut self.scrubbing.current {
            scrub.step = Step::Pausing;
            scrub.attempts = (scrub.attempts + 1).min(SCRUB_PREEMPTIONS_MAX);
            core.scrubs.wake_at(core.now + SCRUB_RANGE_AGAIN, self.id);
        }
        self.free_range(core);
    }

    /// Lets those who waited for the range go on.
    fn free_range(&mut self, core: &mut Core) {
        let mut held = Vec::new();
        for (head, queue) in self.objects.iter_mut().filter(|(_, queue)| queue.scrubbed) {
            queue.scrubbed = false;
            held.push(head.clone());
        }
        // In an order that every run has.
        held.sort_unstable();
        held.iter().for_each(|head| self.pump(core, head));
    }

    /// It is time for something.
    pub fn scrub_timer(&mut self, core: &mut Core) {
        match self.scrubbing.current.as_ref().map(|scrub| &scrub.step) {
            Some(Step::Holding(_)) => self.look_at_range(core),
            Some(Step::Pausing) => self.choose_range(core),
            _ => {}
        }
    }

    /// A member shows what it has.
    pub fn handle_scrubbed(&mut self, core: &mut Core, from: OsdId, message: &PgScrubbed) {
        if self.scrubbing.current.as_ref().is_some_and(|scrub| scrub.peering == message.peering) {
            let objects = message.objects.as_ref().map(shown::unpack).transpose();
            self.member_shows(core, from, message.round, objects.ok().flatten());
        }
    }

    /// What a member has in the range; none if it cannot tell.
    fn member_shows(&mut self, core: &mut Core, from: OsdId, round: u32, objects: Option<ShownObjects>) {
        let Some(scrub) = self.scrubbing.current.as_mut().filter(|scrub| scrub.round == round) else { return };
        let Step::Comparing(waiting) = &mut scrub.step else { return };
        if !waiting.remove(&from) {
            return;
        }
        let Some(objects) = objects else { return self.stop_scrub(core, from) };
        scrub.maps.insert(from, objects);
        if waiting.is_empty() {
            self.compare_range(core);
        }
    }

    /// The store could not list what comes next.
    pub(super) fn range_failed(&mut self, core: &mut Core, round: u32) {
        if self.scrubbing.current.as_ref().is_some_and(|scrub| scrub.round == round) {
            self.stop_scrub(core, core.me());
        }
    }

    /// A member cannot tell what it has: nothing can be said of the PG.
    fn stop_scrub(&mut self, core: &mut Core, osd: OsdId) {
        let Some(scrub) = &self.scrubbing.current else { return };
        let text = format!("{} {} stopped: osd.{osd} cannot list its objects", self.id, scrub.kind.word());
        core.cluster_log.line(core.now, ClusterLevel::ERROR, text);
        self.scrubbing.not_before = core.now + SCRUB_FAILED_WAIT;
        self.give_up_scrub(core, false);
    }

    fn compare_range(&mut self, core: &mut Core) {
        let Some(scrub) = &mut self.scrubbing.current else { return };
        let compared = compare(&core::mem::take(&mut scrub.maps), core.me());
        scrub.shallow_errors += compared.shallow_errors;
        scrub.deep_errors += compared.deep_errors;
        let room = SCRUB_FOUND_MAX.saturating_sub(scrub.findings.objects.len() + scrub.findings.snapshots.len());
        scrub.findings.objects.extend(compared.objects.into_iter().take(room));
        scrub.findings.snapshots.extend(compared.snapshots.into_iter().take(room));
        for line in compared.lines {
            let line = format!("{} {}", self.id, line.replace("{pool}", &self.id.pool.0.to_string()));
            core.cluster_log.line(core.now, ClusterLevel::ERROR, line);
        }
        (scrub.from, scrub.attempts) = (scrub.to.take(), 0);
        let at_end = scrub.from.is_none();
        let sleep = core.scrubs.options.sleep;
        scrub.step = Step::Pausing;
        self.free_range(core);
        if at_end {
            self.end_scrub(core);
        } else if sleep.is_zero() {
            self.choose_range(core);
        } else {
            core.scrubs.wake_at(core.now + sleep, self.id);
        }
    }

    /// Everything has been compared.
    fn end_scrub(&mut self, core: &mut Core) {
        let Some(scrub) = self.scrubbing.current.take() else { return };
        let errors = scrub.shallow_errors + scrub.deep_errors;
        let options = &core.scrubs.options;
        let may_repair = options.auto_repair && !scrub.kind.requested && errors <= options.auto_repair_errors_max;
        let repairs = errors > 0 && scrub.kind.deep && (scrub.kind.repair || may_repair);
        let looks_deeper = errors > 0 && !scrub.kind.deep && may_repair;
        let fixed = if repairs { self.repair(core, &scrub.findings) } else { None };
        self.put_record(core, &scrub, fixed.is_some_and(|fixed| fixed.all));
        let (mut text, level) = match errors {
            0 => (format!("{} {} ok", self.id, scrub.kind.word()), ClusterLevel::DEBUG),
            _ => (format!("{} {} {errors} errors", self.id, scrub.kind.word()), ClusterLevel::ERROR),
        };
        if let Some(fixed) = fixed {
            text += &format!(", {} fixed", fixed.copies);
        }
        core.cluster_log.line(core.now, level, text);
        let check = core::mem::replace(&mut self.scrubbing.check, fixed.is_some());
        self.scrubbing.failed_repair = errors > 0 && (check || self.scrubbing.failed_repair);
        self.scrubbing.findings = Some(scrub.findings);
        if looks_deeper {
            self.want_scrub(core, Kind { deep: true, repair: true, requested: true });
        }
        let record = self.info.scrubs.to_bytes();
        for osd in &scrub.members {
            let (pg, map_epoch, peering, record) = (self.id, core.epoch(), scrub.peering, record.clone());
            core.send_osd(*osd, Envelope::new(PgScrubEnd { pg, map_epoch, peering, record }));
        }
        core.scrubs.give_place(self.id);
        core.stats_changed = true;
        self.go_on_recovering(core);
    }

    /// Puts into the record what a scrub came to.
    fn put_record(&mut self, core: &mut Core, scrub: &Scrub, all_fixed: bool) {
        let (at, now) = (self.info.last_update, UTime::from(core.now));
        let record = &mut self.info.scrubs;
        (record.last, record.stamp) = (at, now);
        record.shallow_errors = if all_fixed { 0 } else { scrub.shallow_errors };
        if scrub.kind.deep {
            (record.last_deep, record.deep_stamp) = (at, now);
            record.deep_errors = if all_fixed { 0 } else { scrub.deep_errors };
        }
        if scrub.shallow_errors + scrub.deep_errors == 0 {
            record.clean_stamp = now;
        }
        self.commit_info(core, PgCommit::Nothing);
    }

    /// The primary says what its scrub came to.
    pub fn handle_scrub_end(&mut self, core: &mut Core, from: OsdId, message: &PgScrubEnd) {
        if !matches!(self.role, Role::Replica(primary, p) if primary == from && p == message.peering) {
            return;
        }
        core.scrubs.give_place(self.id);
        match ScrubRecord::from_bytes(&message.record) {
            Ok(record) => {
                self.info.scrubs = record;
                self.commit_info(core, PgCommit::Nothing);
            }
            Err(error) => core.log(Level::Error, format!("pg {}: {from:?} sent what cannot be read: {error}", self.id)),
        }
    }

    /// Gives up a scrub that this OSD leads, to be begun again or not.
    fn give_up_scrub(&mut self, core: &mut Core, again: bool) {
        let Some(scrub) = self.scrubbing.current.take() else { return };
        if again && scrub.kind.requested {
            self.scrubbing.wanted = Some(scrub.kind.with(self.scrubbing.wanted));
        }
        self.scan = None;
        for osd in &scrub.members {
            self.ask_for_place(core, *osd, scrub.peering, false);
        }
        core.scrubs.give_place(self.id);
        core.stats_changed = true;
        self.free_range(core);
    }

    /// What a member was asked, or its answer, may be lost: begins again.
    pub(super) fn resume_scrub(&mut self, core: &mut Core, osd: OsdId) {
        if self.scrubbing.current.as_ref().is_some_and(|scrub| scrub.members.contains(&osd)) {
            self.give_up_scrub(core, true);
        }
        // Where this OSD follows, the primary begins again, too, and may have done so already.
        let stands = self.scrubbing.lent_on.is_some_and(|conn| core.sessions.get(conn).is_some());
        if !stands && matches!(self.role, Role::Replica(primary, _) if primary == osd) {
            self.take_place_back(core);
        }
    }

    /// The primary needs the place no more.
    pub(super) fn take_place_back(&mut self, core: &mut Core) {
        self.scrubbing.lent_on = None;
        self.scan = None;
        core.scrubs.give_place(self.id);
    }

    /// The interval, or the peering, is over.
    pub(super) fn abandon_scrub(&mut self, core: &mut Core) {
        if let Some(scrub) = self.scrubbing.current.take().filter(|scrub| scrub.kind.requested) {
            self.scrubbing.wanted = Some(scrub.kind.with(self.scrubbing.wanted));
        }
        self.scrubbing.findings = None;
        self.take_place_back(core);
    }

    /// Panics if what must always hold does not.
    pub(super) fn check_scrub(&self) {
        let Some(scrub) = &self.scrubbing.current else {
            return assert!(self.objects.values().all(|queue| !queue.scrubbed), "pg {}: held by no scrub", self.id);
        };
        assert_eq!(self.active_peering(), Some(scrub.peering), "pg {}: a scrub beyond its interval", self.id);
        for (head, queue) in &self.objects {
            assert_eq!(queue.scrubbed, scrub.holds(head), "pg {}: {head:?} is held, or not", self.id);
            let writes = queue.writers > 0;
            assert!(!writes || !queue.scrubbed || matches!(scrub.step, Step::Holding(_)), "pg {}: {head:?}", self.id);
        }
    }
}
