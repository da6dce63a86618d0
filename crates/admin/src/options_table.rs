//! The table of configuration options.
//!
//! Owns the options that mean something to a part of Loligo, that stock clients read from the monitor, or that tools set
//! out of habit: each says which, and `cargo xtask tidy` holds it to that. Names, types, levels and defaults follow Ceph v16.2 `src/common/options.cc`; the sentences are ours.
//!
//! Read next: `options`, which checks values.

use crate::options::OptionKind::{Bool, Float, Int, Secs, Size, Text, Uint};
use crate::options::{Heeded, Level, OptionKind, OptionSpec};

const fn option(name: &'static str, kind: OptionKind, default: &'static str, about: &'static str) -> OptionSpec {
    let (level, heeded) = (Level::Advanced, Heeded::Here);
    OptionSpec {
        name,
        kind,
        level,
        default,
        range: (None, None),
        choices: &[],
        words: &[],
        runtime: true,
        heeded,
        about,
    }
}

const fn debug(name: &'static str, default: &'static str) -> OptionSpec {
    option(name, Text, default, "Debug level of a subsystem: to the log, and kept in memory")
}

impl OptionSpec {
    const fn basic(self) -> OptionSpec {
        OptionSpec { level: Level::Basic, ..self }
    }
    const fn dev(self) -> OptionSpec {
        OptionSpec { level: Level::Dev, ..self }
    }
    const fn by_clients(self) -> OptionSpec {
        OptionSpec { heeded: Heeded::ByClients, ..self }
    }
    const fn nowhere(self) -> OptionSpec {
        OptionSpec { heeded: Heeded::Nowhere, ..self }
    }
    const fn startup(self) -> OptionSpec {
        OptionSpec { runtime: false, ..self }
    }
    const fn min(self, min: f64) -> OptionSpec {
        OptionSpec { range: (Some(min), self.range.1), ..self }
    }
    const fn max(self, max: f64) -> OptionSpec {
        OptionSpec { range: (self.range.0, Some(max)), ..self }
    }
    const fn one_of(self, choices: &'static [&'static str]) -> OptionSpec {
        OptionSpec { choices, ..self }
    }
    const fn some_of(self, words: &'static [&'static str]) -> OptionSpec {
        OptionSpec { words, ..self }
    }
}

const QUEUES: &[&str] = &["wpq", "mclock_scheduler", "cfq", "fifo"];
const PROFILES: &[&str] = &["balanced", "high_recovery_ops", "high_client_ops", "custom"];
const MODES: &[&str] = &["crc", "secure"];
const ALGORITHMS: &[&str] = &["none", "snappy", "zlib", "zstd", "lz4"];

