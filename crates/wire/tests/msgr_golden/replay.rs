//! Our messenger in the place of either end of a captured connection: it says the same bytes, and understands what
//! the other end says.

use crate::capture::{CONNECTIONS, Capture, MODES};
use base::rng::SecretRng;
use base::{Errno, Instant};
use bytes::{Bytes, BytesMut};
use wire::auth::{
    AuthClient, AuthServer, Authenticated, ClientDone, ClientExchange, ConMode, ServerExchange, ServerStep,
};
use wire::msgr::control::{ClientIdent, FLAG_LOSSY, ServerIdent};
use wire::msgr::crypto::{Side, aes_gcm};
use wire::msgr::frame::FrameReader;
use wire::msgr::tag::Tag;
use wire::msgr::{Messenger, MessengerConfig, StreamCommand, StreamId, banner};
use wire::net::{ConnId, NetCommand, NetEvent, Policy, TicketCaps};
use wire::types::{EntityName, EntityType};

const NOW: Instant = Instant::from_secs(1_700_000_000);

/// Says what was captured, and checks that the other end does.
struct Script<'a>(&'a Capture);

impl Script<'_> {
    fn mode(&self) -> ConMode {
        ConMode::from_wire(self.0.done.con_mode).expect("a known mode")
    }
}

impl AuthServer for Script<'_> {
    fn step(&mut self, _: Instant, kind: EntityType, exchange: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        assert_eq!(kind, EntityType::CLIENT);
        if *payload == self.0.request.payload {
            assert_eq!(exchange.preferred_modes, self.0.request.preferred_modes);
            return ServerStep::More(self.0.reply_more.payload.clone());
        }
        assert_eq!(*payload, self.0.request_more.payload);
        ServerStep::Done(Box::new(Authenticated {
            entity: "client.admin".to_owned(),
            global_id: self.0.done.global_id,
            caps: TicketCaps::default(),
            con_mode: self.mode(),
            payload: self.0.done.payload.clone(),
            secrets: self.0.secrets.clone(),
        }))
    }

    fn methods(&self) -> Vec<u32> {
        vec![self.0.request.method]
    }

    fn modes(&self, _: EntityType) -> Vec<ConMode> {
        vec![self.mode()]
    }
}

impl AuthClient for Script<'_> {
    fn request(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange) -> Result<wire::auth::AuthRequest, Errno> {
        let request = &self.0.request;
        Ok(wire::auth::AuthRequest {
            method: request.method,
            preferred_modes: request.preferred_modes.clone(),
            payload: request.payload.clone(),
        })
    }

    fn more(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange, payload: &Bytes) -> Result<Bytes, Errno> {
        assert_eq!(*payload, self.0.reply_more.payload);
        Ok(self.0.request_more.payload.clone())
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
        assert_eq!((con_mode, payload), (self.mode(), &self.0.done.payload));
        Ok(ClientDone { global_id, secrets: self.0.secrets.clone() })
    }
}

/// Feeds one captured direction in small pieces; returns what our side answered.
fn converse(messenger: &mut Messenger, stream: StreamId, script: &mut Script<'_>, theirs: &[u8]) -> Vec<u8> {
    let (mut said, mut buf) = (Vec::new(), BytesMut::new());
    for piece in theirs.chunks(7) {
        buf.extend_from_slice(piece);
        messenger.received(NOW, stream, &mut buf, script);
        while messenger.poll_dirty().is_some() {
            said.extend(messenger.take_outgoing(stream).iter().flat_map(|piece| piece.to_vec()));
        }
        assert_eq!(messenger.poll_stream_command(), None, "{:?}: the stream goes on", script.0);
    }
    assert!(buf.is_empty());
    said
}

/// Splits what `side` said before its CLIENT_IDENT or SERVER_IDENT from that.
fn split_ident<C: wire::msgr::control::Control>(bytes: &[u8], side: Side, capture: &Capture) -> (usize, C) {
    let mut buf = BytesMut::from(bytes);
    banner::take(&mut buf).expect("a banner");
    let mut reader = FrameReader::default();
    loop {
        let before = bytes.len() - buf.len();
        let frame = reader.next(&mut buf).expect("readable").expect("an identification");
        if frame.tag == C::TAG {
            return (before, frame.control().expect("readable"));
        }
        if capture.secure && matches!(frame.tag, Tag::AuthDone | Tag::AuthRequestMore) {
            let other = if side == Side::Connecting { Side::Accepting } else { Side::Connecting };
            reader.secure(aes_gcm(&capture.secrets.connection_secret, other).expect("long enough").rx);
        }
    }
}

