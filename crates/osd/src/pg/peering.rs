//! From a new interval to serving: the primary finds out what there is, takes the best log as its own and gives it to
//! every member.
//!
//! The steps, each of which ends in the next or waits for a message or a map:
//! 1. `Asking`: everybody who may hold the PG is asked for its record: the acting and up sets, and every member that
//!    is up of every past interval in which writes may have been acknowledged. Of each such interval at least one
//!    member must answer, and its store must be older than the interval, or the PG is down: it would not know what it
//!    lacks. The primary's own record is one more answer, and counts when it is durable, as others' do: a log that it
//!    gave to others and then lost with its power would name writes that nobody has.
//! 2. The authority is the newest `last_update` among the complete records with the newest `last_epoch_started`:
//!    whoever was active last has every acknowledged write, and more of its log can only be writes not acknowledged.
//! 3. `Remapping`: if others should serve than do (`acting`), the monitor is asked for them, and a new interval comes.
//! 4. `Fetching`: if the authority is another OSD, the primary asks for its log. What it lacks then is its missing set.
//! 5. `Promising`: the monitor records that this primary lives (`up_thru`), so that later primaries know that this
//!    interval may have had writes.
//! 6. `Activating`: every other member takes the primary's log as its own, stores what it lacks, and says so.
//! 7. Active, or with fewer members than `min_size` only peered; objects follow (`recovery`).
//!
//! Members of the up set that do not serve take part from step 6 on: they log every write, and are filled where their
//! log does not reach, or recover beside the others where they lack much (`acting`).
//!
//! Follows the rules of Ceph v16.2 `src/osd/PeeringState.cc` (`find_best_info`, `build_prior`, `activate`; and
//! `messages_pending_flush`, which keeps a peering's messages back until the store has all of the interval before). A
//! member computes itself what it lacks; its primary asks nobody for logs but the authority.
//!
//! Invariant: no step is passed on the word of an OSD that answered an older peering (`id` is echoed in each answer).

use super::info::{LastBackfill, PgInfo};
use super::log::{LogEntry, PgLog};
use super::member::Member;
use super::missing::Missing;
use super::scrub::record::ScrubRecord;
use super::strays::UNASKED;
use super::{Pg, PgCommit, Role};
use crate::core::{CommitFor, Core, Level};
use crate::placement::PastInterval;
use crate::replication::Replication;
use base::{Bug, EVersion, Epoch, OsdId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::{PgActivate, PgActivated, PgLog as PgLogMessage, PgLogQuery, PgNotify, PgQuery};
use wire::net::Envelope;
use wire::{Decode, Encode, Malformed};

/// What an OSD has said about a PG.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its record, if it has the PG.
    pub info: Option<PgInfo>,
    /// Objects that it lacks although its log tells of them.
    pub missing: u64,
    /// The map in which its store was new.
    pub born: Epoch,
}

/// How far the primary is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Waits for these OSDs' records.
    Asking(BTreeSet<OsdId>),
    /// Not enough is known: waits for another map.
    Down(Stuck),
    /// Waits for a map in which others serve.
    Remapping,
    /// Waits for this OSD's log.
    Fetching(OsdId),
    /// Waits for the monitor to record that this primary lives.
    Promising,
    /// Waits for members to take the log, and for its own store.
    Activating {
        /// Members that have not said so yet.
        waiting: BTreeSet<OsdId>,
        /// What the others have said that they lack.
        members: BTreeMap<OsdId, Member>,
        /// The own record is durable.
        stored: bool,
    },
}

/// Why peering cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// In words.
    pub why: &'static str,
    /// Those who are down and may know what is needed. Where there are none nobody can be waited for: the PG is incomplete.
    pub blocked_by: BTreeSet<OsdId>,
}

/// A peering.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peering {
    /// Names it: the primary's map when it began.
    pub id: Epoch,
    /// What has been said.
    pub answers: BTreeMap<OsdId, Answer>,
    /// How far it is.
    pub step: Step,
    /// Holders that are no members and were not asked (`strays`).
    pub strays: BTreeMap<OsdId, Answer>,
    /// An operator says that nothing is left: it may begin with nothing, whatever past members might tell.
    pub anew: bool,
    /// What is here is durable. Before that it counts as little as what another has not said.
    pub stored: bool,
}

