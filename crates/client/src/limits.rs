//! The bounds of everything that grows, and of how long to wait.

use base::Duration;

/// The most requests at once; librados' `objecter_inflight_ops` is 1024, and queues in front of it have none.
pub const REQUESTS_MAX: usize = 65_536;
/// The most back-offs one OSD may ask of us; beyond, the session is closed and begun anew.
pub const BACKOFFS_MAX: usize = 4096;
/// Whole maps decoded from one message at most are those the monitor sends at once; more are asked for again.
pub const MAPS_PER_MESSAGE_MAX: usize = 1024;
/// The wait before a lost session is opened again, at first ...
pub const REOPEN_MIN: Duration = Duration::from_millis(20);
/// ... and at most. A daemon that restarts is back within seconds; its clients should be too.
pub const REOPEN_MAX: Duration = Duration::from_secs(2);
/// How long a request may wait for its answer before its session is probed (`objecter_timeout`).
pub const LAGGY_AFTER: Duration = Duration::from_secs(10);
