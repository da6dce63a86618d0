//! Exchanges captured from Ceph 16.2.15, decrypted with the captured cluster's keys, read and written again.

use super::*;
use crate::cephx::protocol::{
    self, Authenticate, Authorize, AuthorizeReply, AuthorizerHead, ServerChallenge, ServiceTicketInfo,
};
use crate::cephx::{envelope, tickets::Grant, tickets::put_reply, verifier::open_authorizer};
use crate::codec::{Decode, Decoder, Encode, Encoder};
use std::collections::BTreeMap;

const CAPTURE: &str = include_str!("../../../tests/golden/cephx.txt");

struct Capture(BTreeMap<&'static str, &'static str>);

impl Capture {
    fn load() -> Capture {
        let lines = CAPTURE.lines().filter(|l| !l.starts_with('#'));
        Capture(lines.map(|l| l.split_once(' ').expect("name, space, value")).collect())
    }

    fn hex(&self, name: &str) -> Bytes {
        let text = self.0[name];
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex")).collect()
    }

    fn key(&self, entity: &str) -> CryptoKey {
        CryptoKey::parse(self.0[format!("key/{entity}").as_str()]).expect("a captured key")
    }

    fn global_id(&self, exchange: &str) -> u64 {
        self.0[format!("{exchange}/global_id").as_str()].parse().expect("a number")
    }

    /// The secrets out of an `MAuthReply`'s front: protocol, result, global id, payload.
    fn rotating(&self, reply: &str, key: &CryptoKey) -> RotatingSecrets {
        let front = self.hex(reply);
        let mut d = Decoder::shared(&front);
        assert_eq!((d.u32(), d.i32()), (Ok(AUTH_CEPHX), Ok(0)));
        d.u64().expect("a global id");
        let payload = d.blob().expect("a payload");
        let mut client = CephxClient::new(name("osd.1"), Some(key.clone()), 0, ClientModes::default(), rng(0));
        match client.reply(T0, &payload) {
            Ok(client::Reply::Rotating(secrets)) => {
                // Sealing is deterministic, so writing the reply again must give the captured bytes.
                assert_eq!(&envelope::seal(key, &secrets)[..], &payload[10..]);
                secrets
            }
            other => panic!("{reply}: {other:?}"),
        }
    }
}

#[test]
fn keys_survive_their_text_form() {
    let capture = Capture::load();
    for (name, text) in capture.0.iter().filter(|(name, _)| name.starts_with("key/")) {
        assert_eq!(CryptoKey::parse(text).expect("a captured key").to_text(), *text, "{name}");
    }
}

#[test]
fn proofs_of_key_are_those_of_real_clients() {
    let capture = Capture::load();
    for (exchange, entity) in [("mon-mgr", "mgr.x"), ("mon-client", "client.admin"), ("mon-osd", "osd.0")] {
        let challenge =
            ServerChallenge::from_bytes(&capture.hex(&format!("{exchange}/auth_reply_more"))).expect("a challenge");
        let more = capture.hex(&format!("{exchange}/auth_request_more"));
        let mut d = Decoder::shared(&more);
        assert_eq!(d.u16(), Ok(protocol::GET_AUTH_SESSION_KEY));
        let proof: Authenticate = d.get().expect("a proof");
        assert_eq!(d.remaining(), 0);
        assert_eq!(proof.to_bytes(), more.slice(2..));
        let expected = protocol::challenge_response(&capture.key(entity), challenge.challenge, proof.client_challenge);
        assert_eq!(expected, Ok(proof.key), "{exchange}");
    }
}

#[test]
fn our_requests_are_a_real_clients_byte_for_byte() {
    let capture = Capture::load();
    for (exchange, entity) in [("mon-mgr", "mgr.x"), ("mon-client", "client.admin"), ("mon-osd", "osd.0")] {
        let mut client = client(entity, &capture.key(entity));
        let request = client.request(T0, EntityType::MON, &mut ClientExchange::default()).expect("it has a key");
        assert_eq!(request.payload, capture.hex(&format!("{exchange}/auth_request")));
    }
}

#[test]
fn a_real_monitors_tickets_are_accepted_and_ours_read_the_same() {
    let capture = Capture::load();
    for (exchange, entity) in [("mon-mgr", "mgr.x"), ("mon-client", "client.admin"), ("mon-osd", "osd.0")] {
        let mut client = client(entity, &capture.key(entity));
        let mut ours = ClientExchange::default();
        client.request(T0, EntityType::MON, &mut ours).expect("it has a key");
        let challenge = capture.hex(&format!("{exchange}/auth_reply_more"));
        client.more(T0, EntityType::MON, &mut ours, &challenge).expect("a challenge");
        let payload = capture.hex(&format!("{exchange}/auth_done"));
        let global_id = capture.global_id(exchange);
        let done = client.done(T0, EntityType::MON, &mut ours, global_id, ConMode::Crc, &payload).expect("real");
        assert_eq!((done.global_id, done.secrets.session_key.len()), (global_id, 16));
        assert!(client.tickets().has(T0, EntityType::AUTH));
        if exchange != "mon-mgr" {
            for service in [EntityType::MON, EntityType::OSD, EntityType::MGR] {
                assert!(client.tickets().has(T0 + Duration::from_secs(3599), service));
                assert!(!client.tickets().has(T0 + Duration::from_secs(3600), service));
            }
            let three_quarters = T0 + Duration::from_secs(2700);
            assert_eq!(client.tickets().next_renewal(WANT), Some(three_quarters));
        }
        assert!(client.tickets().has(T0 + Duration::from_secs(71 * 3600), EntityType::AUTH));
    }
}