/// Every option, by theme.
pub static OPTIONS: &[OptionSpec] = &[
    // The network and authentication.
    option("fsid", Text, "", "The cluster's id").basic().startup(),
    option("host", Text, "", "The host's name as daemons report it").basic().startup(),
    option("mon_host", Text, "", "Addresses of the monitors").basic().startup(),
    option("public_addr", Text, "", "The address that clients reach a daemon at").basic().startup(),
    option("cluster_addr", Text, "", "The address that other daemons reach an OSD at").basic().startup(),
    option("public_network", Text, "", "The network of the public addresses").startup().nowhere(),
    option("cluster_network", Text, "", "The network of the cluster addresses").startup().nowhere(),
    option("keyring", Text, "", "Files where an entity's key is looked for").startup(),
    option("auth_cluster_required", Text, "cephx", "Methods that daemons accept from one another").startup().nowhere(),
    option("auth_service_required", Text, "cephx", "Methods that daemons accept from clients").startup().nowhere(),
    option("auth_client_required", Text, "cephx", "Methods that clients accept from daemons").startup().nowhere(),
    option("auth_mon_ticket_ttl", Float, "259200.000000", "Seconds that a ticket for the monitor lasts").min(1.0),
    option("auth_service_ticket_ttl", Float, "3600.000000", "Seconds that a ticket for a service lasts").min(1.0),
    option("auth_allow_insecure_global_id_reclaim", Bool, "false", "Let clients reclaim a global id without proof"),
    option("ms_bind_port_min", Int, "6800", "The lowest port an OSD binds").startup(),
    option("ms_bind_port_max", Int, "7568", "The highest port an OSD binds").startup(),
    option("ms_cluster_mode", Text, "crc secure", "Connection modes between daemons, favourite first")
        .basic()
        .some_of(MODES),
    option("ms_service_mode", Text, "crc secure", "Connection modes that daemons let clients use")
        .basic()
        .some_of(MODES),
    option("ms_client_mode", Text, "crc secure", "Connection modes that clients use")
        .basic()
        .some_of(MODES)
        .by_clients(),
    option("ms_mon_cluster_mode", Text, "secure crc", "Connection modes between monitors")
        .basic()
        .some_of(MODES)
        .nowhere(),
    option("ms_mon_service_mode", Text, "secure crc", "Connection modes that monitors let others use")
        .basic()
        .startup()
        .some_of(MODES),
    option("ms_mon_client_mode", Text, "secure crc", "Connection modes that clients use towards monitors")
        .basic()
        .some_of(MODES)
        .by_clients(),
    option("ms_tcp_nodelay", Bool, "true", "Send small segments at once").nowhere(),
    option("ms_initial_backoff", Float, "0.200000", "Seconds before the first attempt to reconnect").nowhere(),
    option("ms_max_backoff", Float, "15.000000", "Seconds between attempts to reconnect, at most").nowhere(),
    // The log.
    option("log_file", Text, "", "Where a daemon logs to").basic().startup().nowhere(),
    option("log_to_file", Bool, "true", "Log to the file").basic(),
    option("log_to_stderr", Bool, "true", "Log to standard error").basic().nowhere(),
    option("err_to_stderr", Bool, "true", "Log errors to standard error").basic().nowhere(),
    option("mon_cluster_log_to_file", Bool, "true", "Write the cluster log to a file").nowhere(),
    option("admin_socket", Text, "", "Where a daemon answers `ceph daemon`; none where empty").startup(),
    option("clog_to_monitors", Text, "default=true", "Send the daemons' part of the cluster log to the monitor")
        .nowhere(),
    debug("debug_auth", "1/5"),
    debug("debug_client", "0/5"),
    debug("debug_crush", "1/1"),
    debug("debug_mds", "1/5"),
    debug("debug_mgr", "2/5"),
    debug("debug_mon", "1/5"),
    debug("debug_monc", "0/10"),
    debug("debug_ms", "0/0"),
    debug("debug_objclass", "0/5"),
    debug("debug_objecter", "0/1"),
    debug("debug_osd", "1/5"),
    debug("debug_paxos", "1/5"),
    debug("debug_rados", "0/5"),
    debug("debug_rbd", "0/5"),
    // The monitor.
    option("mon_allow_pool_delete", Bool, "false", "Let pools be deleted"),
    option("mon_allow_pool_size_one", Bool, "false", "Let pools have a single replica"),
    option("mon_max_osd", Int, "10000", "The highest OSD id, and one more").max(10_000.0),
    option("mon_max_pg_per_osd", Uint, "250", "Placement groups that an OSD should carry at most").min(1.0),
    option("mgr_max_pg_num_change", Uint, "128", "Placement groups that a pool gets or loses in one step"),
    option("target_max_misplaced_ratio", Float, "0.050000", "Share of misplaced objects above which pgp_num waits"),
    option("mon_max_pool_pg_num", Uint, "65536", "Placement groups of a pool at most").max(65_536.0),
    option("mon_pg_warn_min_per_osd", Uint, "0", "Warn when OSDs carry fewer placement groups than this").nowhere(),
    option("mon_reweight_min_pgs_per_osd", Uint, "10", "Placement groups of an OSD without which none are reweighted"),
    option("mon_reweight_min_bytes_per_osd", Size, "104857600", "Bytes of an OSD without which none are reweighted"),
    option("mon_reweight_max_osds", Int, "4", "OSDs that one command reweights at most").min(1.0),
    option("mon_reweight_max_change", Float, "0.050000", "Most that one command changes an OSD's weight by").min(0.0),
    option("mon_osd_blocklist_default_expire", Float, "3600.000000", "Seconds that an entry of the blocklist lasts")
        .min(0.0),
    option("mon_osd_cache_size", Int, "500", "OSD map epochs kept in memory").nowhere(),
    option("mon_min_osdmap_epochs", Int, "500", "OSD map epochs kept at least").nowhere(),
    option("mon_osd_down_out_interval", Int, "600", "Seconds before an OSD that is down is marked out; 0 for never"),
    option(
        "mon_osd_down_out_subtree_limit",
        Text,
        "rack",
        "A whole subtree of this type that is down is not marked out",
    ),
    option("mon_osd_min_down_reporters", Uint, "2", "OSDs that must report a failure before it is believed"),
    option("mon_osd_min_in_ratio", Float, "0.750000", "Keep at least this part of the OSDs in"),
    option("mon_osd_min_up_ratio", Float, "0.300000", "Keep at least this part of the OSDs up"),
    option("mon_osd_report_timeout", Int, "900", "Seconds without a beacon before an OSD is marked down"),
    option("mon_osd_reporter_subtree_level", Text, "host", "Reporters below one bucket of this type count as one"),
    option("mon_osd_adjust_heartbeat_grace", Bool, "true", "Be patient with OSDs that were slow before").nowhere(),
    option("mon_osd_auto_mark_new_in", Bool, "true", "Mark new OSDs in"),
    option("mon_osd_auto_mark_auto_out_in", Bool, "true", "Mark OSDs in again that were marked out automatically"),
    option("mon_osd_auto_mark_in", Bool, "false", "Mark any OSD in that boots"),
    option("mon_osd_full_ratio", Float, "0.950000", "Usage at which an OSD is full").startup(),
    option("mon_osd_backfillfull_ratio", Float, "0.900000", "Usage at which an OSD takes no backfill").startup(),
    option("mon_osd_nearfull_ratio", Float, "0.850000", "Usage at which an OSD is nearly full").startup(),
    option("mon_warn_on_pool_no_app", Bool, "true", "Warn about pools with objects but no application"),
    option("mon_warn_on_pool_no_redundancy", Bool, "true", "Warn about pools with a single replica"),
    option("mon_warn_pg_not_scrubbed_ratio", Float, "0.500000", "Part of its interval a scrub may be late by").min(0.0),
    option("mon_warn_pg_not_deep_scrubbed_ratio", Float, "0.750000", "The same for a deep scrub").min(0.0),
    option("mon_warn_on_osd_down_out_interval_zero", Bool, "true", "Warn when OSDs are never marked out"),
    option("mon_warn_on_too_few_osds", Bool, "true", "Warn when there are fewer OSDs than replicas by default"),
    option("mon_clock_drift_allowed", Float, "0.050000", "Seconds that clocks may differ").nowhere(),
    option("mon_data_avail_warn", Int, "30", "Percentage of the monitor's disk that should be free").nowhere(),
    option("mgr/prometheus/server_addr", Text, "", "The address that metrics are served at; empty for the monitor's")
        .startup(),
    option(
        "mgr/prometheus/server_port",
        Text,
        "9283",
        "The port of the metrics; another one where it is taken; `off` for none",
    )
    .startup(),
    // Pools.
    option("osd_pool_default_size", Uint, "3", "Replicas of a new pool").min(0.0).max(10.0),
    option("osd_pool_default_min_size", Uint, "0", "Replicas that must be there for I/O; 0 for more than half")
        .max(255.0),
    option("osd_pool_default_pg_num", Uint, "32", "Placement groups of a new pool"),
    option("osd_pool_default_pgp_num", Uint, "0", "Placement of a new pool's groups; 0 for as many as groups"),
    option("osd_pool_default_crush_rule", Int, "-1", "The CRUSH rule of a new pool; -1 for the lowest"),
    option("osd_pool_default_pg_autoscale_mode", Text, "off", "Whether a new pool's groups are adjusted by themselves")
        .one_of(&["off", "warn", "on"]),
    option("osd_pool_default_flag_hashpspool", Bool, "true", "Mix the pool's number into the placement"),
    option("osd_pool_default_flag_nodelete", Bool, "false", "Protect new pools against deletion"),
    option("osd_crush_chooseleaf_type", Int, "1", "The bucket type replicas are spread over").dev(),
    option("osd_crush_update_on_start", Bool, "true", "Let an OSD enter itself into the CRUSH map"),
    option("osd_crush_initial_weight", Float, "-1.000000", "The weight of a new OSD; negative for its size in TiB"),
    // OSDs.
    option("osd_data", Text, "/var/lib/ceph/osd/$cluster-$id", "Where an OSD keeps its data").startup(),
    option("osd_objectstore", Text, "extent", "The kind of object store")
        .one_of(&["extent", "memory", "memstore"])
        .startup(),
    option("bluestore_block_size", Size, "17179869184", "The size of the file that a new extent store gets").startup(),
    option("bluestore_block_path", Text, "", "Where a new extent store's data are; empty for in its directory")
        .startup(),
    option("bluestore_block_wal_path", Text, "", "Where a new extent store's log is; empty for with its data")
        .startup(),
    option("bluestore_block_wal_size", Size, "0", "The size of a file made for that; 0 for the usual log's").startup(),
    option("bluestore_block_db_path", Text, "", "Where a new extent store's metadata is; empty for with its data")
        .startup(),
    option("bluestore_block_db_size", Size, "0", "The size of a file made for that; 0 for a sixteenth of the data's")
        .startup(),
    option("osd_log_device_model", Text, "", "The device that one with a log should behave like").startup(),
    option("osd_meta_device_model", Text, "", "The device that one with metadata should behave like").startup(),
    option("bdev_enable_discard", Bool, "true", "Tell the device, or a file's file system, what is free again")
        .startup(),
    option(
        "osd_device_model",
        Text,
        "",
        "The device an extent store's should behave like: a name, or a file of figures",
    )
    .startup(),
    option("memstore_device_bytes", Size, "1073741824", "The size of an OSD's memory store").min(4096.0).nowhere(),
    option("osd_memory_target", Size, "109051904", "Memory that an OSD aims at; its store's cache has what is left")
        .basic()
        .min(16_777_216.0),
    option(
        "osd_linger_us",
        Uint,
        "100",
        "Microseconds that an OSD's thread stays awake after work while more is about to come; 0 to sleep at once",
    )
    .max(1_000_000.0),
    option("osd_failsafe_full_ratio", Float, "0.970000", "Usage beyond which an OSD takes only what makes room")
        .min(0.0)
        .max(1.0),
    option("osd_max_backfills", Uint, "1", "Backfills and recoveries at once, from and to an OSD"),
    option("osd_min_recovery_priority", Int, "0", "Priority below which nothing is recovered").min(0.0).max(255.0),
    option("osd_backfill_retry_interval", Float, "30.000000", "Seconds until backfill to a full OSD is tried again"),
    option("osd_recovery_retry_interval", Float, "30.000000", "Seconds until recovery past a full OSD is tried again"),
    option("osd_recovery_max_active", Uint, "0", "Recoveries at once; 0 for the device's default"),
    option("osd_recovery_max_active_hdd", Uint, "3", "Recoveries at once on rotating disks"),
    option("osd_recovery_max_active_ssd", Uint, "10", "Recoveries at once on flash"),
    option("osd_recovery_max_single_start", Uint, "1", "Recoveries that one placement group starts at a time"),
    option(
        "osd_async_recovery_min_cost",
        Uint,
        "100",
        "Objects that a member may lack at most to serve while it recovers, where the others suffice",
    ),
    option(
        "osd_force_auth_primary_missing_objects",
        Uint,
        "100",
        "Objects that a primary may lack at most to lead while it recovers",
    ),
    option("osd_recovery_max_chunk", Size, "8388608", "Data bytes of one recovery push").min(65_536.0).max(8_388_608.0),
    option("osd_recovery_op_priority", Uint, "3", "Priority of recovery").min(1.0).max(63.0),
    option("osd_client_op_priority", Uint, "63", "Priority of clients' operations").min(1.0).max(63.0),
    option("osd_recovery_sleep", Float, "0.000000", "Seconds between recoveries; 0 for the device's default"),
    option("osd_recovery_sleep_hdd", Float, "0.100000", "Seconds between recoveries on rotating disks"),
    option("osd_recovery_sleep_ssd", Float, "0.000000", "Seconds between recoveries on flash"),
    option("osd_recovery_sleep_hybrid", Float, "0.025000", "Seconds between recoveries on disks with a flash journal"),
    option("osd_recovery_delay_start", Float, "0.000000", "Seconds between peering and recovery"),
    option("osd_op_queue", Text, "wpq", "The op scheduler").one_of(QUEUES),
    option("osd_op_queue_cut_off", Text, "high", "Priorities that bypass the op scheduler").one_of(&["low", "high"]),
    option("osd_op_queue_store_ios", Uint, "0", "Operations in the store at once; 0 to learn how many"),
    option(
        "osd_op_queue_store_ios_hdd",
        Uint,
        "32",
        "The most that is learnt, on a rotating disk; an array reads best with some ten for each of its disks",
    )
    .min(1.0),
    option("osd_op_queue_store_ios_ssd", Uint, "128", "The most that is learnt, on flash").min(1.0),
    option("osd_op_queue_store_bytes", Size, "67108864", "Bytes of operations in the store at once").min(1.0),
    option("osd_op_num_shards", Int, "0", "Parts of an OSD that work on their own: it is one engine")
        .startup()
        .nowhere(),
    option("osd_op_num_threads_per_shard", Int, "0", "Threads of each part: an engine has one").startup().nowhere(),
    option("osd_qos_tenants", Text, "", "What tenants are promised; `qos set` writes it"),
    option("osd_mclock_profile", Text, "high_client_ops", "Which classes of work are favoured").one_of(PROFILES),
    option(
        "osd_mclock_max_capacity_iops_hdd",
        Float,
        "315.000000",
        "4 KiB operations a second of a rotating disk; unless set, what the OSD has learnt",
    )
    .min(1.0)
    .basic(),
    option(
        "osd_mclock_max_capacity_iops_ssd",
        Float,
        "21500.000000",
        "4 KiB operations a second of a flash disk; unless set, what the OSD has learnt",
    )
    .min(1.0)
    .basic(),
    option("osd_mclock_scheduler_client_res", Uint, "1", "Operations a second reserved for clients"),
    option("osd_mclock_scheduler_client_wgt", Uint, "1", "Clients' share of what is left"),
    option("osd_mclock_scheduler_client_lim", Uint, "999999", "Operations a second that clients get at most"),
    option("osd_mclock_scheduler_background_recovery_res", Uint, "1", "Operations a second reserved for recovery"),
    option("osd_mclock_scheduler_background_recovery_wgt", Uint, "1", "Recovery's share of what is left"),
    option(
        "osd_mclock_scheduler_background_recovery_lim",
        Uint,
        "999999",
        "Operations a second that recovery gets at most",
    ),
    option("osd_mclock_scheduler_background_best_effort_res", Uint, "1", "Operations a second reserved for the rest"),
    option("osd_mclock_scheduler_background_best_effort_wgt", Uint, "1", "The rest's share of what is left"),
    option(
        "osd_mclock_scheduler_background_best_effort_lim",
        Uint,
        "999999",
        "Operations a second that the rest gets at most",
    ),
    option(
        "osd_mclock_cost_per_io_usec",
        Float,
        "0.000000",
        "Microseconds of an operation; 0 for the device's default",
    )
    .min(0.0)
    .dev(),
    option("osd_mclock_cost_per_io_usec_hdd", Float, "25000.000000", "Microseconds of an operation on rotating disks")
        .min(1.0)
        .dev(),
    option("osd_mclock_cost_per_io_usec_ssd", Float, "50.000000", "Microseconds of an operation on flash")
        .min(1.0)
        .dev(),
    option("osd_mclock_cost_per_byte_usec", Float, "0.000000", "Microseconds of a byte; 0 for the device's default")
        .min(0.0)
        .dev(),
    option("osd_mclock_cost_per_byte_usec_hdd", Float, "5.200000", "Microseconds of a byte on rotating disks")
        .min(0.0)
        .dev(),
    option("osd_mclock_cost_per_byte_usec_ssd", Float, "0.011000", "Microseconds of a byte on flash").min(0.0).dev(),
    option("osd_cfq_slice_sync", Float, "100.000000", "Milliseconds of a stream's turn at the most")
        .min(1.0)
        .max(10_000.0),
    option("osd_cfq_target_latency", Float, "300.000000", "Milliseconds that a turn for everybody should take in all")
        .min(1.0)
        .max(60_000.0),
    option(
        "osd_cfq_slice_idle",
        Float,
        "8.000000",
        "Milliseconds to wait for a stream's next operation; 0 to count operations instead of time",
    )
    .min(0.0)
    .max(1000.0),
    option("osd_cfq_group_idle", Float, "8.000000", "Milliseconds to wait for a tenant's next operation; 0 for none")
        .min(0.0)
        .max(1000.0),
    option("osd_cfq_quantum", Uint, "8", "Operations of a stream at once while others wait").min(1.0).max(1024.0),
    option("osd_cfq_client_weight", Uint, "500", "Weight of clients without a tenant").min(100.0).max(1000.0),
    option("osd_cfq_background_recovery_weight", Uint, "500", "Weight of recovery").min(100.0).max(1000.0),
    option("osd_cfq_background_best_effort_weight", Uint, "100", "Weight of the rest").min(100.0).max(1000.0),
    option("osd_heartbeat_interval", Int, "6", "Seconds between pings of peers").min(1.0).max(60.0),
    option("osd_heartbeat_grace", Int, "20", "Seconds without an answer before a peer is reported"),
    option("osd_heartbeat_min_peers", Int, "10", "OSDs that an OSD watches at least, whether they share data or not"),
    option("osd_max_markdown_count", Int, "5", "Times an OSD may be marked down in a period before it stays down")
        .min(0.0),
    option("osd_max_markdown_period", Int, "600", "Seconds in which markdowns of an OSD that lives are counted")
        .min(0.0),
    option("osd_beacon_report_interval", Int, "60", "Seconds between beacons to the monitor").min(1.0),
    option("osd_mon_report_interval", Int, "5", "Seconds between reports to the monitor").min(1.0).nowhere(),
    option("osd_min_pg_log_entries", Uint, "250", "Log entries a placement group keeps at least").min(1.0),
    option(
        "osd_max_pg_log_entries",
        Uint,
        "10000",
        "Log entries a placement group keeps at most, and no more than 2000 or osd_min_pg_log_entries",
    )
    .min(1.0),
    option("osd_pg_log_trim_min", Uint, "100", "Log entries that one trim removes at least").min(1.0),
    option("osd_pg_log_dups_tracked", Uint, "3000", "Requests remembered beyond the log").max(10_000.0),
    option("osd_max_object_size", Size, "134217728", "Bytes of an object at most").max(134_217_728.0),
    option("osd_max_object_name_len", Uint, "2048", "Bytes of an object's name at most").max(2048.0),
    option("osd_max_object_namespace_len", Uint, "256", "Bytes of a namespace's name at most").max(256.0),
    option("osd_max_attr_size", Uint, "0", "Bytes of an extended attribute at most; 0 for the store's limit"),
    option("osd_default_notify_timeout", Uint, "30", "Seconds to wait for watchers, where the notifier does not say"),
    option("osd_max_attr_name_len", Uint, "100", "Bytes of an extended attribute's name at most").max(100.0),
    option("osd_max_omap_entries_per_request", Uint, "1024", "Omap entries that one request returns at most")
        .min(1.0)
        .max(1_048_576.0),
    option("osd_max_omap_bytes_per_request", Size, "16777216", "Omap bytes that one request returns, about, at most")
        .min(1.0)
        .max(67_108_864.0),
    option("osd_max_write_size", Size, "90", "MiB of one write at most").min(4.0).max(90.0),
    option("osd_client_message_size_cap", Size, "268435456", "Bytes of clients' requests held at once; 0 for the most")
        .max(268_435_456.0),
    option("osd_client_message_cap", Uint, "4096", "Clients' requests held at once; 0 for the most").max(4096.0),
    option("osd_client_watch_timeout", Int, "30", "Seconds without a sign of life after which a client's watch ends"),
    option("osd_enable_op_tracker", Bool, "true", "Keep a history of operations"),
    option("osd_op_complaint_time", Float, "30.000000", "Seconds after which an operation counts as slow"),
    option("mon_op_history_size", Uint, "20", "Requests that the monitor keeps for `dump_historic_ops`"),
    option("mon_op_history_duration", Uint, "600", "Seconds that the monitor keeps requests for `dump_historic_ops`"),
    option("mon_op_history_slow_op_size", Uint, "20", "Requests that the monitor keeps for `dump_historic_slow_ops`"),
    option("mon_op_history_slow_op_threshold", Float, "10.000000", "Seconds after which the monitor keeps one there"),
    option("osd_op_history_size", Uint, "20", "Operations kept for `dump_historic_ops`"),
    option("osd_op_history_duration", Uint, "600", "Seconds that operations are kept for `dump_historic_ops`"),
    option("osd_op_history_slow_op_size", Uint, "20", "Operations kept for `dump_historic_slow_ops`"),
    option("osd_op_history_slow_op_threshold", Float, "10.000000", "Seconds after which an operation is kept there"),
    option("osd_bench_small_size_max_iops", Uint, "100", "Operations a second that `bench` may assume of small ones"),
    option("osd_bench_large_size_max_throughput", Size, "104857600", "Bytes a second it may assume of large ones"),
    option("osd_bench_max_block_size", Size, "67108864", "The largest piece that `bench` writes"),
    option("osd_bench_duration", Uint, "30", "Seconds that `bench` may take by those rates"),
    option("osd_map_message_max", Int, "40", "OSD map epochs in one message").nowhere(),
    option("osd_scrub_auto_repair", Bool, "false", "Repair what scheduled deep scrubs find"),
    option("osd_scrub_auto_repair_num_errors", Uint, "5", "Errors up to which it is repaired so"),
    option("osd_scrub_chunk_max", Int, "25", "Objects that a scrub compares at once").min(1.0),
    option("osd_scrub_interval_randomize_ratio", Float, "0.500000", "Part by which intervals are stretched"),
    option("osd_max_scrubs", Int, "1", "Scrubs at once, from and to an OSD").min(1.0),
    option("osd_scrub_begin_hour", Int, "0", "The hour scrubs may begin (UTC)").min(0.0).max(23.0),
    option("osd_scrub_end_hour", Int, "0", "The hour scrubs must end (UTC)").min(0.0).max(23.0),
    option("osd_scrub_min_interval", Float, "86400.000000", "Seconds between scrubs when idle"),
    option("osd_scrub_max_interval", Float, "604800.000000", "Seconds between scrubs at most"),
    option("osd_deep_scrub_interval", Float, "604800.000000", "Seconds between deep scrubs"),
    option("osd_scrub_sleep", Float, "0.000000", "Seconds between chunks of a scrub"),
    option("osd_scrub_load_threshold", Float, "0.500000", "Load at which no scrub begins").nowhere(),
    option("osd_snap_trim_priority", Uint, "5", "Priority of removing snapshots").min(1.0).max(63.0),
    option("osd_snap_trim_sleep", Float, "0.000000", "Seconds before each of a group's turns of removing snapshots"),
    option("osd_delete_sleep", Float, "0.000000", "Seconds between object removals; 0 for the device's default"),
    option("osd_delete_sleep_hdd", Float, "5.000000", "Seconds between object removals on rotating disks"),
    option("osd_delete_sleep_ssd", Float, "1.000000", "Seconds between object removals on flash"),
    option(
        "osd_delete_sleep_hybrid",
        Float,
        "1.000000",
        "Seconds between object removals on disks with a flash journal",
    ),
    option("osd_target_transaction_size", Int, "30", "Objects that a transaction of a deletion removes")
        .min(1.0)
        .max(1000.0),
    option("osd_pg_delete_cost", Uint, "1048576", "What a step of a deletion costs"),
    option("osd_debug_drop_ping_probability", Float, "0.000000", "Drop pings, for tests").dev().nowhere(),
    // Clients that read their options from the monitor.
    option("rados_osd_op_timeout", Secs, "0", "Seconds before an operation gives up; 0 for never").by_clients(),
    option("rados_mon_op_timeout", Secs, "0", "Seconds before a command gives up; 0 for never").by_clients(),
    option("objecter_inflight_ops", Uint, "1024", "Operations a client has in flight at most").by_clients(),
    option("objecter_inflight_op_bytes", Size, "104857600", "Bytes a client has in flight at most").by_clients(),
    option("client_mount_timeout", Secs, "300", "Seconds before connecting gives up").by_clients(),
    option("rbd_default_pool", Text, "rbd", "The pool of images given without one").by_clients(),
    option(
        "rbd_default_features",
        Text,
        "layering,exclusive-lock,object-map,fast-diff,deep-flatten",
        "Features of new images",
    )
    .by_clients(),
    option("rbd_cache", Bool, "true", "Cache images' data in clients").by_clients(),
    option("rbd_cache_size", Size, "33554432", "Bytes of an image's cache").by_clients(),
    option("rbd_cache_max_dirty", Size, "25165824", "Dirty bytes of an image's cache; 0 for write-through")
        .by_clients(),
    option("rbd_default_order", Uint, "22", "Objects of new images have two to this many bytes").by_clients(),
    option("compression_algorithm", Text, "none", "How messages are compressed").one_of(ALGORITHMS).dev(),
];
