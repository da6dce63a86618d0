//! Authentication for tests: everybody is who they say, and both sides derive the same secrets from a shared seed.

use base::{Errno, Instant};
use bytes::Bytes;
use wire::auth::{
    AUTH_NONE, AuthClient, AuthRequest, AuthServer, Authenticated, ClientDone, ClientExchange, ConMode, Secrets,
    ServerExchange, ServerStep,
};
use wire::net::TicketCaps;
use wire::types::EntityType;

/// Believes every name.
#[derive(Clone, Debug)]
pub(crate) struct NoAuth {
    /// The name we claim.
    pub(crate) entity: String,
    /// The modes we offer and accept, favourite first.
    pub(crate) modes: Vec<ConMode>,
    /// Whether handshakes are signed.
    pub(crate) signed: bool,
    /// How many further steps a server asks for.
    pub(crate) rounds: u8,
    /// The errno with which a server refuses everybody.
    pub(crate) refuse: Option<Errno>,
    /// A server that signs with another key.
    pub(crate) wrong_key: bool,
}

impl NoAuth {
    pub(crate) fn new(entity: &str) -> NoAuth {
        NoAuth {
            entity: entity.to_owned(),
            modes: vec![ConMode::Crc],
            signed: true,
            rounds: 0,
            refuse: None,
            wrong_key: false,
        }
    }

    fn secrets(&self, mode: ConMode) -> Secrets {
        let key = if self.wrong_key { 0x66 } else { 0x55 };
        Secrets {
            session_key: if self.signed { Bytes::from(vec![key; 16]) } else { Bytes::new() },
            connection_secret: match mode {
                ConMode::Crc => Bytes::new(),
                ConMode::Secure => Bytes::from_iter(0..64u8),
            },
        }
    }
}

impl AuthServer for NoAuth {
    fn step(&mut self, _: Instant, _: EntityType, exchange: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        if let Some(errno) = self.refuse {
            return ServerStep::Refused(errno);
        }
        let entity = exchange.entity.get_or_insert_with(|| String::from_utf8_lossy(payload).into_owned()).clone();
        let round = exchange.challenge.get_or_insert(0);
        if *round < u64::from(self.rounds) {
            *round += 1;
            return ServerStep::More(Bytes::from_static(b"more?"));
        }
        let mode = self.modes.iter().copied().find(|mode| exchange.preferred_modes.contains(&(*mode as u32)));
        let Some(con_mode) = mode else { return ServerStep::Refused(Errno::EOPNOTSUPP) };
        let global_id = 4000 + entity.bytes().map(u64::from).sum::<u64>();
        ServerStep::Done(Box::new(Authenticated {
            entity,
            global_id,
            caps: TicketCaps { allow_all: true, ..TicketCaps::default() },
            con_mode,
            payload: Bytes::from_static(b"welcome"),
            secrets: self.secrets(con_mode),
        }))
    }

    fn methods(&self) -> Vec<u32> {
        vec![AUTH_NONE]
    }

    fn modes(&self, _: EntityType) -> Vec<ConMode> {
        self.modes.clone()
    }
}

impl AuthClient for NoAuth {
    fn request(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        Ok(AuthRequest {
            method: AUTH_NONE,
            preferred_modes: self.modes.iter().map(|mode| *mode as u32).collect(),
            payload: Bytes::from(self.entity.clone()),
        })
    }

    fn more(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange, payload: &Bytes) -> Result<Bytes, Errno> {
        if &payload[..] == b"more?" { Ok(Bytes::from_static(b"more!")) } else { Err(Errno::EINVAL) }
    }

    fn done(
        &mut self,
        _: Instant,
        _: EntityType,
        _: &mut ClientExchange,
        global_id: u64,
        con_mode: ConMode,
        payload: &Bytes,
    ) -> Result<ClientDone, Errno> {
        assert_eq!(&payload[..], b"welcome");
        Ok(ClientDone { global_id, secrets: self.secrets(con_mode) })
    }
}
