//! Recovery on the primary: what each member lacks, and the work of giving it to them while the PG serves.
//!
//! An object that this OSD lacks is pulled from a holder that has it, then pushed to the members that lack it: they are
//! asked to fetch it from here, and nobody writes to it meanwhile (`order`). Members whose log did not reach are filled
//! part by part (`backfill`), each part adding to what they lack. Work needs slots (`reservation`) and starts when the
//! scheduler lets it (`recovery_pace`) and few objects are held (`push_pace`), or at once for an object that a client
//! waits for.
//!
//! What nobody who is up has is unfound, until somebody comes who has it or an operator gives it up (`lost`). Who is to be
//! filled is asked as well: its log is void, but not its objects, whose versions tell what they are.
//!
//! Clients meanwhile: an object that this OSD lacks holds its requests, one that another member lacks holds its writes,
//! and both come first. A member that is being filled, or recovers beside those who serve (`acting`), holds nobody: it
//! only logs what it does not have, and does not count as complete before it has everything. Nobody else does, because a log may only tell of writes that its holder has or that others had when they agreed on it: else a
//! write could be in a log and nowhere on a disk, when a power cut takes the rest.
//!
//! Follows the rules of Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`start_recovery_ops`, `wait_for_unreadable_object`,
//! `wait_for_degraded_object`, `should_send_op`).
//!
//! Invariants: of what a member lacks its primary knows at least as much as the member; an object's work counts as one
//! in the OSD's pace from its beginning to its end.

use super::backfill::Part;
use super::client_io::ClientRequest;
use super::fetch::Fetch;
use super::log::LogEntry;
use super::lost::GivingUp;
use super::member::Member;
use super::missing::{Missing, Need};
use super::order::ObjectQueue;
use super::peering::Answer;
use super::reservation::{Forced, Reservation};
use super::{Pg, Role};
use crate::core::{Core, Level};
use base::{Bug, EVersion, Epoch, OsdId, PgId};
use bytes::Bytes;
use maps::tenants::TenantId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::ObjectId;
use wire::Decode;
use wire::Encode;
use wire::messages::{PgRecover, PgRecovered, SlotWork};
use wire::net::Envelope;

/// What goes on with an object.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Work {
    /// It comes here; these have turned out not to have it.
    Pulling(BTreeSet<OsdId>),
    /// It waits for its turn to be held.
    ToHold,
    /// It waits until nobody writes to it; so many bytes count as held.
    ToPush(u64),
    /// It is held.
    Pushing(Held),
}

/// An object that is held for members.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    /// About how many bytes that are.
    bytes: u64,
    /// Tells this hold from others.
    number: u32,
    /// The members that fetch it.
    waiting: BTreeSet<OsdId>,
}

/// The recovery of a PG that this OSD leads.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The other members.
    pub members: BTreeMap<OsdId, Member>,
    /// What everybody has said of the PG; who is no member may still hold what others lack.
    pub(super) answers: BTreeMap<OsdId, Answer>,
    under_way: BTreeMap<ObjectId, Work>,
    /// The tenants whose requests such objects are worked on for.
    on_behalf: BTreeMap<ObjectId, TenantId>,
    /// How often an object was held still for members.
    last_hold: u32,
    /// Objects that nobody who is up has.
    pub unfound: BTreeSet<ObjectId>,
    /// The newest version of such an object that somebody who is no member turned out to have, if our log tells of it.
    pub(super) older: BTreeMap<ObjectId, EVersion>,
    /// Some of them, which an operator gives up.
    pub(super) giving_up: Option<GivingUp>,
    /// Objects that a member could not be given: their store or ours fails.
    pub(super) stalled: BTreeSet<ObjectId>,
    /// Objects on their way to members whose copy here turned out to be unreadable.
    bad_here: BTreeSet<ObjectId>,
    /// The part of a member's filling that is being looked at.
    pub(super) part: Option<Part>,
    /// Listings that wait until this OSD lacks nothing.
    pub(super) listings: VecDeque<Box<ClientRequest>>,
    /// The slots for it.
    pub reservation: Option<Reservation>,
    /// Nothing is left to do.
    pub complete: bool,
}

