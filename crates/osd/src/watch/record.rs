//! The watchers of an object as they are kept with it, so that the next primary knows whom to wait for.
//!
//! Ceph keeps the same in `object_info_t` (v16.2 `src/osd/osd_types.h`, `watch_info_t`); the encoding is ours.

use base::Duration;
use std::collections::BTreeMap;
use wire::types::{EntityAddr, EntityName};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// Names a watch of an object: a client may have several, by handle. Ordered as Ceph lists them, by handle first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WatchName {
    /// The client's handle.
    pub cookie: u64,
    /// The client.
    pub entity: EntityName,
}

/// What is kept of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchRecord {
    /// After how many seconds of silence it ends; never 0.
    pub timeout_s: u32,
    /// The client's address, by which it is shut out.
    pub addr: EntityAddr,
}

/// The watchers of an object.
pub type Watchers = BTreeMap<WatchName, WatchRecord>;

impl WatchRecord {
    /// The longest silence.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.timeout_s))
    }
}

impl Encode for WatchName {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.cookie);
        e.put(&self.entity);
    }
}

impl Decode for WatchName {
    const MIN_BYTES: usize = 17;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(WatchName { cookie: d.u64()?, entity: d.get()? })
    }
}

impl Encode for WatchRecord {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.timeout_s);
        e.put(&self.addr);
    }
}

impl Decode for WatchRecord {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(WatchRecord { timeout_s: d.u32()?, addr: d.get()? })
    }
}
