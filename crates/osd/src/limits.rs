//! The bounds of everything that grows: each named, with the reason for its number.
//!
//! Where Ceph has an option of the same meaning its name and default are given (v16.2 `src/common/options.cc`).

use base::Duration;

/// Writes of a measurement of the store under way at once: enough to keep any store busy, 256 MiB of the usual size at
/// the most.
pub const BENCH_WRITES_MAX: u64 = 16;

/// Objects that are noted as ones that the store may not be able to read; each note takes some 100 bytes.
pub const SUSPECTS_MAX: usize = 1024;

/// Writes that one message of a replica confirms, at the most: more than become durable together.
pub const CONFIRMED_MAX: usize = 256;

/// Room for so many is made at once: about as many as become durable together when a few clients are busy.
pub const CONFIRMED_USUAL: usize = 16;

/// The longest object name and locator key, in bytes (`osd_max_object_name_len`).
pub const OBJECT_NAME_BYTES_MAX: usize = 2048;
/// The longest namespace, in bytes (`osd_max_object_namespace_len`).
pub const NAMESPACE_BYTES_MAX: usize = 256;
/// The largest object, in bytes (`osd_max_object_size`).
pub const OBJECT_BYTES_MAX: u64 = 128 << 20;
/// The longest attribute name, in bytes (`osd_max_attr_name_len`).
pub const ATTR_NAME_BYTES_MAX: usize = 100;
/// The most payload bytes of a request that writes (`osd_max_write_size`). It also bounds attributes, which have no
/// bound of their own (`osd_max_attr_size` is 0, unlimited).
pub const WRITE_BYTES_MAX: usize = 90 << 20;
/// The most entries one omap read returns (`osd_max_omap_entries_per_request`).
pub const OMAP_ENTRIES_MAX: u64 = 1024;
/// About the most bytes one omap read returns; Ceph's 1 GiB would stall everybody else.
pub const OMAP_BYTES_MAX: u64 = 16 << 20;
/// The most names one listing returns (`osd_max_pgls`).
pub const LIST_NAMES_MAX: u64 = 1024;
/// The most operations in one request, calls of methods aside; an op's outcome takes tens of bytes, and no client builds
/// more.
pub const OPS_PER_REQUEST_MAX: usize = 1024;
/// The most calls of methods in one request. librbd opens an image with one request that calls four methods for each
/// snapshot: this is an image with 4,096 of them.
pub const CALLS_PER_REQUEST_MAX: usize = 16_384;
/// How often a class's method may ask about its object: each answer costs another run of the request, and stays in memory
/// until the last. A listing sees more entries with each answer.
pub const CLASS_READS_MAX: u32 = 256;
/// The most entries that a listing within a method takes at once: some megabytes.
pub const CLASS_PAGE_ENTRIES_MAX: u64 = 64 << 10;
/// Lookups of one request from which on the object's map is read at once instead of entry by entry. A request that opens
/// an image calls more methods for its header, one that takes a lock or watches fewer.
pub const WHOLE_MAP_LOOKUPS_MIN: u64 = 4;
/// How many entries for each lookup a map may have to be read at once, so that the work grows with what is asked: an
/// entry that is read in vain costs much less than one more run of the request.
pub const WHOLE_MAP_ENTRIES_PER_LOOKUP: u64 = 256;
/// The same in bytes, about; the entry of a snapshot has some 200.
pub const WHOLE_MAP_BYTES_PER_LOOKUP: u64 = 256 << 10;
/// How many entries a map may have at the most to be read at once; `OMAP_BYTES_MAX` bounds their bytes.
pub const WHOLE_MAP_ENTRIES_MAX: u64 = 64 << 10;
/// The most bytes each op of a write may return with RETURNVEC (`osd_max_write_op_reply_len`).
pub const WRITE_REPLY_BYTES_MAX: usize = 64;

/// The ranges that a clone is known to share with the life after it; beyond, the shortest count as not shared, so that
/// an object's record stays some tens of KiB however it is written to.
pub const CLONE_OVERLAP_RANGES_MAX: usize = 1024;

/// The clones that a PG trims at once (in the sense of `osd_pg_max_concurrent_snap_trims`, 2): a turn is a round trip
/// to every member, and clients' requests come between turns.
pub const SNAP_TRIM_CLONES_PER_TURN: u64 = 8;