fn messenger(me: EntityName, addrs: wire::types::AddrVec, required: u64) -> Messenger {
    let mut config = MessengerConfig::new(me, addrs);
    config.required_features = required;
    Messenger::new(config, SecretRng::from_entropy([9; 32]))
}

fn drain(messenger: &mut Messenger) -> (Vec<NetEvent>, usize) {
    let events: Vec<_> = core::iter::from_fn(|| messenger.poll_event()).collect();
    let messages = events.iter().filter(|event| matches!(event, NetEvent::Message { .. })).count();
    (events, messages)
}

#[test]
fn as_the_accepting_end_we_say_what_ceph_said() {
    for mode in MODES {
        for connection in CONNECTIONS {
            let capture = Capture::load(mode, connection);
            let theirs = &capture.server_ident;
            let me = EntityName { kind: capture.kind, num: theirs.gid };
            let mut messenger = messenger(me, theirs.addrs.clone(), theirs.required_features);
            let peer = capture.hello[1].peer_addr.socket.expect("the client's socket");
            let stream = messenger.accepted(NOW, peer);
            let said = converse(&mut messenger, stream, &mut Script(&capture), capture.bytes(Side::Connecting));

            let captured = capture.bytes(Side::Accepting);
            let (at, ident) = split_ident::<ServerIdent>(&said, Side::Accepting, &capture);
            assert_eq!(said[..at], captured[..at], "{capture:?}");
            let expected = ServerIdent { global_seq: ident.global_seq, ..theirs.clone() };
            assert_eq!(ident, expected, "{capture:?}");
            let (events, messages) = drain(&mut messenger);
            let NetEvent::Opened { peer, .. } = &events[0] else { panic!("{events:?}") };
            assert_eq!(peer.addrs, capture.client_ident.addrs);
            assert_eq!(messages > 0, capture.kind != EntityType::MGR, "{capture:?}: {events:?}");
        }
    }
}

#[test]
fn as_the_connecting_end_we_say_what_ceph_said() {
    for mode in MODES {
        for connection in CONNECTIONS {
            let capture = Capture::load(mode, connection);
            let theirs = &capture.client_ident;
            let me = EntityName { kind: EntityType::CLIENT, num: theirs.gid };
            let mut messenger = messenger(me, theirs.addrs.clone(), theirs.required_features);
            let to = wire::types::AddrVec::one(theirs.target_addr);
            let open = NetCommand::Open { conn: ConnId(1), to, kind: capture.kind, policy: Policy::Lossy };
            messenger.command(NOW, open);
            let Some(StreamCommand::Connect { stream, .. }) = messenger.poll_stream_command() else {
                panic!("nothing is connected")
            };
            messenger.connected(NOW, stream, "127.0.0.1:5".parse().expect("an address"));
            let said = converse(&mut messenger, stream, &mut Script(&capture), capture.bytes(Side::Accepting));

            let captured = capture.bytes(Side::Connecting);
            let (at, ident) = split_ident::<ClientIdent>(&said, Side::Connecting, &capture);
            assert_eq!(said[..at], captured[..at], "{capture:?}");
            // librados asks monitors for a lossless session and is told that it is lossy; we ask for what we get.
            let expected =
                ClientIdent { global_seq: 1, flags: FLAG_LOSSY, cookie: 0, gid: ident.gid, ..theirs.clone() };
            assert_eq!(ident, expected, "{capture:?}");
            let (events, messages) = drain(&mut messenger);
            let NetEvent::Opened { peer, .. } = &events[0] else { panic!("{events:?}") };
            assert_eq!((peer.name.kind, peer.name.num), (capture.kind, capture.server_ident.gid));
            assert_eq!(messages > 0, capture.kind != EntityType::MGR, "{capture:?}: {events:?}");
        }
    }
}
