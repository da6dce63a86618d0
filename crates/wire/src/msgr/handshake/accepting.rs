//! The accepting side: authenticate whoever comes, then give it a session.
//!
//! Follows Ceph v16.2 `src/msg/async/ProtocolV2.cc`, "Server Protocol Methods". What happens when there is a session
//! with that peer already is in `existing`.

use super::super::config::DoorId;
use super::super::control::{
    AuthBadMethod, AuthDone, AuthReplyMore, AuthRequest, AuthRequestMore, ClientIdent, FLAG_LOSSY,
    IdentMissingFeatures, ServerIdent,
};
use super::super::error::StreamError;
use super::super::messenger::Messenger;
use super::super::session::{Session, SessionId};
use super::super::stream::StreamId;
use crate::auth::{Auth, Authenticated, ServerStep};
use crate::codec::Malformed;
use crate::net::{CloseReason, Peer, Policy};
use crate::types::{AddrVec, EntityAddr, EntityName, EntityType};
use base::{Errno, Instant};
use bytes::Bytes;
use core::net::SocketAddr;
use std::sync::Arc;

impl Messenger {
    pub(super) fn on_auth_request(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: AuthRequest,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        handshake.server = crate::auth::ServerExchange {
            called: (stream.door != DoorId::default()).then(|| self.config.door(stream.door).0.kind),
            method: frame.method,
            preferred_modes: frame.preferred_modes,
            ..Default::default()
        };
        if !auth.methods().contains(&frame.method) {
            return self.refuse_auth(now, id, Errno::EOPNOTSUPP, auth);
        }
        self.step_auth(now, id, &frame.payload, auth)
    }

    pub(super) fn on_auth_more(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: &AuthRequestMore,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        self.step_auth(now, id, &frame.payload, auth)
    }

    fn step_auth(
        &mut self,
        now: Instant,
        id: StreamId,
        payload: &Bytes,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        self.count_round(id)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        match auth.step(now, stream.kind, &mut handshake.server, payload) {
            ServerStep::More(payload) => self.send_control(now, id, &AuthReplyMore { payload }),
            ServerStep::Refused(errno) => return self.refuse_auth(now, id, errno, auth),
            ServerStep::Done(done) => {
                let frame = AuthDone {
                    global_id: done.global_id,
                    con_mode: done.con_mode as u32,
                    payload: done.payload.clone(),
                };
                let (mode, secrets) = (done.con_mode, done.secrets.clone());
                handshake.authenticated = Some(done);
                self.send_control(now, id, &frame);
                return self.finish_auth(now, id, mode, secrets);
            }
        }
        Ok(())
    }

