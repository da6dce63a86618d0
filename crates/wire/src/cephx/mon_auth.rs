//! The monitor's judgement of clients: the msgr2 handshake, and `MAuth` on sessions that stand.
//!
//! Follows Ceph v16.2 `src/mon/Monitor.cc` (`handle_auth_request`) and `src/auth/cephx/CephxServiceHandler.cc`. Owns
//! the key database, the entropy and the memory of challenges that renewals answer again. Who
//! calls at the door of another service has to show a ticket for that one. Refuses authorizers at its own (monitors
//! talk to no monitor here) with EACCES, other methods than cephx with EOPNOTSUPP, and unknown names and wrong keys
//! alike with EACCES.
//!
//! Invariant: a global id that a client claims is its own only with the ticket that goes with it, unless the operator
//! allows insecure reclaim for clients too old to know.

use super::key::CryptoKey;
use super::name::{AuthName, service_from_wire};
use super::protocol::{self, Authenticate, ServerChallenge, ServiceTicketRequest};
use super::server::KeyServer;
use super::tickets::{self, Grant};
use super::verifier::{open_authorizer, verify};
use super::{MODE_MON, connection_secret, envelope, pick_mode};
use crate::auth::{
    AUTH_CEPHX, AuthClient, AuthRequest, AuthServer, Authenticated, ClientDone, ClientExchange, ConMode, Secrets,
    ServerExchange, ServerStep,
};
use crate::codec::{Decoder, Encode, Encoder};
use crate::types::EntityType;
use base::rng::SecretRng;
use base::{Errno, Instant};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// How many sessions' challenges are remembered. The oldest goes first; its client's ticket then cannot be renewed
/// over the standing session, and the client has to open a new one.
const CHALLENGES_MAX: usize = 16_384;

/// The monitor's side of authentication.
#[derive(Debug)]
pub struct MonAuth {
    /// The database.
    pub keys: KeyServer,
    rng: SecretRng,
    modes: Vec<ConMode>,
    challenges: BTreeMap<u64, u64>,
    challenge_order: VecDeque<u64>,
}

/// What a client showed to keep its global id.
struct Verified {
    name: AuthName,
    key: CryptoKey,
    global_id: u64,
    other_keys: u32,
    /// The session key of the ticket it showed: the new one is sealed with it.
    rewrap: Option<CryptoKey>,
}

impl MonAuth {
    /// The judgement over `keys`, offering `modes`.
    pub fn new(keys: KeyServer, modes: Vec<ConMode>, rng: SecretRng) -> MonAuth {
        MonAuth { keys, rng, modes, challenges: BTreeMap::new(), challenge_order: VecDeque::new() }
    }

    /// Makes or replaces rotating secrets that are due; tells whether any changed.
    pub fn rotate(&mut self, now: Instant) -> bool {
        self.keys.rotate(now, &mut self.rng)
    }

    /// A fresh key, for `auth get-or-create` and its like.
    pub fn generate_key(&mut self, now: Instant) -> CryptoKey {
        CryptoKey::generate(now, &mut self.rng)
    }

