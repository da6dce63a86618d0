//! Requests as their history shows them.
//!
//! Owns the words: Ceph's descriptions and stages (v16.2 `src/osd/OpRequest.cc`, `src/messages/MOSDOp.h`), made from
//! the stamps that a request carries when somebody asks or when it was among the slowest.

use crate::core::Core;
use crate::osd::{Osd, WorkOf};
use crate::pg::PgRead;
use crate::pg::client_io::ClientRequest;
use admin::ops::{OpView, Tracked};
use base::{Duration, Instant, PgId};
use core::fmt::Write;
use std::collections::BTreeMap;
use wire::osd::{OpParams, OsdOpItem};

/// Where a request stands that is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stands {
    /// Waits for its turn.
    Queued,
    /// Waits for its group to serve.
    Peering,
    /// Waits for its object.
    Object,
    /// Is being executed: reads.
    Started,
    /// Waits for the other members.
    Replicating,
}

impl Stands {
    fn flag_point(self) -> &'static str {
        match self {
            Stands::Queued => "queued for pg",
            Stands::Peering | Stands::Object => "delayed",
            Stands::Started => "started",
            Stands::Replicating => "waiting for sub ops",
        }
    }
}

fn describe_op(item: &OsdOpItem) -> String {
    match item.params() {
        OpParams::Extent { offset, length, .. } => format!("{} {offset}~{length}", item.op),
        OpParams::AllocHint { object_size, write_size, .. } => {
            format!("{} object_size {object_size} write_size {write_size}", item.op)
        }
        OpParams::Call { class_len, method_len, .. } => {
            let class = usize::from(class_len);
            let method = class + usize::from(method_len);
            let part = |range: core::ops::Range<usize>| {
                String::from_utf8_lossy(item.payload.get(range).unwrap_or_default()).into_owned()
            };
            format!("{} {}.{} in={}b", item.op, part(0..class), part(class..method), item.payload.len())
        }
        OpParams::Xattr { name_len, value_len, .. } => {
            let name = item.payload.get(..name_len as usize).unwrap_or_default();
            format!("{} {} ({value_len}) in={}b", item.op, String::from_utf8_lossy(name), item.payload.len())
        }
        _ if item.payload.is_empty() => item.op.to_string(),
        _ => format!("{} in={}b", item.op, item.payload.len()),
    }
}

/// What a request is, in the words of Ceph's `osd_op(...)`.
pub(crate) fn description(request: &ClientRequest) -> String {
    let message = &request.message;
    let ops: Vec<String> = message.ops.iter().map(describe_op).collect();
    let snaps: Vec<String> = message.snap_context.snaps.iter().map(|s| format!("{:x}", s.0)).collect();
    let mut text = format!("osd_op({} {} {}", request.reqid, message.pgid.pg, message.hobject());
    // Writing to a String cannot fail.
    let _ = write!(text, " [{}] snapc {:x}=[{}]", ops.join(","), message.snap_context.seq.0, snaps.join(","));
    let _ = write!(text, " {} e{})", message.flags, message.map_epoch);
    text
}

/// A request as it is shown, while it is under way (`stands`) or when it was answered (`done`).
pub(crate) fn view(core: &Core, request: &ClientRequest, stands: Option<Stands>, done: Option<Instant>) -> OpView {
    let stamps = &request.stamps;
    let mut events = vec![("initiated".to_owned(), stamps.initiated), ("queued_for_pg".to_owned(), stamps.initiated)];
    let mut stage = |name: &str, at: Instant| {
        if at != Instant::ZERO {
            events.push((name.to_owned(), at));
        }
    };
    stage("reached_pg", stamps.reached);
    stage("waiting for peered", stamps.waited);
    stage("waiting for rw locks", stamps.blocked);
    stage("started", stamps.started);
    stage("op_commit", stamps.committed);
    stage("sub_op_commit_rec", stamps.replicas[0]);
    stage("sub_op_commit_rec", stamps.replicas[1]);
    if let Some(at) = done {
        let wrote = stamps.committed != Instant::ZERO || stamps.replicas[0] != Instant::ZERO;
        stage(if wrote { "commit_sent" } else { "reply_sent" }, at);
        stage("done", at);
    }
    events.sort_by_key(|(_, at)| *at);
    let peer = core.sessions.get(request.conn).map(|session| &session.peer);
    let addr = peer
        .and_then(|peer| peer.addrs.0.first())
        .and_then(|addr| Some(format!("{}/{}", addr.socket?, addr.nonce)))
        .unwrap_or_default();
    OpView {
        description: description(request),
        initiated: stamps.initiated,
        done,
        flag_point: stands.map_or("commit sent; apply or cleanup", Stands::flag_point),
        client: Some((request.reqid.name.to_string(), addr, request.tid)),
        info: None,
        events,
    }
}