/// What is not as it should be, in copies of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lacking {
    /// Objects that this OSD lacks.
    pub on_primary: u64,
    /// Copies that members of the acting set lack, or that have no member.
    pub degraded: u64,
    /// Copies that are not where they belong yet.
    pub misplaced: u64,
    /// Objects that nobody who is up has.
    pub unfound: u64,
}

impl Work {
    /// Gives back what it took of the OSD's paces.
    fn end(self, core: &mut Core, pg: PgId, head: &ObjectId) {
        core.pace.ended();
        match self {
            Work::Pulling(_) => {}
            Work::ToHold => core.pushes.forget(pg, head),
            Work::ToPush(bytes) | Work::Pushing(Held { bytes, .. }) => core.pushes.ended(bytes),
        }
    }
}

impl Recovery {
    /// Begins with what the members have said.
    pub fn new(members: BTreeMap<OsdId, Member>, answers: BTreeMap<OsdId, Answer>) -> Recovery {
        Recovery { members, answers, ..Recovery::default() }
    }

    /// Who holds the PG and is no member.
    pub(super) fn strays(&self) -> impl Iterator<Item = OsdId> {
        let holds = |answer: &Answer| answer.info.is_some();
        let strays = self.answers.iter().filter(move |(osd, a)| holds(a) && !self.members.contains_key(*osd));
        strays.map(|(osd, _)| *osd)
    }

    /// Something has been found wrong: there is work to do for this object, whatever was tried before.
    pub(super) fn work_again(&mut self, head: &ObjectId) {
        self.complete = false;
        self.stalled.remove(head);
        self.unfound.remove(head);
    }

    /// The copy here, which members are to fetch, cannot be read.
    pub(super) fn own_copy_is_bad(&mut self, head: &ObjectId) {
        if matches!(self.under_way.get(head), Some(Work::Pushing(..))) {
            self.bad_here.insert(head.clone());
        }
    }

    /// Whether an object is held still for members, and this is the hold.
    pub(super) fn holds(&self, head: &ObjectId, hold: u32) -> bool {
        matches!(self.under_way.get(head), Some(Work::Pushing(held)) if held.number == hold)
    }

    /// Whether objects are on their way.
    pub fn is_working(&self) -> bool {
        !self.under_way.is_empty() || self.part.is_some()
    }

    /// Whether an OSD has said what it has.
    pub(crate) fn has_answered(&self, osd: OsdId) -> bool {
        self.answers.contains_key(&osd) || self.members.contains_key(&osd)
    }

    /// The objects that are on their way.
    pub(crate) fn objects_under_way(&self) -> impl Iterator<Item = &ObjectId> {
        self.under_way.keys()
    }

    /// Whether the next part of a member that is filled is being looked at.
    pub(crate) fn lists_for(&self, osd: OsdId) -> bool {
        self.part.as_ref().is_some_and(|part| part.is_for(osd))
    }

    /// Whether a member is being filled.
    pub fn is_filling(&self) -> bool {
        self.members.values().any(Member::is_backfilled)
    }

    /// Whether a member waits for the word that it is complete.
    pub(super) fn has_incomplete(&self) -> bool {
        self.members.values().any(|member| !member.last_backfill.is_max())
    }

    /// The members that can only log a write to this object.
    pub(super) fn who_only_log(&self, head: &ObjectId) -> Vec<OsdId> {
        if self.complete {
            return Vec::new();
        }
        self.members.iter().filter(|(_, member)| !member.has(head)).map(|(osd, _)| *osd).collect()
    }

    /// A write goes out; members that only log it lack the object as it is now.
    pub(super) fn note_write(&mut self, entry: &LogEntry) {
        if self.complete {
            return;
        }
        for member in self.members.values_mut().filter(|member| !member.has(&entry.object)) {
            member.only_logged = entry.version;
            if !entry.changes_nothing && member.missing.contains(&entry.object) {
                member.missing.add(entry.object.clone(), Need::of(entry));
            }
        }
    }
}

impl Pg {
    /// Whether this holder's log tells of the object, and what is here is not what it tells.
    pub fn lacks(&self, head: &ObjectId) -> bool {
        self.missing.contains(head) || matches!(self.recovery.under_way.get(head), Some(Work::Pulling(_)))
    }

