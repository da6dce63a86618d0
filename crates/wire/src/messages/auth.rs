//! Authentication inside a session: how a client renews its tickets (the first round travels in the handshake).
//!
//! Follows Ceph v16.2 `src/messages/MAuth.h` and `MAuthReply.h`. Read next: `cephx`, which makes the payloads.

use super::Payload;
use super::body::{Body, PaxosHead};
use crate::codec::{Decoder, Encoder, Malformed};
use base::Epoch;
use bytes::Bytes;

/// A step of authentication from a client.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Auth {
    /// The usual head.
    pub paxos: PaxosHead,
    /// The method (`AUTH_CEPHX`), or 0 when beginning.
    pub protocol: u32,
    /// The method's payload.
    pub payload: Bytes,
    /// The client's monitor map.
    pub monmap_epoch: Epoch,
}

impl Body for Auth {
    const KIND: u16 = 17;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;
    const NAME: &'static str = "Auth";

    fn from_payload(payload: &Payload) -> Result<Self, Malformed> {
        Self::check_compat(payload)?;
        let mut d = Decoder::shared(&payload.front);
        let (paxos, protocol, blob) = (d.get()?, d.u32()?, d.blob()?);
        // The kernel's client leaves the epoch out.
        let monmap_epoch = if d.remaining() == 0 { Epoch(0) } else { d.get()? };
        Self::finish(d, payload)?;
        Ok(Auth { paxos, protocol, payload: blob, monmap_epoch })
    }

    fn into_payload(self) -> Payload {
        let mut e = Encoder::with_capacity(self.payload.len() + 30);
        e.put(&self.paxos);
        e.u32(self.protocol);
        e.put(&self.payload);
        e.put(&self.monmap_epoch);
        Self::payload(e.finish(), Bytes::new())
    }
}

super::body::message! {
    /// The monitor's answer to a step of authentication.
    AuthReply(18, 1, 1) {
        /// The method.
        protocol: u32,
        /// 0, or an errno negated.
        result: i32,
        /// The client's number.
        global_id: u64,
        /// The method's payload.
        payload: Bytes,
        /// What went wrong.
        message: String,
    }
}
