//! Our client and our servers against each other, over hours of virtual time.

use super::*;
use crate::cephx::client::Reply;
use crate::codec::Decode;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_client_gets_in_and_both_ends_share_secrets() {
    let (mut mon, admin, osd) = monitor();
    let mut client = client("client.admin", &admin);
    let (there, here) = handshake(T0, &mut client, &mut mon, EntityType::MON).expect("client.admin gets in");
    assert_eq!(there.entity, "client.admin");
    assert_eq!((there.global_id, there.con_mode), (4096, ConMode::Secure));
    assert_eq!(there.secrets, here.secrets);
    assert_eq!(here.secrets.connection_secret.len(), CONNECTION_SECRET_BYTES);
    assert_eq!(&there.caps.caps[..], b"\x07\0\0\0allow *");
    let mut daemon = osd_daemon(T0, &mut mon, &osd);
    let (there, here) = handshake(T0, &mut client, &mut daemon, EntityType::OSD).expect("and at the OSD");
    assert_eq!((there.entity.as_str(), there.global_id), ("client.admin", 4096));
    assert_eq!(there.secrets, here.secrets);
    assert_eq!(there.con_mode, ConMode::Crc);
    assert_eq!(&there.caps.caps[..], b"\x07\0\0\0allow *");
}

#[test]
fn wrong_keys_unknown_names_and_missing_caps_are_refused_alike() {
    let (mut mon, admin, _) = monitor();
    let wrong = CryptoKey::aes(T0, [7; 16]);
    for (who, key) in [("client.admin", &wrong), ("client.nobody", &admin), ("client.nocaps", &admin)] {
        let refused = handshake(T0, &mut client(who, key), &mut mon, EntityType::MON).map(|_| ());
        assert_eq!(refused, Err(Errno::EACCES), "{who}");
    }
    let mut keyless = CephxClient::new(name("client.admin"), None, WANT, ClientModes::default(), rng(4));
    assert_eq!(handshake(T0, &mut keyless, &mut mon, EntityType::MON).map(|_| ()), Err(Errno::ENOENT));
}

#[test]
fn methods_and_modes_that_nobody_shares_are_refused() {
    let (mut mon, _, _) = monitor();
    for (method, modes) in [(1, vec![1]), (AUTH_CEPHX, vec![]), (AUTH_CEPHX, vec![7])] {
        let mut exchange = ServerExchange { method, preferred_modes: modes, ..ServerExchange::default() };
        let step = mon.step(T0, EntityType::CLIENT, &mut exchange, &Bytes::from_static(b"\x0a"));
        assert_eq!(step, ServerStep::Refused(Errno::EOPNOTSUPP));
    }
}

#[test]
fn a_returning_client_keeps_its_number_only_with_its_ticket() {
    let (mut mon, admin, _) = monitor();
    let mut first = client("client.admin", &admin);
    handshake(T0, &mut first, &mut mon, EntityType::MON).expect("new");
    let before = first.tickets().session_key(EntityType::AUTH).cloned();
    let (again, _) = handshake(T0 + HOUR, &mut first, &mut mon, EntityType::MON).expect("with its ticket");
    assert_eq!(again.global_id, 4096);
    assert_ne!(first.tickets().session_key(EntityType::AUTH).cloned(), before);

    // The right key but somebody else's number: refused.
    let mut thief = client("client.admin", &admin);
    handshake(T0, &mut thief, &mut mon, EntityType::MON).expect("new");
    assert_eq!(thief.global_id(), 4097);
    let mut exchange = ClientExchange::default();
    thief.request(T0, EntityType::MON, &mut exchange).expect("it has a key");
    let claim = {
        let mut e = crate::codec::Encoder::new();
        e.u8(10);
        e.put(&name("client.admin"));
        e.u64(4096);
        e.finish()
    };
    let mut server = ServerExchange { method: AUTH_CEPHX, preferred_modes: vec![1], ..ServerExchange::default() };
    let ServerStep::More(challenge) = mon.step(T0, EntityType::CLIENT, &mut server, &claim) else { panic!() };
    let proof = thief.more(T0, EntityType::MON, &mut exchange, &challenge).expect("a challenge");
    let step = mon.step(T0, EntityType::CLIENT, &mut server, &proof);
    assert_eq!(step, ServerStep::Refused(Errno::EACCES));
}

