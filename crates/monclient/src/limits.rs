//! Bounds and periods, each with its reason.

use base::Duration;

/// Messages that wait for a session. A monitor that is away for long must not fill the memory: a daemon sends a few a
/// second, so this is minutes' worth; then the oldest go, as their senders resend what matters.
pub const OUTBOX_MAX: usize = 4096;

/// Commands and version queries without an answer. The engines ask a handful at a time.
pub const PENDING_MAX: usize = 4096;

/// How long a monitor may take to open a session before the next is tried (`mon_client_hunt_interval`).
pub const HUNT_INTERVAL: Duration = Duration::from_secs(3);

/// The first pause after a session failed to open. Short: a cluster that is starting has its monitor in a moment.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// The longest pause (`mon_client_hunt_interval_max_multiple` times a first interval of 3 s).
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A session that held this long was a good one: the next pause is the first again.
pub const SESSION_GOOD_AFTER: Duration = Duration::from_secs(5);

/// How long after the current rotating secret ended the next set is fetched: the monitor makes it at that moment, and
/// the next secret is known already (`MonClient::_check_auth_rotating`).
pub const ROTATING_GRACE: Duration = Duration::from_secs(30);

/// The pause before a renewal that failed is tried again.
pub const RENEWAL_RETRY: Duration = Duration::from_secs(5);

/// How long the monitor may take to answer `MAuth` before its session is given up.
pub const RENEWAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Sessions we closed whose late events are still ours to swallow.
pub const ABANDONED_MAX: usize = 16;
