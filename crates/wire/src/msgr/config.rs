//! What a messenger is told when it is made.

use super::{features, limits};
use crate::net::Policy;
use crate::types::{AddrVec, EntityAddr, EntityName, EntityType};
use base::Duration;

/// Another name that a messenger answers to, at an address of its own: a monitor that does the manager's duties is
/// called as a manager there. Whoever comes that way has a lossy session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// The name.
    pub me: EntityName,
    /// The address, as peers shall know it.
    pub addrs: AddrVec,
}

/// Names the listening socket that a stream came through: 0 for the messenger's own name, `n` for the `n`th door.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DoorId(pub usize);

/// Who a messenger is and how it behaves.
#[derive(Clone, Debug)]
pub struct MessengerConfig {
    /// Our name. A client's number is -1 until a monitor gives it one (`Messenger::set_number`).
    pub me: EntityName,
    /// Our addresses with their nonces, as peers shall know them; a monitor's nonce is 0. A client that does not
    /// listen has one address with port 0 and its nonce; an unspecified IP is replaced by the first stream's own.
    pub addrs: AddrVec,
    /// Its other names.
    pub doors: Vec<Door>,
    /// The kinds of peers whose sessions, when they connect to us, are lossless; all others' are lossy.
    pub lossless_from: Vec<EntityType>,
    /// Whether a lossy session ends when the same entity connects again from the same address and nonce. OSDs want
    /// that (`stateless_registered_server`), monitors do not.
    pub replace_lossy: bool,
    /// Features we announce.
    pub supported_features: u64,
    /// Features we require.
    pub required_features: u64,
    /// How many bytes may wait for one peer before its session is given up.
    pub backlog_bytes_max: usize,
    /// Periods and patience.
    pub timing: Timing,
}

/// The messenger's periods; see `limits` for the reasons of the defaults.
#[derive(Clone, Debug)]
pub struct Timing {
    /// How long a handshake may take.
    pub handshake_max: Duration,
    /// The first pause before a lossless session reconnects.
    pub backoff_min: Duration,
    /// The longest.
    pub backoff_max: Duration,
    /// How often the connecting side asks a silent peer for a sign of life.
    pub keepalive_every: Duration,
    /// How long a peer may stay silent before the stream counts as broken.
    pub silence_max: Duration,
    /// How long an accepted stream may carry nothing.
    pub idle_max: Duration,
    /// How long bytes may wait unread, or a frame stay half sent.
    pub stall_max: Duration,
    /// How long an accepted lossless session waits for its peer to come back.
    pub standby_max: Duration,
    /// How long an acknowledgement may wait for a message to carry it.
    pub ack_delay: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            handshake_max: limits::HANDSHAKE_MAX,
            backoff_min: limits::BACKOFF_MIN,
            backoff_max: limits::BACKOFF_MAX,
            keepalive_every: limits::KEEPALIVE_EVERY,
            silence_max: limits::SILENCE_MAX,
            idle_max: limits::IDLE_MAX,
            stall_max: limits::STALL_MAX,
            standby_max: limits::STANDBY_MAX,
            ack_delay: limits::ACK_DELAY,
        }
    }
}

impl MessengerConfig {
    /// A daemon or client with the usual behaviour: every accepted session is lossy.
    pub fn new(me: EntityName, addrs: AddrVec) -> MessengerConfig {
        MessengerConfig {
            me,
            addrs,
            doors: Vec::new(),
            lossless_from: Vec::new(),
            replace_lossy: false,
            supported_features: features::SUPPORTED,
            required_features: features::REQUIRED,
            backlog_bytes_max: limits::BACKLOG_BYTES_MAX,
            timing: Timing::default(),
        }
    }

    /// Who we are to those who come through a door, and where: the messenger's own name for a door that is none.
    pub(super) fn door(&self, door: DoorId) -> (EntityName, &AddrVec) {
        match door.0.checked_sub(1).and_then(|at| self.doors.get(at)) {
            Some(door) => (door.me, &door.addrs),
            None => (self.me, &self.addrs),
        }
    }

    /// The policy of sessions that peers of `kind` open.
    pub(super) fn accept_policy(&self, kind: EntityType) -> Policy {
        if self.lossless_from.contains(&kind) { Policy::Lossless } else { Policy::Lossy }
    }

    /// The address that stands for us where one has to.
    pub(super) fn primary_addr(&self) -> Option<EntityAddr> {
        self.addrs.msgr2().or_else(|| self.addrs.0.first().copied())
    }
}
