//! What an OSD counts.
//!
//! Names are those of Ceph v16.2 `src/osd/osd_perf_counters.cc` and, for the throttle, `src/common/Throttle.cc`, as far
//! as they mean something here. Times are those of the inputs: what arrives together is stamped together, so that a
//! latency is that of a batch and its place in it costs nothing to learn.

use crate::ops::OpClass;
use crate::pg::client_io::ClientRequest;
use admin::histogram::Histogram;
use base::{Duration, Instant};

admin::counters! {
    /// Promises of service.
    pub struct QosCounters {
        client_res: Gauge ["", 5, None] "Operations a second that clients are promised; 0 where the queue keeps no promises";
    }
}

admin::counters! {
    /// Operations, placement groups, maps and room.
    pub struct OsdCounters {
        op_wip: Gauge ["", 5, None] "Clients' operations under way";
        op: Counter ["ops", 10, None] "Clients' operations";
        op_in_bytes: Counter ["wr", 8, Bytes] "Bytes that clients' operations wrote";
        op_out_bytes: Counter ["rd", 8, Bytes] "Bytes that clients' operations read";
        op_latency: Latency ["l", 9, None] "Time of clients' operations, waiting included";
        op_process_latency: Latency ["", 5, None] "Time of clients' operations from their PG on";
        op_prepare_latency: Latency ["", 5, None] "Time until clients' operations were executed";
        op_r: Counter ["", 5, None] "Clients' reads";
        op_r_out_bytes: Counter ["", 5, Bytes] "Bytes that reads returned";
        op_r_latency: Latency ["", 5, None] "Time of reads, waiting included";
        op_r_process_latency: Latency ["", 5, None] "Time of reads from their PG on";
        op_r_prepare_latency: Latency ["", 5, None] "Time until reads were executed";
        op_w: Counter ["", 5, None] "Clients' writes";
        op_w_in_bytes: Counter ["", 5, Bytes] "Bytes that writes brought";
        op_w_latency: Latency ["", 5, None] "Time of writes, waiting included";
        op_w_process_latency: Latency ["", 5, None] "Time of writes from their PG on";
        op_w_prepare_latency: Latency ["", 5, None] "Time until writes were executed";
        op_rw: Counter ["", 5, None] "Clients' writes that depend on contents";
        op_rw_in_bytes: Counter ["", 5, Bytes] "Bytes that such writes brought";
        op_rw_out_bytes: Counter ["", 5, Bytes] "Bytes that such writes returned";
        op_rw_latency: Latency ["", 5, None] "Time of such writes, waiting included";
        op_rw_process_latency: Latency ["", 5, None] "Time of such writes from their PG on";
        op_rw_prepare_latency: Latency ["", 5, None] "Time until such writes were executed";
        op_before_dequeue_op_lat: Latency ["", 0, None] "Time until operations reached their PG";
        subop: Counter ["", 0, None] "Operations for other primaries";
        subop_in_bytes: Counter ["", 0, Bytes] "Bytes of operations for other primaries";
        subop_w: Counter ["", 0, None] "Replicated writes";
        subop_w_in_bytes: Counter ["", 0, Bytes] "Bytes of replicated writes";
        subop_pull: Counter ["", 0, None] "Pieces of objects that others asked for";
        subop_push: Counter ["", 0, None] "Pieces of objects that came";
        subop_push_in_bytes: Counter ["", 0, Bytes] "Bytes of pieces of objects that came";
        recovery_ops: Counter ["rop", 8, None] "Recoveries of objects that were begun";
        recovery_bytes: Counter ["rbt", 8, Bytes] "Bytes of objects that recovery brought here";
        numpg: Gauge ["pgs", 5, None] "Placement groups here";
        numpg_primary: Gauge ["", 0, None] "Placement groups that this OSD leads";
        numpg_replica: Gauge ["", 0, None] "Placement groups that this OSD follows";
        numpg_stray: Gauge ["", 0, None] "Placement groups that belong elsewhere";
        numpg_removing: Gauge ["", 5, None] "Placement groups that are being deleted";
        heartbeat_to_peers: Gauge ["", 0, None] "OSDs that this one watches";
        map_messages: Counter ["", 0, None] "Messages with OSD maps";
        map_message_epochs: Counter ["", 0, None] "OSD maps in them";
        map_message_epoch_dups: Counter ["", 0, None] "OSD maps that were here already";
        messages_delayed_for_map: Counter ["", 0, None] "Messages that waited for a map";
        stat_bytes: Gauge ["size", 5, Bytes] "Room in the store";
        stat_bytes_used: Gauge ["used", 5, Bytes] "Room used";
        stat_bytes_avail: Gauge ["", 0, Bytes] "Room left";
        object_ctx_cache_hit: Counter ["", 0, None] "Operations whose object's state was known";
        object_ctx_cache_total: Counter ["", 0, None] "Operations that needed an object's state";
    }
}

