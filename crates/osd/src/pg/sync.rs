//! Becoming equal to another holder: copying the objects that differ, then taking its log and record as one's own.
//!
//! Where the two logs touch, the objects of the entries that only one of them has are copied aside (`STAGED`), and one
//! transaction puts all of them in place together with the log: at no time do log and objects disagree. Where they do
//! not, everything is compared, the PG is marked incomplete first, and objects are copied in place.
//!
//! The one that copies asks, piece by piece; the source answers from its store and remembers nothing. The source is a
//! primary that does not serve yet, or the authority during peering, so its objects do not change meanwhile.
//!
//! Invariant: an object copied in place gets its record with its last piece: a half one is never taken for whole.

use super::info::PgInfo;
use super::log::PgLog;
use super::snaps::{entries_of_record, index_object};
use super::{Pg, PgCommit, PgRead, Role};
use crate::core::{CommitFor, Core, Level};
use crate::limits::{PULLS_IN_FLIGHT_MAX, PUSH_BYTES_MAX, PUSH_OMAP_ENTRIES_MAX, SCAN_NAMES_MAX};
use crate::ops::state::INFO_ATTR;
use base::{Epoch, OsdId};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use store::{
    AttrsWant, Extent, ListEntry, ListWant, ObjectId, ObjectView, ObjectWant, OmapWant, Op, ReadRequest, ReadWhat,
    Transaction,
};
use wire::messages::{PgPull, PgPush, PgScan, PgScanReply};
use wire::net::{ConnId, Envelope};
use wire::{Decode, Encode};

/// A copy under way.
#[derive(Debug)]
pub struct Sync {
    source: OsdId,
    peering: Epoch,
    /// The session on which the primary waits for the word; none if this OSD is the primary.
    answer_to: Option<ConnId>,
    info: PgInfo,
    log: PgLog,
    /// Everything is compared and copied in place.
    whole: bool,
    /// In place: what is here, with its record; what the source lists is taken out, the rest is removed at the end.
    own: BTreeMap<ObjectId, Bytes>,
    scanned: bool,
    /// Counts listings: what belongs to an abandoned one is not taken for this one's.
    round: u32,
    to_fetch: VecDeque<ObjectId>,
    /// Objects asked for, each with its record once the first piece has come.
    fetching: BTreeMap<ObjectId, Bytes>,
    /// Aside: what was copied, and what the source does not have.
    staged: Vec<ObjectId>,
    /// The entries of the index of snapshots that come with what is copied.
    index: Vec<(Bytes, Bytes)>,
    absent: Vec<ObjectId>,
}

impl Pg {
    /// Begins to become equal to `source`, whose record and log these are.
    pub fn start_sync(
        &mut self,
        core: &mut Core,
        source: OsdId,
        peering: Epoch,
        info: PgInfo,
        log: PgLog,
        answer_to: Option<ConnId>,
    ) {
        self.abandon_sync(core);
        let differing = if self.info.incomplete { None } else { self.log.differing(&log) };
        let mut sync = Box::new(Sync {
            source,
            peering,
            answer_to,
            info,
            log,
            whole: differing.is_none(),
            own: BTreeMap::new(),
            scanned: differing.is_some(),
            round: 0,
            to_fetch: differing.unwrap_or_default().into_iter().collect(),
            fetching: BTreeMap::new(),
            staged: Vec::new(),
            index: Vec::new(),
            absent: Vec::new(),
        });
        if !sync.to_fetch.is_empty() || sync.whole {
            let what = if sync.whole { "everything".to_owned() } else { format!("{} objects", sync.to_fetch.len()) };
            core.log(Level::Info, format!("pg {}: copying {what} from {source:?}", self.id));
        }
        if sync.whole {
            self.info.incomplete = true;
            self.commit_info(core, PgCommit::Nothing);
            sync.own.clear();
            self.sync = Some(sync);
            self.list_own(core, (peering, 0), None);
        } else {
            self.sync = Some(sync);
            self.fetch_more(core);
        }
    }

    /// What is being copied is not wanted any more: forgets it, and what lies aside of it.
    pub(super) fn abandon_sync(&mut self, core: &mut Core) {
        let Some(sync) = self.sync.take().filter(|sync| !sync.whole) else { return };
        let begun: Vec<ObjectId> = sync.staged.into_iter().chain(sync.fetching.into_keys()).collect();
        if self.exists && !begun.is_empty() {
            let mut t = self.transaction();
            begun.iter().for_each(|object| t.push(&object.staged(), Op::Remove));
            core.commit(CommitFor::Pg(self.id, PgCommit::Nothing), t);
        }
    }

    fn list_own(&mut self, core: &mut Core, listing: (Epoch, u32), from: Option<ObjectId>) {
        let what = ReadWhat::List(ListWant { from, max: SCAN_NAMES_MAX, attr: Some(INFO_ATTR) });
        core.read(
            self.id,
            PgRead::OwnObjects(listing.0, listing.1),
            ReadRequest { collection: self.collection(), what },
        );
    }