    /// Whether every member has everything, and those serve who should.
    pub fn is_clean(&self) -> bool {
        let active = self.active_peering();
        self.recovery.complete && active.is_some() && active == Some(self.info.last_epoch_clean)
    }

    /// The same, also where the PG does not serve.
    pub fn is_at_rest(&self) -> bool {
        let led = self.led_peering();
        self.recovery.complete && led.is_some() && led == Some(self.info.last_epoch_clean)
    }

    /// Whether it serves, and has everything without one of its holders; `me` leads it.
    pub fn spares(&self, me: OsdId, osd: OsdId) -> bool {
        let others = || self.recovery.members.iter().filter(|(other, _)| **other != osd).map(|(_, member)| member);
        let is_whole = me != osd || others().any(|member| member.last_backfill.is_max());
        let of_members = self.recovery.members.values().map(|member| &member.missing);
        let mut lacked = of_members.chain([&self.missing]).flat_map(Missing::heads);
        let held = |head| me != osd && !self.missing.contains(head) || others().any(|member| member.has(head));
        matches!(self.role, Role::Active(_)) && is_whole && lacked.all(held)
    }

    /// The peering in which this OSD leads the other members.
    pub(super) fn led_peering(&self) -> Option<Epoch> {
        match &self.role {
            Role::Active(replication) => Some(replication.peering()),
            Role::Peered(peering) => Some(*peering),
            _ => None,
        }
    }

    /// Whether a member lacks an object that may not only log what is written to it.
    fn is_degraded(&self, head: &ObjectId) -> bool {
        let lacks = |member: &Member| member.last_backfill.is_max() && member.missing.contains(head);
        !self.recovery.complete && self.recovery.members.values().any(lacks) && !Bug::DegradedWritten.is_planted()
    }

    /// Looks what recovery means for requests on an object that has had none.
    pub(super) fn mark_queue(&mut self, head: &ObjectId) {
        let (unreadable, degraded) = (self.lacks(head), self.is_degraded(head));
        let scrubbed = self.scrubbing.holds(head);
        if let Some(queue) = self.objects.get_mut(head) {
            (queue.unreadable, queue.degraded, queue.scrubbed) = (unreadable, degraded, scrubbed);
        }
    }

    /// A client waits for an object: if that is for recovery, it comes first.
    pub(super) fn hurry(&mut self, core: &mut Core, head: &ObjectId) {
        let held = self.objects.get(head).is_some_and(|queue| queue.unreadable || queue.degraded);
        let recovery = &self.recovery;
        let hopeless = recovery.stalled.contains(head) || recovery.unfound.contains(head);
        if !held || hopeless {
            return;
        }
        match recovery.under_way.get(head) {
            Some(Work::Pulling(_)) => self.hurry_fetch(core, head),
            Some(Work::Pushing(..)) => core.pulls.hurry(None, self.id, head),
            Some(Work::ToHold) => {
                core.pushes.forget(self.id, head);
                self.give_now(core, head.clone());
            }
            Some(Work::ToPush(_)) => {}
            None => {
                let waits = self.objects.get(head).and_then(|queue| queue.waiting.front());
                if let Some(tenant) = waits.and_then(|request| core.tenants.id_of(request.tenant)) {
                    self.recovery.on_behalf.insert(head.clone(), tenant);
                }
                self.start_work(core, head.clone());
            }
        }
    }

    /// Whether a request waits for an object.
    pub(super) fn is_waited_for(&self, head: &ObjectId) -> bool {
        self.objects.get(head).is_some_and(|queue| !queue.waiting.is_empty())
    }

