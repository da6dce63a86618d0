//! The client's side of every cephx exchange: with the monitor, in the handshake and over `MAuth`, and with daemons.
//!
//! Follows Ceph v16.2 `src/auth/cephx/CephxClientHandler.cc`. Owns its name, its key and its tickets; implements
//! `AuthClient`. A client without a key can still be asked for nothing but errors: ENOENT, as Ceph's keyring look-up
//! gives. Read next: crate `monclient`, which decides when to ask.

use super::envelope;
use super::key::CryptoKey;
use super::modes::ClientModes;
use super::name::AuthName;
use super::protocol::{self, Authenticate, ServerChallenge, ServiceTicketRequest};
use super::secrets::RotatingSecrets;
use super::tickets::Tickets;
use super::{CONNECTION_SECRET_BYTES, MODE_MON};
use crate::auth::{AUTH_CEPHX, AuthClient, AuthRequest, ClientDone, ClientExchange, ClientState, ConMode, Secrets};
use crate::codec::{Decode, Decoder, Encoder};
use crate::types::EntityType;
use base::rng::SecretRng;
use base::{Errno, Instant};
use bytes::Bytes;

/// One entity as a client.
#[derive(Debug)]
pub struct CephxClient {
    name: AuthName,
    key: Option<CryptoKey>,
    want: u32,
    modes: ClientModes,
    rng: SecretRng,
    tickets: Tickets,
    /// The challenge of the last handshake with a monitor: renewals over the session answer it again.
    server_challenge: Option<u64>,
}

/// What a reply over `MAuth` brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// New tickets; they are in the purse.
    Tickets,
    /// The rotating secrets of our kind of daemon.
    Rotating(RotatingSecrets),
}

impl CephxClient {
    /// The client `name` that will hold tickets for the services in `want` (a bit each).
    pub fn new(name: AuthName, key: Option<CryptoKey>, want: u32, modes: ClientModes, rng: SecretRng) -> CephxClient {
        let want = want | u32::from(EntityType::AUTH.0);
        CephxClient { name, key, want, modes, rng, tickets: Tickets::default(), server_challenge: None }
    }

    /// Asks for these modes from now on.
    pub fn set_modes(&mut self, modes: ClientModes) {
        self.modes = modes;
    }

    /// Who we are.
    pub fn name(&self) -> &AuthName {
        &self.name
    }

    /// Our tickets.
    pub fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// Our number; 0 before a monitor gave one.
    pub fn global_id(&self) -> u64 {
        self.tickets.global_id
    }

    /// Gives up our number and the tickets bound to it: the monitor would not let us keep it.
    pub fn forget_identity(&mut self) {
        self.tickets = Tickets::default();
        self.server_challenge = None;
    }

    /// Gives up the ticket for `service`, which refused it.
    pub fn forget_ticket(&mut self, service: EntityType) {
        self.tickets.forget(service);
    }

    /// When tickets should next be renewed over the session; none before the first handshake.
    pub fn next_renewal(&self) -> Option<Instant> {
        self.server_challenge.and_then(|_| self.tickets.next_renewal(self.want))
    }

    /// The `MAuth` payload that renews what is due, if anything is and a handshake has happened.
    pub fn renewal(&mut self, now: Instant) -> Result<Option<Bytes>, Errno> {
        let due = self.tickets.due(now, self.want);
        let Some(server_challenge) = self.server_challenge.filter(|_| due != 0) else { return Ok(None) };
        if due & u32::from(EntityType::AUTH.0) != 0 {
            // A new ticket of the authentication service brings all others along.
            return self.authenticate(server_challenge, self.want).map(Some);
        }
        let authorizer = self.tickets.authorizer(&mut self.rng, EntityType::AUTH).ok_or(Errno::EINVAL)?;
        let mut e = Encoder::new();
        e.u16(protocol::GET_PRINCIPAL_SESSION_KEY);
        e.raw(&authorizer.payload());
        e.put(&ServiceTicketRequest { keys: due });
        Ok(Some(e.finish()))
    }

    /// The `MAuth` payload that asks for the rotating secrets of our kind of daemon.
    pub fn rotating_request() -> Bytes {
        Bytes::copy_from_slice(&protocol::GET_ROTATING_KEY.to_le_bytes())
    }