impl Peering {
    /// Whether it has asked `osd`, or heard of it.
    fn concerns(&self, osd: OsdId) -> bool {
        self.answers.contains_key(&osd) || self.waits_for().contains(&osd)
    }

    /// Those who have said that they hold the PG.
    pub fn holders(&self) -> impl Iterator<Item = OsdId> {
        self.answers.iter().filter(|(_, answer)| answer.info.is_some()).map(|(osd, _)| *osd)
    }

    /// Those without whose answer it does not go on.
    pub fn waits_for(&self) -> BTreeSet<OsdId> {
        match &self.step {
            Step::Asking(waiting) => waiting.clone(),
            Step::Fetching(osd) => BTreeSet::from([*osd]),
            _ => BTreeSet::new(),
        }
    }

    /// Whom an operator may have to help, for it to go on.
    pub fn blocked_by(&self) -> BTreeSet<OsdId> {
        match &self.step {
            Step::Down(stuck) => stuck.blocked_by.clone(),
            _ => self.waits_for(),
        }
    }
}

impl Pg {
    /// Begins, or begins again, with the present map.
    pub fn start_peering(&mut self, core: &mut Core) {
        let id = core.epoch();
        let (strays, anew) = match &mut self.role {
            Role::Peering(peering) => (core::mem::take(&mut peering.strays), peering.anew),
            _ => Default::default(),
        };
        let info = self.exists.then(|| self.info.clone());
        let own = Answer { info, missing: self.missing.len() as u64, born: core.born };
        let answers = BTreeMap::from([(core.me(), own)]);
        let asked = self.whom_to_ask(core);
        for osd in &asked {
            core.send_osd(*osd, Envelope::new(PgQuery { pg: self.id, map_epoch: id, peering: id }));
        }
        let step = Step::Asking(asked);
        let stored = !self.exists || !core.is_committing(self.id) || Bug::SpreadBeforeDurable.is_planted();
        self.role = Role::Peering(Box::new(Peering { id, answers, step, strays, anew, stored }));
        core.stats_changed = true;
        if !stored {
            self.commit_info(core, PgCommit::Own(id));
        }
        self.choose_authority(core);
    }

    /// An operator says that no copy is left (`force-create-pg`): where peering cannot go on, it begins with nothing, unless
    /// somebody who is up has a copy after all.
    pub fn make_anew(&mut self, core: &mut Core) {
        if let Role::Peering(peering) = &mut self.role
            && matches!(peering.step, Step::Down(_))
            && !peering.anew
        {
            peering.anew = true;
            self.start_peering(core);
        }
    }

    fn peering(&mut self, id: Epoch) -> Option<&mut Peering> {
        match &mut self.role {
            Role::Peering(peering) if peering.id == id => Some(peering),
            _ => None,
        }
    }

    /// Everybody who is up and may hold something, but this OSD.
    pub(crate) fn whom_to_ask(&self, core: &Core) -> BTreeSet<OsdId> {
        self.who_may_have(core).into_iter().filter(|osd| core.map.is_up(*osd)).collect()
    }

    /// The same, and those who are down.
    pub(crate) fn who_may_have(&self, core: &Core) -> BTreeSet<OsdId> {
        let past = self.unclean_past(core).map(|interval| &interval.acting);
        let all = past.chain([&self.sets.acting, &self.sets.up]).flatten();
        all.copied().filter(|osd| *osd != core.me() && *osd != OsdId::NONE).collect()
    }

