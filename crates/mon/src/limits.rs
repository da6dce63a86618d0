//! Every bound of the monitor, named, with its reason.

use base::Duration;

/// OSD map epochs kept (`mon_min_osdmap_epochs`, v16.2 default 500): what a returning OSD can catch up with step by
/// step; beyond it starts from a full map.
pub const OSD_MAP_EPOCHS_KEPT: u32 = 500;

/// A full OSD map is stored at every multiple of this epoch; others are rebuilt from incrementals at boot.
pub const OSD_MAP_FULL_EVERY: u32 = 25;

/// The most epochs in one message to a subscriber, and in all to one who asks once (`osd_map_message_max`, v16.2 default
/// 40).
pub const OSD_MAP_MESSAGE_EPOCHS_MAX: u32 = 40;

/// How long reports of daemons wait for more of their kind before they become an epoch together: long enough for the
/// OSDs of one host that start together, short against the half second in which a cluster should be healthy.
pub const GATHER: Duration = Duration::from_millis(10);

/// For how long who has asked once for OSD maps is sent those that follow: until clients whose requests wait ask again
/// (`objecter_timeout`, 10 s, looked at every `objecter_tick_interval`, 5 s).
pub const MAPS_FOLLOW: Duration = Duration::from_secs(15);

/// Lines of the cluster log kept per channel (`mon_log_max`, v16.2 default 10000, less for memory's sake).
pub const LOG_LINES_MAX: usize = 2000;

/// The longest line of the cluster log that is taken from a peer.
pub const LOG_LINE_BYTES_MAX: usize = 16 << 10;

/// Sessions at once; the transport's own limit should be lower.
pub const SESSIONS_MAX: usize = 65_536;

/// Outputs waiting for a commit; beyond, a peer's request is dropped with its session, as one that floods.
pub const OUTBOX_MAX: usize = 1 << 20;

/// The largest value of a `config-key` entry (`mon_config_key_max_entry_size`, v16.2 default 64 KiB).
pub const CONFIG_KEY_BYTES_MAX: usize = 64 << 10;

/// Versions of the configuration kept for `config log` and `config reset`.
pub const CONFIG_HISTORY_MAX: usize = 50;

/// The highest OSD id: what `osd setmaxosd` and new ids may reach (`mon_max_osd`, v16.2 default 10000).
pub const OSD_ID_MAX: i32 = 10_000;

/// Placement groups of one pool (`mon_max_pool_pg_num`, v16.2 default 65536).
pub const POOL_PG_NUM_MAX: i64 = 65_536;

/// Failure reports kept for one OSD; more reporters add nothing.
pub const FAILURE_REPORTERS_MAX: usize = 64;

/// Counters that one daemon may report: Ceph's OSDs have some five hundred.
pub const COUNTERS_PER_DAEMON_MAX: usize = 4096;

/// How often the monitor looks at its clocks: beacons' grace, down-out, expired blocklist entries, ticket keys.
pub const TICK: Duration = Duration::from_secs(1);

/// Recoveries of the past that `progress` shows (`max_completed_events` of Ceph's module).
pub const PROGRESS_EVENTS_KEPT_MAX: usize = 50;
