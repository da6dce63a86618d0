//! A peer connects with whom there is a lossless session already: it restarted, it lost its stream, or both sides
//! connect at once.
//!
//! Owns the decision which stream and which state survive (Ceph v16.2 `ProtocolV2::handle_existing_connection`,
//! `handle_reconnect`, `reuse_connection`). Everything here is synchronous, so Ceph's "replacing" state has no place.
//!
//! Invariants: of two streams that race, both sides keep the same one, that of the side with the lower address; the
//! surviving session keeps its messages unless its peer has forgotten it, and then the engine hears `Reset`.

use super::super::control::{
    ClientIdent, SessionReconnect, SessionReconnectOk, SessionReset, SessionRetry, SessionRetryGlobal, Wait,
};
use super::super::error::StreamError;
use super::super::messenger::Messenger;
use super::super::session::{Session, SessionId, State};
use super::super::stream::StreamId;
use super::accepting::{key_of, may_claim};
use crate::net::{NetEvent, Peer, Policy};
use crate::types::EntityAddr;
use base::Instant;
use std::sync::Arc;

impl Messenger {
    /// CLIENT_IDENT from a peer with whom there is a session.
    pub(super) fn on_existing(
        &mut self,
        now: Instant,
        id: StreamId,
        sid: SessionId,
        peer: Arc<Peer>,
        ident: &ClientIdent,
    ) -> Result<(), StreamError> {
        let wins = self.is_lower(&ident.addrs.msgr2());
        let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
        // Of a daemon that we connected to, only the name is known, and no global id.
        let same_entity = |known: &Peer| known.global_id == 0 || known.entity == peer.entity;
        if session.peer.as_ref().is_some_and(|known| known.name != peer.name || !same_entity(known)) {
            return Err(StreamError::Impostor);
        }
        if session.peer_global_seq > ident.global_seq {
            return Err(StreamError::Superseded);
        }
        let same = session.client_cookie == ident.cookie;
        if !same && session.server_cookie != 0 && session.client_cookie != 0 {
            // The peer began anew: it has forgotten the session.
            session.reset();
            self.events.push_back(NetEvent::Reset { conn: session.conn });
        } else if !same && matches!(session.state, State::Connecting | State::Backoff) && !wins {
            return self.wait_for_ours(now, id, sid);
        }
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.peer = Some(peer);
        }
        self.adopt(id, sid);
        self.establish(now, id, sid, ident);
        Ok(())
    }

    /// SESSION_RECONNECT: the peer wants to go on with a session.
    pub(super) fn on_reconnect(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: &SessionReconnect,
    ) -> Result<(), StreamError> {
        self.count_round(id)?;
        let wins = self.is_lower(&frame.addrs.msgr2());
        let known = key_of(&frame.addrs).and_then(|key| self.by_addr.get(&key)).copied();
        let Some((sid, session)) = known.and_then(|sid| Some((sid, self.sessions.get(&sid)?))) else {
            self.send_control(now, id, &SessionReset { full: true });
            return Ok(());
        };
        self.check_claimant(id, session)?;
        if session.policy == Policy::Lossy || session.client_cookie != frame.client_cookie {
            self.send_control(now, id, &SessionReset { full: true });
        } else if session.server_cookie == 0 {
            // We are the one who connected, and its SERVER_IDENT never reached us.
            self.send_control(now, id, &SessionReset { full: false });
        } else if session.server_cookie != frame.server_cookie {
            self.send_control(now, id, &SessionReset { full: true });
        } else if session.peer_global_seq > frame.global_seq {
            let global_seq = session.peer_global_seq;
            self.send_control(now, id, &SessionRetryGlobal { global_seq });
        } else if session.connect_seq > frame.connect_seq {
            let connect_seq = session.connect_seq;
            self.send_control(now, id, &SessionRetry { connect_seq });
        } else if session.connect_seq == frame.connect_seq && session.target.is_some() && !wins {
            return self.wait_for_ours(now, id, sid);
        } else {
            self.adopt(id, sid);
            let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
            session.connect_seq = frame.connect_seq;
            session.peer_global_seq = frame.global_seq;
            session.has_up_to(frame.msg_seq);
            let ok = SessionReconnectOk { msg_seq: session.in_seq };
            self.send_control(now, id, &ok);
            self.begin_delivery(now, id, sid);
        }
        Ok(())
    }

    /// Both sides connect, and ours is the connection to use.
    fn wait_for_ours(&mut self, now: Instant, id: StreamId, sid: SessionId) -> Result<(), StreamError> {
        self.send_control(now, id, &Wait {});
        // The peer has something to say: no point in pausing any longer.
        if self.sessions.get(&sid).is_some_and(|session| session.state == State::Backoff) {
            self.dial(now, sid);
        }
        Ok(())
    }

    /// Puts the session on another stream.
    fn adopt(&mut self, id: StreamId, sid: SessionId) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        session.state = State::Connecting;
        if let Some(old) = session.stream.take() {
            self.discard_stream(old);
        }
        self.attach_stream(id, sid);
    }

    /// Refuses a peer that asks for another's session.
    fn check_claimant(&self, id: StreamId, session: &Session) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get(&id) else { return Ok(()) };
        let done = stream.handshake.as_ref().and_then(|handshake| handshake.authenticated.as_ref());
        let number = session.peer.as_ref().map(|peer| peer.name.num);
        let honest = done.is_some_and(|done| {
            session.kind == stream.kind && number.is_none_or(|number| may_claim(stream.kind, number, &done.entity))
        });
        let same = match (done, &session.peer) {
            (Some(done), Some(peer)) if peer.global_id != 0 => done.entity == peer.entity,
            _ => true,
        };
        if honest && same { Ok(()) } else { Err(StreamError::Impostor) }
    }

    /// Whether a peer's address is lower than ours: then its connection wins a race.
    fn is_lower(&self, peer: &Option<EntityAddr>) -> bool {
        *peer < self.config.primary_addr()
    }
}
