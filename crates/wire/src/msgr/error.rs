//! Why a stream ended, sorted by blame, in sentences fit for a log.
//!
//! Owns the one error type of the messenger's streams. A stream's error never leaves as anything but the end of that
//! stream and, where it had one, the fate of its session.

use super::frame::FrameError;
use super::tag::Tag;
use crate::codec::Malformed;
use crate::net::CloseReason;
use base::Errno;

/// Why we close a stream.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamError {
    /// Malformed: the first bytes are no banner.
    #[error("the peer does not speak msgr2")]
    NotMsgr2,
    /// PeerIncompatible: a client or daemon from before Nautilus, or one configured for port 6789.
    #[error("the peer speaks msgr1, which is not served; it has to connect with msgr2 (v2:, port 3300)")]
    PeerSpeaksMsgr1,
    /// PeerIncompatible: only revision 1 is spoken.
    #[error("the peer supports msgr2 features {supported:#x} and requires {required:#x}; msgr2.1 has only 0x1")]
    Revision {
        /// What it supports.
        supported: u64,
        /// What it requires.
        required: u64,
    },
    /// PeerIncompatible: features that we need, or that it needs.
    #[error("features are missing: {missing:#x}")]
    MissingFeatures {
        /// Which.
        missing: u64,
    },
    /// Malformed: a frame that cannot be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Malformed: a frame's payload or a message that cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// PeerMisbehaved: a frame that does not belong into this part of the conversation.
    #[error("the peer sent {0} out of turn")]
    OutOfTurn(Tag),
    /// PeerMisbehaved: its handshake is too long.
    #[error("the peer's handshake does not end")]
    EndlessHandshake,
    /// PeerMisbehaved: the handshake was tampered with, or the peer does not hold the session key.
    #[error("the peer's signature of the handshake is wrong")]
    BadSignature,
    /// PeerMisbehaved: it claims to be somebody else than it has proved to be.
    #[error("the peer claims a name or an address that is not its own")]
    Impostor,
    /// PeerMisbehaved: it wanted somebody else, for instance the daemon that had this address before.
    #[error("the peer looks for another daemon at this address")]
    WrongAddress,
    /// PeerMisbehaved: the daemon that answers is of another kind, or at another address, than we wanted.
    #[error("another daemon than the one we look for answers at this address")]
    WrongDaemon,
    /// Refused: authentication failed.
    #[error("authentication failed: {0:?}")]
    Denied(Errno),
    /// Nothing came, or nothing could be sent, for too long.
    #[error("the peer is silent")]
    Silent,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// The peer reads too slowly, or not at all.
    #[error("the peer does not read what it is sent")]
    NotReading,
    /// Another stream took this one's place, or the session is over.
    #[error("the session went on without this stream")]
    Superseded,
    /// Too many handshakes at once; the oldest goes.
    #[error("too many handshakes at once")]
    Crowded,
    /// The peer asked us to wait for its own connection (WAIT).
    #[error("the peer's own connection is on its way")]
    Wait,
    /// The driver reported that the stream broke.
    #[error("the stream broke")]
    Broken,
    /// The driver reported that nobody listens.
    #[error("the connection was refused")]
    ConnectionRefused,
}

impl StreamError {
    /// Whether a lossless session ends too: coming back would only meet the same end.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, StreamError::Malformed(_) | StreamError::NotReading)
    }

    /// What the engine is told when the session ends because of this.
    pub(super) fn close_reason(&self) -> CloseReason {
        match self {
            StreamError::ConnectionRefused => CloseReason::Refused,
            StreamError::Denied(errno) => CloseReason::Denied(*errno),
            StreamError::Silent
            | StreamError::HandshakeTimeout
            | StreamError::NotReading
            | StreamError::Superseded
            | StreamError::Crowded
            | StreamError::Wait
            | StreamError::Broken => CloseReason::Fault,
            _ => CloseReason::Misbehaved,
        }
    }
}
