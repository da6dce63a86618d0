//! Filling a member whose log does not reach: part by part in the order of objects, while the PG serves.
//!
//! The primary lists the next part of what it has and sends names and versions; the member compares them with its own,
//! counts what differs as missing and moves its `last_backfill` behind the part, in one transaction. What is missing
//! then comes as any other missing object does (`recovery`). Writes beyond `last_backfill` are only logged by the
//! member; those that were logged since the primary looked count as differing.
//!
//! Parts end between objects, never between a clone and its head: the version of a head tells of its clones, too. After
//! the last part, when nothing is missing any more and what was only logged is durable everywhere, one more message
//! says that the member is complete: only then may its log decide what is true.
//!
//! Follows the scheme of Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`recover_backfill`), with the comparison at the member.

use super::info::LastBackfill;
use super::member::Member;
use super::missing::Need;
use super::{Pg, PgCommit, PgRead, Role};
use crate::core::{CommitFor, Core, Level};
use crate::limits::{BACKFILL_HEADS_MAX, SCAN_NAMES_MAX};
use crate::ops::state::{INFO_ATTR, ObjectInfo};
use base::{Bug, EVersion, Epoch, OsdId, SnapId};
use std::collections::BTreeMap;
use store::{ListEntry, ListWant, ObjectId, ReadRequest, ReadWhat};
use wire::messages::{PgBackfill, PgBackfilled, SlotWork};
use wire::net::{ConnId, Envelope};
use wire::{Decode, Encode};

/// A part of a member's filling, on the primary.
#[derive(Debug)]
pub(super) struct Part {
    target: OsdId,
    from: ObjectId,
    /// The last write when it was looked at.
    at: EVersion,
    heads: Vec<(ObjectId, EVersion)>,
    /// What was sent, once it was: up to, without, this place; none says that the member is complete.
    sent: Option<Option<ObjectId>>,
}

impl Part {
    pub(super) fn is_for(&self, osd: OsdId) -> bool {
        self.target == osd
    }
}

/// A part that this member compares.
#[derive(Debug)]
pub struct Filling {
    conn: ConnId,
    message: PgBackfill,
    to: Option<ObjectId>,
    /// What is here of the part, with versions.
    own: BTreeMap<ObjectId, EVersion>,
    round: u32,
}

/// The heads among listed objects, with their versions.
fn heads(entries: Vec<ListEntry>) -> impl Iterator<Item = (ObjectId, EVersion)> {
    entries.into_iter().filter(|entry| entry.id.snap() == SnapId::HEAD).map(|entry| {
        // A record that cannot be read is of no version, and differs from every other.
        let info = entry.attr.and_then(|record| ObjectInfo::from_bytes(&record).ok());
        (entry.id, info.map_or(EVersion::default(), |info| info.version))
    })
}

/// The first place of an object: before its clones.
fn start_of(id: &ObjectId) -> ObjectId {
    id.with_snap(SnapId(0))
}

impl Pg {
    /// The member whose next part this work is to look at: not before this OSD has everything, and not before the member
    /// has nearly all of the last part. Who recovers beside those who serve lacks no part, only the last word.
    pub(super) fn next_part(&self, work: SlotWork) -> Option<OsdId> {
        if !self.missing.is_empty() || self.recovery.part.is_some() {
            return None;
        }
        let committed = match &self.role {
            Role::Active(replication) => replication.all_committed(),
            _ => self.info.last_update,
        };
        let due = |(osd, member): (&OsdId, &Member)| {
            let its_work = if member.is_backfilled() { SlotWork::Backfill } else { SlotWork::Recovery };
            let due = match member.last_backfill.end() {
                None => false,
                Some(end) if *end == LastBackfill::last_place() => {
                    member.missing.is_empty() && member.only_logged <= committed
                }
                Some(_) => member.missing.len() < BACKFILL_HEADS_MAX / 2,
            };
            (due && its_work == work).then_some(*osd)
        };
        self.recovery.members.iter().find_map(due)
    }

    /// Looks at the next part for a member.
    pub(super) fn start_part(&mut self, core: &mut Core, target: OsdId) {
        let Some(from) = self.recovery.members.get(&target).and_then(|member| member.last_backfill.end()).cloned()
        else {
            return;
        };
        let at = self.info.last_update;
        let complete = from == LastBackfill::last_place();
        let sent = complete.then_some(None);
        self.recovery.part = Some(Part { target, from: from.clone(), at, heads: Vec::new(), sent });
        match self.led_peering() {
            Some(peering) if complete => self.send_part(core, peering),
            _ => self.list_part(core, from),
        }
    }

