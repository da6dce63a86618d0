//! Every bound of the messenger, with its reason.
//!
//! Owns the numbers and nothing else. What a peer may make us hold is bounded before it is held: a frame's lengths
//! are checked against these when its preamble is read, before any of its body is waited for.
//!
//! Read next: `frame`, which enforces the frame limits, and `messenger`, which enforces the others.

use base::Duration;

/// The longest payload of a control frame, in bytes. The largest that is legal are the authentication frames: a
/// monitor's AUTH_DONE carries several tickets, each with capability strings of some kilobytes.
pub const CONTROL_BYTES_MAX: usize = 64 << 10;

/// The longest front section of a message, in bytes. Full OSD maps travel here; a map of ten thousand OSDs with all
/// its history stays below 16 MiB.
pub const FRONT_BYTES_MAX: usize = 64 << 20;

/// The longest middle section, in bytes. Extended attributes of inodes, at most 64 KiB each, in a batch.
pub const MIDDLE_BYTES_MAX: usize = 16 << 20;

/// The longest data section, in bytes. Pacific's `osd_max_write_size` is 90 MiB; one object is at most
/// `osd_max_object_size`, 128 MiB.
pub const DATA_BYTES_MAX: usize = 128 << 20;

/// The longest banner payload we read, in bytes: two feature words take 16, later revisions may add more.
pub const BANNER_BYTES_MAX: usize = 256;

/// How much of a handshake is kept for the signature, in bytes, each way. An honest handshake is a few kilobytes.
pub const TRANSCRIPT_BYTES_MAX: usize = 512 << 10;

/// How many steps authentication may take, and then again the agreement on a session; cephx takes two or three, a
/// reconnection one or two.
pub const ROUNDS_MAX: u8 = 8;

/// How many streams may be in an accepted handshake at once; the oldest gives way. Two thousand clients that
/// reconnect in the same second fit four times over.
pub const HANDSHAKES_MAX: usize = 8192;

/// A data section of at least this many bytes is attached to the send queue as a slice; a shorter one is copied next
/// to its header. Copying 8 KiB that the checksum has just pulled into the cache takes about 200 ns, which is what
/// another slice costs in the `writev` call and in reference counts, and copies let many small frames leave as one.
pub const ATTACH_BYTES_MIN: usize = 8 << 10;

/// A coalescing buffer that reached this many bytes is closed and another begun, so that growing never copies much.
pub const COALESCE_BYTES_MAX: usize = 64 << 10;

/// How many coalescing buffers a messenger keeps for the next stream that has something to say: as many as are written
/// in one turn, within reason.
pub const SPARE_BUFFERS_MAX: usize = 8;

/// The largest coalescing buffer that is kept so: one that grew to its end, with the frame that closed it.
pub const SPARE_BUFFER_BYTES_MAX: usize = 2 * COALESCE_BYTES_MAX;

/// How many bytes may wait for a peer (unsent, and for a lossless peer unacknowledged) before its session is given
/// up. A client that reads with 64 operations of 4 MiB each in flight has 256 MiB on the way.
pub const BACKLOG_BYTES_MAX: usize = 512 << 20;

/// A lossless session acknowledges at the latest after this many messages...
pub const ACK_AFTER_MESSAGES: u32 = 32;
/// ... or this many bytes of them...
pub const ACK_AFTER_BYTES: usize = 1 << 20;
/// ... or this long after the first. The peer keeps what is not acknowledged; most replies carry an acknowledgement
/// before this expires.
pub const ACK_DELAY: Duration = Duration::from_millis(50);

/// How long a handshake may take (`ms_connection_ready_timeout`).
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The first pause before a lossless session reconnects (`ms_initial_backoff`); it doubles...
pub const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// ... up to this. Ceph waits up to 15 s (`ms_max_backoff`); an OSD's peers should not.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How often the side that opened a session asks a silent peer for a sign of life (`mon_client_ping_interval`).
pub const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// How long a peer may stay silent after that before the stream counts as broken (`mon_client_ping_timeout`).
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long an accepted stream may carry nothing at all (`ms_connection_idle_timeout`).
pub const IDLE_MAX: Duration = Duration::from_secs(900);

/// How long a peer may leave bytes unread, or a frame half sent, without any progress.
pub const STALL_MAX: Duration = Duration::from_secs(60);

/// How long an accepted lossless session waits for its peer to come back before it is forgotten.
pub const STANDBY_MAX: Duration = Duration::from_secs(900);