/// Data of recovery of at least so many bytes goes to the store ahead of its transaction, if the store cares: two blocks are
/// the least that can have a place of their own.
pub const AHEAD_BYTES_MIN: usize = 8 << 10;

/// Log entries that a PG keeps, within `osd_min_pg_log_entries` and `osd_max_pg_log_entries`: how far back a returning
/// member is brought up to date without being filled. Entries not durable everywhere are never trimmed.
pub const LOG_ENTRIES_MAX: usize = 2000;
/// Older entries that a PG remembers, so that it recognises resent requests, unless `osd_pg_log_dups_tracked` says otherwise.
pub const LOG_ENTRIES_REMEMBERED: usize = 3000;

/// What a read to an object's end is taken to cost at the most, before its size is known: most objects are at most so
/// large.
pub const USUAL_OBJECT_BYTES: u64 = 4 << 20;
/// The most client requests in the OSD at once (`osd_client_message_cap`).
pub const CLIENT_REQUESTS_MAX: usize = 4096;
/// The most bytes of client requests in the OSD at once (`osd_client_message_size_cap`).
pub const CLIENT_REQUEST_BYTES_MAX: usize = 256 << 20;
/// Requests that may wait for an inactive PG before clients are asked to hold theirs.
pub const PG_WAITING_MAX: usize = 512;
/// Entries of the log that a replica looks through to answer a read itself; with more, it asks the primary anew how much
/// of them is durable everywhere. An entry takes some nanoseconds.
pub const REPLICA_READ_ENTRIES_MAX: usize = 256;
/// Requests of newer maps that may wait at once; more are dropped and sent again by their clients.
pub const MAP_WAITING_MAX: usize = 4096;
/// Idle objects whose state a PG remembers; an entry is about 200 bytes.
pub const OBJECT_STATES_KEPT_MAX: usize = 512;
/// Client sessions at once.
pub const SESSIONS_MAX: usize = 16_384;

/// Watchers of one object: its record, which every write stores again, has some 45 bytes of each.
pub const WATCHERS_MAX: usize = 1024;
/// Seconds to wait for answers to a notification, where the client does not say (`osd_default_notify_timeout`).
pub const NOTIFICATION_TIMEOUT_S: u32 = 30;
/// The most seconds to wait for answers: whoever asks for more is told after an hour who has not answered.
pub const NOTIFICATION_TIMEOUT_S_MAX: u32 = 3600;
/// Notifications on their way in one PG.
pub const NOTIFICATIONS_MAX: usize = 1024;
/// Bytes that the notifications of one PG hold, answers included.
pub const NOTIFICATION_BYTES_MAX: usize = 16 << 20;

/// Past intervals remembered for a PG; beyond, the oldest is forgotten and the PG needs a member that was active since.
pub const PAST_INTERVALS_MAX: usize = 128;
/// Blobs of recent incremental maps kept, for clients that are behind.
pub const INCREMENTALS_KEPT_MAX: usize = 256;
/// The most maps that a client is told one after the other (as many as Ceph's `osd_map_message_max`).
pub const MAPS_TOLD_MAX: usize = 40;

/// Objects of one part of a member's filling (the sense of `osd_backfill_scan_max`): the message has some 100 bytes of
/// each, and so many may be missing at once.
pub const BACKFILL_HEADS_MAX: usize = 512;
/// The most data bytes of one piece of a copied object; `osd_recovery_max_chunk` may lower it.
pub const PUSH_BYTES_MAX: u64 = 8 << 20;
/// The least of that: each piece is a round trip and a transaction.
pub const PUSH_BYTES_MIN: u64 = 64 << 10;
/// The most data bytes of pieces for other OSDs that are read at once, besides the last of them: enough for any device to
/// be busy.
pub const PULLED_BYTES_MAX: u64 = 16 << 20;
/// The most objects whose recovery an OSD has under way, whatever `osd_recovery_max_active` says: their pieces may all wait
/// for the same peer, on the session that writes take, and that is given up where more than 512 MiB wait.
pub const RECOVERIES_MAX: usize = 32;
/// While clients write, no further object is held for members that lack it when so many bytes are: one object of the usual
/// size is held at a time. It is in the way of fewer writes, and held for less long, as nothing is before it where it goes.
pub const HELD_BYTES_MAX: u64 = 4 << 20;
/// Nobody has written for so long: nobody is likely to be in the way of.
pub const CLIENTS_REST: Duration = Duration::from_secs(1);
/// The most map entries of one piece of a copied object (`osd_recovery_max_omap_entries_per_chunk`).
pub const PUSH_OMAP_ENTRIES_MAX: u64 = 8096;
/// Sources of copies that an OSD asks for at once.
pub const COPIES_AT_ONCE_MAX: usize = 8;
/// About the most bytes of one part of a source (`osd_copyfrom_max_chunk`).
pub const COPY_PART_BYTES_MAX: u64 = 8 << 20;
/// How long to wait before a source is asked again.
pub const COPY_ASK_AGAIN: Duration = Duration::from_secs(2);
/// Names that the store lists at once, where a member is filled.
pub const SCAN_NAMES_MAX: usize = 1024;

