//! Fetching the sources of copies: this OSD as a client of the placement groups that hold them.
//!
//! A request with a copy-from waits here, its object held, while its source is read part by part (`copy-get`) from the
//! primary that the newest map shows, which may be this OSD. A source that fits into one part goes straight into the
//! request; of a larger one each part is written aside at once (`Pg::stage_copy`), so that a copy holds one part in
//! memory and others' requests get their turn between two parts.
//!
//! Every part after the first asserts the version of the first: a source that changes meanwhile fails the copy with
//! ERANGE, as in Ceph (v16.2 `src/osd/PrimaryLogPG.cc`, `_copy_some`). What is not answered is asked again; an answer to
//! a request of a past interval starts that request again.
//!
//! Invariants: at most `COPIES_AT_ONCE_MAX` parts are asked for at once; each question has a number of its own, so that
//! late answers to earlier ones are not taken for its.

use crate::core::Level;
use crate::limits::{COPIES_AT_ONCE_MAX, COPY_ASK_AGAIN, COPY_PART_BYTES_MAX};
use crate::ops::copy::Copied;
use crate::osd::Osd;
use crate::pg::client_io::ClientRequest;
use crate::requests::leave_to_client;
use base::{Errno, Instant, OsdId, PgId};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::Decode;
use wire::messages::{Message, OsdOp, OsdOpReply};
use wire::net::{ConnId, Envelope, Peer, TicketCaps};
use wire::osd::copy::{CopyCursor, CopyData, CopySource, copy_flags, copy_get};
use wire::osd::{OpCode, OpParams, OsdOpItem, RequestFlags, SpgId};
use wire::types::{AddrVec, EntityName, EntityType};

/// The session of this OSD with itself: what is sent there comes back without a network.
pub const LOOPBACK: ConnId = ConnId(u64::MAX);

/// A copy under way.
#[derive(Debug)]
struct Job {
    pg: PgId,
    request: Box<ClientRequest>,
    source: CopySource,
    cursor: CopyCursor,
    /// What the source has to have; 0 until that is known.
    version: u64,
    staged: bool,
    asked_at: Instant,
}

/// All copies.
#[derive(Debug, Default)]
pub struct Copies {
    asked: BTreeMap<u64, Job>,
    waiting: VecDeque<Job>,
    /// What this OSD sends to itself.
    pub looped: VecDeque<Envelope>,
    next_tid: u64,
}

impl Copies {
    /// Takes a request whose source is to be fetched.
    pub fn start(&mut self, pg: PgId, request: Box<ClientRequest>, source: CopySource) {
        let (cursor, version, asked_at) = (CopyCursor::default(), source.version, Instant::ZERO);
        self.waiting.push_back(Job { pg, request, source, cursor, version, staged: false, asked_at });
    }

    /// When something has to be asked again.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.asked.values().map(|job| job.asked_at + COPY_ASK_AGAIN).min()
    }
}

/// What to do with a copy after an answer.
enum Next {
    Ask,
    Finish(Box<Result<Copied, i32>>),
}

impl Osd {
    /// Asks for what may be asked for now, and lets this OSD hear what it has said to itself.
    pub(crate) fn run_copies(&mut self) {
        loop {
            while self.core.copies.asked.len() < COPIES_AT_ONCE_MAX
                && let Some(job) = self.core.copies.waiting.pop_front()
            {
                self.ask_source(job);
            }
            let Some(envelope) = self.core.copies.looped.pop_front() else { break };
            match envelope.message {
                Message::OsdOp(op) => self.client_request(LOOPBACK, envelope.tid, op),
                Message::OsdOpReply(reply) => self.source_answered(envelope.tid, *reply),
                // Maps, which this OSD has, and requests to wait, which the next question does in any case.
                _ => {}
            }
            self.run();
        }
    }

    /// Asks again what was not answered in time.
    pub(crate) fn ask_sources_again(&mut self) {
        let now = self.core.now;
        let late = |(tid, job): (&u64, &Job)| (job.asked_at + COPY_ASK_AGAIN <= now).then_some(*tid);
        let late: Vec<u64> = self.core.copies.asked.iter().filter_map(late).collect();
        for tid in late {
            if let Some(job) = self.core.copies.asked.remove(&tid) {
                self.core.copies.waiting.push_back(job);
            }
        }
        self.run_copies();
    }

    /// Asks for a job's next part, unless its request's interval is over.
    fn ask_source(&mut self, mut job: Job) {
        let current = self.pgs.get(&job.pg).is_some_and(|pg| pg.is_active() && pg.since == job.request.interval);
        if !current {
            return self.give_back(job.pg, job.request);
        }
        let copies = &mut self.core.copies;
        copies.next_tid += 1;
        let tid = copies.next_tid;
        job.asked_at = self.core.now;
        let Some((op, primary)) = self.source_request(&job) else {
            return self.finish(job, Err(Errno::ENOENT.code()));
        };
        self.core.copies.asked.insert(tid, job);
        if primary == self.core.me() {
            if self.core.sessions.get(LOOPBACK).is_none() {
                let peer = Arc::new(self.myself());
                self.core.sessions.open(LOOPBACK, peer);
            }
            self.core.copies.looped.push_back(Envelope::with_tid(tid, op));
        } else {
            // Where there is no primary now, the question is lost and asked again.
            self.core.send_osd(primary, Envelope::with_tid(tid, op));
        }
    }

