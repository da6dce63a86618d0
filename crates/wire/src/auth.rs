//! The seam between sessions and authentication: what the messenger asks of whoever holds the keys.
//!
//! Owns two traits, one per side of the msgr2 handshake (v16.2 `src/auth/AuthClient.h`, `AuthServer.h`). The monitor
//! engine's key server, a daemon's rotating keys and a client's tickets stand behind them (`cephx`).

use crate::cephx::CryptoKey;
use crate::cephx::protocol::AuthorizerHead;
use crate::net::TicketCaps;
use crate::types::EntityType;
use base::{Errno, Instant};
use bytes::Bytes;

/// Connection modes of msgr2 (`CEPH_CON_MODE_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConMode {
    /// Checksummed, in clear.
    Crc = 1,
    /// AES-128-GCM.
    Secure = 2,
}

impl ConMode {
    /// The modes that a text such as `crc secure` names, in its order; none if a word is neither (v16.2 `_parse_mode_list`
    /// ignores such words, so that a slip of the pen opens what should be closed).
    pub fn list(text: &str) -> Option<Vec<ConMode>> {
        let words = text.split([' ', ',', ';', '=', '\t']).filter(|word| !word.is_empty());
        let mode = |word| match word {
            "crc" => Some(ConMode::Crc),
            "secure" => Some(ConMode::Secure),
            _ => None,
        };
        words.map(mode).collect()
    }

    /// The mode that a number on the wire stands for.
    pub fn from_wire(mode: u32) -> Option<ConMode> {
        match mode {
            1 => Some(ConMode::Crc),
            2 => Some(ConMode::Secure),
            _ => None,
        }
    }
}

/// `CEPH_AUTH_NONE`.
pub const AUTH_NONE: u32 = 1;
/// `CEPH_AUTH_CEPHX`.
pub const AUTH_CEPHX: u32 = 2;

/// The secrets that both ends hold once authentication is done.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets {
    /// Signs the handshake (AUTH_SIGNATURE); 16 bytes with cephx, empty without.
    pub session_key: Bytes,
    /// Key and nonces of secure mode: 64 bytes when secure mode was chosen, else may be empty.
    pub connection_secret: Bytes,
}

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secrets")
    }
}

/// What a server answers to one step of a client's authentication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerStep {
    /// Send AUTH_REPLY_MORE with this payload and wait.
    More(Bytes),
    /// Send AUTH_DONE; the peer is who `entity` says.
    Done(Box<Authenticated>),
    /// Send AUTH_BAD_METHOD with this errno and the methods and modes that would do.
    Refused(Errno),
}

/// A peer that has proved its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authenticated {
    /// `client.admin`, `osd.0`.
    pub entity: String,
    /// Its number from the monitor.
    pub global_id: u64,
    /// What it may do with us.
    pub caps: TicketCaps,
    /// The mode both ends use from here.
    pub con_mode: ConMode,
    /// AUTH_DONE's payload.
    pub payload: Bytes,
    /// The shared secrets.
    pub secrets: Secrets,
}

/// What an AUTH_REQUEST says beside its payload, and what the server remembers of one handshake between its steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerExchange {
    /// As what the client called us, where that is not our own name (`MessengerConfig::doors`).
    pub called: Option<EntityType>,
    /// The method the client chose (`AUTH_CEPHX`).
    pub method: u32,
    /// The modes the client would accept, its favourite first.
    pub preferred_modes: Vec<u32>,
    /// The challenge we sent, once we did.
    pub challenge: Option<u64>,
    /// The entity that began, on the monitor.
    pub entity: Option<String>,
    /// The global id given or reclaimed, on the monitor.
    pub global_id: Option<u64>,
    /// Whether the client came with that global id, and has to show that it is its own.
    pub reclaims: bool,
}

/// Authenticates those who connect to us.
pub trait AuthServer {
    /// Takes the payload of AUTH_REQUEST (the first call for this `exchange`) or AUTH_REQUEST_MORE.
    fn step(
        &mut self,
        now: Instant,
        peer_kind: EntityType,
        exchange: &mut ServerExchange,
        payload: &Bytes,
    ) -> ServerStep;

    /// The methods to offer in AUTH_BAD_METHOD.
    fn methods(&self) -> Vec<u32>;

    /// The modes to offer to a peer of this kind, favourite first.
    fn modes(&self, peer_kind: EntityType) -> Vec<ConMode>;
}

/// What a client remembers of one handshake between its steps. The messenger makes a default one for each attempt and
/// hands it back untouched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientExchange {
    /// The method chosen.
    pub method: u32,
    /// What the method needs to remember.
    pub state: ClientState,
}

/// The state of a client's handshake.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClientState {
    /// No request was made yet.
    #[default]
    New,
    /// We asked a monitor to begin; its challenge comes next.
    MonitorAsked,
    /// We answered the monitor's challenge.
    MonitorAnswered {
        /// The challenge.
        server_challenge: u64,
    },
    /// We showed an authorizer to a service daemon.
    Authorizer(Box<AuthorizerState>),
}

/// An authorizer that was shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthorizerState {
    /// Its part that does not change with the challenge.
    pub head: AuthorizerHead,
    /// Our fresh number in it.
    pub nonce: u64,
    /// What we share with the service.
    pub session_key: CryptoKey,
    /// Whether a challenge has been answered.
    pub challenged: bool,
}

/// The first AUTH_REQUEST of a handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthRequest {
    /// The method.
    pub method: u32,
    /// The modes we accept, favourite first.
    pub preferred_modes: Vec<u32>,
    /// The method's payload.
    pub payload: Bytes,
}

/// What an AUTH_DONE gave us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientDone {
    /// Our number from the monitor.
    pub global_id: u64,
    /// The shared secrets.
    pub secrets: Secrets,
}

/// Proves our name to those we connect to.
pub trait AuthClient {
    /// Begins a handshake with a daemon of `kind`.
    fn request(&mut self, now: Instant, kind: EntityType, exchange: &mut ClientExchange) -> Result<AuthRequest, Errno>;

    /// Answers AUTH_REPLY_MORE.
    fn more(
        &mut self,
        now: Instant,
        kind: EntityType,
        exchange: &mut ClientExchange,
        payload: &Bytes,
    ) -> Result<Bytes, Errno>;

    /// Hears that a daemon of `kind` refused what we proved, with the errno it gave: a ticket may have expired.
    fn refused(&mut self, _now: Instant, _kind: EntityType, _errno: Errno) {}

    /// Takes AUTH_DONE.
    fn done(
        &mut self,
        now: Instant,
        kind: EntityType,
        exchange: &mut ClientExchange,
        global_id: u64,
        con_mode: ConMode,
        payload: &Bytes,
    ) -> Result<ClientDone, Errno>;
}

/// Both sides: what a daemon's messenger needs.
pub trait Auth: AuthServer + AuthClient {}
impl<T: AuthServer + AuthClient> Auth for T {}
