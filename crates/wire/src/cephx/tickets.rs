//! A client's purse of tickets: what the monitor gave it, and the authorizers made from them.
//!
//! Follows Ceph v16.2 `src/auth/cephx/CephxProtocol.cc` (`CephXTicketManager`). Owns when a ticket is due for renewal
//! (a quarter of its validity before it ends) and the two halves of a ticket reply: reading it, and (for the monitor)
//! writing it. Read next: `client`, which talks to the monitor with it.

use super::envelope;
use super::key::CryptoKey;
use super::name::service_from_wire;
use super::protocol::{
    Authorize, AuthorizeReply, AuthorizerHead, ServerChallenge, ServiceTicket, ServiceTicketInfo, TicketBlob,
};
use crate::auth::AuthorizerState;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::{EntityType, UTime};
use base::rng::SecretRng;
use base::{Errno, Instant};
use bytes::Bytes;
use std::collections::BTreeMap;

/// One ticket and its holder's side.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    session_key: CryptoKey,
    blob: TicketBlob,
    renew_after: Instant,
    expires: Instant,
}

/// The tickets of one client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tickets {
    /// The client's number; 0 before the monitor gave one.
    pub global_id: u64,
    held: BTreeMap<EntityType, Held>,
}

impl Tickets {
    /// Reads a monitor's ticket reply whose holder's sides are sealed with `principal`. A ticket that the monitor
    /// sealed once more is opened with the session key of the ticket it replaces.
    pub fn accept(&mut self, now: Instant, principal: &CryptoKey, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        d.u8()?;
        // service, version, length of the sealed half, flag, length of the blob
        let count = d.len(14)?;
        for _ in 0..count {
            let service = service_from_wire(d.u32()?).ok_or(Malformed::new("ticket reply", "names no service"))?;
            d.u8()?;
            let ours: ServiceTicket = envelope::get_sealed(d, principal)?;
            let encoded: Bytes = if d.bool()? {
                let old = self.held.get(&service).ok_or(Malformed::new("ticket reply", "is sealed for nobody"))?;
                envelope::get_sealed(d, &old.session_key)?
            } else {
                d.blob()?
            };
            let blob = TicketBlob::decode(&mut Decoder::shared(&encoded))?;
            // Copied: the reply it came in would live as long as the ticket.
            let blob = TicketBlob { blob: Bytes::copy_from_slice(&blob.blob), ..blob };
            let validity = Instant::from(ours.validity).since(Instant::ZERO);
            let expires = now + validity;
            let renew_after = expires - base::Duration::from_secs(validity.as_secs()) / 4;
            self.held.insert(service, Held { session_key: ours.session_key, blob, renew_after, expires });
        }
        Ok(())
    }

    /// Whether there is a ticket for `service` that has not ended.
    pub fn has(&self, now: Instant, service: EntityType) -> bool {
        self.held.get(&service).is_some_and(|t| now < t.expires)
    }

    /// Which of the services in `want` (a bit each) have no ticket or one due for renewal.
    pub fn due(&self, now: Instant, want: u32) -> u32 {
        let bits = (0..32).map(|i| 1_u32 << i).filter(|bit| want & bit != 0);
        bits.filter(|&bit| {
            let held = service_from_wire(bit).and_then(|s| self.held.get(&s));
            held.is_none_or(|t| now >= t.renew_after)
        })
        .sum()
    }

    /// When the first of the services in `want` has no ticket (the epoch) or one that is due for renewal.
    pub fn next_renewal(&self, want: u32) -> Option<Instant> {
        let bits = (0..8).map(|i| 1_u8 << i).filter(|&bit| want & u32::from(bit) != 0);
        bits.map(|bit| self.held.get(&EntityType(bit)).map_or(Instant::ZERO, |t| t.renew_after)).min()
    }

    /// What we share with `service`.
    pub fn session_key(&self, service: EntityType) -> Option<&CryptoKey> {
        self.held.get(&service).map(|t| &t.session_key)
    }

    /// The opaque ticket for `service`; an empty one where there is none.
    pub fn blob(&self, service: EntityType) -> TicketBlob {
        self.held.get(&service).map(|t| t.blob.clone()).unwrap_or_default()
    }

    /// Forgets the ticket for `service`: it was refused.
    pub fn forget(&mut self, service: EntityType) {
        self.held.remove(&service);
    }

    /// A fresh authorizer for `service`; none without a ticket.
    pub fn authorizer(&self, rng: &mut SecretRng, service: EntityType) -> Option<AuthorizerState> {
        let held = self.held.get(&service)?;
        let head =
            AuthorizerHead { global_id: self.global_id, service: u32::from(service.0), ticket: held.blob.clone() };
        Some(AuthorizerState { head, nonce: rng.u64(), session_key: held.session_key.clone(), challenged: false })
    }
}

impl AuthorizerState {
    /// The authorizer as it travels, before there is a challenge.
    pub fn payload(&self) -> Bytes {
        self.encode(None)
    }

    /// The authorizer that answers a service's challenge. EACCES where the challenge is not one, or a second one.
    pub fn answer(&mut self, sealed_challenge: &[u8]) -> Result<Bytes, Errno> {
        if self.challenged {
            return Err(Errno::EACCES);
        }
        let challenge: ServerChallenge =
            envelope::open(&self.session_key, sealed_challenge).map_err(|_| Errno::EACCES)?;
        self.challenged = true;
        Ok(self.encode(Some(challenge.challenge.wrapping_add(1))))
    }

    fn encode(&self, challenge_plus_one: Option<u64>) -> Bytes {
        let mut e = Encoder::new();
        e.put(&self.head);
        envelope::put_sealed(&mut e, &self.session_key, &Authorize { nonce: self.nonce, challenge_plus_one });
        e.finish()
    }

    /// Checks the service's proof; gives the connection secret. EACCES where it proves nothing.
    pub fn verify_reply(&self, payload: &Bytes) -> Result<Bytes, Errno> {
        let reply: AuthorizeReply =
            envelope::get_sealed(&mut Decoder::shared(payload), &self.session_key).map_err(|_| Errno::EACCES)?;
        if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
            return Err(Errno::EACCES);
        }
        Ok(reply.connection_secret)
    }
}

/// A ticket about to be given out, as the monitor makes it.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The service it is for.
    pub service: EntityType,
    /// Which of the service's secrets seals it.
    pub secret_id: u64,
    /// That secret.
    pub secret: CryptoKey,
    /// What goes inside.
    pub info: ServiceTicketInfo,
    /// How long it may be used.
    pub validity: UTime,
}

/// Appends a ticket reply: the holder's sides sealed with `principal`, and each ticket once more with `rewrap`, the
/// session key of the ticket that a returning client showed (v16.2 `cephx_build_service_ticket_reply`).
pub fn put_reply(e: &mut Encoder, principal: &CryptoKey, rewrap: Option<&CryptoKey>, grants: &[Grant]) {
    e.u8(1);
    e.len(grants.len());
    for grant in grants {
        e.u32(u32::from(grant.service.0));
        e.u8(1);
        let ours = ServiceTicket { session_key: grant.info.session_key.clone(), validity: grant.validity };
        envelope::put_sealed(e, principal, &ours);
        let blob = TicketBlob { secret_id: grant.secret_id, blob: envelope::seal(&grant.secret, &grant.info).into() };
        let encoded = blob.to_bytes();
        e.bool(rewrap.is_some());
        match rewrap {
            Some(key) => envelope::put_sealed(e, key, &encoded),
            None => e.blob(&encoded),
        }
    }
}