#[test]
fn a_real_authorizer_opens_with_the_rotating_secrets_a_real_osd_was_sent() {
    let capture = Capture::load();
    let secrets = capture.rotating("mauthreply_005", &capture.key("osd.1"));
    assert_eq!(secrets.len(), 3);
    let open = |payload: &Bytes| -> (ServiceTicketInfo, Authorize) {
        let mut d = Decoder::shared(payload);
        let opened = open_authorizer(&mut d, |service, id| {
            assert_eq!(service, 4);
            secrets.key(id).cloned()
        });
        assert_eq!(d.remaining(), 0);
        opened.expect("a real authorizer")
    };
    let (info, first) = open(&capture.hex("osd-client/auth_request"));
    assert_eq!(info.ticket.name.to_string(), "client.admin");
    assert_eq!(info.ticket.global_id, capture.global_id("osd-client"));
    assert_eq!(&info.ticket.caps.caps[..], b"\x07\0\0\0allow *");
    assert_eq!(first.challenge_plus_one, None);

    let challenge: ServerChallenge =
        envelope::open(&info.session_key, &capture.hex("osd-client/auth_reply_more")).expect("the OSD's challenge");
    let (_, second) = open(&capture.hex("osd-client/auth_request_more"));
    assert_eq!(second.nonce, first.nonce);
    assert_eq!(second.challenge_plus_one, Some(challenge.challenge.wrapping_add(1)));

    let done = capture.hex("osd-client/auth_done");
    let reply: AuthorizeReply =
        envelope::get_sealed(&mut Decoder::shared(&done), &info.session_key).expect("the OSD's proof");
    assert_eq!(reply.nonce_plus_one, first.nonce.wrapping_add(1));

    // Everything written again is what was captured.
    let payload = capture.hex("osd-client/auth_request_more");
    let mut d = Decoder::shared(&payload);
    let head: AuthorizerHead = d.get().expect("opened above");
    let mut e = Encoder::new();
    e.put(&head);
    envelope::put_sealed(&mut e, &info.session_key, &second);
    assert_eq!(e.finish(), payload);
    assert_eq!(envelope::seal(secrets.key(2).expect("secret 2"), &info), head.ticket.blob);
    let mut e = Encoder::new();
    envelope::put_sealed(&mut e, &info.session_key, &reply);
    assert_eq!(e.finish(), done);
}

#[test]
fn our_verifier_and_client_follow_the_captured_steps() {
    let capture = Capture::load();
    let mut verifier = ServiceVerifier::new(EntityType::OSD, ServerModes::default());
    verifier.set_secrets(capture.rotating("mauthreply_005", &capture.key("osd.1")));
    let mut exchange = ServerExchange { method: AUTH_CEPHX, preferred_modes: vec![1], ..ServerExchange::default() };
    let request = capture.hex("osd-client/auth_request");
    assert!(
        matches!(verifier.step(&mut rng(9), EntityType::CLIENT, &mut exchange, &request), ServerStep::More(more) if more.len() == 32)
    );
    // The captured answer is to another challenge: a replay.
    let replay = capture.hex("osd-client/auth_request_more");
    assert_eq!(
        verifier.step(&mut rng(9), EntityType::CLIENT, &mut exchange, &replay),
        ServerStep::Refused(Errno::EACCES)
    );
    // With the challenge it was made for, it is right.
    let (info, _) =
        open_authorizer(&mut Decoder::shared(&replay), |_, id| verifier.secrets().key(id).cloned()).expect("real");
    let challenge: ServerChallenge =
        envelope::open(&info.session_key, &capture.hex("osd-client/auth_reply_more")).expect("real");
    exchange.challenge = Some(challenge.challenge);
    let ServerStep::Done(done) = verifier.step(&mut rng(9), EntityType::CLIENT, &mut exchange, &replay) else {
        panic!("refused")
    };
    assert_eq!((done.entity.as_str(), done.con_mode), ("client.admin", ConMode::Crc));
    assert_eq!(done.payload, capture.hex("osd-client/auth_done"));
}

#[test]
fn a_ticket_reply_is_written_as_a_real_monitor_writes_it() {
    let capture = Capture::load();
    let key = capture.key("client.admin");
    let payload = capture.hex("mon-client/auth_done");
    // What follows the header: one ticket of the authentication service, whose own half we can open.
    let mut d = Decoder::shared(&payload);
    d.skip(6 + 1 + 4 + 4 + 1).expect("header, version, count, service, version");
    let ours: protocol::ServiceTicket = envelope::get_sealed(&mut d, &key).expect("client.admin's half");
    assert_eq!(ours.validity.secs, 72 * 3600);
    let grant = Grant {
        service: EntityType::AUTH,
        secret_id: 2,
        secret: key.clone(),
        info: ServiceTicketInfo { session_key: ours.session_key.clone(), ..ServiceTicketInfo::default() },
        validity: ours.validity,
    };
    let mut e = Encoder::new();
    put_reply(&mut e, &key, None, &[grant]);
    let sealed_half = 1 + 4 + 4 + 1 + 4 + 48;
    assert_eq!(e.as_slice()[..sealed_half], payload[6..6 + sealed_half]);
    // In crc mode the connection secret is sealed all the same, empty.
    let at = payload.len() - 4 - 550 - 4 - 20;
    let mut d = Decoder::new(&payload[at..]);
    let cbl = d.blob().expect("the connection secret's blob");
    let secret: Bytes =
        envelope::get_sealed(&mut Decoder::shared(&cbl), &ours.session_key).expect("sealed with the session key");
    assert!(secret.is_empty());
    assert_eq!(d.u32(), Ok(550));
}