    /// Says what would do instead; the peer may try that on the same stream.
    fn refuse_auth(
        &mut self,
        now: Instant,
        id: StreamId,
        errno: Errno,
        auth: &mut dyn Auth,
    ) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let kind = stream.kind;
        let Some(handshake) = stream.handshake.as_mut() else { return Ok(()) };
        let frame = AuthBadMethod {
            method: handshake.server.method,
            result: -errno.0,
            allowed_methods: auth.methods(),
            allowed_modes: auth.modes(kind).into_iter().map(|mode| mode as u32).collect(),
        };
        handshake.server = Default::default();
        self.send_control(now, id, &frame);
        Ok(())
    }

    /// The peer wants a new session.
    pub(super) fn on_client_ident(
        &mut self,
        now: Instant,
        id: StreamId,
        ident: &ClientIdent,
    ) -> Result<(), StreamError> {
        let Some(key) = key_of(&ident.addrs) else {
            return Err(Malformed::new("CLIENT_IDENT", "has no address").into());
        };
        let door = self.streams.get(&id).map_or(DoorId::default(), |stream| stream.door);
        let (me, addrs) = self.config.door(door);
        if !addrs.0.contains(&ident.target_addr) {
            return Err(StreamError::WrongAddress);
        }
        let aside = (door != DoorId::default()).then_some(me.kind);
        let missing = self.config.required_features & !ident.supported_features;
        if missing != 0 {
            self.send_control(now, id, &IdentMissingFeatures { features: missing });
            return Ok(());
        }
        let lacking = ident.required_features & !self.config.supported_features;
        if lacking != 0 {
            return Err(StreamError::MissingFeatures { missing: lacking });
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let (kind, socket) = (stream.kind, stream.peer);
        let done = stream.handshake.as_mut().and_then(|handshake| handshake.authenticated.take());
        let Some(done) = done else { return Ok(()) };
        if !may_claim(kind, ident.gid, &done.entity) {
            return Err(StreamError::Impostor);
        }
        let peer = peer_of(kind, socket, ident, *done, self.config.supported_features);
        if aside.is_some() {
            self.open_accepted(now, id, Policy::Lossy, key, Arc::new(Peer { called: aside, ..peer }), ident);
            return Ok(());
        }
        let peer = Arc::new(peer);
        // A peer that may have a lossless session may have lossy ones beside it: what it says decides.
        let policy = if ident.flags & FLAG_LOSSY != 0 { Policy::Lossy } else { self.config.accept_policy(kind) };
        match policy {
            Policy::Lossy => {
                self.replace_lossy(key, &peer);
                self.open_accepted(now, id, Policy::Lossy, key, peer, ident);
                Ok(())
            }
            Policy::Lossless if ident.cookie == 0 => {
                Err(Malformed::new("CLIENT_IDENT", "has no cookie for a lossless session").into())
            }
            Policy::Lossless => match self.by_addr.get(&key).copied() {
                Some(sid) if self.sessions[&sid].policy == Policy::Lossless => {
                    self.on_existing(now, id, sid, peer, ident)
                }
                existing => {
                    if let Some(sid) = existing {
                        self.end_session(sid, CloseReason::Fault);
                    }
                    self.open_accepted(now, id, Policy::Lossless, key, peer, ident);
                    Ok(())
                }
            },
        }
    }

    /// The same client again, from the same process: what is left of its last session is in the way.
    fn replace_lossy(&mut self, key: EntityAddr, peer: &Peer) {
        if let Some(&sid) = self.by_addr.get(&key)
            && self.config.replace_lossy
            && let Some(session) = self.sessions.get(&sid)
            && session.policy == Policy::Lossy
            && session.peer.as_ref().is_some_and(|known| known.entity == peer.entity)
        {
            self.end_session(sid, CloseReason::Fault);
        }
    }

    fn open_accepted(
        &mut self,
        now: Instant,
        id: StreamId,
        policy: Policy,
        key: EntityAddr,
        peer: Arc<Peer>,
        ident: &ClientIdent,
    ) {
        let conn = self.name_accepted();
        let (kind, aside) = (peer.name.kind, peer.called.is_some());
        let mut session = Session::new(conn, policy, kind);
        session.peer = Some(peer);
        let sid = self.add_session(session);
        let stands_for_peer = match policy {
            Policy::Lossless => true,
            Policy::Lossy => {
                let usual = self.config.accept_policy(kind) == Policy::Lossy;
                usual && !aside && self.config.replace_lossy && !self.by_addr.contains_key(&key)
            }
        };
        if stands_for_peer {
            self.register(sid, key);
        }
        self.attach_stream(id, sid);
        self.establish(now, id, sid, ident);
    }

    /// Answers a CLIENT_IDENT with SERVER_IDENT: the session begins (again).
    pub(super) fn establish(&mut self, now: Instant, id: StreamId, sid: SessionId, ident: &ClientIdent) {
        let cookie = self.new_cookie();
        self.global_seq += 1;
        let (me, addrs) = self.config.door(self.streams.get(&id).map_or(DoorId::default(), |stream| stream.door));
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let lossy = session.policy == Policy::Lossy;
        session.begin();
        session.client_cookie = ident.cookie;
        session.server_cookie = if lossy { 0 } else { cookie };
        session.peer_global_seq = ident.global_seq;
        let answer = ServerIdent {
            addrs: addrs.clone(),
            gid: me.num,
            global_seq: self.global_seq,
            supported_features: self.config.supported_features,
            required_features: self.config.required_features,
            flags: if lossy { FLAG_LOSSY } else { 0 },
            cookie: session.server_cookie,
        };
        self.send_control(now, id, &answer);
        self.begin_delivery(now, id, sid);
    }
}

/// The address under which a peer is found again.
pub(super) fn key_of(addrs: &AddrVec) -> Option<EntityAddr> {
    addrs.msgr2().or_else(|| addrs.0.first().copied()).filter(|addr| addr.socket.is_some())
}

/// Whether a peer that has proved to be `entity` may act as this daemon. Anybody may be a client: tools use daemons'
/// keys.
pub(super) fn may_claim(kind: EntityType, number: i64, entity: &str) -> bool {
    let Some((prefix, id)) = entity.split_once('.') else { return false };
    match kind {
        EntityType::CLIENT => true,
        EntityType::OSD => prefix == "osd" && id.parse() == Ok(number),
        _ => prefix == kind.name(),
    }
}

fn peer_of(kind: EntityType, socket: SocketAddr, ident: &ClientIdent, done: Authenticated, supported: u64) -> Peer {
    // A client that talks to a monitor for the first time does not know its number yet; we do.
    let unnumbered = kind == EntityType::CLIENT && ident.gid < 0;
    Peer {
        name: EntityName { kind, num: if unnumbered { done.global_id as i64 } else { ident.gid } },
        entity: done.entity,
        called: None,
        addrs: ident.addrs.clone(),
        socket: Some(socket),
        global_id: done.global_id,
        features: ident.supported_features & supported,
        caps: done.caps,
    }
}
