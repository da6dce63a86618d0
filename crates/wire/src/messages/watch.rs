//! What OSDs send to clients unasked: notifications and back-offs.
//!
//! Follows Ceph v16.2 `src/messages/MWatchNotify.h` and `MOSDBackoff.h`.

use super::Payload;
use super::body::{Body, message};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::osd::{HObject, SpgId};
use base::Epoch;
use bytes::Bytes;

/// An event of a watch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WatchNotify {
    /// What happened (`watch_event`).
    pub event: u8,
    /// The watcher's handle.
    pub cookie: u64,
    /// The version of the object that users see; 0 where the watch is lost.
    pub version: u64,
    /// The notification's number.
    pub notify_id: u64,
    /// What the notifier sent.
    pub payload: Bytes,
    /// For NOTIFY_COMPLETE: 0, or an errno negated.
    pub result: i32,
    /// The notifier's number.
    pub notifier: u64,
    /// For NOTIFY_COMPLETE: what the watchers answered (`NotifyReply`).
    pub replies: Bytes,
}

/// Events of a watch (`CEPH_WATCH_EVENT_*`).
pub mod watch_event {
    /// Somebody notified.
    pub const NOTIFY: u8 = 1;
    /// All watchers have answered, or the time is up.
    pub const NOTIFY_COMPLETE: u8 = 2;
    /// The watch is lost.
    pub const DISCONNECT: u8 = 3;
}

impl Body for WatchNotify {
    const KIND: u16 = 44;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;
    const NAME: &'static str = "WatchNotify";

    fn from_payload(payload: &Payload) -> Result<Self, Malformed> {
        Self::check_compat(payload)?;
        if payload.version < 3 {
            return Err(Malformed::new(Self::NAME, "is older than any supported peer's"));
        }
        let mut d = Decoder::shared(&payload.front);
        // A version of its own, from before headers had one.
        if d.u8()? < 1 {
            return Err(Malformed::new(Self::NAME, "is older than any supported peer's"));
        }
        let message = WatchNotify {
            event: d.u8()?,
            cookie: d.u64()?,
            version: d.u64()?,
            notify_id: d.u64()?,
            payload: d.blob()?,
            result: d.i32()?,
            notifier: d.u64()?,
            replies: payload.data.clone(),
        };
        Self::finish(d, payload)?;
        Ok(message)
    }

    fn into_payload(self) -> Payload {
        let mut e = Encoder::with_capacity(42 + self.payload.len());
        e.raw(&[1, self.event]);
        e.u64(self.cookie);
        e.u64(self.version);
        e.u64(self.notify_id);
        e.put(&self.payload);
        e.i32(self.result);
        e.u64(self.notifier);
        Self::payload(e.finish(), self.replies)
    }
}

message! {
    /// Tells a client to hold its requests for a range of objects, or to go on.
    Backoff(61, 1, 1) {
        /// The placement group.
        pgid: SpgId,
        /// The OSD's map.
        map_epoch: Epoch,
        /// What to do (`backoff_op`).
        op: u8,
        /// The back-off's number.
        id: u64,
        /// The first object of the range.
        begin: HObject,
        /// The one after the last.
        end: HObject,
    }
}

/// What a `Backoff` says (`CEPH_OSD_BACKOFF_OP_*`).
pub mod backoff_op {
    /// Hold requests.
    pub const BLOCK: u8 = 1;
    /// The client holds them.
    pub const ACK_BLOCK: u8 = 2;
    /// Go on.
    pub const UNBLOCK: u8 = 3;
}
