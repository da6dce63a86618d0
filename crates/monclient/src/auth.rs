//! Proving ourselves, and verifying those who come to us: the part of the monitor client that holds keys.
//!
//! Owns the tickets, the rotating secrets and when each is due for renewal over the session. Invariant: one `MAuth` is
//! under way at a time, so that an answer without a number belongs to the question asked.

use crate::limits::{RENEWAL_RETRY, RENEWAL_TIMEOUT, ROTATING_GRACE};
use base::rng::SecretRng;
use base::{Duration, Errno, Instant};
use bytes::Bytes;
use wire::auth::{
    AUTH_CEPHX, AuthClient, AuthRequest, AuthServer, ClientDone, ClientExchange, ConMode, ServerExchange, ServerStep,
};
use wire::cephx::client::Reply;
use wire::cephx::{CephxClient, ClientModes, ServerModes, ServiceVerifier};
use wire::messages;
use wire::types::EntityType;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Question {
    Tickets,
    Rotating,
}

#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) client: CephxClient,
    /// For service daemons.
    verifier: Option<ServiceVerifier>,
    rng: SecretRng,
    asked: Option<(Question, Instant)>,
    not_before: Instant,
}

/// What came of an `MAuthReply`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Tickets are in the purse, or nothing was asked.
    Nothing,
    /// New rotating secrets are in use.
    Rotating,
    /// Tickets could not be renewed: a new handshake has to bring them.
    NeedsHandshake,
}

impl Credentials {
    pub(crate) fn new(client: CephxClient, modes: ServerModes, can_ask: bool, rng: SecretRng) -> Credentials {
        let name = client.name();
        let verifier = (can_ask && name.needs_rotating_keys()).then(|| ServiceVerifier::new(name.kind, modes));
        Credentials { client, verifier, rng, asked: None, not_before: Instant::ZERO }
    }

    /// Asks for and offers these modes from now on; connections that stand keep theirs.
    pub(crate) fn set_modes(&mut self, asked: ClientModes, offered: ServerModes) {
        self.client.set_modes(asked);
        if let Some(verifier) = &mut self.verifier {
            verifier.set_modes(offered);
        }
    }

    /// Whether authorizers can be verified; true for those whom nobody shows any.
    pub(crate) fn can_verify(&self) -> bool {
        self.verifier.as_ref().is_none_or(|v| !v.secrets().is_empty())
    }

    /// A new session: what was asked on the last one will not be answered.
    pub(crate) fn new_session(&mut self) {
        self.asked = None;
        self.not_before = Instant::ZERO;
    }

    /// When rotating secrets have to be fetched.
    fn rotating_due(&self) -> Option<Instant> {
        let secrets = self.verifier.as_ref()?.secrets();
        Some(secrets.current_expires().map_or(Instant::ZERO, |end| end + ROTATING_GRACE))
    }

    /// When `question` should be called next, on a session that stands.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        if let Some((_, at)) = self.asked {
            return Some(at + RENEWAL_TIMEOUT);
        }
        let due = [self.rotating_due(), self.client.next_renewal()].into_iter().flatten().min()?;
        Some(due.max(self.not_before))
    }

    /// Whether the monitor took too long to answer.
    pub(crate) fn overdue(&self, now: Instant) -> bool {
        self.asked.is_some_and(|(_, at)| at + RENEWAL_TIMEOUT <= now)
    }

    /// What to ask the monitor now, if anything is due.
    pub(crate) fn question(&mut self, now: Instant) -> Option<messages::Auth> {
        if self.asked.is_some() || now < self.not_before {
            return None;
        }
        let (question, payload) = if self.rotating_due().is_some_and(|due| due <= now) {
            (Question::Rotating, CephxClient::rotating_request())
        } else {
            match self.client.renewal(now) {
                Ok(Some(payload)) => (Question::Tickets, payload),
                Ok(None) => return None,
                Err(_) => {
                    self.not_before = now + RENEWAL_RETRY;
                    return None;
                }
            }
        };
        self.asked = Some((question, now));
        Some(messages::Auth { protocol: AUTH_CEPHX, payload, ..messages::Auth::default() })
    }

    /// Takes the monitor's answer.
    pub(crate) fn answer(&mut self, now: Instant, reply: &messages::AuthReply) -> Answer {
        let Some((question, _)) = self.asked.take() else { return Answer::Nothing };
        let result = match reply.result {
            0.. => self.client.reply(now, &reply.payload),
            errno => Err(Errno(errno.saturating_neg())),
        };
        match (question, result) {
            (Question::Tickets, Ok(Reply::Tickets)) => {
                // A service that the monitor has no ticket for must not make us ask without pause.
                let lacking = self.client.next_renewal().is_some_and(|at| at <= now);
                self.not_before = now + if lacking { RENEWAL_TIMEOUT } else { Duration::from_secs(1) };
                Answer::Nothing
            }
            (Question::Rotating, Ok(Reply::Rotating(secrets))) => {
                self.not_before = if secrets.current_expires().is_none_or(|end| end + ROTATING_GRACE <= now) {
                    now + RENEWAL_RETRY
                } else {
                    now
                };
                let verifier = self.verifier.as_mut().expect("only those with a verifier ask");
                verifier.set_secrets(secrets);
                Answer::Rotating
            }
            (Question::Rotating, _) => {
                self.not_before = now + RENEWAL_RETRY;
                Answer::Nothing
            }
            (Question::Tickets, _) => {
                self.not_before = now + RENEWAL_RETRY;
                Answer::NeedsHandshake
            }
        }
    }
}

impl AuthServer for Credentials {
    fn step(
        &mut self,
        _: Instant,
        peer_kind: EntityType,
        exchange: &mut ServerExchange,
        payload: &Bytes,
    ) -> ServerStep {
        match &self.verifier {
            Some(verifier) => verifier.step(&mut self.rng, peer_kind, exchange, payload),
            None => ServerStep::Refused(Errno::EOPNOTSUPP),
        }
    }

    fn methods(&self) -> Vec<u32> {
        vec![AUTH_CEPHX]
    }

    fn modes(&self, peer_kind: EntityType) -> Vec<ConMode> {
        self.verifier.as_ref().map(|v| v.modes(peer_kind).to_vec()).unwrap_or_default()
    }
}

impl AuthClient for Credentials {
    fn request(&mut self, now: Instant, kind: EntityType, exchange: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        self.client.request(now, kind, exchange)
    }

    fn more(
        &mut self,
        now: Instant,
        kind: EntityType,
        exchange: &mut ClientExchange,
        payload: &Bytes,
    ) -> Result<Bytes, Errno> {
        self.client.more(now, kind, exchange, payload)
    }

    fn done(
        &mut self,
        now: Instant,
        kind: EntityType,
        exchange: &mut ClientExchange,
        global_id: u64,
        con_mode: ConMode,
        payload: &Bytes,
    ) -> Result<ClientDone, Errno> {
        self.client.done(now, kind, exchange, global_id, con_mode, payload)
    }
}