    /// A part of what is here.
    pub fn own_objects_read(
        &mut self,
        core: &mut Core,
        listing: (Epoch, u32),
        entries: Vec<ListEntry>,
        next: Option<ObjectId>,
    ) {
        let Some(sync) = self.sync.as_mut().filter(|s| (s.peering, s.round) == listing) else { return };
        for entry in entries {
            if entry.id.is_clients() {
                sync.own.insert(entry.id, entry.attr.unwrap_or_default());
            }
        }
        match next {
            Some(next) => self.list_own(core, listing, Some(next)),
            None => self.scan_source(core, None),
        }
    }

    fn scan_source(&mut self, core: &mut Core, from: Option<Bytes>) {
        let Some(sync) = &self.sync else { return };
        let message = PgScan { pg: self.id, map_epoch: core.epoch(), peering: sync.peering, round: sync.round, from };
        core.send_osd(sync.source, Envelope::new(message));
    }

    /// Answers a scan: asks the store.
    pub fn handle_scan(&mut self, core: &mut Core, conn: ConnId, scan: Box<PgScan>) {
        let Ok(from) = scan.from.as_ref().map(ObjectId::from_bytes).transpose() else { return };
        let what = ReadWhat::List(ListWant { from, max: SCAN_NAMES_MAX, attr: Some(INFO_ATTR) });
        core.read(self.id, PgRead::Scan(conn, scan), ReadRequest { collection: self.collection(), what });
    }

    /// Answers a scan: the store has told.
    pub fn scan_read(
        &mut self,
        core: &mut Core,
        conn: ConnId,
        scan: &PgScan,
        entries: Vec<ListEntry>,
        next: Option<ObjectId>,
    ) {
        let clients = entries.into_iter().filter(|entry| entry.id.is_clients());
        let message = PgScanReply {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: scan.peering,
            round: scan.round,
            objects: clients.map(|entry| (entry.id.to_bytes(), entry.attr.unwrap_or_default())).collect(),
            next: next.map(|next| next.to_bytes()),
        };
        core.send(conn, Envelope::new(message));
    }

    /// The source has listed a part of what it has.
    pub fn handle_scan_reply(&mut self, core: &mut Core, from: OsdId, reply: &PgScanReply) {
        let Some(sync) = self.sync.as_mut().filter(|s| s.peering == reply.peering && s.source == from) else { return };
        if sync.scanned || sync.round != reply.round {
            return;
        }
        for (id, record) in &reply.objects {
            let Ok(id) = ObjectId::from_bytes(id) else { continue };
            sync.index.extend(entries_of_record(&id, record));
            if sync.own.remove(&id).as_ref() != Some(record) {
                sync.to_fetch.push_back(id);
            }
        }
        match reply.next.clone() {
            Some(next) => self.scan_source(core, Some(next)),
            None => {
                sync.scanned = true;
                sync.absent.extend(core::mem::take(&mut sync.own).into_keys());
                self.fetch_more(core);
            }
        }
    }

    /// Asks for more objects, or finishes.
    fn fetch_more(&mut self, core: &mut Core) {
        let Some(sync) = &mut self.sync else { return };
        while sync.fetching.len() < PULLS_IN_FLIGHT_MAX {
            let Some(object) = sync.to_fetch.pop_front() else { break };
            let message = pull(self.id, core.epoch(), sync.peering, &object, 0, Bytes::new());
            sync.fetching.insert(object, Bytes::new());
            core.send_osd(sync.source, Envelope::new(message));
        }
        if sync.fetching.is_empty() && sync.scanned {
            self.finish_sync(core);
        }
    }

    /// What was asked of `osd` may be lost: asks again.
    pub fn resume_sync(&mut self, core: &mut Core, osd: OsdId) {
        let Some(sync) = self.sync.as_mut().filter(|s| s.source == osd) else { return };
        for object in core::mem::take(&mut sync.fetching).into_keys() {
            sync.to_fetch.push_front(object);
        }
        sync.round += 1;
        let listing = (sync.peering, sync.round);
        if sync.scanned {
            self.fetch_more(core);
        } else {
            sync.own.clear();
            sync.to_fetch.clear();
            sync.index.clear();
            self.list_own(core, listing, None);
        }
    }

    /// Answers a pull: asks the store.
    pub fn handle_pull(&mut self, core: &mut Core, conn: ConnId, pull: Box<PgPull>) {
        let Ok(id) = ObjectId::from_bytes(&pull.object) else { return };
        let first = pull.offset == 0 && pull.omap_after.is_empty();
        let want = ObjectWant {
            attrs: if first { AttrsWant::All } else { AttrsWant::None },
            data: vec![Extent { offset: pull.offset, len: PUSH_BYTES_MAX }],
            allocated: Vec::new(),
            omap_header: first,
            omap: vec![OmapWant::Range {
                after: pull.omap_after.clone(),
                prefix: Bytes::new(),
                entries: PUSH_OMAP_ENTRIES_MAX,
                bytes: PUSH_BYTES_MAX,
                values: true,
            }],
        };
        let what = ReadWhat::Object(id, want);
        core.read(self.id, PgRead::Piece(conn, pull), ReadRequest { collection: self.collection(), what });
    }

