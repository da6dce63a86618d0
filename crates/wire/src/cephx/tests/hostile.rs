//! Bytes from those who mean harm: everything is refused or read, nothing panics.

use super::*;
use crate::cephx::tickets::Tickets;
use crate::codec::{Decode, Decoder, Encode};
use proptest::prelude::*;

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

proptest! {
    #[test]
    fn the_monitor_survives_any_payloads(first in bytes(64), second in bytes(200), message in bytes(200)) {
        let (mut mon, _, _) = monitor();
        let mut exchange =
            ServerExchange { method: AUTH_CEPHX, preferred_modes: vec![2, 1], ..ServerExchange::default() };
        mon.step(T0, EntityType::CLIENT, &mut exchange, &first);
        let step = mon.step(T0, EntityType::CLIENT, &mut exchange, &second);
        prop_assert!(!matches!(step, ServerStep::Done(_)));
        let _ = mon.message(T0, &name("client.admin"), 1, &message);
    }

    #[test]
    fn any_changed_byte_of_a_proof_or_an_authorizer_is_refused(at in 0_usize..400, flip in 1_u8..) {
        let (mut mon, admin, osd) = monitor();
        let mut client = client("client.admin", &admin);
        handshake(T0, &mut client, &mut mon, EntityType::MON).expect("in");
        let mut daemon = osd_daemon(T0, &mut mon, &osd);
        let mut ours = ClientExchange::default();
        let request = client.request(T0, EntityType::OSD, &mut ours).expect("it has a ticket");
        let mut theirs =
            ServerExchange { method: AUTH_CEPHX, preferred_modes: vec![1], ..ServerExchange::default() };
        let ServerStep::More(more) = daemon.step(T0, EntityType::CLIENT, &mut theirs, &request.payload)
        else { panic!("the request is right") };
        let good = client.more(T0, EntityType::OSD, &mut ours, &more).expect("the challenge is right");
        let mut bad = good.to_vec();
        let at = at % bad.len();
        bad[at] ^= flip;
        let step = daemon.step(T0, EntityType::CLIENT, &mut theirs.clone(), &Bytes::from(bad));
        // CBC without a checksum: a change in the ticket's unused tail fields or in version bytes can go unnoticed.
        // What must not change is who the peer is.
        if let ServerStep::Done(done) = step {
            prop_assert_eq!((done.entity.as_str(), done.global_id), ("client.admin", 4096));
        }
        prop_assert!(matches!(daemon.step(T0, EntityType::CLIENT, &mut theirs, &good), ServerStep::Done(_)));
    }

    #[test]
    fn clients_survive_any_monitor(challenge in bytes(40), done in bytes(400)) {
        let mut client = client("client.admin", &CryptoKey::aes(T0, [1; 16]));
        let mut exchange = ClientExchange::default();
        client.request(T0, EntityType::MON, &mut exchange).expect("it has a key");
        let _ = client.more(T0, EntityType::MON, &mut exchange, &challenge);
        let result = client.done(T0, EntityType::MON, &mut exchange, 7, ConMode::Crc, &done);
        prop_assert!(result.is_err());
        let _ = client.reply(T0, &done);
    }

    #[test]
    fn decoders_survive_any_bytes(bytes in bytes(300)) {
        let _ = CryptoKey::from_bytes(&bytes);
        let _ = EntityAuth::from_bytes(&bytes);
        let _ = RotatingSecrets::from_bytes(&bytes);
        let _ = protocol::ServiceTicketInfo::from_bytes(&bytes);
        let _ = protocol::AuthorizerHead::from_bytes(&bytes);
        let _ = Tickets::default().accept(T0, &CryptoKey::aes(T0, [1; 16]), &mut Decoder::shared(&bytes));
        let _ = KeyServer::load(KeyServerConfig::default(), [("rotating", &bytes)]);
    }

    #[test]
    fn keys_and_records_round_trip(secret in any::<[u8; 16]>(), caps in proptest::collection::btree_map(".{0,8}", ".{0,40}", 0..5)) {
        let key = CryptoKey::aes(T0, secret);
        prop_assert_eq!(CryptoKey::parse(&key.to_text()), Ok(key.clone()));
        let auth = EntityAuth { key, caps };
        prop_assert_eq!(EntityAuth::from_bytes(&auth.to_bytes()), Ok(auth));
    }
}

#[test]
fn texts_that_are_no_keys_are_told_apart() {
    assert_eq!(CryptoKey::parse("not base64!"), Err(BadKey::NotBase64));
    assert_eq!(CryptoKey::parse("AQAAAAAA"), Err(BadKey::Malformed));
    let mut other = CryptoKey::aes(T0, [3; 16]).to_bytes().to_vec();
    other[0] = 2;
    let other = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, other);
    assert_eq!(CryptoKey::parse(&other), Err(BadKey::Unsupported(2)));
}

#[test]
fn debug_output_has_no_secrets() {
    let key = CryptoKey::aes(T0, *b"secretsecretsecr");
    let shown = format!("{key:?} {:?}", EntityAuth { key: key.clone(), ..EntityAuth::default() });
    assert!(!shown.contains("secretsecret") && !shown.contains("115, 101"), "{shown}");
}
