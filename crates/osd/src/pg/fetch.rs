//! Copying a missing object from another holder, and letting others copy from here.
//!
//! Whoever lacks the object asks, piece by piece, one life after the other, the head first; the source answers from its
//! store and remembers nothing. Data that has come goes to the store at once, ahead of its transaction: clients do not
//! wait for it when they share a commit with that. Pieces of what does not come as one lie aside (`STAGED`) until
//! everything is here; one transaction then puts the object, its clones and their part of the index of snapshots in place
//! and takes it out of the missing set.
//!
//! Where this OSD follows, its primary asked for that and holds the object still. A request that is repeated after a lost
//! session may begin a fetch whose object is in place already, and the hold may end amid that: the primary answers only
//! what belongs to a hold that lasts (`Asker`), and whoever receives a write to the object gives up fetching it. Where this
//! OSD leads, nobody writes to what it lacks, and the head's record must show the version that the log names: a source
//! that was asked on trust may have another. What was given up (`lost`) needs no source, or one who has the older version
//! that counts again.
//!
//! Invariant: of an object that is being copied, this holder has what it had or all of the new, never some of it.

use super::log::Lost;
use super::missing::Need;
use super::snaps::{index_entries, index_object};
use super::{Pg, PgCommit, PgRead};
use crate::core::{CommitFor, Core, Level};
use crate::limits::{AHEAD_BYTES_MIN, PUSH_BYTES_MAX, PUSH_OMAP_ENTRIES_MAX};
use crate::ops::clones::Clones;
use crate::ops::state::{INFO_ATTR, ObjectInfo};
use crate::pull_pace::Pulled;
use base::{Bug, EVersion, Epoch, OsdId, SnapId};
use bytes::Bytes;
use maps::tenants::TenantId;
use std::collections::{BTreeSet, VecDeque};
use store::{
    AheadId, AttrsWant, Extent, ObjectId, ObjectView, ObjectWant, OmapWant, Op, ReadRequest, ReadWhat, StoreError,
    Transaction,
};
use wire::messages::{PgHurry, PgPull, PgPush, PgRecovered};
use wire::net::{ConnId, Envelope};
use wire::{Decode, Encode};

/// A primary that has asked for an object to be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The session on which it waits for the word.
    pub conn: ConnId,
    /// The hold under which it keeps the object still.
    pub hold: u32,
}

/// A life's piece, or all of it, as it came, and whether its data is in the store already.
#[derive(Debug)]
struct Came {
    life: ObjectId,
    ops: Vec<Op>,
    ahead: Option<AheadId>,
}

impl Came {
    /// Adds its changes to a transaction, to this object.
    fn push(self, to: &ObjectId, t: &mut Transaction) {
        for op in self.ops {
            match self.ahead {
                Some(id) if matches!(op, Op::Write(..)) => t.push_ahead(to, op, id),
                _ => t.push(to, op),
            }
        }
    }
}

/// An object on its way here.
#[derive(Debug)]
pub struct Fetch {
    source: OsdId,
    peering: Epoch,
    need: Need,
    /// Who waits for the word; none if this OSD is the primary.
    asker: Option<Asker>,
    /// Whether a client waits for the object.
    urgent: bool,
    /// The tenant whose request that is, if it is one's.
    tenant: Option<TenantId>,
    /// Tells attempts apart: what belongs to an abandoned one is not taken for this one's.
    round: u32,
    /// The head's record as it is here, once the store has told; it names the clones that the index knows.
    own: Option<ObjectInfo>,
    /// The same at the source; none where that has no object.
    theirs: Option<ObjectInfo>,
    /// The life that is being copied, and how much of it has come.
    life: ObjectId,
    offset: u64,
    omap_after: Bytes,
    record: Bytes,
    /// Lives to be copied after it.
    left: VecDeque<ObjectId>,
    /// The piece that has come last, while its data is on its way to the store.
    arriving: Option<(AheadId, Box<PgPush>)>,
    /// What came in one piece, and its bytes.
    in_hand: Vec<Came>,
    in_hand_bytes: u64,
    /// What lies aside, whole or in part.
    staged: Vec<ObjectId>,
    absent: Vec<ObjectId>,
}

impl Fetch {
    /// From whom it comes.
    pub fn source(&self) -> OsdId {
        self.source
    }

