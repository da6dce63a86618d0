//! Removed snapshots go away: in the background, a few clones a turn, by writes like any other.
//!
//! A primary whose PG is clean looks up, snapshot by snapshot, which clones stand for what the map
//! wants removed, and queues a request of its own on the head of each. Such a request takes its turn with the
//! clients' on that object, has no name (it is never sent again) and no answer. A snapshot that the index does not
//! name any more is purged, and so reported; the monitor takes it out of the map when every PG has said so.
//!
//! Invariants: one turn at a time; nothing of it outlives its interval; where a store cannot read what is to be trimmed,
//! nothing more is (`snaptrim_error`) before the interval ends or a map says anew what is to be removed.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`SnapTrimmer`). Read next: `ops::snaps::trim`.

use super::client_io::ClientRequest;
use super::snaps::{index_key, index_object, index_prefix, indexed_clone};
use super::watching::OWN_CONN;
use super::{Pg, PgCommit, PgRead};
use crate::core::{CommitFor, Core};
use crate::counters::Stamps;
use crate::limits::SNAP_TRIM_CLONES_PER_TURN;
use crate::ops::execution::{Caller, Circumstances};
use crate::ops::state::ObjectState;
use crate::ops::{plan, snaps};
use crate::session::Share;
use base::{Epoch, SnapId};
use bytes::Bytes;
use maps::osd_map::MapFlags;
use qos::GroupId;
use store::{ObjectId, ObjectView, ObjectWant, OmapWant, Op, ReadRequest, ReadWhat};
use wire::messages::OsdOp;
use wire::osd::{ObjectLocator, OsdReqId, SpgId};
use wire::types::{EntityAddr, EntityName};

/// A turn of trimming.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    snap: SnapId,
    clones_left: usize,
}

/// What a request of trimming is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrimOf {
    /// The snapshot whose turn it is.
    pub snap: SnapId,
    /// The clone.
    pub clone: SnapId,
}

impl Pg {
    /// Whether there is something to trim, and now is the time for it.
    pub fn may_trim(&self, core: &Core) -> bool {
        self.is_clean()
            && !self.info.unsettled
            && self.snaps.turn.is_none()
            && !self.snaps.failed
            && self.snaps.has_to_trim()
            && !core.map.flags.contains(MapFlags::NOSNAPTRIM)
    }

    /// Asks for a turn, if there is something to trim.
    pub fn ask_for_trim(&mut self, core: &mut Core) {
        if self.may_trim(core) {
            core.trims.want(core.now, self.id);
        }
    }

    /// Takes a turn: looks up the next clones of the next snapshot.
    pub fn trim(&mut self, core: &mut Core) {
        if !self.may_trim(core) {
            return;
        }
        let Some(snap) = self.snaps.to_trim().intervals().next().map(|(first, _)| first) else { return };
        self.snaps.turn = Some(Turn { snap, clones_left: 0 });
        let entries = OmapWant::Range {
            after: Bytes::new(),
            prefix: Bytes::copy_from_slice(&index_prefix(snap)),
            entries: SNAP_TRIM_CLONES_PER_TURN,
            bytes: u64::MAX,
            values: false,
        };
        let want = ObjectWant { omap: vec![entries], ..ObjectWant::default() };
        let what = ReadWhat::Object(index_object(), want);
        core.read(self.id, PgRead::SnapIndex(self.since), ReadRequest { collection: self.collection(), what });
    }

    /// The store has told which clones stand for the snapshot.
    pub fn snap_index_read(&mut self, core: &mut Core, interval: Epoch, mut view: ObjectView) {
        let Some(turn) = self.snaps.turn.as_mut().filter(|_| interval == self.since) else { return };
        let keys: Vec<Bytes> = view.omap.pop().unwrap_or_default().entries.into_iter().map(|(key, _)| key).collect();
        turn.clones_left = keys.len();
        let snap = turn.snap;
        if keys.is_empty() {
            self.snaps.purged.insert(snap);
            core.stats_changed = true;
            return self.end_turn(core);
        }
        for key in keys {
            match indexed_clone(&key) {
                Ok(clone) => self.queue_trim(core, snap, clone),
                // Not an entry: it stands for nothing.
                Err(_) => self.drop_index_key(core, key),
            }
        }
    }

    fn queue_trim(&mut self, core: &mut Core, snap: SnapId, clone: ObjectId) {
        let head = clone.with_snap(SnapId::HEAD);
        let name = Bytes::copy_from_slice(head.name());
        let locator = ObjectLocator::new(self.id.pool);
        let mut message = OsdOp::new(SpgId::replicated(self.id), head.hash(), locator, name, Vec::new());
        message.map_epoch = core.epoch();
        let caller = Caller { name: EntityName::osd(core.me()), addr: EntityAddr::default(), own: true };
        let mut plan = plan(&[], &core.tuning).expect("no op is refused");
        plan.class = crate::ops::OpClass::Write;
        core.sessions.admit_own();
        let request = Box::new(ClientRequest {
            conn: OWN_CONN,
            tid: 0,
            reqid: OsdReqId::default(),
            message: Box::new(message),
            object: head,
            plan,
            view: None,
            answers: Vec::new(),
            copied: None,
            circumstances: Circumstances { caller, now: core.now, last_user_version: 0, tuning: core.tuning },
            trims: Some(TrimOf { snap, clone: clone.snap() }),
            mended: false,
            bytes: 0,
            tenant: GroupId::NONE,
            share: Share::none(),
            interval: self.since,
            stamps: Stamps::at(core.now),
        });
        self.handle_request(core, request);
    }

    /// A request of trimming has its object's turn.
    pub(super) fn run_trim(&mut self, core: &mut Core, request: Box<ClientRequest>, of: TrimOf, before: ObjectState) {
        match snaps::trim(&before, of.clone, &self.snaps.removed) {
            Some(outcome) => self.submit(core, request, before, outcome),
            // The index speaks of what is not there (any more).
            None => {
                core.sessions.release(request.bytes);
                self.drop_index_key(core, index_key(of.snap, &request.object.with_snap(of.clone)));
            }
        }
    }

    fn drop_index_key(&mut self, core: &mut Core, key: Bytes) {
        let mut t = self.transaction();
        t.push(&index_object(), Op::OmapRemove(vec![key]));
        core.commit(CommitFor::Pg(self.id, PgCommit::Trimmed(self.since)), t);
    }

    /// A clone of this turn is done.
    pub fn clone_trimmed(&mut self, core: &mut Core, interval: Epoch) {
        let Some(turn) = self.snaps.turn.as_mut().filter(|_| interval == self.since) else { return };
        turn.clones_left = turn.clones_left.saturating_sub(1);
        if turn.clones_left == 0 {
            self.end_turn(core);
        }
    }

    /// The store cannot tell what is to be trimmed, or cannot read what it is a clone of.
    pub(super) fn trimming_failed(&mut self, core: &mut Core, interval: Epoch) {
        if interval == self.since && self.snaps.turn.take().is_some() {
            self.snaps.failed = true;
            core.stats_changed = true;
        }
    }

    fn end_turn(&mut self, core: &mut Core) {
        self.snaps.turn = None;
        self.ask_for_trim(core);
    }
}