    /// The members agree on the log: begins to give everybody what it lacks.
    pub(super) fn begin_recovery(
        &mut self,
        core: &mut Core,
        members: BTreeMap<OsdId, Member>,
        answers: BTreeMap<OsdId, Answer>,
    ) {
        self.recovery = Recovery::new(members, answers);
        let lacks = |(osd, member): (&OsdId, &Member)| {
            let filled = match (member.is_backfilled(), member.recovers_beside()) {
                (true, _) => ", is being filled",
                (_, true) => ", does not serve",
                _ => "",
            };
            (!member.is_complete()).then(|| format!("osd.{osd} lacks {} objects{filled}", member.missing.len()))
        };
        let mut told: Vec<String> = self.recovery.members.iter().filter_map(lacks).collect();
        if !self.missing.is_empty() {
            told.insert(0, format!("{} objects are missing here", self.missing.len()));
        }
        if !told.is_empty() {
            core.log(Level::Info, format!("pg {}: recovering: {}", self.id, told.join(", ")));
        }
        self.go_on_recovering(core);
    }

    /// The interval, or the peering, is over.
    pub(crate) fn abandon_recovery(&mut self, core: &mut Core) {
        self.give_slots_back(core);
        self.take_slot_back(core);
        let recovery = core::mem::take(&mut self.recovery);
        if let Some(giving_up) = recovery.giving_up {
            giving_up.interrupted(core);
        }
        recovery.under_way.into_iter().for_each(|(head, work)| work.end(core, self.id, &head));
        self.waiting.extend(recovery.listings);
        self.abandon_fetches(core);
        self.abandon_mending();
        self.abandon_scrub(core);
    }

    /// Asks for slots, then for a turn, if there is something to do, or finds that all is done.
    pub(super) fn go_on_recovering(&mut self, core: &mut Core) {
        if self.led_peering().is_none() || self.recovery.complete {
            return;
        }
        let members_done = self.recovery.members.values().all(Member::is_complete);
        if members_done && self.missing.is_empty() && !self.recovery.is_working() {
            self.give_slots_back(core);
            self.forced = Forced::default();
            self.recovery.complete = true;
            self.recovered(core);
        } else if let Some(work) = self.seek_slots(core)
            && (self.next_object().is_some() || self.next_part(work).is_some())
        {
            core.pace.want(self.id);
        }
    }

    /// What is next: objects that the log's members lack, then those of members that are filled. None where nothing can
    /// be done, and nothing is going on.
    pub(super) fn work_to_do(&self) -> Option<SlotWork> {
        let recovery = &self.recovery;
        let hopeful = |head: &ObjectId| !recovery.unfound.contains(head) && !recovery.stalled.contains(head);
        let recovers = |member: &Member| {
            let last_word = member.missing.is_empty() && !member.last_backfill.is_max() && self.missing.is_empty();
            !member.is_backfilled() && (last_word || member.missing.heads().any(hopeful))
        };
        if self.missing.heads().any(hopeful) || recovery.members.values().any(recovers) {
            return Some(SlotWork::Recovery);
        }
        let busy = recovery.is_working() || !self.in_flight.is_empty();
        let fills = self.missing.is_empty() && recovery.is_filling();
        (fills && (busy || self.next_object().is_some() || self.next_part(SlotWork::Backfill).is_some()))
            .then_some(SlotWork::Backfill)
    }

    /// A turn of recovery: starts a few objects, or looks at the next part of a member that is filled.
    pub fn recover(&mut self, core: &mut Core) {
        let (Some(_), Some(work)) = (self.led_peering(), self.reserved_work()) else { return };
        for started in 0..core.pace.single_start {
            match self.next_object().filter(|_| started == 0 || core.pace.has_room()) {
                Some(head) => self.start_work(core, head),
                None => break,
            }
            if self.led_peering().is_none() {
                // What nobody has led to another peering.
                return;
            }
        }
        if let Some(osd) = self.next_part(work) {
            self.start_part(core, osd);
        }
        self.go_on_recovering(core);
    }