    /// Takes the payload of a successful `MAuthReply`. EPERM where it is not sealed with what we hold, EINVAL where
    /// it answers nothing we ask.
    pub fn reply(&mut self, now: Instant, payload: &Bytes) -> Result<Reply, Errno> {
        let mut d = Decoder::shared(payload);
        let kind = d.u16().map_err(|_| Errno::EINVAL)?;
        let status = d.i32().map_err(|_| Errno::EINVAL)?;
        if status < 0 {
            return Err(Errno(status.saturating_neg()));
        }
        match kind {
            protocol::GET_AUTH_SESSION_KEY => self.session_reply(now, &mut d).map(|_| Reply::Tickets),
            protocol::GET_PRINCIPAL_SESSION_KEY => {
                let key = self.tickets.session_key(EntityType::AUTH).cloned().ok_or(Errno::EPERM)?;
                self.tickets.accept(now, &key, &mut d).map_err(|_| Errno::EPERM)?;
                Ok(Reply::Tickets)
            }
            protocol::GET_ROTATING_KEY => {
                let key = self.key.as_ref().ok_or(Errno::ENOENT)?;
                envelope::get_sealed(&mut d, key).map(Reply::Rotating).map_err(|_| Errno::EPERM)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn authenticate(&mut self, server_challenge: u64, other_keys: u32) -> Result<Bytes, Errno> {
        let secret = self.key.as_ref().ok_or(Errno::ENOENT)?;
        let client_challenge = self.rng.u64();
        let key = protocol::challenge_response(secret, server_challenge, client_challenge)?;
        let old_ticket = self.tickets.blob(EntityType::AUTH);
        let mut e = Encoder::new();
        e.u16(protocol::GET_AUTH_SESSION_KEY);
        e.put(&Authenticate { version: Authenticate::VERSION, client_challenge, key, old_ticket, other_keys });
        Ok(e.finish())
    }

    /// Reads what follows the header of a session-key reply; gives the session key and the connection secret.
    fn session_reply(&mut self, now: Instant, d: &mut Decoder<'_>) -> Result<Secrets, Errno> {
        let secret = self.key.clone().ok_or(Errno::ENOENT)?;
        self.tickets.accept(now, &secret, d).map_err(|_| Errno::EPERM)?;
        let key = self.tickets.session_key(EntityType::AUTH).cloned().ok_or(Errno::EPERM)?;
        let mut connection_secret = Bytes::new();
        if d.remaining() > 0 {
            let sealed = d.blob().map_err(|_| Errno::EPERM)?;
            let extra = d.blob().map_err(|_| Errno::EPERM)?;
            if !sealed.is_empty() {
                connection_secret =
                    envelope::get_sealed(&mut Decoder::shared(&sealed), &key).map_err(|_| Errno::EPERM)?;
            }
            if !extra.is_empty() {
                self.tickets.accept(now, &key, &mut Decoder::shared(&extra)).map_err(|_| Errno::EPERM)?;
            }
        }
        Ok(Secrets { session_key: key.secret().clone(), connection_secret })
    }

    fn done_with_monitor(&mut self, now: Instant, global_id: u64, payload: &Bytes) -> Result<Secrets, Errno> {
        if global_id == 0 {
            return Err(Errno::EINVAL);
        }
        let mut d = Decoder::shared(payload);
        let kind = d.u16().map_err(|_| Errno::EINVAL)?;
        let status = d.i32().map_err(|_| Errno::EINVAL)?;
        if kind != protocol::GET_AUTH_SESSION_KEY || status != 0 {
            return Err(Errno::EINVAL);
        }
        if self.tickets.global_id != global_id && self.tickets.global_id != 0 {
            // Another number than we claimed: what we hold belongs to the old one.
            self.forget_identity();
        }
        self.tickets.global_id = global_id;
        self.session_reply(now, &mut d)
    }
}

impl AuthClient for CephxClient {
    fn request(&mut self, _: Instant, kind: EntityType, exchange: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        exchange.method = AUTH_CEPHX;
        let (payload, modes) = if kind == EntityType::MON {
            if self.key.is_none() {
                return Err(Errno::ENOENT);
            }
            let mut e = Encoder::new();
            e.u8(*MODE_MON.start());
            e.put(&self.name);
            e.u64(self.tickets.global_id);
            exchange.state = ClientState::MonitorAsked;
            (e.finish(), &self.modes.monitor)
        } else {
            let authorizer = self.tickets.authorizer(&mut self.rng, kind).ok_or(Errno::EACCES)?;
            let payload = authorizer.payload();
            exchange.state = ClientState::Authorizer(Box::new(authorizer));
            (payload, &self.modes.service)
        };
        let preferred_modes = modes.iter().map(|&m| m as u32).collect();
        Ok(AuthRequest { method: AUTH_CEPHX, preferred_modes, payload })
    }

    fn more(
        &mut self,
        _: Instant,
        _: EntityType,
        exchange: &mut ClientExchange,
        payload: &Bytes,
    ) -> Result<Bytes, Errno> {
        match &mut exchange.state {
            ClientState::MonitorAsked => {
                let challenge = ServerChallenge::from_bytes(payload).map_err(|_| Errno::EINVAL)?.challenge;
                let answer = self.authenticate(challenge, self.want)?;
                exchange.state = ClientState::MonitorAnswered { server_challenge: challenge };
                Ok(answer)
            }
            ClientState::Authorizer(authorizer) => authorizer.answer(payload),
            ClientState::New | ClientState::MonitorAnswered { .. } => Err(Errno::EINVAL),
        }
    }

    fn done(
        &mut self,
        now: Instant,
        _: EntityType,
        exchange: &mut ClientExchange,
        global_id: u64,
        con_mode: ConMode,
        payload: &Bytes,
    ) -> Result<ClientDone, Errno> {
        let secrets = match &exchange.state {
            ClientState::MonitorAnswered { server_challenge } => {
                let server_challenge = *server_challenge;
                let secrets = self.done_with_monitor(now, global_id, payload)?;
                self.server_challenge = Some(server_challenge);
                secrets
            }
            ClientState::Authorizer(authorizer) => Secrets {
                connection_secret: authorizer.verify_reply(payload)?,
                session_key: authorizer.session_key.secret().clone(),
            },
            ClientState::New | ClientState::MonitorAsked => return Err(Errno::EINVAL),
        };
        if con_mode == ConMode::Secure && secrets.connection_secret.len() != CONNECTION_SECRET_BYTES {
            return Err(Errno::EACCES);
        }
        Ok(ClientDone { global_id, secrets })
    }
}
