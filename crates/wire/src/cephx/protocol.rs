//! The structures of the cephx exchange, as they travel.
//!
//! Follows Ceph v16.2 `src/auth/cephx/CephxProtocol.h` and `src/auth/Auth.h`: each has a version byte and then its
//! fields; only new fields at the end distinguish versions. Owns field order and the proof-of-key formula; decides
//! nothing. Read next: `server` (who answers them), `tickets` (who asks).

use super::envelope;
use super::key::CryptoKey;
use super::name::AuthName;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::net::TicketCaps;
use crate::types::UTime;
use base::Errno;
use bytes::Bytes;

/// Prove the key, get the ticket of the authentication service and others (`CEPHX_GET_AUTH_SESSION_KEY`).
pub const GET_AUTH_SESSION_KEY: u16 = 0x0100;
/// Get tickets by showing the authentication service's (`CEPHX_GET_PRINCIPAL_SESSION_KEY`).
pub const GET_PRINCIPAL_SESSION_KEY: u16 = 0x0200;
/// Get the rotating secrets of one's own kind of daemon (`CEPHX_GET_ROTATING_KEY`).
pub const GET_ROTATING_KEY: u16 = 0x0400;

/// What Ceph writes where entities once had a number of their owner (`CEPH_AUTH_UID_DEFAULT`).
const AUID_NONE: u64 = u64::MAX;

macro_rules! plain {
    ($(#[$doc:meta])* $name:ident v $version:literal { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }

        impl Encode for $name {
            fn encode(&self, e: &mut Encoder) {
                e.u8($version);
                $(e.put(&self.$field);)*
            }
        }

        impl Decode for $name {
            fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
                d.u8()?;
                Ok($name { $($field: d.get()?,)* })
            }
        }
    };
}

plain! {
    /// The monitor's first answer (`CephXServerChallenge`), and, sealed, a daemon's (`CephXAuthorizeChallenge`).
    ServerChallenge v 1 {
        /// A fresh random number, never 0 from a monitor.
        challenge: u64,
    }
}

plain! {
    /// A ticket as its holder keeps it: opaque (`CephXTicketBlob`).
    TicketBlob v 1 {
        /// Which of the service's rotating secrets it is sealed with.
        secret_id: u64,
        /// A sealed `ServiceTicketInfo`; empty where there is no ticket.
        blob: Bytes,
    }
}

plain! {
    /// The holder's side of a ticket (`CephXServiceTicket`), sealed with a key that the holder has.
    ServiceTicket v 1 {
        /// What holder and service share.
        session_key: CryptoKey,
        /// How long it may be used, from its arrival.
        validity: UTime,
    }
}

plain! {
    /// The service's side of a ticket (`CephXServiceTicketInfo`), sealed with the service's rotating secret.
    ServiceTicketInfo v 1 {
        /// Who holds it and what it allows.
        ticket: AuthTicket,
        /// What holder and service share.
        session_key: CryptoKey,
    }
}

plain! {
    /// Which services' tickets are wanted, a bit each (`CephXServiceTicketRequest`).
    ServiceTicketRequest v 1 {
        /// `EntityType` bits.
        keys: u32,
    }
}

/// The proof of the client's key (`CephXAuthenticate`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Authenticate {
    /// The encoding's version: 3 from those who always show their old ticket when they come back.
    pub version: u8,
    /// The client's fresh number.
    pub client_challenge: u64,
    /// The proof: `challenge_response` of both numbers.
    pub key: u64,
    /// The authentication service's ticket from an earlier session, to keep its global id.
    pub old_ticket: TicketBlob,
    /// Which services' tickets to send along, a bit each.
    pub other_keys: u32,
}

impl Authenticate {
    /// The version we send.
    pub const VERSION: u8 = 3;
}

impl Encode for Authenticate {
    fn encode(&self, e: &mut Encoder) {
        e.u8(self.version);
        e.u64(self.client_challenge);
        e.u64(self.key);
        e.put(&self.old_ticket);
        if self.version >= 2 {
            e.u32(self.other_keys);
        }
    }
}

impl Decode for Authenticate {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let version = d.u8()?;
        Ok(Authenticate {
            version,
            client_challenge: d.u64()?,
            key: d.u64()?,
            old_ticket: d.get()?,
            other_keys: if version >= 2 { d.u32()? } else { 0 },
        })
    }
}

