//! The payloads of control frames.
//!
//! Owns their fields and order (Ceph v16.2 `src/msg/async/frames_v2.h`). Each is written and read by the codec of
//! `crate::codec`, and trailing bytes are refused: these frames have never grown, new ones get new tags.

use super::tag::Tag;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::{AddrVec, EntityAddr, EntityType, UTime};
use bytes::Bytes;

/// A control frame's payload knows its tag.
pub trait Control: Encode + Decode {
    /// The tag of the frame that carries it.
    const TAG: Tag;
}

macro_rules! control {
    ($($(#[$doc:meta])* $name:ident($tag:ident) { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }

        impl Control for $name {
            const TAG: Tag = Tag::$tag;
        }

        impl Encode for $name {
            #[allow(unused_variables)]
            fn encode(&self, e: &mut Encoder) { $(e.put(&self.$field);)* }
        }

        impl Decode for $name {
            #[allow(unused_variables)]
            fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> { Ok($name { $($field: d.get()?,)* }) }
        })*
    };
}

impl Encode for EntityType {
    fn encode(&self, e: &mut Encoder) {
        e.u8(self.0);
    }
}

impl Decode for EntityType {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(EntityType(d.u8()?))
    }
}

/// The signature of a handshake: HMAC-SHA256 under the session key, all zero without one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature(pub [u8; 32]);

impl Encode for Signature {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
}

impl Decode for Signature {
    const MIN_BYTES: usize = 32;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Signature(d.array()?))
    }
}

/// The bit of `flags` in CLIENT_IDENT and SERVER_IDENT that makes the session lossy (`CEPH_MSG_CONNECT_LOSSY`).
pub const FLAG_LOSSY: u64 = 1;

control! {
    /// Who we are, and how we see the peer.
    Hello(Hello) {
        /// What kind of peer we are.
        kind: EntityType,
        /// The peer's address as we see it.
        peer_addr: EntityAddr,
    }
    /// The connecting side's first step of authentication.
    AuthRequest(AuthRequest) {
        /// The method (`auth::AUTH_CEPHX`).
        method: u32,
        /// Connection modes it would take, favourite first.
        preferred_modes: Vec<u32>,
        /// The method's own.
        payload: Bytes,
    }
    /// The accepting side refuses.
    AuthBadMethod(AuthBadMethod) {
        /// The method that was refused.
        method: u32,
        /// Why: a negative errno.
        result: i32,
        /// Methods that would do.
        allowed_methods: Vec<u32>,
        /// Modes that would do.
        allowed_modes: Vec<u32>,
    }
    /// A further step from the accepting side.
    AuthReplyMore(AuthReplyMore) {
        /// The method's own.
        payload: Bytes,
    }
    /// A further step from the connecting side.
    AuthRequestMore(AuthRequestMore) {
        /// The method's own.
        payload: Bytes,
    }
    /// Authentication is over.
    AuthDone(AuthDone) {
        /// The connecting side's number from the monitor.
        global_id: u64,
        /// The connection mode from the next frame on.
        con_mode: u32,
        /// The method's own.
        payload: Bytes,
    }
    /// Proof that both saw the same handshake.
    AuthSignature(AuthSignature) {
        /// Over all that its sender received up to AUTH_DONE.
        signature: Signature,
    }
    /// The connecting side wants a new session.
    ClientIdent(ClientIdent) {
        /// Its addresses.
        addrs: AddrVec,
        /// The address it wants to reach.
        target_addr: EntityAddr,
        /// The number of its entity name.
        gid: i64,
        /// Counts its connection attempts.
        global_seq: u64,
        /// Features it has.
        supported_features: u64,
        /// Features it needs.
        required_features: u64,
        /// `FLAG_LOSSY`, or not.
        flags: u64,
        /// Names its side of the session; 0 when lossy.
        cookie: u64,
    }
    /// The session exists.
    ServerIdent(ServerIdent) {
        /// The accepting side's addresses.
        addrs: AddrVec,
        /// The number of its entity name.
        gid: i64,
        /// Counts its sessions.
        global_seq: u64,
        /// Features it has.
        supported_features: u64,
        /// Features it needs.
        required_features: u64,
        /// `FLAG_LOSSY`, or not; the accepting side decides.
        flags: u64,
        /// Names its side of the session; 0 when lossy.
        cookie: u64,
    }
    /// The connecting side lacks features.
    IdentMissingFeatures(IdentMissingFeatures) {
        /// Which.
        features: u64,
    }
    /// The connecting side wants its session back.
    SessionReconnect(SessionReconnect) {
        /// Its addresses.
        addrs: AddrVec,
        /// The cookie of whoever sent CLIENT_IDENT.
        client_cookie: u64,
        /// The cookie of whoever sent SERVER_IDENT.
        server_cookie: u64,
        /// Counts its connection attempts.
        global_seq: u64,
        /// Counts the attempts for this session.
        connect_seq: u64,
        /// The last message that it received.
        msg_seq: u64,
    }
    /// There is no such session.
    SessionReset(SessionReset) {
        /// Whether all state is gone; else only the establishment has to be repeated.
        full: bool,
    }
    /// The attempt is older than one already made.
    SessionRetry(SessionRetry) {
        /// The session's last attempt.
        connect_seq: u64,
    }
    /// The attempt is older than another from the same peer.
    SessionRetryGlobal(SessionRetryGlobal) {
        /// The peer's last attempt.
        global_seq: u64,
    }
    /// The session goes on.
    SessionReconnectOk(SessionReconnectOk) {
        /// The last message that the accepting side received.
        msg_seq: u64,
    }
    /// Wait for our connection.
    Wait(Wait) {}
    /// Are you there?
    Keepalive2(Keepalive2) {
        /// The asking side's time.
        at: UTime,
    }
    /// Yes.
    Keepalive2Ack(Keepalive2Ack) {
        /// The question's time.
        at: UTime,
    }
    /// All messages up to here have arrived.
    Ack(Ack) {
        /// The last of them.
        seq: u64,
    }
}
