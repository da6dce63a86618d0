//! A daemon's check of authorizers with the rotating secrets it got from the monitor.
//!
//! Follows Ceph v16.2 `cephx_verify_authorizer` (`CephxProtocol.cc`) and `MonClient::handle_auth_request`. Every
//! refusal is EACCES, whatever was wrong, so that it tells a forger nothing. Invariant: nobody is let in without the
//! answer to a challenge that was drawn for this very handshake, so an authorizer that was overheard is worth nothing.

use super::envelope;
use super::modes::{ServerModes, is_daemon};
use super::name::AuthName;
use super::protocol::{Authorize, AuthorizeReply, AuthorizerHead, ServerChallenge, ServiceTicketInfo};
use super::secrets::RotatingSecrets;
use super::{connection_secret, pick_mode};
use crate::auth::{AUTH_CEPHX, Authenticated, ConMode, Secrets, ServerExchange, ServerStep};
use crate::codec::{Decoder, Encoder};
use crate::types::EntityType;
use base::Errno;
use base::rng::SecretRng;
use bytes::Bytes;

/// The rotating secrets of one kind of daemon, and the modes it offers.
#[derive(Clone, Debug)]
pub struct ServiceVerifier {
    service: EntityType,
    modes: ServerModes,
    secrets: RotatingSecrets,
}

impl ServiceVerifier {
    /// A verifier for daemons of kind `service` that offer `modes`; it lets nobody in before it has secrets.
    pub fn new(service: EntityType, modes: ServerModes) -> ServiceVerifier {
        ServiceVerifier { service, modes, secrets: RotatingSecrets::default() }
    }

    /// Takes the secrets that the monitor sent.
    pub fn set_secrets(&mut self, secrets: RotatingSecrets) {
        self.secrets = secrets;
    }

    /// The secrets it has.
    pub fn secrets(&self) -> &RotatingSecrets {
        &self.secrets
    }

    /// Offers these modes from now on.
    pub fn set_modes(&mut self, modes: ServerModes) {
        self.modes = modes;
    }

    /// The modes it offers to peers of a kind.
    pub fn modes(&self, peer_kind: EntityType) -> &[ConMode] {
        self.modes.towards(peer_kind)
    }

    /// One step of a handshake with somebody who claims to be of a kind. Who claims to be a daemon has to show a daemon's
    /// ticket: what modes there are depends on it.
    pub fn step(
        &self,
        rng: &mut SecretRng,
        peer_kind: EntityType,
        exchange: &mut ServerExchange,
        payload: &Bytes,
    ) -> ServerStep {
        if exchange.method != AUTH_CEPHX {
            return ServerStep::Refused(Errno::EOPNOTSUPP);
        }
        let Some(mode) = pick_mode(&exchange.preferred_modes, self.modes(peer_kind)) else {
            return ServerStep::Refused(Errno::EOPNOTSUPP);
        };
        match verify(rng, exchange, payload, mode, (self.service, &self.secrets)) {
            ServerStep::Done(done)
                if is_daemon(peer_kind) && AuthName::parse(&done.entity).is_none_or(|name| name.kind != peer_kind) =>
            {
                ServerStep::Refused(Errno::EACCES)
            }
            step => step,
        }
    }
}

/// One step of a handshake with somebody who shows a ticket for a service, whose secrets these are.
pub(super) fn verify(
    rng: &mut SecretRng,
    exchange: &mut ServerExchange,
    payload: &Bytes,
    mode: ConMode,
    (service, secrets): (EntityType, &RotatingSecrets),
) -> ServerStep {
    let mut d = Decoder::shared(payload);
    let opened = open_authorizer(&mut d, |asked, id| {
        (asked == u32::from(service.0)).then(|| secrets.key(id)).flatten().cloned()
    });
    let Some((info, authorize)) = opened else { return ServerStep::Refused(Errno::EACCES) };
    let Some(expected) = exchange.challenge else {
        let challenge = rng.u64();
        exchange.challenge = Some(challenge);
        return ServerStep::More(envelope::seal(&info.session_key, &ServerChallenge { challenge }).into());
    };
    if authorize.challenge_plus_one != Some(expected.wrapping_add(1)) {
        return ServerStep::Refused(Errno::EACCES);
    }
    let connection_secret = connection_secret(rng, mode);
    let reply = AuthorizeReply {
        nonce_plus_one: authorize.nonce.wrapping_add(1),
        connection_secret: connection_secret.clone(),
    };
    let mut e = Encoder::new();
    envelope::put_sealed(&mut e, &info.session_key, &reply);
    ServerStep::Done(Box::new(Authenticated {
        entity: info.ticket.name.to_string(),
        global_id: info.ticket.global_id,
        caps: info.ticket.caps,
        con_mode: mode,
        payload: e.finish(),
        secrets: Secrets { session_key: info.session_key.secret().clone(), connection_secret },
    }))
}

/// Opens an authorizer: the ticket with the service's secret, the rest with the session key inside. None where
/// anything is wrong; `d` is left behind the authorizer.
pub(super) fn open_authorizer(
    d: &mut Decoder<'_>,
    secret: impl FnOnce(u32, u64) -> Option<super::CryptoKey>,
) -> Option<(ServiceTicketInfo, Authorize)> {
    let head: AuthorizerHead = d.get().ok()?;
    let key = secret(head.service, head.ticket.secret_id)?;
    let info: ServiceTicketInfo = envelope::open(&key, &head.ticket.blob).ok()?;
    if info.ticket.global_id != head.global_id {
        return None;
    }
    let authorize = envelope::get_sealed(d, &info.session_key).ok()?;
    Some((info, authorize))
}