    /// What is needed of an object, from there.
    pub(super) fn new(head: &ObjectId, need: Need, source: OsdId, peering: Epoch, asker: Option<Asker>) -> Fetch {
        Fetch {
            source,
            peering,
            need,
            asker,
            urgent: false,
            tenant: None,
            round: 0,
            own: None,
            theirs: None,
            life: head.clone(),
            offset: 0,
            omap_after: Bytes::new(),
            record: Bytes::new(),
            left: VecDeque::new(),
            arriving: None,
            in_hand: Vec::new(),
            in_hand_bytes: 0,
            staged: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// Whether a client waits for the object, and the tenant whose request that is.
    pub(super) fn waited_for(mut self, urgent: bool, tenant: Option<TenantId>) -> Fetch {
        (self.urgent, self.tenant) = (urgent, tenant);
        self
    }

    fn expects(&self, from: OsdId, push: &PgPush, life: &ObjectId) -> bool {
        self.source == from
            && self.peering == push.peering
            && self.round == push.round
            && self.life == *life
            && self.arriving.is_none()
            && (push.unknown || self.offset == push.offset)
    }

    /// Whether a head with this record, or none, is what the log names.
    fn is_wanted(&self, theirs: Option<&ObjectInfo>) -> bool {
        match theirs {
            _ if self.asker.is_some() => true,
            Some(info) => self.need.is_met_by(info.version),
            None => self.need.deletes,
        }
    }

    /// Whether a deletion has left nothing of what is here: a head that has clones stays to hold their list.
    fn knows_nothing_is_left(&self, own: Option<&ObjectInfo>) -> bool {
        let (version, has_clones) = own.map_or(Default::default(), |own| (own.version, own.clones.is_some()));
        self.need.version == EVersion::default() || version == self.need.have && !has_clones
    }

    fn leave_nothing(&mut self, head: &ObjectId, own: Option<&ObjectInfo>) {
        let clones = clones_of(own).list.into_iter().map(|clone| head.with_snap(clone.id));
        self.absent.extend(clones.chain([head.clone()]));
    }

    /// Which lives come after the head.
    fn plan_clones(&mut self, head: &ObjectId) {
        let snaps: BTreeSet<SnapId> = match (&self.need.clones, &self.theirs) {
            (Some(touched), _) => touched.clone(),
            (None, theirs) => clones_of(theirs.as_ref()).list.iter().map(|clone| clone.id).collect(),
        };
        let snaps = snaps.into_iter().filter(|_| !Bug::ClonesNotRecovered.is_planted());
        self.left = snaps.map(|snap| head.with_snap(snap)).collect();
        if self.need.clones.is_none() {
            let theirs = clones_of(self.theirs.as_ref());
            let gone = clones_of(self.own.as_ref()).list.into_iter().filter(|clone| theirs.get(clone.id).is_none());
            self.absent.extend(gone.map(|clone| head.with_snap(clone.id)));
        }
    }
}

fn clones_of(info: Option<&ObjectInfo>) -> Clones {
    info.and_then(|info| info.clones.as_deref()).cloned().unwrap_or_default()
}

impl Pg {
    /// Begins to copy an object.
    pub(super) fn start_fetch(&mut self, core: &mut Core, head: ObjectId, mut fetch: Fetch) {
        self.abandon_fetch(core, &head);
        self.fetch_rounds += 1;
        fetch.round = self.fetch_rounds;
        let round = fetch.round;
        self.fetching.insert(head.clone(), fetch);
        let want = ObjectWant { attrs: AttrsWant::Named(vec![INFO_ATTR]), ..ObjectWant::default() };
        let what = ReadWhat::Object(head.clone(), want);
        let request = ReadRequest { collection: self.collection(), what };
        if self.exists {
            core.read(self.id, PgRead::OwnRecord(head, round), request);
        } else {
            self.pull_piece(core, &head);
        }
    }

    /// The store has told what is here of an object that is to be copied.
    pub(super) fn own_record_read(&mut self, core: &mut Core, head: &ObjectId, round: u32, view: &ObjectView) {
        let Some(fetch) = self.fetching.get_mut(head).filter(|fetch| fetch.round == round) else { return };
        // One that cannot be read is replaced; what the index has of its clones stays and stands for nothing.
        fetch.own = view.attr(&INFO_ATTR).and_then(|record| ObjectInfo::from_bytes(record).ok());
        if fetch.source == core.me() { self.settle_here(core, head) } else { self.pull_piece(core, head) }
    }

    /// Makes of what is here what the object was given up for; or removes it, where nothing can be left of it.
    fn settle_here(&mut self, core: &mut Core, head: &ObjectId) {
        let fetch = self.fetching.get_mut(head).expect("the caller has found it");
        match (fetch.need.lost, fetch.own.clone()) {
            (Some(Lost::Deleted), own) => fetch.leave_nothing(head, own.as_ref()),
            (None, own) if fetch.need.may_be_nothing() && fetch.knows_nothing_is_left(own.as_ref()) => {
                fetch.leave_nothing(head, own.as_ref());
            }
            (Some(Lost::Reverted(to)), Some(own)) if own.version == to => {
                let info = ObjectInfo { version: fetch.need.version, ..own };
                let ops = vec![Op::SetAttr(INFO_ATTR, info.to_bytes())];
                fetch.in_hand.push(Came { life: head.clone(), ops, ahead: None });
                fetch.theirs = Some(info);
            }
            _ => return self.fetch_failed(core, head),
        }
        self.put_in_place(core, head);
    }

    fn pull_piece(&mut self, core: &mut Core, head: &ObjectId) {
        let Some(fetch) = self.fetching.get(head) else { return };
        let message = PgPull {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: fetch.peering,
            round: fetch.round,
            object: fetch.life.to_bytes(),
            offset: fetch.offset,
            omap_after: fetch.omap_after.clone(),
            reverted_to: fetch.need.reverted_to(),
            hold: fetch.asker.map_or(0, |asker| asker.hold),
            urgent: fetch.urgent,
            tenant: fetch.tenant.map_or(0, |tenant| tenant.0),
        };
        core.send_osd(fetch.source, Envelope::new(message));
    }

    /// What was asked of `osd`, or its answers, may be lost: asks again.
    pub(super) fn resume_fetches(&mut self, core: &mut Core, osd: OsdId) {
        let theirs = |(head, fetch): (&ObjectId, &Fetch)| (fetch.source == osd).then(|| head.clone());
        let heads: Vec<ObjectId> = self.fetching.iter().filter_map(theirs).collect();
        for head in heads.into_iter().filter(|_| !Bug::PullsNotResumed.is_planted()) {
            let fetch = &self.fetching[&head];
            let again = Fetch::new(&head, fetch.need.clone(), osd, fetch.peering, fetch.asker);
            let again = again.waited_for(fetch.urgent, fetch.tenant);
            self.start_fetch(core, head, again);
        }
    }

    /// A client has come to wait for an object that is on its way here: the source is told, once.
    pub(super) fn hurry_fetch(&mut self, core: &mut Core, head: &ObjectId) {
        let Some(fetch) = self.fetching.get_mut(head).filter(|fetch| !fetch.urgent) else { return };
        fetch.urgent = true;
        let (map_epoch, peering) = (core.epoch(), fetch.peering);
        let message = PgHurry { pg: self.id, map_epoch, peering, object: head.to_bytes() };
        core.send_osd(fetch.source, Envelope::new(message));
        if let Some((id, push)) = fetch.arriving.take() {
            // Other data may be before it.
            core.forget_ahead(id);
            self.take_piece(core, head, *push, None);
        }
    }

    /// An object is not wanted any more, or not from there: forgets it, and what lies aside of it.
    pub(super) fn abandon_fetch(&mut self, core: &mut Core, head: &ObjectId) {
        let Some(fetch) = self.fetching.remove(head) else { return };
        let ahead = fetch.in_hand.iter().filter_map(|came| came.ahead);
        ahead.chain(fetch.arriving.iter().map(|(id, _)| *id)).for_each(|id| core.forget_ahead(id));
        if self.exists && !fetch.staged.is_empty() {
            let mut t = self.transaction();
            fetch.staged.iter().for_each(|life| t.push(&life.staged(), Op::Remove));
            core.commit(CommitFor::Pg(self.id, PgCommit::Nothing), t);
        }
    }

    /// The interval, or the peering, is over.
    pub(super) fn abandon_fetches(&mut self, core: &mut Core) {
        for head in self.fetching.keys().cloned().collect::<Vec<_>>() {
            self.abandon_fetch(core, &head);
        }
    }

    /// Another OSD pulls: it is answered in its turn.
    pub fn handle_pull(&self, core: &mut Core, conn: ConnId, pull: Box<PgPull>) {
        let Ok(id) = ObjectId::from_bytes(&pull.object) else { return };
        let bytes = core.push_bytes_max.min(self.recovery_cost_bytes() as u64);
        let urgent = pull.urgent || self.is_waited_for(&id.with_snap(SnapId::HEAD));
        core.pulls.want(Pulled { conn, pull, id, bytes }, urgent);
    }

    /// Another OSD's client has come to wait for what that pulls.
    pub fn handle_hurry(&self, core: &mut Core, conn: ConnId, hurry: &PgHurry) {
        if let Ok(head) = ObjectId::from_bytes(&hurry.object) {
            core.pulls.hurry(Some(conn), self.id, &head);
        }
    }

    /// Answers a pull: asks the store, if it has what is asked for.
    pub fn answer_pull(&self, core: &mut Core, pulled: Pulled) {
        let (pull, head) = (&pulled.pull, pulled.head());
        let older_does = |need: &Need| need.have == pull.reverted_to && pull.reverted_to != EVersion::default();
        let does = |need: &Need| need.is_here() || older_does(need);
        let lacks = self.lacks(&head) && !self.missing.get(&head).is_some_and(does);
        if !self.exists || lacks || !self.may_answer(pull, &head) {
            return self.answer_unknown(core, &pulled);
        }
        let first = pull.offset == 0 && pull.omap_after.is_empty();
        let want = ObjectWant {
            attrs: if first { AttrsWant::All } else { AttrsWant::None },
            data: vec![Extent { offset: pull.offset, len: core.push_bytes_max }],
            allocated: Vec::new(),
            omap_header: first,
            omap: vec![OmapWant::Range {
                after: pull.omap_after.clone(),
                prefix: Bytes::new(),
                entries: PUSH_OMAP_ENTRIES_MAX,
                bytes: PUSH_BYTES_MAX,
                values: true,
            }],
            uncached: false,
        };
        let what = ReadWhat::Object(pulled.id.clone(), want);
        core.pulls.began(pulled.bytes);
        core.read(self.id, PgRead::Piece(pulled), ReadRequest { collection: self.collection(), what });
    }

    /// The store cannot read what was pulled. The primary's copy is mended when those who wait for it have been told.
    pub(super) fn piece_failed(&mut self, core: &mut Core, pulled: &Pulled, error: &StoreError) {
        if let StoreError::Corrupt(_) | StoreError::Device = error {
            self.recovery.own_copy_is_bad(&pulled.head());
        }
        self.answer_unknown(core, pulled);
    }

    /// Answers a pull that cannot be answered.
    fn answer_unknown(&self, core: &mut Core, pulled: &Pulled) {
        let (pull, need) = (&pulled.pull, self.missing.get(&pulled.head()));
        let message = PgPush {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: pull.peering,
            round: pull.round,
            object: pull.object.clone(),
            unknown: true,
            has: need.map_or(EVersion::default(), |need| need.have),
            ..PgPush::default()
        };
        core.send(pulled.conn, Envelope::new(message));
    }

    /// Whether there is none of what is not here: where this holder is not filled yet, it may only not have come.
    fn knows_of_absence(&self, id: &ObjectId) -> bool {
        id.snap() != SnapId::HEAD || self.info.last_backfill.covers(id)
    }

    /// Whether the hold lasts to which a pull belongs: else the object may be written to before the answer is in place.
    fn may_answer(&self, pull: &PgPull, head: &ObjectId) -> bool {
        let holds = || self.led_peering() == Some(pull.peering) && self.recovery.holds(head, pull.hold);
        pull.hold == 0 || holds() || Bug::HoldIgnored.is_planted()
    }

    /// Answers a pull: the store has told.
    pub(super) fn piece_read(&mut self, core: &mut Core, pulled: &Pulled, mut view: ObjectView) {
        let (conn, pull) = (pulled.conn, &pulled.pull);
        let held = self.may_answer(pull, &pulled.head());
        if !held || !view.exists && !self.knows_of_absence(&pulled.id) {
            return self.answer_unknown(core, pulled);
        }
        let omap = view.omap.pop().unwrap_or_default();
        let bytes = view.data.pop().unwrap_or_default();
        self.count_recovered(bytes.len(), omap.entries.len());
        let message = PgPush {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: pull.peering,
            round: pull.round,
            object: pull.object.clone(),
            unknown: false,
            has: EVersion::default(),
            exists: view.exists,
            size: view.size,
            offset: pull.offset,
            attrs: view.attrs,
            omap_header: view.omap_header,
            omap: omap.entries,
            omap_more: omap.more,
            tenant: pull.tenant,
            bytes,
        };
        core.send(conn, Envelope::new(message));
    }

    /// A piece has come.
    pub fn handle_push(&mut self, core: &mut Core, from: OsdId, mut push: PgPush) {
        core.counters.subop_push.inc();
        core.counters.subop_push_in_bytes.add(push.bytes.len() as u64);
        core.counters.recovery_bytes.add(push.bytes.len() as u64);
        let Ok(life) = ObjectId::from_bytes(&push.object) else { return };
        let head = life.with_snap(SnapId::HEAD);
        let Some(fetch) = self.fetching.get_mut(&head).filter(|f| f.expects(from, &push, &life)) else { return };
        if push.unknown {
            self.note_older(&head, push.has);
            return self.fetch_failed(core, &head);
        }
        if life == head && fetch.offset == 0 && fetch.omap_after.is_empty() {
            let record = push.attrs.iter_mut().find(|(name, _)| *name == INFO_ATTR);
            let mut theirs = record.as_ref().and_then(|(_, record)| ObjectInfo::from_bytes(record).ok());
            if push.exists != theirs.is_some() || !fetch.is_wanted(theirs.as_ref()) {
                if let Some(info) = theirs {
                    self.note_older(&head, info.version);
                }
                return self.fetch_failed(core, &head);
            }
            if let (Some((_, record)), Some(info)) = (record, theirs.as_mut().filter(|_| fetch.asker.is_none())) {
                // What the object was reverted to is, from now on, a version of its own.
                info.version = fetch.need.version;
                *record = info.to_bytes();
            }
            fetch.theirs = theirs;
            fetch.plan_clones(&head);
        }
        self.count_recovered(push.bytes.len(), push.omap.len());
        let fetch = self.fetching.get_mut(&head).expect("it was just there");
        if push.exists && push.bytes.len() >= AHEAD_BYTES_MIN && !fetch.urgent {
            let id = core.give_ahead(self.id, head, fetch.round, push.offset, push.bytes.clone());
            fetch.arriving = Some((id, Box::new(push)));
        } else {
            self.take_piece(core, &head, push, None);
        }
    }

    /// The data of a piece is in the store.
    pub(crate) fn piece_is_ahead(&mut self, core: &mut Core, head: &ObjectId, round: u32, id: AheadId) {
        let fetch = self.fetching.get_mut(head).filter(|fetch| fetch.round == round);
        match fetch.and_then(|fetch| fetch.arriving.take_if(|(arriving, _)| *arriving == id)) {
            Some((_, push)) => self.take_piece(core, head, *push, Some(id)),
            None => core.forget_ahead(id),
        }
    }

    fn take_piece(&mut self, core: &mut Core, head: &ObjectId, mut push: PgPush, ahead: Option<AheadId>) {
        let fetch = self.fetching.get_mut(head).expect("the caller has found it");
        let first = fetch.offset == 0 && fetch.omap_after.is_empty();
        let (end, bytes) = (push.offset + push.bytes.len() as u64, push.bytes.len() as u64);
        let last = !push.exists || end >= push.size && !push.omap_more;
        if !last && push.bytes.is_empty() && push.omap.is_empty() {
            return self.fetch_failed(core, head);
        }
        if let Some(at) = push.attrs.iter().position(|(name, _)| *name == INFO_ATTR) {
            fetch.record = push.attrs.remove(at).1;
        }
        (fetch.offset, fetch.omap_after) = (end, push.omap.last().map_or(Bytes::new(), |entry| entry.0.clone()));
        let life = fetch.life.clone();
        let aside = if !push.exists {
            fetch.absent.push(life.clone());
            None
        } else {
            let ops = piece_ops(push, first, last.then(|| fetch.record.clone()));
            let came = Came { life: life.clone(), ops, ahead };
            if first && last && fetch.in_hand_bytes + bytes <= PUSH_BYTES_MAX {
                fetch.in_hand_bytes += bytes;
                fetch.in_hand.push(came);
                None
            } else {
                if first {
                    fetch.staged.push(life.clone());
                }
                Some(came)
            }
        };
        let next = if last { fetch.left.pop_front() } else { Some(life.clone()) };
        if let Some(next) = next.clone().filter(|_| last) {
            (fetch.life, fetch.offset, fetch.omap_after) = (next, 0, Bytes::new());
        }
        if let Some(came) = aside {
            let mut t = self.transaction();
            came.push(&life.staged(), &mut t);
            core.commit(CommitFor::Pg(self.id, PgCommit::Nothing), t);
        }
        if next.is_some() { self.pull_piece(core, head) } else { self.put_in_place(core, head) }
    }

    /// Everything is here.
    fn put_in_place(&mut self, core: &mut Core, head: &ObjectId) {
        let fetch = self.fetching.remove(head).expect("the caller has found it");
        let mut t = self.transaction();
        for came in fetch.in_hand {
            let life = came.life.clone();
            came.push(&life, &mut t);
        }
        for life in &fetch.staged {
            t.rename(&life.staged(), life);
        }
        for life in &fetch.absent {
            t.push(life, Op::Remove);
        }
        let (was, is) = (clones_of(fetch.own.as_ref()), clones_of(fetch.theirs.as_ref()));
        let was: BTreeSet<(Bytes, Bytes)> = index_entries(head, &was).collect();
        let is: BTreeSet<(Bytes, Bytes)> = index_entries(head, &is).collect();
        let gone: Vec<Bytes> = was.difference(&is).map(|(key, _)| key.clone()).collect();
        let new: Vec<(Bytes, Bytes)> = is.difference(&was).cloned().collect();
        if !gone.is_empty() {
            t.push(&index_object(), Op::OmapRemove(gone));
        }
        if !new.is_empty() && !Bug::SnapIndexNotRecovered.is_planted() {
            t.push(&index_object(), Op::OmapSet(new));
        }
        self.missing.remove_and_store(head, &mut t);
        core.clear_suspect(self.id.pool, head);
        let why = match fetch.asker {
            Some(Asker { conn, hold }) => {
                let answer = self.recovered_message(core, fetch.peering, head, hold, true);
                PgCommit::Answer(conn, fetch.peering, Box::new(answer.into()))
            }
            None => PgCommit::Pulled(fetch.peering, head.clone()),
        };
        core.commit(CommitFor::Pg(self.id, why), t);
    }

    fn recovered_message(&self, core: &Core, peering: Epoch, head: &ObjectId, hold: u32, done: bool) -> PgRecovered {
        PgRecovered { pg: self.id, map_epoch: core.epoch(), peering, object: head.to_bytes(), hold, done }
    }

    /// The source does not have what is wanted, or went away.
    pub(super) fn fetch_failed(&mut self, core: &mut Core, head: &ObjectId) {
        let Some(fetch) = self.fetching.get(head) else { return };
        let (source, peering, asker) = (fetch.source, fetch.peering, fetch.asker);
        self.abandon_fetch(core, head);
        match asker {
            Some(Asker { conn, hold }) => {
                // What was asked for twice may be here, and its hold over.
                let level = if self.missing.contains(head) { Level::Error } else { Level::Info };
                core.log(level, format!("pg {}: {source:?} cannot give {head:?}", self.id));
                let answer = self.recovered_message(core, peering, head, hold, false);
                core.send(conn, Envelope::new(answer));
            }
            None => self.pull_failed(core, head, source),
        }
    }

    /// Gives up what comes from an OSD that the map shows as down.
    pub(super) fn fail_fetches_from_the_dead(&mut self, core: &mut Core) {
        let dead = |(head, fetch): (&ObjectId, &Fetch)| (!core.map.is_up(fetch.source)).then(|| head.clone());
        for head in self.fetching.iter().filter_map(dead).collect::<Vec<_>>() {
            self.fetch_failed(core, &head);
        }
    }
}

/// The changes that a piece makes to its copy. The object's record comes with the last.
fn piece_ops(push: PgPush, first: bool, record: Option<Bytes>) -> Vec<Op> {
    let mut ops = Vec::new();
    if first {
        ops.extend([Op::Remove, Op::Truncate(push.size)]);
        ops.extend(push.attrs.into_iter().map(|(name, value)| Op::SetAttr(name, value)));
        if !push.omap_header.is_empty() {
            ops.push(Op::OmapHeader(push.omap_header));
        }
    }
    if !push.bytes.is_empty() {
        ops.push(Op::Write(push.offset, push.bytes));
    }
    if !push.omap.is_empty() {
        ops.push(Op::OmapSet(push.omap));
    }
    ops.extend(record.map(|record| Op::SetAttr(INFO_ATTR, record)));
    ops
}