/// Both numbers under the client's key, folded to one word: the xor of the little-endian words of the sealed blob,
/// its length prefix included (`cephx_calc_client_server_challenge`).
pub fn challenge_response(key: &CryptoKey, server_challenge: u64, client_challenge: u64) -> Result<u64, Errno> {
    if key.cipher().is_none() {
        return Err(Errno::EINVAL);
    }
    let mut e = Encoder::new();
    envelope::put_sealed(&mut e, key, &(server_challenge, client_challenge));
    let words = e.as_slice().chunks_exact(8);
    Ok(words.map(|w| u64::from_le_bytes(w.try_into().expect("chunks of 8"))).fold(0, |fold, word| fold ^ word))
}

/// Who holds a ticket and what it allows (`AuthTicket`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthTicket {
    /// The holder.
    pub name: AuthName,
    /// The holder's number.
    pub global_id: u64,
    /// When it was made.
    pub created: UTime,
    /// When it ends.
    pub expires: UTime,
    /// What the service lets the holder do.
    pub caps: TicketCaps,
    /// Unused.
    pub flags: u32,
}

impl Default for AuthTicket {
    fn default() -> AuthTicket {
        AuthTicket {
            name: AuthName::new(crate::types::EntityType::CLIENT, ""),
            global_id: 0,
            created: UTime::default(),
            expires: UTime::default(),
            caps: TicketCaps::default(),
            flags: 0,
        }
    }
}

impl Encode for AuthTicket {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        e.put(&self.name);
        e.u64(self.global_id);
        e.u64(AUID_NONE);
        e.put(&self.created);
        e.put(&self.expires);
        // AuthCapsInfo
        e.u8(1);
        e.bool(self.caps.allow_all);
        e.blob(&self.caps.caps);
        e.u32(self.flags);
    }
}

impl Decode for AuthTicket {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let version = d.u8()?;
        let (name, global_id) = (d.get()?, d.u64()?);
        if version >= 2 {
            d.u64()?;
        }
        let (created, expires) = (d.get()?, d.get()?);
        d.u8()?;
        let caps = TicketCaps { allow_all: d.bool()?, caps: d.blob()? };
        Ok(AuthTicket { name, global_id, created, expires, caps, flags: d.u32()? })
    }
}

/// What makes an authorizer fresh (`CephXAuthorize`), sealed with the session key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Authorize {
    /// The holder's fresh number.
    pub nonce: u64,
    /// The service's challenge plus one, once it has been heard.
    pub challenge_plus_one: Option<u64>,
}

impl Encode for Authorize {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        e.u64(self.nonce);
        e.bool(self.challenge_plus_one.is_some());
        e.u64(self.challenge_plus_one.unwrap_or(0));
    }
}

impl Decode for Authorize {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let version = d.u8()?;
        let nonce = d.u64()?;
        let challenge_plus_one = if version >= 2 {
            let (have, challenge) = (d.bool()?, d.u64()?);
            have.then_some(challenge)
        } else {
            None
        };
        Ok(Authorize { nonce, challenge_plus_one })
    }
}

/// The service's proof that it could open the ticket (`CephXAuthorizeReply`), sealed with the session key.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct AuthorizeReply {
    /// The holder's number plus one.
    pub nonce_plus_one: u64,
    /// The secret of this connection; empty in crc mode.
    pub connection_secret: Bytes,
}

impl Encode for AuthorizeReply {
    fn encode(&self, e: &mut Encoder) {
        e.u8(if self.connection_secret.is_empty() { 1 } else { 2 });
        e.u64(self.nonce_plus_one);
        if !self.connection_secret.is_empty() {
            e.blob(&self.connection_secret);
        }
    }
}

impl Decode for AuthorizeReply {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let version = d.u8()?;
        let nonce_plus_one = d.u64()?;
        let connection_secret = if version >= 2 { d.blob()? } else { Bytes::new() };
        Ok(AuthorizeReply { nonce_plus_one, connection_secret })
    }
}

/// An authorizer up to its sealed `Authorize`: what stays the same when the challenge is answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuthorizerHead {
    /// The holder's number.
    pub global_id: u64,
    /// The service it is for.
    pub service: u32,
    /// The ticket.
    pub ticket: TicketBlob,
}

impl Encode for AuthorizerHead {
    fn encode(&self, e: &mut Encoder) {
        e.u8(*super::MODE_AUTHORIZER.start());
        e.u64(self.global_id);
        e.u32(self.service);
        e.put(&self.ticket);
    }
}

impl Decode for AuthorizerHead {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if !super::MODE_AUTHORIZER.contains(&d.u8()?) {
            return Err(Malformed::new("authorizer", "has an unknown mode"));
        }
        Ok(AuthorizerHead { global_id: d.u64()?, service: d.u32()?, ticket: d.get()? })
    }
}
