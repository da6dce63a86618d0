//! The conversation before messages: banners, HELLO, signatures, and who may say what when.
//!
//! Owns what both sides of a handshake have in common; `connecting` and `accepting` hold each side's own steps.
//! The order is: banners, HELLO both ways, authentication, signatures both ways, then the session (Ceph v16.2
//! `src/msg/async/ProtocolV2.cc`; the connection mode starts after AUTH_DONE).
//!
//! Invariants: nothing is believed of a peer's name before it is authenticated, and nothing is done for its session
//! before its signature shows that the handshake was not tampered with.

mod accepting;
mod connecting;
mod existing;

use super::control::{AuthSignature, Hello, Signature};
use super::crypto::{self, Side};
use super::error::StreamError;
use super::frame::Frame;
use super::limits;
use super::messenger::Messenger;
use super::session::{Session, SessionId};
use super::stream::{Phase, StreamId};
use super::tag::Tag;
use super::{banner, control::Control};
use crate::auth::{Auth, ConMode, Secrets};
use crate::codec::Malformed;
use crate::types::EntityAddr;
use base::Instant;
use bytes::BytesMut;
use hmac::{Hmac, Mac};
use sha2::Sha256;

impl Messenger {
    pub(super) fn send_banner(&mut self, now: Instant, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.writer.raw(&mut stream.out, &banner::ours());
            self.mark_dirty(now, id);
        }
    }

    /// The peer speaks our protocol: say who we are.
    pub(super) fn on_banner(&mut self, now: Instant, id: StreamId, banner: &BytesMut) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.reader.record(banner);
        stream.phase = Phase::Hello;
        // The connecting side names the address it wanted, the accepting side the one that it sees.
        let target = stream.session.and_then(|sid| self.sessions.get(&sid)).and_then(|session| session.target);
        let peer_addr = target.unwrap_or(EntityAddr::msgr2(stream.peer, 0));
        let hello = Hello { kind: self.config.door(stream.door).0.kind, peer_addr };
        self.send_control(now, id, &hello);
        Ok(())
    }

    pub(super) fn send_control<C: Control>(&mut self, now: Instant, id: StreamId, payload: &C) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.writer.control(&mut stream.out, payload);
            self.mark_dirty(now, id);
        }
    }

    /// Takes a frame where the conversation is.
    pub(super) fn on_frame(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: &Frame,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if stream.phase == Phase::Ready {
            return self.on_ready_frame(now, id, frame);
        }
        if stream.reader.recorded() > limits::TRANSCRIPT_BYTES_MAX {
            return Err(StreamError::EndlessHandshake);
        }
        match (stream.phase, stream.side, frame.tag) {
            (Phase::Hello, _, Tag::Hello) => self.on_hello(now, id, &frame.control()?, auth),
            (Phase::Auth, Side::Accepting, Tag::AuthRequest) => self.on_auth_request(now, id, frame.control()?, auth),
            (Phase::Auth, Side::Accepting, Tag::AuthRequestMore) => self.on_auth_more(now, id, &frame.control()?, auth),
            (Phase::Auth, Side::Connecting, Tag::AuthBadMethod) => self.on_bad_method(now, id, &frame.control()?, auth),
            (Phase::Auth, Side::Connecting, Tag::AuthReplyMore) => self.on_reply_more(now, id, &frame.control()?, auth),
            (Phase::Auth, Side::Connecting, Tag::AuthDone) => self.on_auth_done(now, id, &frame.control()?, auth),
            (Phase::Sign, _, Tag::AuthSignature) => self.on_signature(now, id, &frame.control()?),
            (Phase::Ident, Side::Accepting, Tag::ClientIdent) => self.on_client_ident(now, id, &frame.control()?),
            (Phase::Ident, Side::Accepting, Tag::SessionReconnect) => self.on_reconnect(now, id, &frame.control()?),
            (Phase::Ident, Side::Connecting, tag) => self.on_session_answer(now, id, tag, frame),
            (_, _, tag) => Err(StreamError::OutOfTurn(tag)),
        }
    }

    fn on_hello(&mut self, now: Instant, id: StreamId, hello: &Hello, auth: &mut dyn Auth) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.phase = Phase::Auth;
        match stream.side {
            Side::Accepting => {
                stream.kind = hello.kind;
                Ok(())
            }
            Side::Connecting if stream.kind != hello.kind => Err(StreamError::WrongDaemon),
            Side::Connecting => self.begin_auth(now, id, auth),
        }
    }

    /// Switches to the connection mode that was agreed on and signs what came before.
    pub(super) fn finish_auth(
        &mut self,
        now: Instant,
        id: StreamId,
        mode: ConMode,
        secrets: Secrets,
    ) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        let received = stream.reader.take_transcript();
        handshake.sent = stream.writer.take_transcript();
        let signature = sign(&secrets, &received);
        stream.phase = Phase::Sign;
        if mode == ConMode::Secure {
            let ciphers = crypto::aes_gcm(&secrets.connection_secret, stream.side)
                .ok_or(Malformed::new("connection secret", "is too short for secure mode"))?;
            stream.writer.secure(ciphers.tx);
            stream.reader.secure(ciphers.rx);
        }
        handshake.secrets = secrets;
        self.send_control(now, id, &AuthSignature { signature: Signature(signature) });
        Ok(())
    }

    fn on_signature(&mut self, now: Instant, id: StreamId, frame: &AuthSignature) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        let sent = core::mem::take(&mut handshake.sent);
        if !is_signed(&handshake.secrets, &sent, &frame.signature.0) {
            return Err(StreamError::BadSignature);
        }
        handshake.secrets = Secrets::default();
        // What follows counts its own steps.
        handshake.rounds = 0;
        stream.phase = Phase::Ident;
        match stream.side {
            Side::Accepting => Ok(()),
            Side::Connecting => self.begin_session(now, id),
        }
    }

    /// Counts a step of the conversation; an honest one takes few.
    fn count_round(&mut self, id: StreamId) -> Result<(), StreamError> {
        let Some(handshake) = self.streams.get_mut(&id).and_then(|stream| stream.handshake.as_mut()) else {
            return Ok(());
        };
        handshake.rounds += 1;
        if handshake.rounds > limits::ROUNDS_MAX { Err(StreamError::EndlessHandshake) } else { Ok(()) }
    }

    /// The session that a stream works for.
    fn session_of(&self, id: StreamId) -> Option<(SessionId, &Session)> {
        let sid = self.streams.get(&id)?.session?;
        Some((sid, self.sessions.get(&sid)?))
    }

    /// A cookie: any number but 0, which stands for none.
    fn new_cookie(&mut self) -> u64 {
        self.rng.u64().max(1)
    }
}

fn mac(secrets: &Secrets, transcript: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(&secrets.session_key).expect("HMAC takes a key of any length");
    mac.update(transcript);
    mac
}

fn sign(secrets: &Secrets, transcript: &[u8]) -> [u8; 32] {
    if secrets.session_key.is_empty() { [0; 32] } else { mac(secrets, transcript).finalize().into_bytes().into() }
}

fn is_signed(secrets: &Secrets, transcript: &[u8], signature: &[u8; 32]) -> bool {
    if secrets.session_key.is_empty() {
        *signature == [0; 32]
    } else {
        mac(secrets, transcript).verify_slice(signature).is_ok()
    }
}
