//! The connecting side: authenticate, then ask for a new session or for the old one back.
//!
//! Follows Ceph v16.2 `src/msg/async/ProtocolV2.cc`, "Client Protocol Methods".

use super::super::control::{
    AuthBadMethod, AuthDone, AuthReplyMore, AuthRequest, AuthRequestMore, ClientIdent, FLAG_LOSSY,
    IdentMissingFeatures, ServerIdent, SessionReconnect, SessionReconnectOk, SessionReset, SessionRetry,
    SessionRetryGlobal,
};
use super::super::error::StreamError;
use super::super::frame::Frame;
use super::super::messenger::Messenger;
use super::super::session::SessionId;
use super::super::stream::StreamId;
use super::super::tag::Tag;
use crate::auth::{Auth, ConMode};
use crate::codec::Malformed;
use crate::net::{NetEvent, Peer, Policy, TicketCaps};
use crate::types::{EntityName, EntityType};
use base::{Errno, Instant};
use std::sync::Arc;

impl Messenger {
    /// Makes the first request of authentication.
    pub(super) fn begin_auth(&mut self, now: Instant, id: StreamId, auth: &mut dyn Auth) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        let request = auth.request(now, stream.kind, &mut handshake.client).map_err(StreamError::Denied)?;
        handshake.client.method = request.method;
        let frame =
            AuthRequest { method: request.method, preferred_modes: request.preferred_modes, payload: request.payload };
        self.send_control(now, id, &frame);
        Ok(())
    }

    /// The peer does not take our method, or what we proved by it.
    pub(super) fn on_bad_method(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: &AuthBadMethod,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        let errno = match frame.result.checked_neg() {
            Some(positive) if positive > 0 => Errno(positive),
            _ => Errno::EACCES,
        };
        if let Some(stream) = self.streams.get(&id) {
            auth.refused(now, stream.kind, errno);
        }
        Err(StreamError::Denied(errno))
    }

    pub(super) fn on_reply_more(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: &AuthReplyMore,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        self.count_round(id)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        let payload =
            auth.more(now, stream.kind, &mut handshake.client, &frame.payload).map_err(StreamError::Denied)?;
        self.send_control(now, id, &AuthRequestMore { payload });
        Ok(())
    }

    pub(super) fn on_auth_done(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: &AuthDone,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        let mode =
            ConMode::from_wire(frame.con_mode).ok_or(Malformed::new("AUTH_DONE", "has an unknown connection mode"))?;
        let done = auth
            .done(now, stream.kind, &mut handshake.client, frame.global_id, mode, &frame.payload)
            .map_err(StreamError::Denied)?;
        // A client is named by the number that the monitor gives it.
        if self.config.me.kind == EntityType::CLIENT && stream.kind == EntityType::MON && done.global_id != 0 {
            self.config.me.num = done.global_id as i64;
        }
        self.finish_auth(now, id, mode, done.secrets)
    }

    /// Both sides have signed: ask for a session.
    pub(super) fn begin_session(&mut self, now: Instant, id: StreamId) -> Result<(), StreamError> {
        let Some((sid, comes_back)) = self.session_of(id).map(|(sid, session)| (sid, session.server_cookie != 0))
        else {
            return Ok(());
        };
        if comes_back { self.send_reconnect(now, id, sid) } else { self.send_client_ident(now, id, sid) }
    }

    fn send_client_ident(&mut self, now: Instant, id: StreamId, sid: SessionId) -> Result<(), StreamError> {
        let cookie = self.new_cookie();
        let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
        let Some(target_addr) = session.target else { return Ok(()) };
        let lossy = session.policy == Policy::Lossy;
        if lossy {
            session.client_cookie = 0;
        } else if session.client_cookie == 0 {
            session.client_cookie = cookie;
        }
        let ident = ClientIdent {
            addrs: self.config.addrs.clone(),
            target_addr,
            gid: self.config.me.num,
            global_seq: session.global_seq,
            supported_features: self.config.supported_features,
            required_features: self.config.required_features,
            flags: if lossy { FLAG_LOSSY } else { 0 },
            cookie: session.client_cookie,
        };
        self.send_control(now, id, &ident);
        Ok(())
    }

    fn send_reconnect(&mut self, now: Instant, id: StreamId, sid: SessionId) -> Result<(), StreamError> {
        let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
        let reconnect = SessionReconnect {
            addrs: self.config.addrs.clone(),
            client_cookie: session.client_cookie,
            server_cookie: session.server_cookie,
            global_seq: session.global_seq,
            connect_seq: session.connect_seq,
            msg_seq: session.in_seq,
        };
        self.send_control(now, id, &reconnect);
        Ok(())
    }

    /// Takes the answer to CLIENT_IDENT or SESSION_RECONNECT.
    pub(super) fn on_session_answer(
        &mut self,
        now: Instant,
        id: StreamId,
        tag: Tag,
        frame: &Frame,
    ) -> Result<(), StreamError> {
        let Some((sid, session)) = self.session_of(id) else { return Ok(()) };
        let comes_back = session.server_cookie != 0;
        self.count_round(id)?;
        match (tag, comes_back) {
            (Tag::ServerIdent, false) => self.on_server_ident(now, id, sid, frame.control()?),
            (Tag::IdentMissingFeatures, false) => {
                let missing = frame.control::<IdentMissingFeatures>()?.features;
                Err(StreamError::MissingFeatures { missing })
            }
            (Tag::Wait, _) => Err(StreamError::Wait),
            (Tag::SessionReset, true) => self.on_reset(now, id, sid, &frame.control()?),
            (Tag::SessionRetry, true) => {
                let retry: SessionRetry = frame.control()?;
                if let Some(session) = self.sessions.get_mut(&sid) {
                    session.connect_seq = retry.connect_seq.saturating_add(1);
                }
                self.send_reconnect(now, id, sid)
            }
            (Tag::SessionRetryGlobal, true) => {
                let retry: SessionRetryGlobal = frame.control()?;
                self.global_seq = self.global_seq.max(retry.global_seq).saturating_add(1);
                if let Some(session) = self.sessions.get_mut(&sid) {
                    session.global_seq = self.global_seq;
                }
                self.send_reconnect(now, id, sid)
            }
            (Tag::SessionReconnectOk, true) => {
                let ok: SessionReconnectOk = frame.control()?;
                if let Some(session) = self.sessions.get_mut(&sid) {
                    session.has_up_to(ok.msg_seq);
                }
                self.begin_delivery(now, id, sid);
                Ok(())
            }
            _ => Err(StreamError::OutOfTurn(tag)),
        }
    }

    fn on_server_ident(
        &mut self,
        now: Instant,
        id: StreamId,
        sid: SessionId,
        ident: ServerIdent,
    ) -> Result<(), StreamError> {
        let missing = ident.required_features & !self.config.supported_features
            | self.config.required_features & !ident.supported_features;
        if missing != 0 {
            return Err(StreamError::MissingFeatures { missing });
        }
        let features = ident.supported_features & self.config.supported_features;
        let socket = self.streams.get(&id).map(|stream| stream.peer);
        let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
        if !session.target.is_some_and(|target| ident.addrs.0.contains(&target)) {
            return Err(StreamError::WrongDaemon);
        }
        let name = EntityName { kind: session.kind, num: ident.gid };
        session.peer = Some(Arc::new(Peer {
            name,
            entity: name.to_string(),
            called: None,
            addrs: ident.addrs,
            socket,
            global_id: 0,
            features,
            caps: TicketCaps::default(),
        }));
        session.peer_global_seq = ident.global_seq;
        session.begin();
        if ident.flags & FLAG_LOSSY != 0 {
            session.policy = Policy::Lossy;
        }
        session.server_cookie = if session.policy == Policy::Lossy { 0 } else { ident.cookie };
        if session.policy == Policy::Lossless && ident.cookie == 0 {
            return Err(Malformed::new("SERVER_IDENT", "has no cookie").into());
        }
        self.begin_delivery(now, id, sid);
        Ok(())
    }

    /// The peer does not know our session any more.
    fn on_reset(
        &mut self,
        now: Instant,
        id: StreamId,
        sid: SessionId,
        reset: &SessionReset,
    ) -> Result<(), StreamError> {
        let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
        if reset.full {
            session.reset();
            self.events.push_back(NetEvent::Reset { conn: session.conn });
        } else {
            session.server_cookie = 0;
            session.connect_seq = 0;
            session.begin();
        }
        self.send_client_ident(now, id, sid)
    }
}
