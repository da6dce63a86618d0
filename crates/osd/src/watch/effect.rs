//! What an op wants done about watches once it has succeeded: nothing of it changes the object.

use super::record::{WatchName, WatchRecord};
use bytes::Bytes;

/// One thing to do, after the op's changes are durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The watch is this session's from now on.
    Connect {
        /// Which.
        watch: WatchName,
        /// As recorded.
        record: WatchRecord,
        /// Whether the watcher promises to say that it lives; if not, it lives as long as its session.
        pings: bool,
    },
    /// The watch ends.
    Disconnect {
        /// Which.
        watch: WatchName,
        /// Whether the watcher does not know yet.
        tell: bool,
    },
    /// The watcher lives.
    Ping {
        /// Which watch.
        watch: WatchName,
    },
    /// Every watcher is to be told.
    Notify {
        /// The notification's number.
        id: u64,
        /// The notifier's handle.
        cookie: u64,
        /// Seconds to wait for answers.
        timeout_s: u32,
        /// What the watchers get.
        payload: Bytes,
    },
    /// A watcher has answered a notification.
    Ack {
        /// The notification.
        id: u64,
        /// The handle of the watch; none for all of the client's on this object.
        cookie: Option<u64>,
        /// What the notifier gets.
        payload: Bytes,
    },
}