    /// Answers a pull: the store has told.
    pub fn piece_read(&mut self, core: &mut Core, conn: ConnId, pull: &PgPull, mut view: ObjectView) {
        let omap = view.omap.pop().unwrap_or_default();
        let message = PgPush {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: pull.peering,
            object: pull.object.clone(),
            exists: view.exists,
            size: view.size,
            offset: pull.offset,
            attrs: view.attrs,
            omap_header: view.omap_header,
            omap: omap.entries,
            omap_more: omap.more,
            bytes: view.data.pop().unwrap_or_default(),
        };
        core.send(conn, Envelope::new(message));
    }

    /// A piece of an object has come.
    pub fn handle_push(&mut self, core: &mut Core, from: OsdId, mut push: PgPush) {
        let (id, epoch) = (self.id, core.epoch());
        let Some(sync) = self.sync.as_mut().filter(|s| s.peering == push.peering && s.source == from) else { return };
        let Ok(object) = ObjectId::from_bytes(&push.object) else { return };
        let Some(record) = sync.fetching.get_mut(&object) else { return };
        if !push.exists {
            sync.fetching.remove(&object);
            sync.absent.push(object);
            return self.fetch_more(core);
        }
        let first = !push.attrs.is_empty();
        if let Some(at) = push.attrs.iter().position(|(name, _)| *name == INFO_ATTR) {
            *record = push.attrs.remove(at).1;
        }
        let end = push.offset + push.bytes.len() as u64;
        let last = end >= push.size && !push.omap_more;
        let record = last.then(|| record.clone());
        let target = if sync.whole { object.clone() } else { object.staged() };
        let next = pull(id, epoch, sync.peering, &object, end, push.omap.last().map_or(Bytes::new(), |e| e.0.clone()));
        let source = sync.source;
        if last {
            sync.fetching.remove(&object);
            if let Some(record) = record.as_ref().filter(|_| !sync.whole) {
                sync.index.extend(entries_of_record(&object, record));
                sync.staged.push(object);
            }
        }
        let mut t = self.transaction();
        put_piece(&mut t, &target, push, first, record);
        core.commit(CommitFor::Pg(id, PgCommit::Nothing), t);
        if last {
            self.fetch_more(core);
        } else {
            core.send_osd(source, Envelope::new(next));
        }
    }

    /// Everything is here: puts it in place, with the source's log and record.
    fn finish_sync(&mut self, core: &mut Core) {
        let sync = *self.sync.take().expect("the caller has seen it");
        let same_log = self.exists && (self.log.head(), self.log.tail()) == (sync.log.head(), sync.log.tail());
        let mut t = self.transaction();
        if !same_log {
            sync.log.store(&mut t);
        }
        // Parts of copies that this log alone tells of: nobody else will give them up.
        for object in self.log.left_aside().iter().filter(|object| !sync.staged.contains(object)) {
            t.push(&object.staged(), Op::Remove);
        }
        for object in &sync.staged {
            t.rename(&object.staged(), object);
        }
        for object in &sync.absent {
            t.push(object, Op::Remove);
        }
        if sync.whole {
            t.push(&index_object(), Op::OmapClear);
        }
        if !sync.index.is_empty() {
            t.push(&index_object(), Op::OmapSet(sync.index));
        }
        // The authority's record as it is: a primary is made ready only when it spreads.
        self.info = PgInfo { incomplete: false, ..sync.info };
        self.adopt_log(sync.log);
        self.put_info(&mut t);
        let done = match sync.answer_to {
            Some(conn) => {
                self.role = Role::Replica(sync.source, sync.peering);
                PgCommit::Synced(conn, sync.peering)
            }
            None => PgCommit::Nothing,
        };
        core.commit(CommitFor::Pg(self.id, done), t);
        if sync.answer_to.is_none() {
            self.fetched(core, sync.peering);
        }
    }
}

fn pull(pg: base::PgId, map_epoch: Epoch, peering: Epoch, object: &ObjectId, offset: u64, omap_after: Bytes) -> PgPull {
    PgPull { pg, map_epoch, peering, object: object.to_bytes(), offset, omap_after }
}

/// The changes that a piece makes to its copy. The object's record comes with the last.
fn put_piece(t: &mut Transaction, target: &ObjectId, push: PgPush, first: bool, record: Option<Bytes>) {
    if first {
        t.push(target, Op::Remove);
        t.push(target, Op::Truncate(push.size));
        for (name, value) in push.attrs {
            t.push(target, Op::SetAttr(name, value));
        }
        if !push.omap_header.is_empty() {
            t.push(target, Op::OmapHeader(push.omap_header));
        }
    }
    if !push.bytes.is_empty() {
        t.push(target, Op::Write(push.offset, push.bytes));
    }
    if !push.omap.is_empty() {
        t.push(target, Op::OmapSet(push.omap));
    }
    if let Some(record) = record {
        t.push(target, Op::SetAttr(INFO_ATTR, record));
    }
}