#[test]
fn old_clients_reclaim_only_where_the_operator_allows_it() {
    for (allowed, expected) in [(false, false), (true, true)] {
        let (mut mon, admin, _) = monitor();
        mon.keys.set_config(KeyServerConfig {
            auth_allow_insecure_global_id_reclaim: allowed,
            ..KeyServerConfig::default()
        });
        let mut server = ServerExchange { method: AUTH_CEPHX, preferred_modes: vec![1], ..ServerExchange::default() };
        let mut e = crate::codec::Encoder::new();
        e.u8(10);
        e.put(&name("client.admin"));
        e.u64(7000);
        let ServerStep::More(challenge) = mon.step(T0, EntityType::CLIENT, &mut server, &e.finish()) else { panic!() };
        let challenge = protocol::ServerChallenge::from_bytes(&challenge).expect("ours").challenge;
        let mut e = crate::codec::Encoder::new();
        e.u16(protocol::GET_AUTH_SESSION_KEY);
        e.put(&protocol::Authenticate {
            version: 2,
            client_challenge: 5,
            key: protocol::challenge_response(&admin, challenge, 5).expect("usable"),
            ..protocol::Authenticate::default()
        });
        let step = mon.step(T0, EntityType::CLIENT, &mut server, &e.finish());
        assert_eq!(matches!(step, ServerStep::Done(_)), expected);
        if !expected {
            assert_eq!(step, ServerStep::Refused(Errno::EACCES));
        }
    }
}

#[test]
fn tickets_are_renewed_over_the_session_for_a_week() {
    let (mut mon, admin, osd) = monitor();
    let mut client = client("client.admin", &admin);
    handshake(T0, &mut client, &mut mon, EntityType::MON).expect("client.admin gets in");
    let mut now = T0;
    let mut renewals = 0;
    while now < T0 + HOUR * 24 * 7 {
        assert_eq!(client.renewal(now), Ok(None), "nothing is due before its time");
        now = client.next_renewal().expect("it has tickets").max(now + Duration::from_secs(1));
        if mon.keys.next_rotation().is_some_and(|at| at <= now) {
            mon.rotate(now);
        }
        let payload = client.renewal(now).expect("it has a key").expect("something is due");
        let reply = mon.message(now, &name("client.admin"), client.global_id(), &payload).expect("renewed");
        assert_eq!(client.reply(now, &reply), Ok(Reply::Tickets));
        renewals += 1;
        let mut daemon = osd_daemon(now, &mut mon, &osd);
        handshake(now, &mut client, &mut daemon, EntityType::OSD).expect("a good ticket");
    }
    assert!(renewals > 24 * 7, "{renewals}");
    assert_eq!(client.global_id(), 4096);
}

#[test]
fn a_ticket_outlives_one_rotation_and_not_three() {
    let (mut mon, admin, osd) = monitor();
    let mut client = client("client.admin", &admin);
    handshake(T0, &mut client, &mut mon, EntityType::MON).expect("client.admin gets in");
    let mut worked = vec![];
    for _ in 0..3 {
        let now = mon.keys.rotating(EntityType::OSD).and_then(RotatingSecrets::current_expires).expect("full");
        assert!(mon.rotate(now));
        let mut daemon = osd_daemon(now, &mut mon, &osd);
        worked.push(handshake(now, &mut client, &mut daemon, EntityType::OSD).map(|_| ()));
    }
    assert_eq!(worked, [Ok(()), Err(Errno::EACCES), Err(Errno::EACCES)]);
}

#[test]
fn an_osd_one_rotation_behind_still_reads_new_tickets() {
    let (mut mon, admin, osd) = monitor();
    let mut behind = osd_daemon(T0, &mut mon, &osd);
    let now = mon.keys.next_rotation().expect("full");
    assert!(mon.rotate(now));
    let mut client = client("client.admin", &admin);
    handshake(now, &mut client, &mut mon, EntityType::MON).expect("client.admin gets in");
    handshake(now, &mut client, &mut behind, EntityType::OSD).expect("the next secret was known");
}

#[test]
fn a_ticket_for_one_service_opens_no_other() {
    let (mut mon, admin, osd) = monitor();
    let mut client = client("client.admin", &admin);
    handshake(T0, &mut client, &mut mon, EntityType::MON).expect("client.admin gets in");
    let mut daemon = osd_daemon(T0, &mut mon, &osd);
    // The manager's ticket shown to an OSD.
    let refused = handshake(T0, &mut client, &mut daemon, EntityType::MGR).map(|_| ());
    assert_eq!(refused, Err(Errno::EACCES));
    let mut empty = Daemon(ServiceVerifier::new(EntityType::OSD, ServerModes::default()), rng(5));
    assert_eq!(handshake(T0, &mut client, &mut empty, EntityType::OSD).map(|_| ()), Err(Errno::EACCES));
}

/// A daemon to which everybody claims to be an OSD.
struct Deceived(Daemon);