    /// Answers an `MAuth` from the session of `entity` and `global_id`: the reply's payload. The errno goes into the
    /// reply's result, with an empty payload.
    pub fn message(
        &mut self,
        now: Instant,
        entity: &AuthName,
        global_id: u64,
        payload: &Bytes,
    ) -> Result<Bytes, Errno> {
        let mut d = Decoder::shared(payload);
        match d.u16().map_err(|_| Errno::EPERM)? {
            protocol::GET_AUTH_SESSION_KEY => {
                let challenge = self.challenges.get(&global_id).copied().ok_or(Errno::EACCES)?;
                let verified = self.verify_proof(entity, global_id, true, challenge, &mut d)?;
                self.session_reply(now, &verified, None).map(|(payload, _)| payload)
            }
            protocol::GET_PRINCIPAL_SESSION_KEY => self.more_tickets(now, &mut d),
            protocol::GET_ROTATING_KEY => {
                let sealed = self.keys.rotating_sealed(entity).ok_or(Errno::EACCES)?;
                let mut e = response(protocol::GET_ROTATING_KEY);
                e.blob(&sealed);
                Ok(e.finish())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// The first step: a name and, from one who comes back, the global id it had.
    fn begin(&mut self, exchange: &mut ServerExchange, payload: &Bytes) -> Result<ServerStep, Errno> {
        let mut d = Decoder::shared(payload);
        let mode = d.u8().map_err(|_| Errno::EINVAL)?;
        if !MODE_MON.contains(&mode) {
            return Err(Errno::EACCES);
        }
        let name: AuthName = d.get().map_err(|_| Errno::EINVAL)?;
        let claimed = d.u64().map_err(|_| Errno::EINVAL)?;
        let global_id = match claimed {
            0 => self.keys.assign_global_id().ok_or(Errno::EBUSY)?,
            id => id,
        };
        let challenge = loop {
            match self.rng.u64() {
                0 => {}
                challenge => break challenge,
            }
        };
        exchange.entity = Some(name.to_string());
        exchange.global_id = Some(global_id);
        exchange.reclaims = claimed != 0;
        exchange.challenge = Some(challenge);
        Ok(ServerStep::More(ServerChallenge { challenge }.to_bytes()))
    }

    /// The second step: the proof.
    fn finish(
        &mut self,
        now: Instant,
        exchange: &ServerExchange,
        payload: &Bytes,
        mode: ConMode,
    ) -> Result<ServerStep, Errno> {
        let (Some(name), Some(global_id), Some(challenge)) =
            (exchange.entity.as_deref().and_then(AuthName::parse), exchange.global_id, exchange.challenge)
        else {
            return Err(Errno::EACCES);
        };
        let mut d = Decoder::shared(payload);
        if d.u16().map_err(|_| Errno::EPERM)? != protocol::GET_AUTH_SESSION_KEY {
            return Err(Errno::EACCES);
        }
        let verified = self.verify_proof(&name, global_id, exchange.reclaims, challenge, &mut d)?;
        let caps = self.keys.ticket_caps(&name, EntityType::MON);
        if caps.caps.is_empty() {
            return Err(Errno::EACCES);
        }
        let connection_secret = connection_secret(&mut self.rng, mode);
        let (payload, session_key) = self.session_reply(now, &verified, Some(&connection_secret))?;
        self.remember_challenge(global_id, challenge);
        Ok(ServerStep::Done(Box::new(Authenticated {
            entity: name.to_string(),
            global_id,
            caps,
            con_mode: mode,
            payload,
            secrets: Secrets { session_key: session_key.secret().clone(), connection_secret },
        })))
    }

    fn verify_proof(
        &self,
        name: &AuthName,
        global_id: u64,
        reclaims: bool,
        challenge: u64,
        d: &mut Decoder<'_>,
    ) -> Result<Verified, Errno> {
        let proof: Authenticate = d.get().map_err(|_| Errno::EPERM)?;
        let key = &self.keys.entity(name).ok_or(Errno::EACCES)?.key;
        let expected =
            protocol::challenge_response(key, challenge, proof.client_challenge).map_err(|_| Errno::EACCES)?;
        if proof.key != expected {
            return Err(Errno::EACCES);
        }
        let rewrap = self.verify_old_ticket(&proof, global_id, reclaims)?;
        Ok(Verified { name: name.clone(), key: key.clone(), global_id, other_keys: proof.other_keys, rewrap })
    }

    /// Judges the claim to a global id; gives the session key of the ticket that proves it, if one was needed.
    fn verify_old_ticket(
        &self,
        proof: &Authenticate,
        global_id: u64,
        reclaims: bool,
    ) -> Result<Option<CryptoKey>, Errno> {
        let shown = &proof.old_ticket;
        if !reclaims {
            // A new id needs no ticket, and one who has a ticket has an id.
            return if shown.blob.is_empty() { Ok(None) } else { Err(Errno::EINVAL) };
        }
        let info = self.keys.open_auth_ticket(shown.secret_id, &shown.blob);
        match info.filter(|info| info.ticket.global_id == global_id) {
            Some(info) => Ok(Some(info.session_key)),
            // Versions 1 and 2 come from clients that may leave their ticket out.
            None if proof.version < 3 && self.keys.config().auth_allow_insecure_global_id_reclaim => Ok(None),
            None => Err(Errno::EACCES),
        }
    }

    /// The reply to a good proof: the authentication service's ticket, the connection secret where there is a
    /// connection to make, and the other tickets asked for.
    fn session_reply(
        &mut self,
        now: Instant,
        client: &Verified,
        connection_secret: Option<&Bytes>,
    ) -> Result<(Bytes, CryptoKey), Errno> {
        let grant = self
            .keys
            .grant(now, &mut self.rng, &client.name, client.global_id, EntityType::AUTH)
            .map_err(|_| Errno::EIO)?;
        let session_key = grant.info.session_key.clone();
        let mut e = response(protocol::GET_AUTH_SESSION_KEY);
        tickets::put_reply(&mut e, &client.key, client.rewrap.as_ref(), &[grant]);
        if client.other_keys != 0 {
            let mut sealed = Encoder::new();
            if let Some(secret) = connection_secret {
                envelope::put_sealed(&mut sealed, &session_key, secret);
            }
            e.blob(sealed.as_slice());
            let (grants, _) = self.grants(now, &client.name, client.global_id, client.other_keys);
            let mut extra = Encoder::new();
            if !grants.is_empty() {
                tickets::put_reply(&mut extra, &session_key, None, &grants);
            }
            e.blob(extra.as_slice());
        }
        Ok((e.finish(), session_key))
    }

    /// More tickets for one who shows the authentication service's. No challenge here, as with Ceph: what a replay
    /// would bring is sealed for the ticket's rightful holder.
    fn more_tickets(&mut self, now: Instant, d: &mut Decoder<'_>) -> Result<Bytes, Errno> {
        let keys = &self.keys;
        let (info, _) = open_authorizer(d, |service, id| {
            let auth = service == u32::from(EntityType::AUTH.0);
            auth.then(|| keys.rotating(EntityType::AUTH)?.key(id).cloned()).flatten()
        })
        .ok_or(Errno::EACCES)?;
        let request: ServiceTicketRequest = d.get().map_err(|_| Errno::EPERM)?;
        let (grants, failed) = self.grants(now, &info.ticket.name, info.ticket.global_id, request.keys);
        if let (true, Some(errno)) = (grants.is_empty(), failed) {
            return Err(errno);
        }
        let mut e = response(protocol::GET_PRINCIPAL_SESSION_KEY);
        tickets::put_reply(&mut e, &info.session_key, None, &grants);
        Ok(e.finish())
    }

    /// Tickets for each service in `wanted` that has secrets, and the last reason why one has none. The
    /// authentication service's own is never among them: it takes a proof.
    fn grants(&mut self, now: Instant, name: &AuthName, global_id: u64, wanted: u32) -> (Vec<Grant>, Option<Errno>) {
        let (mut grants, mut failed) = (Vec::new(), None);
        for bit in (0..32).map(|i| 1_u32 << i).filter(|bit| wanted & bit != 0) {
            let granted = match service_from_wire(bit) {
                Some(EntityType::AUTH) => continue,
                Some(service) => self.keys.grant(now, &mut self.rng, name, global_id, service),
                None => Err(Errno::EPERM),
            };
            match granted {
                Ok(grant) => grants.push(grant),
                Err(errno) => failed = Some(errno),
            }
        }
        (grants, failed)
    }

    fn remember_challenge(&mut self, global_id: u64, challenge: u64) {
        if self.challenges.insert(global_id, challenge).is_none() {
            self.challenge_order.push_back(global_id);
        }
        while self.challenge_order.len() > CHALLENGES_MAX {
            if let Some(oldest) = self.challenge_order.pop_front() {
                self.challenges.remove(&oldest);
            }
        }
    }
}

fn response(kind: u16) -> Encoder {
    let mut e = Encoder::new();
    e.u16(kind);
    e.i32(0);
    e
}

impl AuthServer for MonAuth {
    fn step(&mut self, now: Instant, _: EntityType, exchange: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        let mode = pick_mode(&exchange.preferred_modes, &self.modes).filter(|_| exchange.method == AUTH_CEPHX);
        let Some(mode) = mode else {
            return ServerStep::Refused(Errno::EOPNOTSUPP);
        };
        if let Some(service) = exchange.called {
            let Some(secrets) = self.keys.rotating(service) else { return ServerStep::Refused(Errno::EACCES) };
            return verify(&mut self.rng, exchange, payload, mode, (service, secrets));
        }
        let step = match exchange.challenge {
            None => self.begin(exchange, payload),
            Some(_) => self.finish(now, exchange, payload, mode),
        };
        step.unwrap_or_else(ServerStep::Refused)
    }

    fn methods(&self) -> Vec<u32> {
        vec![AUTH_CEPHX]
    }

    fn modes(&self, _: EntityType) -> Vec<ConMode> {
        self.modes.clone()
    }
}

/// The monitor opens no sessions: each of these is EOPNOTSUPP.
impl AuthClient for MonAuth {
    fn request(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn more(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange, _: &Bytes) -> Result<Bytes, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn done(
        &mut self,
        _: Instant,
        _: EntityType,
        _: &mut ClientExchange,
        _: u64,
        _: ConMode,
        _: &Bytes,
    ) -> Result<ClientDone, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}