admin::counters! {
    /// A limit on what is held at once.
    pub struct ThrottleCounters {
        val: Gauge ["", 0, None] "Held now";
        max: Gauge ["", 0, None] "The most that may be held";
        get_or_fail_fail: Counter ["", 0, None] "Requests that were sent back";
        get_or_fail_success: Counter ["", 0, None] "Requests that were taken";
    }
}

admin::counters! {
    /// What a store on a device has done; ours, as Ceph's stores count other things.
    pub struct StoreCounters {
        transactions: Counter ["tx", 8, None] "Transactions";
        log_records: Counter ["", 5, None] "Records of the log, each the commit of a group of transactions";
        log_bytes: Counter ["", 5, Bytes] "Bytes of the log's records";
        direct_bytes: Counter ["", 5, Bytes] "Bytes of data written to their place at once";
        reallocated_bytes: Counter ["", 5, Bytes] "Bytes of data that were laid out anew as they lay here and there";
        checkpoints: Counter ["", 5, None] "Checkpoints";
        checkpoint_bytes: Counter ["", 5, Bytes] "Bytes that checkpoints wrote";
        device_reads: Counter ["", 5, None] "Reads of the device";
        cache_hit: Counter ["", 5, None] "Pages, objects and blocks that were in memory";
        cache_miss: Counter ["", 5, None] "Pages, objects and blocks that were not in memory";
        cache_bytes: Gauge ["", 5, Bytes] "Memory that the cache holds";
        waiting_bytes: Gauge ["", 5, Bytes] "Memory that holds data not yet in its place";
        change_bytes: Gauge ["", 5, Bytes] "Memory that holds metadata since the last checkpoint";
        space_bytes: Gauge ["", 5, Bytes] "Memory that tells which blocks are free";
        buffer_bytes: Gauge ["", 5, Bytes] "Memory of buffers kept for the next requests";
        checksum_errors: Counter ["", 10, None] "Blocks and pages that were not what had been written";
    }
}

admin::counters! {
    /// Memory; `target_bytes`, `mapped_bytes` and `cache_bytes` as in Ceph v16.2 `src/common/PriorityCache.cc`.
    pub struct MemoryCounters {
        target_bytes: Gauge ["", 5, Bytes] "Memory that this OSD aims at";
        mapped_bytes: Gauge ["", 5, Bytes] "Memory that this OSD's process has; 0 where it has others in it";
        cache_bytes: Gauge ["", 5, Bytes] "Memory that the store's cache may have";
        log_bytes: Gauge ["", 5, Bytes] "Memory that the logs of placement groups hold";
        waiting_bytes: Gauge ["", 5, Bytes] "Memory that held data not yet in its place, at the most lately";
        store_bytes: Gauge ["", 5, Bytes] "Memory that the store holds beside: changes, free blocks, buffers";
        program_bytes: Gauge ["", 5, Bytes] "Memory that the program and its libraries have, with other processes";
        other_bytes: Gauge ["", 5, Bytes] "Memory taken to be all else: requests, what the allocator keeps";
    }
}

/// Operations by latency and size.
#[derive(Clone, Debug, Default)]
pub struct OpHistograms {
    r_out: Histogram,
    w_in: Histogram,
    rw_in: Histogram,
    rw_out: Histogram,
    commit: Histogram,
}

impl OpHistograms {
    fn finish(&mut self, class: OpClass, nanos: u64, in_bytes: u64, out_bytes: u64) {
        match class {
            OpClass::Read => self.r_out.add(nanos, out_bytes),
            OpClass::Write => self.w_in.add(nanos, in_bytes),
            OpClass::ReadModify => {
                self.rw_in.add(nanos, in_bytes);
                self.rw_out.add(nanos, out_bytes);
            }
        }
    }