/// Objects, clones included, that one range of a scrub may have: a member shows some 200 bytes of each, and an object
/// with more clones than this cannot be scrubbed.
pub const SCRUB_OBJECTS_MAX: usize = 4096;
/// Data that a scrub reads at once at the most (`osd_deep_scrub_stride`).
pub const SCRUB_STRIDE_BYTES: u64 = 512 << 10;
/// Entries of a map that a scrub reads at once (`osd_deep_scrub_keys`).
pub const SCRUB_OMAP_ENTRIES: u64 = 1024;
/// Bytes of an attribute that a scrub shows; more are compared by their checksum.
pub const SCRUB_ATTR_BYTES_MAX: usize = 4096;
/// Damaged objects that a scrub remembers for who asks; beyond, they are only counted.
pub const SCRUB_FOUND_MAX: usize = 4096;
/// How often clients' writes may make a scrub begin a range again, each time with half as many objects
/// (`osd_scrub_max_preemptions`). Then one object's writes wait until it is compared.
pub const SCRUB_PREEMPTIONS_MAX: u32 = 5;
/// How long a scrub holds new writes to a range back while earlier ones end.
pub const SCRUB_HOLD_MAX: Duration = Duration::from_secs(1);
/// How often a scrub looks whether they have.
pub const SCRUB_HOLD_LOOK: Duration = Duration::from_millis(10);
/// How long a scrub waits before it begins a range again.
pub const SCRUB_RANGE_AGAIN: Duration = Duration::from_millis(50);
/// How long to wait, about, where others have no place for a scrub.
pub const SCRUB_TRY_AGAIN: Duration = Duration::from_millis(200);
/// How often to look whether a placement group is due.
pub const SCRUB_LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long to leave a placement group alone whose scrub a store made impossible.
pub const SCRUB_FAILED_WAIT: Duration = Duration::from_secs(60);

/// How often OSDs tell one another what they have served of tenants: a few times in what a limit lets make up for.
pub const TENANTS_TELL: Duration = Duration::from_millis(100);
/// With more OSDs than this to tell, it is done less often in proportion: each sends some 160 messages a second at the most.
pub const TENANT_PEERS_SOON: u32 = 16;

/// The most times an OSD may be marked down within a period that is to be remembered (`osd_max_markdown_count`): each is a
/// change of the map.
pub const MARKDOWNS_MAX: f64 = 65_536.0;

/// How often to say that we live (`osd_beacon_report_interval`, in Ceph 300 s).
pub const BEACON_INTERVAL: Duration = Duration::from_secs(60);
/// How often to report statistics (`mgr_stats_period`).
pub const STATS_INTERVAL: Duration = Duration::from_secs(5);
/// The least time between two reports, when the state of a PG has changed.
pub const STATS_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// The time between two reports while objects change.
pub const STATS_INTERVAL_BUSY: Duration = Duration::from_secs(1);
/// How long to wait before asking the monitor again: to be marked up, for an up_thru, for missing maps.
pub const ASK_AGAIN: Duration = Duration::from_secs(2);
/// How long a stopping OSD waits to be marked down.
pub const MERGE_WAIT: Duration = Duration::from_secs(5);
/// For how long a clean stop waits for the monitor.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(2);
/// How often a connection to a lost peer is tried while the map says it is up.
pub const PEER_PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// The shortest of the pauses between connections to a peer that break before they stand; each is twice as long.
pub const PROBE_PAUSE_MIN: Duration = Duration::from_millis(5);

/// The most operations that a history keeps, whatever `osd_op_history_size` says: each takes about a kilobyte.
pub const HISTORY_OPS_MAX: usize = 10_000;

/// Lines for the cluster log that wait for the monitor; beyond, the oldest are forgotten.
pub const CLUSTER_LOG_LINES_MAX: usize = 1000;