    /// About how many bytes the next turn will move.
    pub fn recovery_cost_bytes(&self) -> usize {
        let totals = &self.info.totals;
        usize::try_from(totals.bytes.checked_div(totals.objects).unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// The next object to be worked on: first what this OSD lacks.
    fn next_object(&self) -> Option<ObjectId> {
        let recovery = &self.recovery;
        let idle = |head: &&ObjectId| !recovery.under_way.contains_key(*head) && !recovery.stalled.contains(*head);
        let found = |head: &&ObjectId| idle(head) && !recovery.unfound.contains(*head);
        let own = self.missing.heads().find(found);
        let pushable = |head: &&ObjectId| idle(head) && !self.missing.contains(head);
        let theirs = || recovery.members.values().find_map(|member| member.missing.heads().find(pushable));
        own.or_else(theirs).cloned()
    }

    fn start_work(&mut self, core: &mut Core, head: ObjectId) {
        core.pace.began();
        core.counters.recovery_ops.inc();
        let is_held_up = |queue: &ObjectQueue| queue.degraded && !queue.waiting.is_empty();
        if self.missing.contains(&head) || self.objects.get(&head).is_some_and(is_held_up) {
            self.give_now(core, head);
        } else {
            self.recovery.under_way.insert(head.clone(), Work::ToHold);
            core.pushes.want(self.id, head);
        }
        core.stats_changed = true;
    }

    /// It is an object's turn to come here, or to be held for members.
    pub(crate) fn give_now(&mut self, core: &mut Core, head: ObjectId) {
        if self.missing.contains(&head) {
            self.recovery.under_way.insert(head.clone(), Work::Pulling(BTreeSet::new()));
            return self.pull(core, head);
        }
        let bytes = self.recovery_cost_bytes() as u64;
        core.pushes.began(bytes);
        self.recovery.under_way.insert(head.clone(), Work::ToPush(bytes));
        if !self.objects.contains_key(&head) {
            self.objects.insert(head.clone(), ObjectQueue::default());
            self.mark_queue(&head);
        }
        self.objects.get_mut(&head).expect("it is there now").to_push = true;
        self.pump(core, &head);
    }

    fn end_work(&mut self, core: &mut Core, head: &ObjectId) {
        if let Some(work) = self.recovery.under_way.remove(head) {
            work.end(core, self.id, head);
        }
        self.recovery.on_behalf.remove(head);
        core.counts_changed = true;
        self.mark_queue(head);
    }

    /// Asks the next holder for an object.
    fn pull(&mut self, core: &mut Core, head: ObjectId) {
        let (Some(need), Some(peering)) = (self.missing.get(&head).cloned(), self.led_peering()) else { return };
        let Some(Work::Pulling(tried)) = self.recovery.under_way.get(&head) else { return };
        let has = |(osd, member): (&OsdId, &Member)| member.can_give(&head).then_some(*osd);
        // Where one is to be filled nothing is changed as long as this OSD lacks anything: it may be the last to have it.
        let may_have = |(osd, member): (&OsdId, &Member)| (!member.last_backfill.covers(&head)).then_some(*osd);
        let members = &self.recovery.members;
        let holders = members.iter().filter_map(has).chain(self.recovery.strays());
        let holders = holders.chain(members.iter().filter_map(may_have));
        let me = core.me();
        let first = need.needs_nobody().then_some(me).into_iter();
        let last = need.may_be_nothing().then_some(me);
        let source = first
            .chain(holders.filter(|osd| *osd != me))
            .chain(last)
            .find(|osd| core.map.is_up(*osd) && !tried.contains(osd));
        match source {
            Some(source) => {
                let fetch = Fetch::new(&head, need, source, peering, None);
                let tenant = self.recovery.on_behalf.get(&head).copied();
                let fetch = fetch.waited_for(self.is_waited_for(&head), tenant);
                self.start_fetch(core, head, fetch);
            }
            None if self.mending.contains(&head) => {
                self.mending_failed(core, &head);
                self.end_work(core, &head);
                self.pump(core, &head);
                self.go_on_recovering(core);
            }
            None => {
                core.log(Level::Warn, format!("pg {}: {head:?} is unfound", self.id));
                self.recovery.unfound.insert(head.clone());
                self.end_work(core, &head);
                self.look_for_unfound(core);
            }
        }
    }

    /// A source has an object as it was at this version, which is not what was wanted of it.
    pub(super) fn note_older(&mut self, head: &ObjectId, version: EVersion) {
        let tells = |entry: LogEntry| entry.version == version || entry.prior == version;
        if version > EVersion::default()
            && self.log.entries().filter(|entry| entry.is_about(head)).any(|entry| tells(entry.open()))
        {
            let newest = self.recovery.older.entry(head.clone()).or_default();
            *newest = version.max(*newest);
        }
    }

    /// A source does not have what was wanted of it.
    pub(super) fn pull_failed(&mut self, core: &mut Core, head: &ObjectId, source: OsdId) {
        if let Some(Work::Pulling(tried)) = self.recovery.under_way.get_mut(head) {
            tried.insert(source);
            self.pull(core, head.clone());
        }
    }

    /// An object is in place, durably.
    pub(super) fn pulled(&mut self, core: &mut Core, peering: Epoch, head: &ObjectId) {
        if self.led_peering() != Some(peering) || !matches!(self.recovery.under_way.get(head), Some(Work::Pulling(_))) {
            return;
        }
        self.counters.objects_recovered += 1;
        self.mending.remove(head);
        self.end_work(core, head);
        self.pump(core, head);
        // Who waited to write may find that others lack it.
        if self.is_waited_for(head) {
            self.hurry(core, head);
        }
        if self.missing.is_empty() {
            for listing in core::mem::take(&mut self.recovery.listings) {
                self.handle_request(core, listing);
            }
        }
        self.go_on_recovering(core);
    }

    /// Nobody writes to an object (it counts as being read): lets the members that lack it fetch it.
    pub(super) fn push(&mut self, core: &mut Core, head: &ObjectId) {
        let Some(peering) = self.led_peering() else { return };
        let lacks = |(osd, member): (&OsdId, &Member)| member.missing.get(head).map(|need| (*osd, need.to_bytes()));
        let targets: Vec<_> = self.recovery.members.iter().filter_map(lacks).collect();
        self.recovery.last_hold += 1;
        let hold = self.recovery.last_hold;
        let Some(Work::ToPush(bytes)) = self.recovery.under_way.get(head) else {
            unreachable!("held in its turn only")
        };
        let waiting = targets.iter().map(|(osd, _)| *osd).collect();
        let held = Held { bytes: *bytes, number: hold, waiting };
        self.recovery.under_way.insert(head.clone(), Work::Pushing(held));
        for (osd, need) in targets {
            self.ask_to_fetch(core, osd, peering, head, need, hold);
        }
        self.end_push_if_done(core, head);
    }

    fn ask_to_fetch(&self, core: &mut Core, osd: OsdId, peering: Epoch, head: &ObjectId, need: Bytes, hold: u32) {
        let message = PgRecover {
            pg: self.id,
            map_epoch: core.epoch(),
            peering,
            object: head.to_bytes(),
            need,
            hold,
            tenant: self.recovery.on_behalf.get(head).map_or(0, |tenant| tenant.0),
        };
        core.send_osd(osd, Envelope::new(message));
    }

    /// A member has an object that it lacked, or cannot have it.
    pub fn handle_recovered(&mut self, core: &mut Core, from: OsdId, message: &PgRecovered) {
        let Ok(head) = ObjectId::from_bytes(&message.object) else { return };
        if self.led_peering() != Some(message.peering) {
            return;
        }
        let Some(Work::Pushing(held)) = self.recovery.under_way.get_mut(&head) else { return };
        if held.number != message.hold || !held.waiting.remove(&from) {
            return;
        }
        if message.done {
            self.counters.objects_recovered += 1;
            if let Some(member) = self.recovery.members.get_mut(&from) {
                member.missing.remove(&head);
            }
        } else {
            core.log(Level::Error, format!("pg {}: {from:?} cannot be given {head:?}", self.id));
            self.recovery.stalled.insert(head.clone());
        }
        self.end_push_if_done(core, &head);
    }

    fn end_push_if_done(&mut self, core: &mut Core, head: &ObjectId) {
        if !matches!(self.recovery.under_way.get(head), Some(Work::Pushing(held)) if held.waiting.is_empty()) {
            return;
        }
        if let Some(queue) = self.objects.get_mut(head) {
            queue.readers -= 1;
        }
        self.end_work(core, head);
        self.mend_if_bad(core, head);
        self.pump(core, head);
        self.go_on_recovering(core);
    }

    /// Members could not be given what cannot be read here: another member may have a good copy, which all of them get then,
    /// as in Ceph, which calls its own copy missing then (v16.2 `src/osd/PrimaryLogPG.cc`, `prep_object_replica_pushes`).
    fn mend_if_bad(&mut self, core: &mut Core, head: &ObjectId) {
        let need = |member: &Member| member.missing.get(head).map(|need| need.version);
        let version = self.recovery.members.values().find_map(need);
        if let (true, Some(version)) = (self.recovery.bad_here.remove(head), version) {
            core.log(Level::Error, format!("pg {}: {head:?} cannot be read here, others are asked for it", self.id));
            self.mend(core, head, version);
        }
    }

    /// What was asked of `osd`, or its answers, may be lost: asks again.
    pub(super) fn resume_recovery(&mut self, core: &mut Core, osd: OsdId) {
        let Some(peering) = self.led_peering() else { return };
        for (head, work) in &self.recovery.under_way {
            if let Work::Pushing(held) = work
                && held.waiting.contains(&osd)
                && let Some(need) = self.recovery.members.get(&osd).and_then(|member| member.missing.get(head))
            {
                self.ask_to_fetch(core, osd, peering, head, need.to_bytes(), held.number);
            }
        }
        self.resume_part(core, osd);
    }

    /// Peers anew if somebody is up who has not been asked and may have what nobody else has. Who has begun another life
    /// since was not to be reached for a while, and given up.
    pub(super) fn look_for_unfound(&mut self, core: &mut Core) {
        let Some(peering) = self.led_peering().filter(|_| !self.recovery.unfound.is_empty()) else { return };
        let answered = |osd: &OsdId| self.recovery.answers.contains_key(osd);
        let lives_since = |osd: &OsdId| core.map.info(*osd).is_some_and(|info| info.up_from <= peering);
        let asked = |osd: &OsdId| self.recovery.members.contains_key(osd) || answered(osd) && lives_since(osd);
        if self.whom_to_ask(core).iter().any(|osd| !asked(osd)) {
            core.log(Level::Info, format!("pg {}: peering anew: others may have what is unfound", self.id));
            self.peer_anew(core);
        }
    }

    /// How much is not as it should be.
    pub fn lacking(&self, core: &Core) -> Lacking {
        let size = core.map.pool(self.id.pool).map_or(0, |pool| u64::from(pool.size));
        let objects = self.info.totals.objects;
        let on_primary = self.missing.len() as u64;
        let mut lacking = Lacking { on_primary, unfound: self.recovery.unfound.len() as u64, ..Lacking::default() };
        let absent = size.saturating_sub(self.sets.acting.len() as u64);
        lacking.degraded = on_primary + absent * objects;
        let mut beside = 0;
        for (osd, member) in &self.recovery.members {
            let missing = member.missing.len() as u64;
            if self.sets.acting.contains(osd) {
                lacking.degraded += missing;
                continue;
            }
            // One who is filled: in place of a member that is not there, or of one that is to leave.
            let has = member.filled.min(objects).saturating_sub(missing);
            let has = if member.is_backfilled() { has } else { objects.saturating_sub(missing) };
            if beside < absent {
                lacking.degraded = lacking.degraded.saturating_sub(has);
            } else {
                lacking.misplaced += objects - has;
            }
            beside += 1;
        }
        // Who serves beyond those who should stands in for places that nobody is to fill yet.
        let stands_in = self.sets.acting.iter().filter(|osd| !self.sets.up.contains(osd)).count() as u64;
        lacking.misplaced += objects * stands_in.saturating_sub(beside);
        lacking
    }

    pub(super) fn check_recovery(&self) {
        assert!(!self.recovery.complete || self.missing.is_empty(), "pg {}: complete, and lacks objects", self.id);
        assert!(self.led_peering().is_some() || !self.recovery.is_working(), "pg {}: recovers unled", self.id);
        let seeks = self.recovery.reservation.is_some();
        assert!(!seeks || self.led_peering().is_some() && !self.recovery.complete, "pg {}: idle slots", self.id);
        assert!(self.lent.is_none() || matches!(self.role, Role::Replica(..)), "pg {}: lends to nobody", self.id);
        for (head, queue) in &self.objects {
            assert!(queue.unreadable || !self.lacks(head) || queue.is_idle(), "pg {}: {head:?} is read", self.id);
        }
    }
}
