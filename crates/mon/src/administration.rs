//! The monitor as its operator sees it: options, counters, the commands of its admin socket.
//!
//! Owns what the monitor counts. Names are those of Ceph v16.2 `src/mon/Monitor.cc` (`mon`, `cluster`) and
//! `src/mon/Paxos.cc` (`paxos`), as far as they mean something to a monitor that is alone.
//!
//! Read next: `commands::tell`, the table.

use crate::mon::Mon;
use admin::counters::CounterSet;
use admin::{Administered, Layer, Transport, transport};
use base::Instant;
use bytes::Bytes;
use maps::stats::PgState;

admin::counters! {
    /// The monitor's sessions and elections.
    pub struct MonCounters {
        num_sessions: Gauge ["sess", 5, None] "Open sessions";
        session_add: Counter ["sadd", 8, None] "Sessions opened";
        session_rm: Counter ["srm", 8, None] "Sessions ended";
        session_trim: Counter ["strm", 5, None] "Sessions closed because there were too many";
        num_elections: Counter ["ecnt", 5, None] "Elections taken part in";
        election_call: Counter ["estt", 8, None] "Elections begun";
        election_win: Counter ["ewon", 8, None] "Elections won";
        election_lose: Counter ["elst", 8, None] "Elections lost";
    }
}

admin::counters! {
    /// The cluster as the monitor knows it.
    pub struct ClusterCounters {
        num_mon: Gauge ["", 0, None] "Monitors";
        num_mon_quorum: Gauge ["", 0, None] "Monitors in the quorum";
        num_osd: Gauge ["", 0, None] "OSDs";
        num_osd_up: Gauge ["", 0, None] "OSDs that run";
        num_osd_in: Gauge ["", 0, None] "OSDs that hold data";
        osd_epoch: Gauge ["", 0, None] "The OSD map's epoch";
        osd_bytes: Gauge ["", 0, Bytes] "Room on all OSDs";
        osd_bytes_used: Gauge ["", 0, Bytes] "Room used";
        osd_bytes_avail: Gauge ["", 0, Bytes] "Room left";
        num_pool: Gauge ["", 0, None] "Pools";
        num_pg: Gauge ["", 0, None] "Placement groups";
        num_pg_active_clean: Gauge ["", 0, None] "Placement groups that are active and clean";
        num_pg_active: Gauge ["", 0, None] "Placement groups that serve";
        num_pg_peering: Gauge ["", 0, None] "Placement groups that are peering";
        num_object: Gauge ["", 0, None] "Objects";
        num_object_degraded: Gauge ["", 0, None] "Copies of objects that are missing";
        num_object_misplaced: Gauge ["", 0, None] "Copies of objects that are not where they belong";
        num_object_unfound: Gauge ["", 0, None] "Objects of which no copy is known";
        num_bytes: Gauge ["", 0, Bytes] "Bytes in objects";
    }
}

admin::counters! {
    /// The store's batches.
    pub struct PaxosCounters {
        begin: Counter ["", 5, None] "Batches sent to disk";
        begin_keys: Average ["", 5, None] "Keys of a batch";
        begin_bytes: Average ["", 5, Bytes] "Bytes of a batch";
        commit: Counter ["cmt", 5, None] "Batches on disk";
        commit_latency: Latency ["clat", 5, None] "Time that a batch took to be on disk";
    }
}

/// All that the monitor counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) mon: MonCounters,
    pub(crate) paxos: PaxosCounters,
    pub(crate) transport: Transport,
    pub(crate) transport_base: Transport,
    /// When the batch in flight was sent to disk.
    pub(crate) began: Instant,
}

impl Mon {
    /// A command of the admin socket: who reaches the socket may do everything.
    pub fn admin_command(&mut self, now: Instant, command: &str) -> Bytes {
        let answer = self.run_admin(now, command);
        self.settle(now);
        admin::daemon::socket_text(answer)
    }

    /// Takes note of the driver's counts.
    pub fn note_transport(&mut self, counts: &Transport) {
        self.counters.transport = *counts;
    }

    fn cluster_counters(&self) -> ClusterCounters {
        let (map, mut c) = (self.osds.map(), ClusterCounters::default());
        let osds = map.osd_counts();
        let (room, sum) = (self.stats.osd_sum(), *self.stats.sum().counts());
        (c.num_mon.0, c.num_mon_quorum.0) = (1, 1);
        (c.num_osd.0, c.num_osd_up.0, c.num_osd_in.0) = (osds.exist as u64, osds.up as u64, osds.r#in as u64);
        c.osd_epoch.0 = u64::from(map.epoch.0);
        (c.osd_bytes.0, c.osd_bytes_used.0) = (room.total_bytes(), room.used_bytes());
        c.osd_bytes_avail.0 = room.available_bytes();
        c.num_pool.0 = map.pools.len() as u64;
        for pg in crate::services::stats::all_pgs(map) {
            let state = self.stats.stat_or_unknown(map, pg).state;
            c.num_pg.0 += 1;
            c.num_pg_active_clean.0 += u64::from(state.contains(PgState::ACTIVE) && state.contains(PgState::CLEAN));
            c.num_pg_active.0 += u64::from(state.contains(PgState::ACTIVE));
            c.num_pg_peering.0 += u64::from(state.contains(PgState::PEERING));
        }
        let number = |count: i64| u64::try_from(count).unwrap_or(0);
        (c.num_object.0, c.num_bytes.0) = (number(sum.num_objects), number(sum.num_bytes));
        c.num_object_degraded.0 = number(sum.num_objects_degraded);
        c.num_object_misplaced.0 = number(sum.num_objects_misplaced);
        c.num_object_unfound.0 = number(sum.num_objects_unfound);
        c
    }
}

impl Administered for Mon {
    fn entity(&self) -> String {
        format!("mon.{}", self.config.name)
    }

    fn layer(&self, layer: Layer, option: &str) -> Option<String> {
        let value = match layer {
            Layer::Mon => self.central.value_for(&self.entity(), option),
            Layer::File => self.config.options.get(option).map(String::as_str),
            Layer::Override => self.overrides.get(option).map(String::as_str),
        };
        value.map(str::to_owned)
    }

    fn set_override(&mut self, option: &str, value: Option<String>) {
        match value {
            Some(value) => drop(self.overrides.insert(option.to_owned(), value)),
            None => drop(self.overrides.remove(option)),
        }
        self.apply_options();
    }

    fn visit_counters(&self, see: &mut dyn FnMut(&str, &dyn CounterSet)) {
        let mut mon = self.counters.mon;
        mon.num_sessions.0 = self.sessions.own().count() as u64;
        see(transport::SET, &self.counters.transport.since(&self.counters.transport_base));
        see("cluster", &self.cluster_counters());
        see("mon", &mon);
        see("paxos", &self.counters.paxos);
    }

    fn reset_counters(&mut self, set: Option<&str>) {
        let meant = |name: &str| set.is_none_or(|set| set == name);
        if meant("mon") {
            self.counters.mon.reset();
        }
        if meant("paxos") {
            self.counters.paxos.reset();
        }
        if meant(transport::SET) {
            self.counters.transport_base = self.counters.transport;
        }
    }
}