    /// Counts a commit of the store.
    pub(crate) fn committed(&mut self, took: Duration) {
        self.commit.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), 0);
    }

    /// Shows each: its name and what it is of.
    pub(crate) fn visit(&self, see: &mut dyn FnMut(&str, &str, &Histogram)) {
        see("commit_latency_histogram", "Commits of the store by latency", &self.commit);
        see("op_r_latency_out_bytes_histogram", "Reads by latency (waiting included) and bytes returned", &self.r_out);
        see("op_w_latency_in_bytes_histogram", "Writes by latency (waiting included) and bytes brought", &self.w_in);
        let rw = "Writes that depend on contents by latency (waiting included) and bytes";
        see("op_rw_latency_in_bytes_histogram", &format!("{rw} brought"), &self.rw_in);
        see("op_rw_latency_out_bytes_histogram", &format!("{rw} returned"), &self.rw_out);
    }
}

/// When a request reached the stages of its way; zero for those it has not reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// It arrived and was queued for its placement group.
    pub initiated: Instant,
    /// Its placement group took it, at first.
    pub reached: Instant,
    /// It had to wait there for the group to serve.
    pub waited: Instant,
    /// It had to wait there for its object.
    pub blocked: Instant,
    /// It was executed.
    pub started: Instant,
    /// This OSD's store had it.
    pub committed: Instant,
    /// The first and the last other member that had it.
    pub replicas: [Instant; 2],
}

impl Stamps {
    /// Those of a request that arrives now.
    pub fn at(now: Instant) -> Stamps {
        Stamps { initiated: now, ..Stamps::default() }
    }

    /// A member has the write: this OSD, or another.
    pub(crate) fn committed_by(&mut self, now: Instant, myself: bool) {
        match (myself, self.replicas[0] == Instant::ZERO) {
            (true, _) => self.committed = now,
            (false, true) => self.replicas[0] = now,
            (false, false) => self.replicas[1] = now,
        }
    }
}

impl OsdCounters {
    /// Counts a write of another primary.
    pub(crate) fn replicated(&mut self, bytes: u64) {
        self.subop.inc();
        self.subop_w.inc();
        self.subop_in_bytes.add(bytes);
        self.subop_w_in_bytes.add(bytes);
    }

    /// Counts a request that is answered now with so many bytes.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        request: &ClientRequest,
        out_bytes: u64,
        histograms: &mut OpHistograms,
    ) {
        let stamps = &request.stamps;
        let took = now.since(stamps.initiated);
        let processed = now.since(stamps.reached.max(stamps.initiated));
        let started = if stamps.started == Instant::ZERO { now } else { stamps.started };
        let prepared = started.since(stamps.initiated);
        self.op.inc();
        self.op_latency.add(took);
        self.op_process_latency.add(processed);
        self.op_prepare_latency.add(prepared);
        let in_bytes = request.payload_bytes();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        histograms.finish(request.plan.class, nanos, in_bytes, out_bytes);
        match request.plan.class {
            OpClass::Read => {
                self.op_r.inc();
                self.op_out_bytes.add(out_bytes);
                self.op_r_out_bytes.add(out_bytes);
                self.op_r_latency.add(took);
                self.op_r_process_latency.add(processed);
                self.op_r_prepare_latency.add(prepared);
            }
            OpClass::Write => {
                self.op_w.inc();
                self.op_in_bytes.add(in_bytes);
                self.op_w_in_bytes.add(in_bytes);
                self.op_w_latency.add(took);
                self.op_w_process_latency.add(processed);
                self.op_w_prepare_latency.add(prepared);
            }
            OpClass::ReadModify => {
                self.op_rw.inc();
                self.op_in_bytes.add(in_bytes);
                self.op_out_bytes.add(out_bytes);
                self.op_rw_in_bytes.add(in_bytes);
                self.op_rw_out_bytes.add(out_bytes);
                self.op_rw_latency.add(took);
                self.op_rw_process_latency.add(processed);
                self.op_rw_prepare_latency.add(prepared);
            }
        }
    }
}
