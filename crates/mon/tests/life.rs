//! A monitor's life: OSDs boot, fail and return, maps go out in order, and nothing is lost over a restart.

mod cluster;

use base::{Duration, Epoch, OsdId, PgId, PoolId};
use cluster::{Cluster, addrs, osd_maps};
use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use wire::codec::Decode;
use wire::messages::{self, Message, MonSubscribe, OsdFailure, OsdMarkMeDown, OsdPgTemp, PaxosHead, Subscription};

#[test]
fn osds_that_start_together_need_few_commits_and_all_come_up() {
    let mut c = Cluster::new(8);
    let before = c.commits;
    for id in 0..8 {
        c.boot(id);
    }
    c.pass(Duration::from_millis(20));
    let admin = c.admin();
    let stat = c.json(admin, "osd stat");
    assert_eq!((stat["num_up_osds"].as_u64(), stat["num_in_osds"].as_u64()), (Some(8), Some(8)));
    assert!(c.commits - before <= 2, "{} commits for one start", c.commits - before);
    assert!(c.ok(admin, r#"{"prefix":"health"}"#).starts_with("HEALTH_OK"));
    assert_eq!(stat["epoch"].as_u64(), Some(2));
}

#[test]
fn subscribers_can_follow_the_map_from_the_first_epoch() {
    let (mut c, admin) = Cluster::with_osds(3);
    c.subscribe(admin, &[("osdmap", 0)]);
    let maps = osd_maps(c.received(admin));
    let (_, full) = maps[0].full.first_key_value().expect("a whole map");
    let mut map = OsdMap::from_bytes(full).expect("it decodes");
    for pool in ["x", "y", "z"] {
        c.ok(admin, &format!(r#"{{"prefix":"osd pool create","pool":"{pool}"}}"#));
    }
    // The answers to the commands took what arrived with them; subscribe again from where we are.
    let late = c.admin();
    c.subscribe(late, &[("osdmap", u64::from(map.epoch.0) + 1)]);
    for message in osd_maps(c.received(late)) {
        for inc in message.incremental.values() {
            let inc = Incremental::from_bytes(inc).expect("it decodes");
            map.apply(&inc).expect("it follows");
            assert_eq!(map.encoded().crc, inc.full_crc);
        }
    }
    assert_eq!(map.pools.len(), 3);
    // From epoch 1, too: the first is whole, the others follow.
    let other = c.admin();
    c.subscribe(other, &[("osdmap", 1)]);
    let maps = osd_maps(c.received(other));
    assert!(maps[0].full.contains_key(&Epoch(1)));
    assert_eq!(maps.last().map(|m| m.newest), Some(map.epoch));
}

/// Whoever asked for an epoch whose map was kept whole, such as the first, brought the monitor down: the range of steps
/// from that map to itself ended before it began.
#[test]
fn the_map_of_any_epoch_that_is_kept_can_be_had() {
    let (mut c, admin) = Cluster::with_osds(3);
    for at in 0..70 {
        c.ok(admin, &format!(r#"{{"prefix":"osd pool create","pool":"p{at}","pg_num":1,"pgp_num":1,"size":1}}"#));
    }
    let newest = c.json(admin, "osd stat")["epoch"].as_u64().expect("a number");
    assert!(newest > 70);
    for epoch in 1..=newest {
        let dump = c.ok(admin, &format!(r#"{{"prefix":"osd dump","format":"json","epoch":{epoch}}}"#));
        let dump: serde_json::Value = serde_json::from_str(&dump).expect("JSON");
        assert_eq!(dump["epoch"].as_u64(), Some(epoch));
    }
    let (code, _, _) = c.command(admin, &format!(r#"{{"prefix":"osd dump","epoch":{}}}"#, newest + 1));
    assert_eq!(code, -2);
}

/// What an OSD wishes says who leads, too. Where an operator's choice of a leader stayed, and the OSD wished for another,
/// they disagreed for ever and the group never served again.
#[test]
fn a_choice_of_who_leads_ends_with_a_wish_for_others_or_with_its_osd() {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1,"pgp_num":1,"size":3}"#);
    let pg = PgId::new(PoolId(1), 0);
    let chosen = |c: &mut Cluster| c.json(admin, "osd dump")["primary_temp"].as_array().map(Vec::len);
    let choose = r#"{"prefix":"osd primary-temp","pgid":"1.0","id":"osd.1"}"#;
    c.ok(admin, choose);
    assert_eq!(chosen(&mut c), Some(1));
    let leader = c.osd_session(1, 6810);
    c.send(leader, OsdPgTemp { epoch: Epoch(9), pg_temp: BTreeMap::from([(pg, vec![])]), ..OsdPgTemp::default() });
    c.pass(Duration::from_secs(1));
    assert_eq!(chosen(&mut c), Some(0));
    c.ok(admin, choose);
    assert_eq!(chosen(&mut c), Some(1));
    c.ok(admin, r#"{"prefix":"osd down","ids":["1"]}"#);
    c.pass(Duration::from_secs(1));
    assert_eq!(chosen(&mut c), Some(0));
}

/// Clients ask for the next maps once, and again when they have come. Who was far behind was sent the first of them and
/// counted as one who has all: asked again, the monitor had nothing more to say, and a client of long-gone OSDs waited for
/// ever.
#[test]
fn who_is_far_behind_and_asks_once_at_a_time_gets_to_the_newest_map() {
    let (mut c, admin) = Cluster::with_osds(3);
    let late = c.admin();
    let map = |c: &mut Cluster| c.json(admin, "osd stat")["epoch"].as_u64().expect("an epoch");
    let mut has = map(&mut c);
    for _ in 0..60 {
        for verb in ["set", "unset"] {
            c.ok(admin, &format!(r#"{{"prefix":"osd {verb}","key":"noout"}}"#));
        }
    }
    let newest = map(&mut c);
    assert!(newest > has + 100, "{has} to {newest}");
    let mut asked = 0;
    while has < newest {
        let once = Subscription { start: has + 1, onetime: true };
        c.send(late, MonSubscribe { what: [("osdmap".to_owned(), once)].into(), hostname: String::new() });
        let maps = osd_maps(c.received(late));
        let next = maps.iter().flat_map(|message| message.incremental.keys()).map(|epoch| u64::from(epoch.0)).max();
        assert!(next.is_some_and(|next| next > has), "{has} of {newest}, and nothing more comes");
        has = next.unwrap_or(has);
        asked += 1;
    }
    assert!(asked > 1, "it was far behind");
}

/// A client that asked who leads a placement group got several epochs in one message; with each of them somebody else led.
/// librados sent the question to who led in the first, and again to the same for as long as no other map came.
#[test]
fn a_client_is_told_of_one_epoch_at_a_time() {
    let (mut c, admin) = Cluster::with_osds(3);
    let (client, osd) = (c.admin(), c.osd_session(0, 6800));
    let has = c.json(admin, "osd stat")["epoch"].as_u64().expect("an epoch");
    for verb in ["set", "unset", "set"] {
        c.ok(admin, &format!(r#"{{"prefix":"osd {verb}","key":"noout"}}"#));
    }
    let told = |c: &mut Cluster, who| {
        let once = Subscription { start: has + 1, onetime: true };
        c.send(who, MonSubscribe { what: [("osdmap".to_owned(), once)].into(), hostname: String::new() });
        let maps = osd_maps(c.received(who));
        let epochs = |message: &messages::OsdMap| message.incremental.keys().map(|epoch| u64::from(epoch.0)).collect();
        maps.iter().map(epochs).collect::<Vec<Vec<u64>>>()
    };
    assert_eq!(told(&mut c, client), [[has + 1], [has + 2], [has + 3]]);
    assert_eq!(told(&mut c, osd), [[has + 1, has + 2, has + 3]], "OSDs take them all at once");
}

/// A client asks once for the next map when its session with an OSD breaks. If there was one already, of before the OSD
/// died, the one that showed that was told to nobody: the client went on trying to reach the OSD for 10 s.
#[test]
fn who_has_asked_once_is_told_of_what_follows_for_a_while() {
    let (mut c, admin) = Cluster::with_osds(3);
    let client = c.admin();
    let has = c.json(admin, "osd stat")["epoch"].as_u64().expect("an epoch");
    let flag = |c: &mut Cluster, verb: &str| c.ok(admin, &format!(r#"{{"prefix":"osd {verb}","key":"noout"}}"#));
    let told = |c: &mut Cluster| {
        let maps = osd_maps(c.received(client));
        maps.iter().flat_map(|message| message.incremental.keys()).map(|epoch| u64::from(epoch.0)).collect::<Vec<_>>()
    };
    flag(&mut c, "set");
    let once = Subscription { start: has + 1, onetime: true };
    c.send(client, MonSubscribe { what: [("osdmap".to_owned(), once)].into(), hostname: String::new() });
    assert_eq!(told(&mut c), [has + 1]);
    flag(&mut c, "unset");
    c.pass(Duration::from_secs(5));
    flag(&mut c, "set");
    assert_eq!(told(&mut c), [has + 2, has + 3], "each once");
    c.pass(Duration::from_secs(60));
    flag(&mut c, "unset");
    assert_eq!(told(&mut c), Vec::<u64>::new(), "it waits for nothing any more");
}

#[test]
fn nothing_leaves_before_it_is_on_disk() {
    let (mut c, admin) = Cluster::with_osds(3);
    let watcher = c.admin();
    c.subscribe(watcher, &[("osdmap", 0)]);
    c.received(watcher);
    c.disk_works = false;
    assert!(c.try_command(admin, r#"{"prefix":"osd pool create","pool":"p"}"#, b"").is_none());
    assert!(c.received(watcher).is_empty() && c.received(admin).is_empty());
    // A question asked meanwhile waits its turn behind the change.
    assert!(c.try_command(admin, r#"{"prefix":"osd pool ls"}"#, b"").is_none());
    c.disk_works = true;
    c.sync();
    c.drain();
    let answers: Vec<_> = c.received(admin);
    assert_eq!(answers.len(), 2);
    assert_eq!(osd_maps(c.received(watcher)).len(), 1);
}

#[test]
fn a_restart_finds_everything_again() {
    let (mut c, admin) = Cluster::with_osds(3);
    for command in [
        r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#,
        r#"{"prefix":"osd pool application enable","pool":"p","app":"rados"}"#,
        r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r","osd","allow rw pool=p"]}"#,
        r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"3"}"#,
        r#"{"prefix":"config-key set","key":"a/b","val":"v"}"#,
        r#"{"prefix":"osd set","key":"noout"}"#,
    ] {
        c.ok(admin, command);
    }
    let questions =
        ["osd dump", "auth ls", "config dump", "config-key dump", "osd crush dump", "mon dump", "osd metadata"];
    let before: Vec<_> = questions.iter().map(|q| c.json(admin, q)).collect();
    c.mon.shutdown(c.now);
    c.drain();
    assert!(c.stopped);
    let mut again = Cluster::resume(c.now, c.config.clone(), c.store.clone());
    let admin = again.admin();
    for (question, before) in questions.iter().zip(before) {
        assert_eq!(again.json(admin, question), before, "{question}");
    }
}

#[test]
fn another_clusters_store_is_refused() {
    let c = Cluster::new(1);
    let config = mon::MonConfig { fsid: cluster::uuid(9), ..c.config.clone() };
    let rng = base::rng::SecretRng::from_entropy([1; 32]);
    let refused = mon::Mon::new(c.now, config, rng, c.store.clone()).err();
    assert!(matches!(refused, Some(mon::BadStore::OtherCluster { .. })), "{refused:?}");
}

#[test]
fn a_refused_connection_marks_down_at_once_and_a_lone_voice_does_not() {
    let (mut c, admin) = Cluster::with_osds(3);
    let reporter = c.osd_session(0, 6800);
    let failure = |flags, failed_for_s| OsdFailure {
        paxos: PaxosHead::default(),
        fsid: c_fsid(),
        target: OsdId(2),
        target_addrs: addrs(6820),
        epoch: Epoch(2),
        flags,
        failed_for_s,
    };
    // One reporter of two that could report is not enough, however long it says.
    c.send(reporter, failure(1, 25));
    assert_eq!(c.json(admin, "osd stat")["num_up_osds"].as_u64(), Some(3));
    c.send(reporter, failure(3, 1));
    c.pass(Duration::from_millis(20));
    assert_eq!(c.json(admin, "osd stat")["num_up_osds"].as_u64(), Some(2));
    let health = c.ok(admin, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(
        health.contains("OSD_DOWN: 1 osds down") && health.contains("osd.2 (root=default,host=vm) is down"),
        "{health}"
    );
}

fn c_fsid() -> wire::types::Uuid {
    cluster::config().fsid
}

#[test]
fn an_osd_that_leaves_gets_its_answer_and_comes_back() {
    let (mut c, admin) = Cluster::with_osds(3);
    let conn = c.osd_session(1, 6810);
    let leave = OsdMarkMeDown {
        fsid: c_fsid(),
        target: OsdId(1),
        target_addrs: addrs(6810),
        epoch: Epoch(2),
        request_ack: true,
        ..OsdMarkMeDown::default()
    };
    c.send(conn, leave);
    assert!(c.received(conn).iter().any(|m| matches!(m, Message::OsdMarkMeDown(m) if !m.request_ack)));
    assert_eq!(c.json(admin, "osd stat")["num_up_osds"].as_u64(), Some(2));
    c.boot(1);
    c.pass(Duration::from_millis(20));
    assert_eq!(c.json(admin, "osd stat")["num_up_osds"].as_u64(), Some(3));
}

#[test]
fn an_osd_that_is_silent_goes_down_and_then_out() {
    let (mut c, admin) = Cluster::with_osds(4);
    c.ok(admin, r#"{"prefix":"config set","who":"mon","name":"mon_osd_report_timeout","value":"30"}"#);
    c.ok(admin, r#"{"prefix":"config set","who":"mon","name":"mon_osd_down_out_interval","value":"60"}"#);
    for _ in 0..5 {
        c.pass(Duration::from_secs(10));
        for id in 0..3 {
            let conn = c.osd_session(id, 6800 + 10 * id as u16);
            c.send(conn, wire::messages::OsdBeacon::default());
        }
    }
    let stat = c.json(admin, "osd stat");
    assert_eq!((stat["num_up_osds"].as_u64(), stat["num_in_osds"].as_u64()), (Some(3), Some(4)));
    c.ok(admin, r#"{"prefix":"config set","who":"mon","name":"mon_osd_report_timeout","value":"900"}"#);
    c.pass(Duration::from_secs(70));
    assert_eq!(c.json(admin, "osd stat")["num_in_osds"].as_u64(), Some(3));
    c.boot(3);
    c.pass(Duration::from_millis(20));
    let stat = c.json(admin, "osd stat");
    assert_eq!((stat["num_up_osds"].as_u64(), stat["num_in_osds"].as_u64()), (Some(4), Some(4)));
}

/// Ceph lets values that were set for the profile `custom` win over a profile that is chosen later, without a word.
#[test]
fn who_sets_what_has_no_effect_under_a_profile_is_told() {
    let (mut c, admin) = Cluster::with_osds(3);
    let set = |c: &mut Cluster, who: &str, name: &str, value: &str| {
        let text = format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#);
        let (code, status, _) = c.command(admin, &text);
        assert_eq!(code, 0, "{status}");
        status
    };
    let health = |c: &mut Cluster| c.ok(admin, r#"{"prefix":"health","detail":"detail"}"#);
    let said = "osd_mclock_scheduler_client_lim = 500 of osd has no effect under osd_mclock_profile high_client_ops";
    assert_eq!(set(&mut c, "osd", "osd_mclock_scheduler_client_lim", "500"), said);
    assert!(!health(&mut c).contains("MCLOCK"), "another queue is in force");
    assert_eq!(set(&mut c, "osd", "osd_op_queue", "mclock_scheduler"), "");
    let told = health(&mut c);
    assert!(told.contains("OSD_MCLOCK_SETTINGS_IGNORED: 1 mClock setting(s) have no effect"), "{told}");
    assert!(told.contains(said), "{told}");
    assert_eq!(set(&mut c, "osd", "osd_mclock_profile", "custom"), "");
    assert_eq!(set(&mut c, "osd.1", "osd_mclock_scheduler_client_wgt", "3"), "");
    assert!(!health(&mut c).contains("MCLOCK"));
    let left = set(&mut c, "osd", "osd_mclock_profile", "balanced");
    assert_eq!(left.lines().count(), 2, "{left}");
    // One OSD has the profile that the values are for.
    assert_eq!(set(&mut c, "osd.1", "osd_mclock_profile", "custom"), "");
    assert!(!health(&mut c).contains("MCLOCK"));
}