/// A finished request in the history.
#[derive(Debug)]
pub struct Finished(OpView);

impl Tracked for Finished {
    fn initiated(&self) -> Instant {
        self.0.initiated
    }

    fn done(&self) -> Instant {
        self.0.done.unwrap_or(self.0.initiated)
    }

    fn view(&self) -> OpView {
        self.0.clone()
    }
}

/// Takes a request that is answered now into account.
pub(crate) fn finish(core: &mut Core, request: &ClientRequest, out_bytes: u64) {
    core.counters.finish(core.now, request, out_bytes, &mut core.histograms);
    let took = core.now.since(request.stamps.initiated);
    core.tenants.answered(request.tenant, request.payload_bytes() + out_bytes, took);
    if core.track && core.history.wants(took) {
        let finished = Finished(view(core, request, None, Some(core.now)));
        core.history.keep(core.now, finished);
    }
}

/// How many requests take too long, and for how long the oldest of them has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlowOps {
    /// Their number.
    pub count: u64,
    /// The oldest one's age.
    pub oldest: Duration,
}

impl Osd {
    /// Every request that is not answered yet, with its placement group and where it stands.
    fn visit_requests<'a>(&'a self, mut see: impl FnMut(PgId, &'a ClientRequest, Stands)) {
        for pg in self.pgs.values() {
            pg.in_flight.iter().for_each(|write| see(pg.id, &write.request, Stands::Replicating));
            pg.waiting.iter().for_each(|request| see(pg.id, request, Stands::Peering));
            pg.replica_reads.waiting().for_each(|request| see(pg.id, request, Stands::Object));
            let blocked = pg.objects.values().flat_map(|queue| &queue.waiting);
            blocked.for_each(|request| see(pg.id, request, Stands::Object));
        }
        self.scheduler.visit(|work| {
            if let WorkOf::Request(request) = &work.what {
                see(work.pg, request, Stands::Queued);
            }
        });
        for read in self.core.reading() {
            if let PgRead::Request(request) | PgRead::AtReplica(request, _) = &read.what {
                see(read.pg, request, Stands::Started);
            }
        }
    }

    /// The requests under way, the oldest first.
    pub(crate) fn ops_in_flight(&self) -> Vec<OpView> {
        let mut ops = Vec::new();
        self.visit_requests(|_, request, stands| ops.push(view(&self.core, request, Some(stands), None)));
        ops.sort_by_key(|op| op.initiated);
        ops
    }

    /// What the cluster log is told of them: how many stand where, and whose pool has most.
    pub(crate) fn slow_text(&self, slow: SlowOps) -> String {
        let (mut stands_count, mut pools) = (BTreeMap::new(), BTreeMap::new());
        self.visit_requests(|pg, request, stands| {
            if self.core.now.since(request.stamps.initiated) > self.core.complaint {
                *stands_count.entry(stands.flag_point()).or_insert(0u64) += 1;
                *pools.entry(pg.pool).or_insert(0u64) += 1;
            }
        });
        let types: Vec<String> = stands_count.iter().map(|(name, count)| format!("'{name}' : {count}")).collect();
        let worst = pools.iter().max_by_key(|(_, count)| **count);
        let worst = worst.map_or_else(String::new, |(pool, count)| {
            format!(" most affected pool [ '{}' : {count} ]", self.core.map.pool_name(*pool).unwrap_or_default())
        });
        format!("{} slow requests (by type [ {} ]{worst})", slow.count, types.join(" "))
    }

    /// The requests that take longer than `osd_op_complaint_time`.
    pub fn slow_ops(&self) -> SlowOps {
        let mut slow = SlowOps::default();
        self.visit_requests(|_, request, _| {
            let age = self.core.now.since(request.stamps.initiated);
            if age > self.core.complaint {
                slow.count += 1;
                slow.oldest = slow.oldest.max(age);
            }
        });
        slow
    }
}
