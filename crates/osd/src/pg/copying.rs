//! Copies that arrive at a PG: parts written aside, and the request that waited for them.
//!
//! A part is a write like others, in the log and at all members, but one that changes nothing that anybody sees: it
//! lies in a life of its object of its own (`STAGED`) until the request puts it in place or gives it up.

use super::Pg;
use super::client_io::ClientRequest;
use super::log::LogEntry;
use crate::core::Core;
use crate::limits::OBJECT_BYTES_MAX;
use crate::ops::bare_outcomes;
use crate::ops::copy::{Copied, part_changes};
use crate::reply;
use base::{EVersion, Errno};
use qos::GroupId;
use store::{ObjectId, Op, STAGED, Transaction};
use wire::osd::copy::{CopyData, CopySource};
use wire::osd::{OpCode, OsdReqId};

impl Pg {
    /// Lets a request's source be fetched.
    pub(super) fn start_copy(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        let copies = |code: OpCode| code == OpCode::COPY_FROM || code == OpCode::COPY_FROM2;
        let item = request.message.ops.iter().find(|item| copies(item.op));
        let source = CopySource::of(item.expect("one of its ops has asked")).expect("the op has read it");
        let locator = maps::ObjectLocator {
            pool: source.locator.pool,
            key: &source.locator.key,
            namespace: &source.locator.nspace,
            hash: u32::try_from(source.locator.hash).ok(),
        };
        let longest = usize::from(u16::MAX);
        let names = [&source.locator.key, &source.locator.nspace, &source.object];
        let seed = core.map.object_to_raw_pg(&locator, &source.object).map(|pg| pg.seed);
        let is_itself = |seed: u32| {
            let (nspace, key) = (&source.locator.nspace, &source.locator.key);
            let id = ObjectId::new(seed, nspace, key, &source.object, source.snap);
            source.locator.pool == self.id.pool && id == request.object
        };
        if names.iter().any(|name| name.len() > longest) || seed.is_some_and(is_itself) {
            let mut request = request;
            request.copied = Some(Err(Errno::EINVAL));
            return self.run_write(core, request);
        }
        let queue = self.objects.get_mut(&request.object).expect("a request under way keeps its queue");
        queue.copying = true;
        let reads = queue.take_reads_for_copies();
        core.copies.start(self.id, request, source);
        for read in reads {
            self.start_request(core, read);
        }
    }

    /// Writes a part of a copy aside; false if it is not one.
    pub fn stage_copy(
        &mut self,
        core: &mut Core,
        object: &ObjectId,
        part: &CopyData,
        offset: u64,
        first: bool,
    ) -> bool {
        let end = offset.saturating_add(part.data.len() as u64);
        let Some(changes) = part_changes(part, offset).filter(|_| end.max(part.size) <= OBJECT_BYTES_MAX) else {
            return false;
        };
        let staged = object.with_snap(STAGED);
        let mut transaction = Transaction::new(self.collection());
        if first {
            transaction.push(&staged, Op::Remove);
            transaction.push(&staged, Op::Truncate(part.size));
        }
        changes.into_iter().for_each(|op| transaction.push(&staged, op));
        self.send_aside(core, object, transaction, false);
        true
    }

    /// Sends a write that nobody sees and nobody waits for; it writes a part, or gives all up.
    fn send_aside(&mut self, core: &mut Core, object: &ObjectId, transaction: Transaction, gives_up: bool) {
        let entry = LogEntry {
            version: EVersion::new(core.epoch(), self.info.last_update.version + 1),
            prior: EVersion::default(),
            object: object.clone(),
            clones: Vec::new(),
            deletes: gives_up,
            changes_nothing: true,
            reqid: OsdReqId::default(),
            user_version: self.info.last_user_version,
            result: 0,
            outputs: Vec::new(),
            totals: self.info.totals,
            lost: None,
        };
        self.send_write(core, GroupId::NONE, entry, transaction);
    }

    /// Gives up what was written aside.
    fn drop_staged(&mut self, core: &mut Core, object: &ObjectId) {
        let mut transaction = Transaction::new(self.collection());
        transaction.push(&object.with_snap(STAGED), Op::Remove);
        self.send_aside(core, object, transaction, true);
    }

    /// The PG begins to serve: gives up what copies wrote aside that the end of an interval cut off. What the log no
    /// longer tells of stays, unseen, until the object is copied to again.
    pub(super) fn drop_left_aside(&mut self, core: &mut Core) {
        for object in self.log.left_aside() {
            self.drop_staged(core, &object);
        }
    }

    /// A request does not put its copy in place.
    pub(super) fn give_up_copy(&mut self, core: &mut Core, request: &ClientRequest) {
        if matches!(&request.copied, Some(Ok(copied)) if copied.staged) {
            self.drop_staged(core, &request.object);
        }
    }

    /// A request's source is here, or cannot be had.
    pub fn copied(
        &mut self,
        core: &mut Core,
        mut request: Box<ClientRequest>,
        result: Result<Copied, i32>,
        staged: bool,
    ) {
        if request.interval != self.since || !self.is_active() {
            return self.restart_request(core, request);
        }
        let object = request.object.clone();
        let queue = self.objects.get_mut(&object).expect("a request under way keeps its queue");
        queue.copying = false;
        match result {
            Ok(copied) => {
                request.copied = Some(Ok(copied));
                // Who reads the object reads it as it was.
                queue.copied = Some(request);
            }
            Err(code) => {
                if staged {
                    self.drop_staged(core, &object);
                }
                let queue = self.objects.get_mut(&object).expect("it was just there");
                queue.exclusive = false;
                // As in Ceph the op says that it is under way, and the request, which is not logged, how that ended.
                let mut outcomes = bare_outcomes(&request.message.ops);
                let copies = |code: OpCode| code == OpCode::COPY_FROM || code == OpCode::COPY_FROM2;
                if let Some(outcome) = outcomes.iter_mut().find(|outcome| copies(outcome.item.op)) {
                    outcome.result = Errno::EINPROGRESS.code();
                }
                reply::done(core, &request, code, outcomes, EVersion::default(), 0);
                core.sessions.release(request.bytes);
            }
        }
        self.pump(core, &object);
    }
}
