//! What an operator sees of an OSD: counters, operations under way and of late, slow ones, a PG's own account.

mod harness;

use base::Duration;
use bytes::Bytes;
use harness::{Cluster, POOL};
use maps::PgPool;
use wire::osd::{OpCode, OsdOpItem};

fn append_item(data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::APPEND, 0, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

#[test]
fn counters_and_histories_tell_what_was_done() {
    let mut c = Cluster::new(41, 3, 3, 2, 8);
    for n in 0..10 {
        assert_eq!(c.write(&format!("o{n}"), b"12345"), 0);
        assert!(c.read(&format!("o{n}")).is_ok());
    }
    let dumps: Vec<_> = (0..3).map(|id| c.admin(id, r#"{"prefix":"perf dump"}"#)).collect();
    let total = |name: &str| dumps.iter().map(|dump| dump["osd"][name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!([total("op"), total("op_w"), total("op_r")], [20, 10, 10]);
    assert_eq!([total("op_in_bytes"), total("op_out_bytes"), total("subop_w")], [50, 50, 20]);
    let mut seen = 0;
    for id in 0..3 {
        let history = c.admin(id, r#"{"prefix":"dump_historic_ops"}"#);
        for op in history["ops"].as_array().expect("a list") {
            let events: Vec<&str> = op["type_data"]["events"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|e| e["event"].as_str().expect("text"))
                .collect();
            assert_eq!((events.first(), events.last()), (Some(&"initiated"), Some(&"done")));
            assert!(op["description"].as_str().is_some_and(|text| text.starts_with("osd_op(client.")), "{op}");
            seen += 1;
        }
        assert_eq!(c.admin(id, r#"{"prefix":"ops"}"#)["num_ops"], 0);
    }
    assert!(seen > 0);
    let (_, _, primary) = c.locate("o1");
    c.admin(primary, r#"{"prefix":"perf reset","var":"all"}"#);
    assert_eq!(c.admin(primary, r#"{"prefix":"perf dump"}"#)["osd"]["op"], 0);
}

#[test]
fn a_write_that_hangs_is_seen_complained_about_and_kept() {
    let mut c = Cluster::new(42, 3, 3, 2, 8);
    let (pg, _, primary) = c.locate("x");
    let replica = c.map.pg_to_up_acting(pg).acting.iter().map(|o| o.0).find(|o| *o != primary).expect("a replica");
    let op = c.request("x", vec![append_item(b"once")]);
    c.cut.push((primary, replica));
    let tid = c.send(1, op);
    c.settle_for(Duration::from_secs(40));
    let ops = c.admin(primary, r#"{"prefix":"dump_ops_in_flight"}"#);
    assert_eq!(ops["num_ops"], 1);
    assert_eq!(ops["ops"][0]["type_data"]["flag_point"], "waiting for sub ops");
    let blocked = c.admin(primary, r#"{"prefix":"dump_blocked_ops"}"#);
    assert_eq!((&blocked["num_blocked_ops"], &blocked["complaint_time"]), (&1.into(), &30.into()));
    assert_eq!(c.osd(primary).slow_ops().count, 1);
    let line = c.cluster_log.iter().find(|line| line.contains("slow requests")).expect("the log is told");
    assert!(line.starts_with("1 slow requests (by type [ 'waiting for sub ops' : 1 ] most affected pool ["), "{line}");
    // A health metric: one entry, of kind 0, how many and how old.
    let metrics = &c.manager_reports[&primary].metrics.0;
    assert_eq!((metrics[..4].to_vec(), metrics[10], metrics[11]), (vec![1, 0, 0, 0], 0, 1));
    let patient = r#"{"prefix":"config set","var":"osd_op_complaint_time","val":["1000"]}"#;
    c.admin(primary, patient);
    assert_eq!(c.osd(primary).slow_ops().count, 0);
    c.cut.clear();
    c.settle();
    assert_eq!(c.replies[&(1, tid)][0].result, 0);
    let slow = c.admin(primary, r#"{"prefix":"dump_historic_slow_ops"}"#);
    assert_eq!(slow["Ops"].as_array().map(Vec::len), Some(1));
    assert_eq!(c.admin(primary, r#"{"prefix":"dump_ops_in_flight"}"#)["num_ops"], 0);
}

#[test]
fn a_group_gives_its_account_where_it_is_led() {
    let mut c = Cluster::new(43, 3, 3, 2, 8);
    assert_eq!(c.write("x", b"1"), 0);
    let (pg, _, primary) = c.locate("x");
    let query = c.admin(primary, &format!(r#"{{"prefix":"query","pgid":"{pg}"}}"#));
    assert_eq!((&query["state"], &query["info"]["pgid"]), (&"active+clean".into(), &pg.to_string().into()));
    assert_eq!(query["peer_info"].as_array().map(Vec::len), Some(2));
    for peer in query["peer_info"].as_array().expect("a list") {
        assert_eq!(peer["last_update"], query["info"]["last_update"], "all members have the write");
    }
    assert_eq!(query["recovery_state"][0]["name"], "Started/Primary/Active");
}

#[test]
fn a_group_tells_since_when_it_is_as_it_is() {
    let mut c = Cluster::new(44, 3, 2, 1, 1);
    assert_eq!(c.write("x", b"1"), 0);
    let (pg, _, primary) = c.locate("x");
    let since = |c: &mut Cluster| {
        let history = &c.admin(primary, &format!(r#"{{"prefix":"query","pgid":"{pg}"}}"#))["info"]["history"];
        ["same_interval_since", "same_up_since", "same_primary_since"].map(|name| history[name].as_u64())
    };
    let [interval, up, led] = since(&mut c);
    assert!(interval.is_some() && up.is_some() && led.is_some());
    // Another min_size is another interval, and nobody has moved.
    c.publish(|map, inc| {
        let pool = PgPool { min_size: 2, ..PgPool::clone(map.pool(POOL).expect("it is there")) };
        inc.new_pools.insert(POOL, pool);
    });
    c.settle();
    let epoch = Some(u64::from(c.map.epoch.0));
    let now = since(&mut c);
    assert!(now[0] > interval && now[0] <= epoch, "{now:?} in {epoch:?}");
    assert_eq!(now[1..], [up, led]);
    // Another member serves instead of one that is away; the primary stays.
    let members = c.map.pg_to_up_acting(pg).acting;
    let other = members.into_iter().find(|osd| osd.0 != primary).expect("there are two");
    c.kill(other.0);
    c.settle();
    let last = since(&mut c);
    assert!(last[1] > now[0], "{last:?} after {now:?}");
    assert_eq!(last[2], led);
}

/// What an operator looks up who wants to know why a group does not serve, and who would have to come back.
#[test]
fn a_query_tells_what_peering_goes_by() {
    let mut c = Cluster::new(63, 2, 2, 1, 1);
    let (_, _, first) = c.locate("o");
    let other = 1 - first;
    assert_eq!(c.write("o", b"old"), 0);
    c.kill(other);
    c.settle();
    assert_eq!(c.write("o", b"new"), 0);
    let alone = c.map.epoch;
    c.kill(first);
    c.settle();
    c.start(other);
    c.settle();
    let query = |c: &mut Cluster, osd: i32| c.admin(osd, r#"{"prefix":"query","pgid":"1.0"}"#);
    let down = query(&mut c, other);
    let states: Vec<_> = down["recovery_state"].as_array().expect("a list").iter().map(|s| s["name"].clone()).collect();
    assert_eq!(states, ["Started/Primary/Peering/Down", "Started/Primary/Peering", "Started"]);
    let peering = &down["recovery_state"][1];
    assert_eq!(peering["down_osds_we_would_probe"], serde_json::json!([first]));
    assert_eq!(peering["probing_osds"], serde_json::json!([other.to_string()]));
    assert_eq!(peering["peering_blocked_by"][0]["osd"], first);
    let intervals = peering["past_intervals"][0]["intervals"].as_array().expect("a list");
    let epoch = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse::<u32>().ok()).expect("an epoch");
    let held = |one: &serde_json::Value| epoch(&one["first"]) <= alone.0 && alone.0 <= epoch(&one["last"]);
    let then = intervals.iter().find(|one| held(one)).expect("what it was when that was written");
    assert_eq!(then["acting"], first.to_string());
    c.start(first);
    c.settle();
    let leads = c.locate("o").2;
    let active = query(&mut c, leads);
    assert_eq!(active["recovery_state"][0]["name"], "Started/Primary/Active");
    assert_eq!(active["recovery_state"][0]["might_have_unfound"], serde_json::json!([]));
    assert_eq!(active["recovery_state"][0]["recovery_progress"]["recovering"], serde_json::json!([]));
}