    /// The past intervals whose writes others may not have yet.
    pub(crate) fn unclean_past<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = &'a PastInterval> {
        core_history(core, self, self.unclean_since())
    }

    /// Since when objects may be where others do not have them yet.
    pub(super) fn unclean_since(&self) -> Epoch {
        self.info.last_epoch_started.min(self.info.last_epoch_clean)
    }

    /// An OSD has answered.
    pub fn handle_notify(&mut self, core: &mut Core, from: OsdId, message: &PgNotify) {
        if message.peering == UNASKED {
            return self.stray_says(core, from, message);
        }
        let info = match message.info.as_ref().map(PgInfo::from_bytes).transpose() {
            Ok(info) => info,
            Err(error) => return self.complain(core, from, error),
        };
        if self.peering(message.peering).is_none() {
            return;
        }
        if let Some(info) = &info {
            self.info.scrubs = core::mem::take(&mut self.info.scrubs).or_later(info.scrubs.clone());
        }
        let Some(peering) = self.peering(message.peering) else { return };
        peering.answers.insert(from, Answer { info, missing: message.missing, born: message.born });
        if let Step::Asking(waiting) = &mut peering.step {
            waiting.remove(&from);
            self.choose_authority(core);
        }
    }

    fn complain(&mut self, core: &mut Core, from: OsdId, error: Malformed) {
        core.log(Level::Error, format!("pg {}: {from:?} sent what cannot be read: {error}", self.id));
    }

    /// Goes on once everybody has answered.
    fn choose_authority(&mut self, core: &mut Core) {
        let Role::Peering(peering) = &self.role else { return };
        match &peering.step {
            Step::Asking(waiting) if waiting.is_empty() && peering.stored => {}
            _ => return,
        }
        let id = peering.id;
        match authority(peering, core, self) {
            Err(why) => {
                let blocked_by = self.who_might_know(core);
                let state = if blocked_by.is_empty() { "incomplete" } else { "down" };
                core.log(Level::Warn, format!("pg {}: {state}: {why}", self.id));
                self.set_step(core, Step::Down(Stuck { why, blocked_by }));
            }
            // Nobody ever had it: it is new. If it is not, older copies are to be told from what is written from now on.
            Ok(None) => {
                if peering.anew && self.log.head() == EVersion::default() {
                    core.log(Level::Warn, format!("pg {}: made anew, without what it had", self.id));
                    self.adopt_log(PgLog::new(EVersion::new(id, 0), Vec::new()).expect("it has no entries"));
                }
                self.promise(core);
            }
            Ok(Some(best)) => {
                let wanted = self.choose_acting(core, &peering.answers, best);
                if !self.is_served_by(core, wanted) {
                    self.set_step(core, Step::Remapping);
                } else if best == core.me() {
                    self.promise(core);
                } else {
                    self.set_step(core, Step::Fetching(best));
                    core.send_osd(best, Envelope::new(PgLogQuery { pg: self.id, map_epoch: id, peering: id }));
                }
            }
        }
    }

    fn set_step(&mut self, core: &mut Core, step: Step) {
        if let Role::Peering(peering) = &mut self.role {
            peering.step = step;
            self.last_change = core.now;
            core.stats_changed = true;
            if self.cannot_serve() {
                self.hold_waiting(core);
            }
        }
    }

    /// Whether it is known that the PG will not serve before another map: clients then hold their requests, as Ceph asks
    /// them to in these states (v16.2 `src/osd/PrimaryLogPG.cc`, `do_request`).
    pub(super) fn cannot_serve(&self) -> bool {
        match &self.role {
            Role::Peering(peering) => matches!(peering.step, Step::Down(_)),
            Role::Peered(_) => true,
            _ => false,
        }
    }

    /// The authority's log has come: takes it as its own.
    pub fn handle_log(&mut self, core: &mut Core, from: OsdId, message: &PgLogMessage) {
        let Some(peering) = self.peering(message.peering) else { return };
        if peering.step != Step::Fetching(from) {
            return;
        }
        let (info, log) = match read_log(&message.info, &message.entries) {
            Ok(read) => read,
            Err(error) => return self.complain(core, from, error),
        };
        if !self.info.last_backfill.is_listed() || self.log.common_point(&log).is_none() {
            return self.step_aside(core, from);
        }
        let t = self.take_log(info, log, true);
        core.commit(CommitFor::Pg(self.id, PgCommit::Nothing), t);
        self.promise(core);
    }

    /// The authority's log does not touch the own one, although by its versions it might: others serve, and fill this one.
    fn step_aside(&mut self, core: &mut Core, authority: OsdId) {
        let Role::Peering(peering) = &mut self.role else { return };
        peering.answers.remove(&core.me());
        let Role::Peering(peering) = &self.role else { return };
        let wanted = self.choose_acting(core, &peering.answers, authority);
        self.is_served_by(core, wanted);
        self.set_step(core, Step::Remapping);
    }

    /// Members of the past who are down and not given up; who was removed does not come back.
    fn who_might_know(&self, core: &Core) -> BTreeSet<OsdId> {
        let is_awaited = |osd: OsdId, until: Epoch| {
            let info = core.map.info(osd);
            core.map.exists(osd) && !core.map.is_up(osd) && info.is_some_and(|info| info.lost_at <= until)
        };
        let past = core_history(core, self, self.unclean_since());
        past.flat_map(|i| i.acting.iter().filter(|osd| is_awaited(**osd, i.last)).copied()).collect()
    }

    /// Why peering cannot go on, where it cannot.
    pub fn stuck(&self) -> Option<&Stuck> {
        let Role::Peering(peering) = &self.role else { return None };
        if let Step::Down(stuck) = &peering.step { Some(stuck) } else { None }
    }

    /// Whether there are enough members to serve.
    fn is_enough(&self, core: &Core) -> bool {
        let min_size = core.map.pool(self.id.pool).map_or(1, |pool| usize::from(pool.min_size));
        self.sets.acting.len() >= min_size || Bug::MinSizeIgnored.is_planted()
    }

    /// Waits until the map says that this primary lives in this interval. One that will not serve need not say so.
    fn promise(&mut self, core: &mut Core) {
        let up_thru = core.map.info(core.me()).map_or(Epoch(0), |info| info.up_thru);
        if self.is_enough(core) && up_thru < self.since && !Bug::UpThruIgnored.is_planted() {
            core.up_thru_wanted = core.up_thru_wanted.max(self.since);
            return self.set_step(core, Step::Promising);
        }
        self.spread(core);
    }

    /// Gives every other member the log.
    fn spread(&mut self, core: &mut Core) {
        let Role::Peering(peering) = &self.role else { return };
        let id = peering.id;
        if self.is_enough(core) {
            self.info.last_epoch_started = id;
        }
        if self.info.last_backfill.is_listed() {
            // It leads: its log is everybody's now.
            self.info.last_backfill = LastBackfill::MAX;
        }
        let both = self.sets.acting.iter().chain(&self.sets.up).copied();
        let waiting: BTreeSet<OsdId> = both.filter(|osd| *osd != core.me() && *osd != OsdId::NONE).collect();
        for osd in &waiting {
            let theirs = peering.answers.get(osd).and_then(|answer| answer.info.as_ref());
            let since = theirs.map(|theirs| theirs.last_update).filter(|version| self.log.contains(*version));
            let entries = match since {
                Some(since) => self.log.after(since).map(|entry| entry.open().to_bytes()).collect(),
                None => self.log.all().map(|entry| entry.open().to_bytes()).collect(),
            };
            let (pg, map_epoch, info) = (self.id, core.epoch(), self.info.to_bytes());
            let serves = self.sets.acting.contains(osd);
            core.send_osd(*osd, Envelope::new(PgActivate { pg, map_epoch, peering: id, since, info, entries, serves }));
        }
        self.set_step(core, Step::Activating { waiting, members: BTreeMap::new(), stored: false });
        self.commit_info(core, PgCommit::Peering(id));
    }

    /// The own record is durable.
    pub fn peering_committed(&mut self, core: &mut Core, id: Epoch) {
        if let Some(Peering { step: Step::Activating { stored, .. }, .. }) = self.peering(id) {
            *stored = true;
            self.maybe_activate(core);
        }
    }

    /// What was here when it began is durable.
    pub fn own_committed(&mut self, core: &mut Core, id: Epoch) {
        if let Some(peering) = self.peering(id) {
            peering.stored = true;
            self.choose_authority(core);
        }
    }

    /// A member has the log, and says what it lacks.
    pub fn handle_activated(&mut self, core: &mut Core, from: OsdId, message: &PgActivated) {
        let read = LastBackfill::from_bytes(&message.last_backfill);
        let (last_backfill, missing) = match read.and_then(|last| Ok((last, Missing::read(&message.missing)?))) {
            Ok(read) => read,
            Err(error) => return self.complain(core, from, error),
        };
        if let Some(Peering { step: Step::Activating { waiting, members, .. }, .. }) = self.peering(message.peering)
            && waiting.remove(&from)
        {
            members.insert(from, Member { missing, last_backfill, ..Member::default() });
            self.maybe_activate(core);
        }
    }

    fn maybe_activate(&mut self, core: &mut Core) {
        let Role::Peering(peering) = &mut self.role else { return };
        let id = peering.id;
        let members = match &mut peering.step {
            Step::Activating { waiting, members, stored: true } if waiting.is_empty() => core::mem::take(members),
            _ => return,
        };
        let mut answers = core::mem::take(&mut peering.answers);
        for (osd, answer) in core::mem::take(&mut peering.strays) {
            answers.entry(osd).or_insert(answer);
        }
        let merges = core.map.pool(self.id.pool).is_some_and(|pool| pool.is_premerge(self.id));
        let serves = self.is_enough(core) && !merges;
        self.role = if serves {
            let all: Vec<OsdId> = members.keys().copied().chain([core.me()]).collect();
            Role::Active(Replication::primary_copy(self.id, id, &all, self.info.last_update))
        } else {
            Role::Peered(id)
        };
        self.last_change = core.now;
        core.stats_changed = true;
        if self.info.scrubs == ScrubRecord::default() {
            self.info.scrubs = ScrubRecord::new_at(core.now.into());
        }
        core.pace.peered(core.now);
        self.begin_recovery(core, members, answers);
        if !serves {
            return self.hold_waiting(core);
        }
        self.last_active = core.now;
        crate::requests::resume_requests(core, self.id);
        self.drop_left_aside(core);
        self.start_waiting(core);
        self.ask_for_trim(core);
    }

    /// Every member has everything: if those serve who should, the PG is clean.
    pub(super) fn recovered(&mut self, core: &mut Core) {
        let Some(id) = self.led_peering() else { return };
        core.stats_changed = true;
        self.last_change = core.now;
        self.start_survey(core);
        let mut answers = self.recovery.answers.clone();
        for osd in self.recovery.members.keys().copied().chain([core.me()]) {
            answers.insert(osd, Answer { info: Some(self.info.clone()), missing: 0, born: Epoch(0) });
        }
        let wanted = self.choose_acting(core, &answers, core.me());
        let size = core.map.pool(self.id.pool).map_or(1, |pool| usize::from(pool.size));
        if self.is_served_by(core, wanted) && self.sets.acting.len() >= size {
            self.info.last_epoch_clean = id;
            self.commit_info(core, PgCommit::Nothing);
            let holders = answers.iter().filter(|(_, answer)| answer.info.is_some());
            let holders: Vec<OsdId> = holders.map(|(osd, _)| *osd).collect();
            self.dismiss(core, &holders);
            self.ask_for_trim(core);
            self.check_repair(core);
        }
    }

    /// The map has changed, the interval has not.
    pub fn peering_map_changed(&mut self, core: &mut Core) {
        let wanted = self.whom_to_ask(core);
        let Role::Peering(peering) = &mut self.role else { return };
        match &mut peering.step {
            Step::Asking(waiting) => {
                // Who went down will not answer, nor be asked for what it has told of; who came up may know more.
                let known: BTreeSet<OsdId> = peering.answers.keys().copied().collect();
                let new = wanted.iter().any(|osd| !known.contains(osd) && !waiting.contains(osd));
                let gone = known.iter().any(|osd| *osd != core.me() && !core.map.is_up(*osd));
                if new || gone {
                    return self.start_peering(core);
                }
                waiting.retain(|osd| wanted.contains(osd));
                self.choose_authority(core);
            }
            Step::Down(_) | Step::Remapping => self.start_peering(core),
            Step::Fetching(from) if !core.map.is_up(*from) => self.start_peering(core),
            Step::Promising => self.promise(core),
            Step::Fetching(_) | Step::Activating { .. } => {}
        }
    }

    /// `osd` has forgotten its session, and what it had asked on it.
    pub fn peer_forgot(&mut self, core: &mut Core, osd: OsdId) {
        if matches!(self.role, Role::Replica(primary, _) if primary == osd) {
            self.take_slot_back(core);
            self.take_place_back(core);
        }
        self.peer_reset(core, osd);
    }

    /// Whether this peering was begun with messages that `osd` may have lost: then it begins again.
    pub fn peer_reset(&mut self, core: &mut Core, osd: OsdId) {
        if osd == self.sets.acting_primary {
            self.announce(core);
        }
        self.resume_fetches(core, osd);
        self.ask_again_what_is_committed(core, osd);
        match &mut self.role {
            Role::Peering(peering) if peering.concerns(osd) || self.sets.acting.contains(&osd) => {
                self.start_peering(core);
            }
            Role::Active(replication) => replication.peer_reset(core, osd),
            _ => {}
        }
        self.resume_recovery(core, osd);
        self.resume_reserving(core, osd);
        self.resume_scrub(core, osd);
    }
}