    fn list_part(&self, core: &mut Core, from: ObjectId) {
        let Some(peering) = self.led_peering() else { return };
        let what = ReadWhat::List(ListWant { from: Some(from), max: SCAN_NAMES_MAX, attr: Some(INFO_ATTR) });
        core.read(self.id, PgRead::PartToGive(peering), ReadRequest { collection: self.collection(), what });
    }

    /// The store has listed some of the part.
    pub(super) fn part_read(
        &mut self,
        core: &mut Core,
        peering: Epoch,
        entries: Vec<ListEntry>,
        next: Option<ObjectId>,
    ) {
        if self.led_peering() != Some(peering) {
            return;
        }
        let tail = self.log.tail();
        let Some(part) = self.recovery.part.as_mut().filter(|part| part.sent.is_none()) else { return };
        if part.at < tail {
            // What was written since is not known any more: looks again.
            self.recovery.part = None;
            return self.go_on_recovering(core);
        }
        part.heads.extend(heads(entries));
        let more = next.filter(|_| part.heads.len() <= BACKFILL_HEADS_MAX);
        if let Some(next) = more {
            return self.list_part(core, next);
        }
        // Where there are too many, the first of those too many begins the next part.
        let to = part.heads.get(BACKFILL_HEADS_MAX).map(|(head, _)| start_of(head));
        part.heads.truncate(BACKFILL_HEADS_MAX);
        part.sent = Some(Some(to.unwrap_or_else(LastBackfill::last_place)));
        self.send_part(core, peering);
    }

    fn send_part(&self, core: &mut Core, peering: Epoch) {
        let Some(Part { target, from, at, heads, sent: Some(to) }) = &self.recovery.part else { return };
        let message = PgBackfill {
            pg: self.id,
            map_epoch: core.epoch(),
            peering,
            from: from.to_bytes(),
            to: to.as_ref().map(Encode::to_bytes),
            at: *at,
            heads: heads.iter().map(|(head, version)| (head.to_bytes(), *version)).collect(),
        };
        core.send_osd(*target, Envelope::new(message));
    }

    /// What was sent to `osd`, or its answer, may be lost.
    pub(super) fn resume_part(&self, core: &mut Core, osd: OsdId) {
        if let (Some(part), Some(peering)) = (&self.recovery.part, self.led_peering())
            && part.target == osd
        {
            self.send_part(core, peering);
        }
    }

    /// The primary sends the next part.
    pub fn handle_backfill(&mut self, core: &mut Core, conn: ConnId, from: OsdId, message: PgBackfill) {
        let current = matches!(self.role, Role::Replica(primary, p) if primary == from && p == message.peering);
        let to = message.to.as_ref().map(ObjectId::from_bytes).transpose();
        let (Ok(start), Ok(to), true) = (ObjectId::from_bytes(&message.from), to, current) else { return };
        if self.info.last_backfill.end() == to.as_ref() {
            // Sent again after a reset: it has been taken account of.
            return self.finish_part(core, Filling { conn, message, to, own: BTreeMap::new(), round: 0 }, false);
        }
        if self.info.last_backfill.end() != Some(&start) {
            return core.log(Level::Error, format!("pg {}: {from:?} fills from elsewhere", self.id));
        }
        // A part without objects takes no room: the last one lets a member serve that has all the others already.
        if core.is_backfill_full() && !message.heads.is_empty() {
            self.filling = None;
            self.refuse_backfill(core, conn, message.peering);
            return self.give_part_back(core, conn, &message);
        }
        self.fetch_rounds += 1;
        let round = self.fetch_rounds;
        self.filling = Some(Box::new(Filling { conn, message, to, own: BTreeMap::new(), round }));
        self.list_own(core, start, round);
    }

    /// The part is not taken: the primary begins it anew when there is work of that kind.
    fn give_part_back(&self, core: &mut Core, conn: ConnId, message: &PgBackfill) {
        let answer = PgBackfilled {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: message.peering,
            to: Some(message.from.clone()),
            at: self.info.last_update,
            missing: Vec::new(),
        };
        core.send(conn, Envelope::new(answer));
    }

    fn list_own(&self, core: &mut Core, from: ObjectId, round: u32) {
        let what = ReadWhat::List(ListWant { from: Some(from), max: SCAN_NAMES_MAX, attr: Some(INFO_ATTR) });
        core.read(self.id, PgRead::PartHere(round), ReadRequest { collection: self.collection(), what });
    }

