//! The OSD as its operator sees it: options and counters.
//!
//! Read next: `commands`, the table that `ceph daemon osd.N` and `ceph tell osd.N` share.

use crate::commands;
use crate::counters::QosCounters;
use crate::limits::{LOG_ENTRIES_MAX, MARKDOWNS_MAX, PUSH_BYTES_MAX, PUSH_BYTES_MIN};
use crate::neighbours::Neighbourhood;
use crate::ops::tuning::Tuning;
use crate::osd::Osd;
use crate::pg::acting::RecoveryLimits;
use crate::scheduler::QueueOptions;
use admin::counters::CounterSet;
use admin::histogram::Histogram;
use admin::ops::HistoryLimits;
use admin::{Administered, Answer, Call, Layer, Transport, transport};
use base::{Duration, Errno, Instant};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::auth::ConMode;
use wire::cephx::{ClientModes, ServerModes};

impl Osd {
    /// A command of the admin socket: who reaches the socket may do everything.
    pub fn admin_command(&mut self, now: Instant, command: &str) -> Bytes {
        self.core.advance(now);
        let call = Call::parse(now, "admin socket", &[command.to_owned()], Bytes::new());
        let answer = call.and_then(|call| self.run_command(&call));
        self.run();
        admin::daemon::socket_text(answer)
    }

    /// Runs a command, whichever door it came through.
    pub(crate) fn run_command(&mut self, call: &Call) -> Answer {
        let table = commands::table();
        if let Some(answer) = table.answer_of_itself(call) {
            return answer;
        }
        match table.find(call) {
            Some(spec) => (spec.run)(self, call),
            None => admin::refuse(Errno::EINVAL, format!("unrecognized command: {}", call.prefix)),
        }
    }

    /// How long this OSD's thread may stay awake after work, looking for more.
    pub fn linger(&self) -> Duration {
        Duration::from_micros(self.core.settings.number("osd_linger_us") as u64)
    }

    /// Takes note of the driver's counts.
    pub fn note_transport(&mut self, counts: &Transport) {
        self.transport = *counts;
    }

    /// Clients' reads answered since the counters were last reset.
    pub fn reads(&self) -> u64 {
        self.core.counters.op_r.0
    }

    /// The monitor's part of the options has changed.
    pub(crate) fn take_central_config(&mut self, options: BTreeMap<String, String>) {
        self.core.settings.replace_central(options);
        // The monitor judges by what is promised to clients here whether a tenant can be promised its part.
        self.manager.report_soon();
        self.apply_options();
    }

    /// Takes over the options that are asked for often.
    pub(crate) fn apply_options(&mut self) {
        let settings = &self.core.settings;
        let seconds = |name: &str| Duration::from_secs_f64(settings.number(name).clamp(0.0, 1e9));
        let count = |name: &str| (settings.number(name) as usize).min(crate::limits::HISTORY_OPS_MAX);
        let limits = HistoryLimits {
            ops: count("osd_op_history_size"),
            age: seconds("osd_op_history_duration"),
            slow_ops: count("osd_op_history_slow_op_size"),
            slow: seconds("osd_op_history_slow_op_threshold"),
        };
        self.core.tuning = Tuning::of(settings);
        let [requests, bytes] =
            ["osd_client_message_cap", "osd_client_message_size_cap"].map(|name| settings.number(name));
        self.core.sessions.set_allowed(requests as usize, bytes as usize);
        self.core.sessions.set_room(self.core.rooms.under_way_max());
        // Cut off at a day, and a watch needs a moment to be renewed in.
        self.core.watch_timeout_s = settings.number("osd_client_watch_timeout").clamp(1.0, 86_400.0) as u32;
        self.core.complaint = seconds("osd_op_complaint_time");
        self.core.trims.set(seconds("osd_snap_trim_sleep").min(Duration::from_secs(3600)));
        self.life.beacon_interval = seconds("osd_beacon_report_interval").max(Duration::from_secs(1));
        let markdowns = settings.number("osd_max_markdown_count").clamp(0.0, MARKDOWNS_MAX) as usize;
        self.life.markdowns.set(markdowns, seconds("osd_max_markdown_period"));
        self.core.heartbeats.set(seconds("osd_heartbeat_interval"), seconds("osd_heartbeat_grace"));
        let [least, reporters] = ["osd_heartbeat_min_peers", "mon_osd_min_down_reporters"]
            .map(|name| settings.number(name).max(0.0) as usize);
        let level = settings.value("mon_osd_reporter_subtree_level");
        self.core.heartbeats.neighbourhood = Neighbourhood { least, subtrees: least.max(reporters), level };
        self.core.track = settings.value("osd_enable_op_tracker") == "true";
        self.core.history.set_limits(limits);
        self.core.rooms.set_failsafe_ratio(self.core.settings.number("osd_failsafe_full_ratio"));
        self.apply_modes();
        self.apply_queue_options();
        self.apply_tenants();
        self.apply_recovery_options();
        self.apply_slot_options();
        self.apply_scrub_options();
        // There may be room for more requests than before.
        self.let_go_on();
    }
}

impl Osd {
    /// How connections from now on may be protected. What the table lets in names modes; a file's slip of the pen has kept
    /// the daemon from starting.
    fn apply_modes(&mut self) {
        let list = |name: &str| ConMode::list(&self.core.settings.value(name)).unwrap_or_default();
        let (cluster, service) = (list("ms_cluster_mode"), list("ms_service_mode"));
        self.mon.set_modes(ClientModes::of_daemon(&cluster), ServerModes { cluster, service });
    }

    fn apply_queue_options(&mut self) {
        let learnt = self.core.store_meter.learnt();
        let queue = QueueOptions::of(&self.core.settings, self.core.is_rotational(), learnt);
        self.core.store_meter.set_cost(queue.cost);
        self.core.store_meter.set_window(queue.room.0, queue.room.1);
        self.scheduler.configure(self.core.now, queue);
    }