impl AuthServer for Deceived {
    fn step(&mut self, now: Instant, _: EntityType, exchange: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        self.0.step(now, EntityType::OSD, exchange, payload)
    }
    fn methods(&self) -> Vec<u32> {
        self.0.methods()
    }
    fn modes(&self, peer_kind: EntityType) -> Vec<ConMode> {
        self.0.modes(peer_kind)
    }
}

#[test]
fn a_client_that_claims_to_be_a_daemon_does_not_get_its_modes() {
    let (mut mon, admin, osd) = monitor();
    let mut daemon = osd_daemon(T0, &mut mon, &osd);
    daemon.0.set_modes(ServerModes { cluster: vec![ConMode::Crc], service: vec![ConMode::Secure] });
    let mut deceived = Deceived(daemon);
    let mut client = client("client.admin", &admin);
    handshake(T0, &mut client, &mut mon, EntityType::MON).expect("client.admin gets in");
    let refused = handshake(T0, &mut client, &mut deceived, EntityType::OSD).map(|_| ());
    assert_eq!(refused, Err(Errno::EACCES));
    let (done, _) = handshake(T0, &mut client, &mut deceived.0, EntityType::OSD).expect("as what it is");
    assert_eq!(done.con_mode, ConMode::Secure);
}

#[test]
fn only_known_daemons_get_rotating_secrets() {
    let (mut mon, _, _) = monitor();
    let ask = CephxClient::rotating_request();
    assert_eq!(mon.message(T0, &name("client.admin"), 4096, &ask), Err(Errno::EACCES));
    assert_eq!(mon.message(T0, &name("osd.9"), 4096, &ask), Err(Errno::EACCES));
    assert!(mon.message(T0, &name("osd.0"), 4096, &ask).is_ok());
    assert_eq!(mon.message(T0, &name("osd.0"), 4096, &Bytes::from_static(&[1, 1])), Err(Errno::EINVAL));
    // A renewal on a session that never shook hands.
    assert_eq!(mon.message(T0, &name("osd.0"), 4096, &Bytes::from_static(&[0, 1])), Err(Errno::EACCES));
}

#[test]
fn the_database_survives_its_store_and_numbers_are_never_given_twice() {
    let (mut mon, admin, _) = monitor();
    let mut last = 0;
    for _ in 0..3 {
        let mut client = client("client.admin", &admin);
        handshake(T0, &mut client, &mut mon, EntityType::MON).expect("in");
        last = client.global_id();
    }
    let records = mon.keys.take_changes();
    assert!(mon.keys.take_changes().is_empty());
    let records: Vec<_> = records.into_iter().map(|(k, v)| (k, v.expect("nothing was removed"))).collect();
    let loaded = KeyServer::load(KeyServerConfig::default(), records.iter().map(|(k, v)| (k.as_str(), v)));
    let mut loaded = loaded.expect("its own records");
    assert!(loaded.entities().eq(mon.keys.entities()));
    assert_eq!(loaded.rotating(EntityType::OSD), mon.keys.rotating(EntityType::OSD));
    assert!(loaded.assign_global_id().expect("some are left") > last);
    assert!(!loaded.rotate(T0, &mut rng(6)), "secrets that were persisted still hold");
    assert!(loaded.remove(&name("client.nocaps")));
    assert!(loaded.take_changes().contains(&("entity/client.nocaps".to_owned(), None)));
}

#[test]
fn a_monitor_takes_a_ticket_it_gave_before_it_restarted() {
    let (mut mon, admin, _) = monitor();
    let mut client = client("client.admin", &admin);
    handshake(T0, &mut client, &mut mon, EntityType::MON).expect("in");
    let records: Vec<_> = mon.keys.take_changes();
    let records = records.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_ref()?)));
    let keys = KeyServer::load(KeyServerConfig::default(), records).expect("its own records");
    let mut mon = MonAuth::new(keys, vec![ConMode::Crc], rng(8));
    let (there, _) = handshake(T0 + HOUR, &mut client, &mut mon, EntityType::MON).expect("reclaimed");
    assert_eq!(there.global_id, 4096);
}

#[test]
fn the_time_to_live_is_capped_by_the_last_secret() {
    let (mut mon, admin, _) = monitor();
    mon.keys.set_config(KeyServerConfig { auth_service_ticket_ttl: HOUR * 24 * 365, ..KeyServerConfig::default() });
    let mut client = client("client.admin", &admin);
    handshake(T0, &mut client, &mut mon, EntityType::MON).expect("in");
    assert!(client.tickets().has(T0 + HOUR * 3 - Duration::from_secs(1), EntityType::OSD));
    assert!(!client.tickets().has(T0 + HOUR * 3, EntityType::OSD));
}