    fn myself(&self) -> Peer {
        let name = EntityName { kind: EntityType::OSD, num: i64::from(self.core.me().0) };
        Peer {
            entity: name.to_string(),
            name,
            called: None,
            addrs: AddrVec::default(),
            socket: None,
            global_id: 0,
            features: 0,
            caps: TicketCaps { allow_all: true, caps: Bytes::new() },
        }
    }

    /// The request for a job's next part, and who serves it; none if the pool is not there.
    fn source_request(&self, job: &Job) -> Option<(OsdOp, OsdId)> {
        let (map, source) = (&self.core.map, &job.source);
        let locator = maps::ObjectLocator {
            pool: source.locator.pool,
            key: &source.locator.key,
            namespace: &source.locator.nspace,
            hash: u32::try_from(source.locator.hash).ok(),
        };
        let raw = map.object_to_raw_pg(&locator, &source.object)?;
        let pg = map.pool(raw.pool)?.raw_pg_to_pg(raw);
        let mut ops = Vec::new();
        if job.version != 0 {
            let version = OpParams::AssertVer { version: job.version };
            ops.push(OsdOpItem::new(OpCode::ASSERT_VER).with_params(version));
        }
        ops.push(copy_get(&job.cursor, COPY_PART_BYTES_MAX));
        let (locator, object) = (source.locator.clone(), source.object.clone());
        let mut op = OsdOp::new(SpgId::replicated(pg), raw.seed, locator, object, ops);
        op.snap = source.snap;
        op.map_epoch = map.epoch;
        op.flags = RequestFlags::READ | RequestFlags::KNOWN_REDIR;
        if source.flags & copy_flags::MAP_SNAP_CLONE != 0 {
            op.flags = op.flags | RequestFlags::MAP_SNAP_CLONE;
        }
        if source.flags & copy_flags::RWORDERED != 0 {
            op.flags = op.flags | RequestFlags::RWORDERED;
        }
        Some((op, map.pg_to_up_acting(pg).acting_primary))
    }

    /// The primary of a source has answered.
    pub(crate) fn source_answered(&mut self, tid: u64, reply: OsdOpReply) {
        let Some(mut job) = self.core.copies.asked.remove(&tid) else { return };
        let moved = [Errno::EAGAIN, Errno::ENXIO].iter().any(|errno| reply.result == errno.code());
        if moved {
            // Not by that map, or not yet: asked again in a while.
            self.core.copies.asked.insert(tid, job);
            return;
        }
        let current = self.pgs.get(&job.pg).is_some_and(|pg| pg.is_active() && pg.since == job.request.interval);
        if !current {
            return self.give_back(job.pg, job.request);
        }
        match self.take_part(&mut job, reply) {
            Next::Ask => self.core.copies.waiting.push_back(job),
            Next::Finish(result) => self.finish(job, *result),
        }
    }

    fn take_part(&mut self, job: &mut Job, reply: OsdOpReply) -> Next {
        if reply.result < 0 {
            return Next::Finish(Box::new(Err(reply.result)));
        }
        let part = reply.ops.last().map(|op| CopyData::from_bytes(&op.item.payload));
        let Some(Ok(part)) = part.filter(|part| part.as_ref().is_ok_and(|part| part.cursor != job.cursor)) else {
            self.core.log(Level::Error, format!("pg {}: the source of a copy sent what cannot be read", job.pg));
            return Next::Finish(Box::new(Err(Errno::EIO.code())));
        };
        if job.version == 0 {
            job.version = reply.user_version;
        }
        let offset = job.cursor.data_offset;
        job.cursor = part.cursor.clone();
        let done = part.cursor.is_done();
        if !done || job.staged {
            let pg = self.pgs.get_mut(&job.pg).expect("the caller has seen it");
            if !pg.stage_copy(&mut self.core, &job.request.object, &part, offset, !job.staged) {
                return Next::Finish(Box::new(Err(Errno::EIO.code())));
            }
            job.staged = true;
        }
        if !done {
            return Next::Ask;
        }
        Next::Finish(Box::new(Ok(Copied { user_version: job.version, last: part, staged: job.staged })))
    }

    fn finish(&mut self, job: Job, result: Result<Copied, i32>) {
        if let Some(pg) = self.pgs.get_mut(&job.pg) {
            pg.copied(&mut self.core, job.request, result, job.staged);
        } else {
            leave_to_client(&mut self.core, &job.request);
        }
    }

    fn give_back(&mut self, pg: PgId, request: Box<ClientRequest>) {
        match self.pgs.get_mut(&pg) {
            Some(pg) => pg.restart_request(&mut self.core, request),
            None => leave_to_client(&mut self.core, &request),
        }
    }
}