    /// Takes over what has been learnt of the device's capacity.
    pub(crate) fn follow_capacity(&mut self) {
        if self.core.store_meter.learnt().is_some_and(|learnt| self.scheduler.should_learn(learnt)) {
            self.apply_queue_options();
        }
    }

    /// The pace of recovery and of deletions, and the length of logs. Where an option has a default for each kind of
    /// device, the general one wins if it is set (v16.2 `src/osd/OSD.cc`, `get_recovery_max_active`,
    /// `get_osd_recovery_sleep`).
    fn apply_recovery_options(&mut self) {
        let settings = &self.core.settings;
        let kind = if self.core.is_rotational() { "hdd" } else { "ssd" };
        let by_kind = |name: &str| {
            let general = settings.number(name);
            if general > 0.0 { general } else { settings.number(&format!("{name}_{kind}")) }
        };
        let max_active = by_kind("osd_recovery_max_active") as usize;
        let sleep = Duration::from_secs_f64(by_kind("osd_recovery_sleep").clamp(0.0, 3600.0));
        self.core.pace.set(max_active, sleep, settings.number("osd_recovery_max_single_start") as usize);
        self.core.pace.set_delay(Duration::from_secs_f64(settings.number("osd_recovery_delay_start").clamp(0.0, 1e9)));
        self.core.recovery_limits = RecoveryLimits {
            member_lacks_max: settings.number("osd_async_recovery_min_cost") as u64,
            primary_lacks_max: settings.number("osd_force_auth_primary_missing_objects") as u64,
        };
        let pause = Duration::from_secs_f64(by_kind("osd_delete_sleep").clamp(0.0, 3600.0));
        let (objects, cost) = (settings.number("osd_target_transaction_size"), settings.number("osd_pg_delete_cost"));
        self.core.deletions.set(pause, objects as usize, cost as usize);
        let least = settings.number("osd_min_pg_log_entries") as usize;
        let keep = LOG_ENTRIES_MAX.max(least).min(settings.number("osd_max_pg_log_entries") as usize);
        let batch = settings.number("osd_pg_log_trim_min") as usize;
        self.core.log_bounds = (keep, batch.min(keep));
        self.core.log_remembered_max = settings.number("osd_pg_log_dups_tracked") as usize;
        let piece = settings.number("osd_recovery_max_chunk") as u64;
        self.core.push_bytes_max = piece.clamp(PUSH_BYTES_MIN, PUSH_BYTES_MAX);
    }
}

impl Administered for Osd {
    fn entity(&self) -> String {
        format!("osd.{}", self.core.me())
    }

    fn layer(&self, layer: Layer, option: &str) -> Option<String> {
        self.core.settings.layer(layer, option).map(str::to_owned)
    }

    fn set_override(&mut self, option: &str, value: Option<String>) {
        self.core.settings.set_override(option, value);
        self.manager.report_soon();
        self.apply_options();
    }

    fn visit_counters(&self, see: &mut dyn FnMut(&str, &dyn CounterSet)) {
        let (requests, bytes) = self.core.sessions.load();
        let mut osd = self.core.counters;
        let (me, pgs) = (self.core.me(), self.pgs.values());
        osd.op_wip.0 = requests as u64;
        osd.numpg.0 = pgs.len() as u64;
        osd.numpg_removing.0 = self.core.deletions.len() as u64;
        osd.numpg_primary.0 = pgs.clone().filter(|pg| pg.is_primary()).count() as u64;
        osd.numpg_stray.0 = pgs.filter(|pg| !pg.sets.acting.contains(&me)).count() as u64;
        osd.numpg_replica.0 = osd.numpg.0.saturating_sub(osd.numpg_primary.0 + osd.numpg_stray.0);
        osd.heartbeat_to_peers.0 = self.core.heartbeats.watched().count() as u64;
        let stored: u64 = self.pgs.values().map(|pg| pg.info.totals.bytes).sum();
        let used = stored.max(self.core.store_used);
        osd.stat_bytes.0 = self.core.config.store_bytes;
        osd.stat_bytes_used.0 = used;
        osd.stat_bytes_avail.0 = self.core.config.store_bytes.saturating_sub(used);
        see(transport::SET, &self.transport.since(&self.transport_base));
        see("osd", &osd);
        let mut qos = QosCounters::default();
        qos.client_res.0 = self.scheduler.client_reservation() as u64;
        see("qos", &qos);
        if let Some(store) = &self.core.store_counters {
            see("extent", store);
            see("prioritycache", &self.memory.counters());
        }
        let (mut held, mut count) = (self.core.throttle, self.core.throttle);
        let (requests_max, bytes_max) = self.core.sessions.bounds();
        (held.val.0, held.max.0) = (bytes as u64, bytes_max as u64);
        (count.val.0, count.max.0) = (requests as u64, requests_max as u64);
        see("throttle-osd_client_bytes", &held);
        see("throttle-osd_client_messages", &count);
    }

    fn visit_histograms(&self, see: &mut dyn FnMut(&str, &str, &str, &Histogram)) {
        self.core.histograms.visit(&mut |name, help, histogram| see("osd", name, help, histogram));
    }

    fn reset_counters(&mut self, set: Option<&str>) {
        let meant = |name: &str| set.is_none_or(|set| set == name);
        if meant("osd") {
            self.core.counters.reset();
            self.core.histograms = Default::default();
        }
        if meant("throttle-osd_client_bytes") || meant("throttle-osd_client_messages") {
            self.core.throttle.reset();
        }
        if meant(transport::SET) {
            self.transport_base = self.transport;
        }
    }
}