    /// The store has listed some of what is here.
    pub(super) fn own_part_read(
        &mut self,
        core: &mut Core,
        round: u32,
        entries: Vec<ListEntry>,
        next: Option<ObjectId>,
    ) {
        let Some(filling) = self.filling.as_mut().filter(|filling| filling.round == round) else { return };
        let within = |id: &ObjectId| filling.to.as_ref().is_none_or(|to| id < to);
        let goes_on = next.filter(within);
        filling.own.extend(heads(entries).filter(|(head, _)| within(head)));
        match goes_on {
            Some(next) => self.list_own(core, next, round),
            None => {
                let filling = *self.filling.take().expect("it was just there");
                self.finish_part(core, filling, true);
            }
        }
    }

    /// Everything of the part is known: what differs is missing.
    fn finish_part(&mut self, core: &mut Core, mut filling: Filling, compare: bool) {
        let (message, to) = (&filling.message, filling.to.clone());
        let Ok(start) = ObjectId::from_bytes(&message.from) else { return };
        let within = |head: &ObjectId| *head >= start && to.as_ref().is_none_or(|to| head < to);
        let mut t = self.transaction();
        // What was written since the primary looked has to be known.
        let known = message.at >= self.log.tail();
        if compare && known {
            let mut differs: BTreeMap<ObjectId, Need> = BTreeMap::new();
            for (head, version) in &message.heads {
                let Ok(head) = ObjectId::from_bytes(head) else { continue };
                if filling.own.remove(&head) != Some(*version) {
                    differs.insert(head, Need::whole(*version, false));
                }
            }
            let left = filling.own.into_keys().map(|head| (head, Need::whole(EVersion::default(), true)));
            differs.extend(left.filter(|_| !Bug::FillKeepsRemoved.is_planted()));
            let at = if Bug::FillMissesWrites.is_planted() { self.log.head() } else { message.at };
            let since = self.log.after(at).map(|entry| entry.open());
            for entry in since.filter(|entry| !entry.changes_nothing && within(&entry.object)) {
                differs.insert(entry.object, Need::whole(entry.version, entry.deletes));
            }
            for (head, need) in differs.into_iter().filter(|(head, _)| within(head)) {
                self.missing.add_and_store(head, need, &mut t);
            }
            self.info.last_backfill = to.clone().map_or(LastBackfill::MAX, LastBackfill::before);
            self.put_info(&mut t);
        }
        let missing = self.missing.iter().filter(|(head, _)| within(head));
        let answer = PgBackfilled {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: message.peering,
            to: if known || !compare { message.to.clone() } else { Some(message.from.clone()) },
            at: self.info.last_update,
            missing: missing.map(|(head, need)| (head.to_bytes(), need.to_bytes())).collect(),
        };
        let why = PgCommit::Answer(filling.conn, message.peering, Box::new(answer.into()));
        core.commit(CommitFor::Pg(self.id, why), t);
    }

    /// A member has taken account of its part.
    pub fn handle_backfilled(&mut self, core: &mut Core, from: OsdId, message: &PgBackfilled) {
        if self.led_peering() != Some(message.peering) {
            return;
        }
        let (Ok(to), Ok(missing)) = (
            message.to.as_ref().map(ObjectId::from_bytes).transpose(),
            super::missing::Missing::read(&message.missing),
        ) else {
            return core.log(Level::Error, format!("pg {}: {from:?} sent what cannot be read", self.id));
        };
        let again = |part: &Part| part.target == from && part.sent.is_some() && to.as_ref() == Some(&part.from);
        if self.recovery.part.take_if(|part| again(part)).is_some() {
            return self.go_on_recovering(core);
        }
        let current = self.recovery.part.take_if(|part| part.target == from && part.sent.as_ref() == Some(&to));
        let (Some(part), Some(member)) = (current, self.recovery.members.get_mut(&from)) else { return };
        member.filled += part.heads.len() as u64;
        let within = |head: &ObjectId| *head >= part.from && to.as_ref().is_none_or(|to| head < to);
        missing.iter().for_each(|(head, need)| member.missing.add(head.clone(), need.clone()));
        // What was sent since, only to be logged; and copies of which the member did not get the parts aside.
        let since = self.log.after(message.at).map(|entry| entry.open().object).filter(within);
        let aside = self.log.left_aside().into_iter().filter(within);
        let also: Vec<ObjectId> = since.chain(aside).collect();
        for head in also {
            member.missing.add(head, Need::whole(EVersion::default(), true));
        }
        member.last_backfill = to.map_or(LastBackfill::MAX, LastBackfill::before);
        core.counts_changed = true;
        self.go_on_recovering(core);
    }
}