/// The past intervals of a PG that ended in or after a map.
pub(super) fn core_history<'a>(
    core: &'a Core,
    pg: &'a Pg,
    since: Epoch,
) -> impl Iterator<Item = &'a PastInterval> + 'a {
    core.placement.get(pg.id).into_iter().flat_map(|h| h.past.iter()).filter(move |i| i.last >= since)
}

/// Whose state all members shall have; none for a PG that nobody ever had. An error says why it cannot be known.
fn authority(peering: &Peering, core: &Core, pg: &Pg) -> Result<Option<OsdId>, &'static str> {
    let infos = || peering.answers.iter().filter_map(|(osd, answer)| Some((*osd, answer.info.as_ref()?)));
    if peering.anew && infos().next().is_none() {
        return Ok(None);
    }
    // One that is being filled cannot be the authority, but says that there have been writes.
    let started = infos().map(|(_, info)| info.last_epoch_started).max().unwrap_or_default();
    let history = core.placement.get(pg.id).ok_or("the map does not have it")?;
    if !history.covers(started) && !core.config.accept_loss {
        return Err("its history is not known");
    }
    for interval in history.past.iter().filter(|i| i.last >= started) {
        let counts = |osd: &OsdId| {
            let lost = core.map.info(*osd).is_some_and(|info| info.lost_at > interval.last);
            let answered = peering.answers.get(osd);
            lost || answered.is_some_and(|a| a.born <= interval.first || core.config.accept_loss)
        };
        if !interval.acting.iter().any(counts) && !Bug::PastIgnored.is_planted() {
            return Err("no member of a past interval that may have had writes can tell");
        }
    }
    let whole = |info: &PgInfo| info.last_backfill.is_max() || Bug::AuthorityWithGaps.is_planted();
    let last = |info: &PgInfo| info.last_epoch_started == started || Bug::AuthorityByLengthAlone.is_planted();
    let me = core.me();
    let best_of = |fits: &dyn Fn(&PgInfo) -> bool| {
        let candidates = infos().filter(|(_, info)| fits(info) && last(info));
        candidates.max_by_key(|(osd, info)| {
            (info.last_update, *osd == me, info.log_tail < info.last_update, core::cmp::Reverse(*osd))
        })
    };
    // Where nobody is left who had all of it, one who knows what it lacks.
    let best = best_of(&whole).or_else(|| best_of(&|info| info.last_backfill.is_listed()));
    match best {
        Some((osd, _)) => Ok(Some(osd)),
        None if infos().next().is_none() => Ok(None),
        None => Err("no member that was active last has all of it"),
    }
}

/// Opens a record and its log.
pub fn read_log(info: &Bytes, entries: &[Bytes]) -> Result<(PgInfo, PgLog), Malformed> {
    let info = PgInfo::from_bytes(info)?;
    let entries = entries.iter().map(LogEntry::from_bytes).collect::<Result<Vec<_>, _>>()?;
    let log = PgLog::new(info.log_tail, entries)?.leading_to(info.last_update)?;
    Ok((info, log))
}
