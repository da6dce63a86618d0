//! Peers that lie, overstep or send rubbish harm nobody but themselves.

mod cluster;

use base::{Duration, Epoch, OsdId, PgId, PoolId};
use bytes::Bytes;
use cluster::{Cluster, addrs, config};
use std::collections::BTreeMap;
use wire::messages::{
    Auth, GetPoolStats, Log, Message, OsdBoot, OsdFailure, OsdFull, OsdMarkMeDown, OsdPgTemp, PgStats, PoolOp, Sealed,
    StatFs, pool_op,
};
use wire::types::{EntityName, EntityType};

#[test]
fn commands_that_are_no_commands_get_an_errno() {
    let (mut c, admin) = Cluster::with_osds(1);
    let deep = format!(r#"{{"prefix":"osd dump","x":{}"#, "[".repeat(5000));
    let long = format!(r#"{{"prefix":"{}"}}"#, "x".repeat(2 << 20));
    for text in ["", "{", "nonsense", "[]", r#"{"prefix":7}"#, r#"{"prefix":"nosuch"}"#, &deep, &long] {
        let (result, status, _) = c.command(admin, text);
        assert!(result < 0 && !status.is_empty(), "{result} {status}");
    }
    assert_eq!(c.command(admin, r#"{"prefix":"nosuch"}"#).1, "unrecognized command");
}

/// Every command with arguments of the wrong type, out of range, or missing: an answer, never a panic.
#[test]
fn every_command_survives_bad_arguments() {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    let descriptions = c.ok(admin, r#"{"prefix":"get_command_descriptions"}"#);
    let table: serde_json::Value = serde_json::from_str(&descriptions).expect("descriptions are JSON");
    let values = [
        serde_json::json!("p"),
        serde_json::json!("-1"),
        serde_json::json!(-9_000_000_000_000_000_000i64),
        serde_json::json!(99_999_999_999u64),
        serde_json::json!(1e300),
        serde_json::json!([]),
        serde_json::json!(["1", "2", "3"]),
        serde_json::json!({ "a": 1 }),
        serde_json::json!("osd.1"),
        serde_json::json!("1.0"),
        serde_json::json!("\u{0}\u{7f}é"),
        serde_json::json!("client.x"),
        serde_json::json!("all"),
        serde_json::json!(null),
    ];
    let mut answers = 0;
    for command in table.as_object().expect("an object").values() {
        let words: Vec<&str> = command["sig"].as_array().expect("a list").iter().filter_map(|w| w.as_str()).collect();
        let names: Vec<&str> =
            command["sig"].as_array().expect("a list").iter().filter_map(|p| p["name"].as_str()).collect();
        for value in &values {
            let mut call = serde_json::Map::new();
            call.insert("prefix".to_owned(), words.join(" ").into());
            names.iter().for_each(|name| drop(call.insert((*name).to_owned(), value.clone())));
            let (result, _, _) =
                c.command_with(admin, &serde_json::Value::Object(call).to_string(), b"\xff\x00rubbish");
            assert!(result <= 0);
            answers += 1;
        }
        c.pass(Duration::from_millis(30));
    }
    assert!(answers > 2000, "{answers}");
    // Whatever they changed, it is on disk in a form that reads back.
    let again = Cluster::resume(c.now, c.config.clone(), c.store.clone());
    again.mon.check_invariants();
    again.mon.check_newest_map();
}

#[test]
fn one_who_may_only_read_changes_nothing() {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"p"}"#);
    let name = EntityName { kind: EntityType::CLIENT, num: 4200 };
    let reader = c.open("client.reader", name, addrs(0), "allow r");
    assert_eq!(c.command(reader, r#"{"prefix":"osd pool ls"}"#).0, 0);
    for command in [
        r#"{"prefix":"osd pool create","pool":"q"}"#,
        r#"{"prefix":"osd set","key":"noout"}"#,
        r#"{"prefix":"auth ls"}"#,
        r#"{"prefix":"config set","who":"osd","name":"debug_osd","value":"1"}"#,
        r#"{"prefix":"config-key set","key":"a","val":"b"}"#,
    ] {
        assert_eq!(c.command(reader, command).0, -13, "{command}");
    }
    let create =
        PoolOp { fsid: config().fsid, op: pool_op::CREATE, name: "q".to_owned(), crush_rule: -1, ..PoolOp::default() };
    c.received(reader);
    c.send(reader, create.clone());
    let answers = c.received(reader);
    assert!(matches!(&answers[..], [Message::PoolOpReply(r)] if r.result == -1), "{answers:?}");
    assert_eq!(c.ok(admin, r#"{"prefix":"osd pool ls"}"#), "p\n");
    // Nobody without capabilities reads anything.
    let nobody = c.open("client.nobody", name, addrs(0), "");
    assert_eq!(c.command(nobody, r#"{"prefix":"status"}"#).0, -13);
    c.received(admin);
    c.send(admin, create);
    assert!(matches!(&c.received(admin)[..], [Message::PoolOpReply(r)] if r.result == 0));
}

#[test]
fn clients_that_pose_as_osds_are_ignored() {
    let (mut c, admin) = Cluster::with_osds(3);
    let name = EntityName { kind: EntityType::CLIENT, num: 4300 };
    let client = c.open("client.x", name, addrs(6820), "allow rw");
    let fsid = config().fsid;
    let down = OsdMarkMeDown {
        fsid,
        target: OsdId(2),
        target_addrs: addrs(6820),
        request_ack: true,
        ..OsdMarkMeDown::default()
    };
    let failure = OsdFailure { fsid, target: OsdId(2), target_addrs: addrs(6820), flags: 3, ..OsdFailure::default() };
    c.send(client, down.clone());
    c.send(client, failure);
    c.send(client, OsdBoot::default());
    // An OSD speaks for itself only.
    let other = c.osd_session(0, 6800);
    c.send(other, down);
    c.pass(Duration::from_millis(30));
    assert_eq!(c.json(admin, "osd stat")["num_up_osds"].as_u64(), Some(3));
}

#[test]
fn reports_that_do_not_decode_or_do_not_fit_are_skipped() {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    let osd = c.osd_session(1, 6810);
    let fsid = config().fsid;
    let rubbish = || Sealed(Bytes::from_static(&[9, 1, 4, 0, 0, 0, 1, 2, 3, 4]));
    let pgs = [PgId::new(PoolId(1), 0), PgId::new(PoolId(77), 0), PgId::new(PoolId(1), u32::MAX)];
    let stats = PgStats {
        fsid,
        osd_stat: rubbish(),
        pg_stats: pgs.iter().map(|pg| (*pg, rubbish())).collect(),
        pool_stats: BTreeMap::from([(i64::MIN, rubbish()), (1, rubbish())]),
        ..PgStats::default()
    };
    c.send(osd, stats);
    let temps = pgs.iter().map(|pg| (*pg, vec![OsdId(-5), OsdId(i32::MAX)])).collect();
    c.send(osd, OsdPgTemp { epoch: Epoch(u32::MAX), pg_temp: temps, ..OsdPgTemp::default() });
    c.send(osd, OsdFull { epoch: Epoch(0), state: u32::MAX, ..OsdFull::default() });
    c.send(osd, Log::default());
    c.send(osd, StatFs { fsid, pool: Some(PoolId(-9)), ..StatFs::default() });
    c.send(osd, GetPoolStats { fsid, pools: vec!["nosuch".to_owned(); 100], ..GetPoolStats::default() });
    c.send(osd, Auth { payload: Bytes::from_static(b"\x00\x01rubbish"), ..Auth::default() });
    c.send(
        osd,
        OsdFailure { fsid, target: OsdId(i32::MIN), failed_for_s: i32::MIN, flags: 255, ..OsdFailure::default() },
    );
    c.pass(Duration::from_secs(3));
    let dump = c.json(admin, "osd dump");
    assert_eq!(dump["pg_temp"].as_array().map(Vec::len), Some(0));
    assert!(
        c.json(admin, "pg dump")["pg_map"]["pg_stats"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|p| p["state"] == "unknown")
    );
}
