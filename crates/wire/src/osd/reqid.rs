//! The name of a request: what exactly-once rests on.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.h` (`osd_reqid_t`).
//! Read next: `object`.

use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::{EntityName, EntityType};
use core::fmt;

/// Names one request of one client for ever, so that a resent one is recognised (`osd_reqid_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsdReqId {
    /// Who asked; a client is numbered by its global id.
    pub name: EntityName,
    /// The client's transaction id.
    pub tid: u64,
    /// The client's incarnation.
    pub inc: i32,
}

impl OsdReqId {
    /// Whether the sender left the name to be taken from the session and the message's header, as clients do.
    pub fn is_implied(&self) -> bool {
        self.name == NO_NAME && self.tid == 0
    }
}

/// `entity_name_t` as its default constructor leaves it.
const NO_NAME: EntityName = EntityName { kind: EntityType(0), num: 0 };

impl Default for OsdReqId {
    fn default() -> OsdReqId {
        OsdReqId { name: NO_NAME, tid: 0, inc: 0 }
    }
}

impl fmt::Display for OsdReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.inc, self.tid)
    }
}

impl fmt::Debug for OsdReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for OsdReqId {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 2, |e| {
            e.put(&self.name);
            e.u64(self.tid);
            e.i32(self.inc);
        });
    }
}

impl Decode for OsdReqId {
    const MIN_BYTES: usize = 27;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("osd_reqid_t", 2, |d, _| Ok(OsdReqId { name: d.get()?, tid: d.u64()?, inc: d.i32()? }))
    }
}
