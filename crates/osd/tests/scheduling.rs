//! The order of work: limits and shares as they are configured, changes that take effect at once, and nothing lost or
//! overtaken on the way through the queue.

mod harness;

use base::Duration;
use bytes::Bytes;
use harness::Cluster;
use wire::osd::{OpCode, OsdOpItem};

fn write_item(data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

fn append_item(data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::APPEND, 0, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

/// Sets options of all OSDs, as `ceph daemon osd.N config set` does.
fn set(c: &mut Cluster, osds: i32, options: &[(&str, &str)]) {
    for osd in 0..osds {
        for (name, value) in options {
            let done = c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{name}","val":["{value}"]}}"#));
            assert!(done.get("error").is_none(), "{done}");
        }
    }
}

/// mClock with ten client operations a second.
const TEN_A_SECOND: [(&str, &str); 3] =
    [("osd_mclock_scheduler_client_lim", "10"), ("osd_mclock_profile", "custom"), ("osd_op_queue", "mclock_scheduler")];

/// Sends a client's appends to one object; gives their numbers.
fn send_appends(c: &mut Cluster, client: u64, object: &str, count: u8) -> Vec<u64> {
    (0..count)
        .map(|n| {
            let op = c.request(object, vec![append_item(&[n])]);
            c.send(client, op)
        })
        .collect()
}

fn answered(c: &Cluster, client: u64, tids: &[u64]) -> usize {
    tids.iter().filter(|tid| c.replies.get(&(client, **tid)).is_some_and(|r| r[0].result == 0)).count()
}

fn queued(c: &mut Cluster, osd: i32) -> u64 {
    let dump = c.admin(osd, r#"{"prefix":"dump_op_pq_state"}"#);
    dump["OSD:ShardedOpWQ:0"]["queue_sizes"]["scheduler"].as_u64().expect("a number")
}

#[test]
fn a_limit_holds_and_what_waits_is_shown() {
    let mut c = Cluster::new(71, 3, 3, 2, 8);
    let (_, _, primary) = c.locate("x");
    set(&mut c, 3, &TEN_A_SECOND);
    let tids = send_appends(&mut c, 1, "x", 60);
    c.settle_for(Duration::from_secs(1));
    let done = answered(&c, 1, &tids);
    assert!((9..=12).contains(&done), "{done} in the first second");
    let waiting = queued(&mut c, primary);
    // One may be on its way to the members.
    assert!((60 - done - 1..=60 - done).contains(&(waiting as usize)), "{waiting} wait, {done} are done");
    let ops = c.admin(primary, r#"{"prefix":"dump_ops_in_flight"}"#);
    assert_eq!(ops["num_ops"].as_u64(), Some(60 - done as u64));
    assert_eq!(ops["ops"][59 - done]["type_data"]["flag_point"], "queued for pg");
    let dump = c.admin(primary, r#"{"prefix":"dump_op_pq_state"}"#);
    let queue = &dump["OSD:ShardedOpWQ:0"];
    assert_eq!((&queue["scheduler"], &queue["profile"]), (&"mclock_scheduler".into(), &"custom".into()));
    let clients = &queue["queues"][1];
    assert_eq!((&clients["name"], clients["limit"].as_f64()), (&"client".into(), Some(10.0)), "{queue}");
    assert!(clients["waits_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{queue}");
    c.settle_for(Duration::from_secs(3));
    let done = answered(&c, 1, &tids);
    assert!((39..=42).contains(&done), "{done} after four seconds");
    // A built-in profile: the limit that was set for `custom` is without effect, at once.
    set(&mut c, 3, &[("osd_mclock_profile", "high_client_ops")]);
    c.settle_for(Duration::from_millis(200));
    assert_eq!(answered(&c, 1, &tids), 60);
    let all: Vec<u8> = (0..60).collect();
    assert_eq!(c.read("x").expect("it is there"), all, "in the order in which they were sent");
    // And back again: it says again what it said.
    set(&mut c, 3, &[("osd_mclock_profile", "custom")]);
    let tids = send_appends(&mut c, 1, "x", 60);
    c.settle_for(Duration::from_secs(2));
    let done = answered(&c, 1, &tids);
    assert!((19..=22).contains(&done), "{done} in two seconds");
}

#[test]
fn clients_share_alike_however_much_each_has_sent() {
    for queue in ["mclock_scheduler", "wpq"] {
        let mut c = Cluster::new(72, 3, 3, 2, 8);
        // One operation in the store at a time: all order is decided in the queue.
        set(&mut c, 3, &TEN_A_SECOND);
        set(&mut c, 3, &[("osd_op_queue_store_ios", "1"), ("osd_op_queue", queue)]);
        let many = send_appends(&mut c, 1, "x", 100);
        let few = send_appends(&mut c, 2, "x", 5);
        let mut before = None;
        for _ in 0..200_000 {
            if answered(&c, 2, &few) == 5 {
                before = Some(answered(&c, 1, &many));
                break;
            }
            if !c.step() {
                c.settle_for(Duration::from_millis(100));
            }
        }
        let before = before.expect("the second client is served");
        assert!(before <= 12, "{queue}: {before} of the first client's before five of the second's");
    }
}

#[test]
fn the_queue_can_be_changed_while_it_is_full() {
    let mut c = Cluster::new(73, 3, 3, 2, 8);
    set(&mut c, 3, &TEN_A_SECOND);
    let tids = send_appends(&mut c, 1, "x", 100);
    c.settle_for(Duration::from_millis(300));
    for queue in ["cfq", "fifo", "wpq", "mclock_scheduler", "wpq"] {
        set(&mut c, 3, &[("osd_op_queue_store_ios", "2"), ("osd_op_queue", queue), ("osd_client_op_priority", "9")]);
        send_appends(&mut c, 2, "y", 3);
        c.settle_for(Duration::from_millis(100));
    }
    c.settle_for(Duration::from_secs(2));
    assert_eq!(answered(&c, 1, &tids), 100);
    let all: Vec<u8> = (0..100).collect();
    assert_eq!(c.read("x").expect("it is there"), all);
    assert_eq!(c.read("y").expect("it is there").len(), 15);
}

/// Requests wait in the queue while the map moves their placement group to another primary, or their client goes away:
/// they are not done by who is not in charge (any more), and nothing of them is left behind.
#[test]
fn what_waited_is_looked_at_again_under_a_newer_map() {
    let mut c = Cluster::new(74, 3, 2, 1, 8);
    assert_eq!(c.write("x", b"before"), 0);
    let (_, _, primary) = c.locate("x");
    set(&mut c, 3, &TEN_A_SECOND);
    let gone = send_appends(&mut c, 7, "x", 20);
    let tids = send_appends(&mut c, 1, "x", 20);
    c.settle_for(Duration::from_millis(100));
    assert!(queued(&mut c, primary) > 30);
    c.mark_out(primary);
    c.drop_client(7);
    c.settle();
    set(&mut c, 3, &[("osd_mclock_profile", "balanced")]);
    c.settle();
    assert_eq!(queued(&mut c, primary), 0);
    for osd in 0..3 {
        assert_eq!(c.admin(osd, r#"{"prefix":"dump_ops_in_flight"}"#)["num_ops"], 0);
        assert_eq!(c.admin(osd, r#"{"prefix":"perf dump"}"#)["osd"]["op_wip"], 0);
    }
    assert!(answered(&c, 1, &tids) + answered(&c, 7, &gone) < 30, "most were dropped");
    // The client sends again what was not answered, to the new primary; what was done is not done twice.
    for (n, tid) in tids.iter().enumerate() {
        if answered(&c, 1, &[*tid]) == 0 {
            let op = c.request("x", vec![append_item(&[n as u8])]);
            c.resend(1, *tid, op);
        }
    }
    c.settle();
    assert_eq!(answered(&c, 1, &tids), 20);
}

/// A tenant's objects lie with three primaries: its limit is one, kept by what they tell one another; another's requests
/// pass, and each OSD knows what it did for whom, as primary and as a member.
#[test]
fn a_tenant_has_one_limit_in_all() {
    let mut c = Cluster::new(76, 3, 3, 2, 32);
    let tenants = [("osd_op_queue", "mclock_scheduler"), ("osd_qos_tenants", "pool:1 limit=40")];
    set(&mut c, 3, &tenants);
    let mut tids = Vec::new();
    for n in 0..400 {
        let op = c.request(&format!("o{n}"), vec![write_item(&[1; 512])]);
        tids.push(c.send(1, op));
    }
    // All begin at once, before they have heard of one another.
    c.settle_for(Duration::from_secs(1));
    let mut done = answered(&c, 1, &tids);
    assert!((30..=40 + 12).contains(&done), "{done} in the first second");
    for second in 0..4 {
        c.settle_for(Duration::from_secs(1));
        let now = answered(&c, 1, &tids);
        assert!((34..=46).contains(&(now - done)), "{} in second {second}", now - done);
        done = now;
    }
    let dumps: Vec<_> = (0..3).map(|osd| c.admin(osd, r#"{"prefix":"dump_tenants"}"#)).collect();
    let sum = |name: &str| dumps.iter().map(|dump| dump["tenants"][0][name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(sum("ops"), done as u64);
    assert!(sum("copies") >= 2 * sum("ops") && sum("copies_bytes") >= 1024 * sum("ops"), "{dumps:?}");
    assert_eq!(dumps[0]["tenants"][0]["limit"], 40);
    set(&mut c, 3, &[("osd_qos_tenants", "pool:1 limit=-1")]);
    c.settle_for(Duration::from_secs(1));
    assert!(answered(&c, 1, &tids) < done + 50, "what is no promise changes nothing");
    set(&mut c, 3, &[("osd_qos_tenants", "")]);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(answered(&c, 1, &tids), 400, "without a promise, without a limit");
}

/// What a tenant's request waits for is copied for that tenant: read at the primary, and written at a member that lacks it.
/// What is recovered by itself is not.
#[test]
fn recovery_that_a_tenant_waits_for_counts_as_its_own() {
    let mut c = Cluster::new(78, 3, 3, 2, 1);
    set(&mut c, 3, &[("osd_op_queue", "mclock_scheduler"), ("osd_qos_tenants", "pool:1 limit=10000")]);
    let (pg, _, primary) = c.locate("o0");
    let member = c.map.pg_to_up_acting(pg).acting[1].0;
    c.kill(member);
    c.settle();
    (0..4).for_each(|n| assert_eq!(c.write(&format!("o{n}"), &[2; 5000]), 0));
    c.admin(primary, r#"{"prefix":"config set","var":"osd_recovery_sleep","val":["3600"]}"#);
    c.start(member);
    set(&mut c, 3, &[("osd_op_queue", "mclock_scheduler"), ("osd_qos_tenants", "pool:1 limit=10000")]);
    c.settle();
    let copied = |c: &mut Cluster, osd: i32| {
        let dump = c.admin(osd, r#"{"prefix":"dump_tenants"}"#);
        let number = |name: &str| dump["tenants"][0][name].as_u64().expect("a number");
        (number("copies"), number("copies_bytes"))
    };
    let before = copied(&mut c, primary);
    assert_eq!((before, copied(&mut c, member)), ((0, 0), (0, 0)), "one was recovered in the first turn");
    for n in 0..4 {
        assert_eq!(c.write(&format!("o{n}"), &[3; 10]), 0);
    }
    assert_eq!(copied(&mut c, primary), (3, 15_000));
    let (copies, bytes) = copied(&mut c, member);
    assert_eq!(copies, 3 + 4, "what was fetched, and the writes");
    assert!((15_000..20_000).contains(&bytes), "{bytes}");
}

/// What is in the store and what may be is shown: a window that is learnt, or what somebody says.
#[test]
fn the_window_of_the_store_is_shown() {
    let mut c = Cluster::new(77, 1, 1, 1, 8);
    let shown = |c: &mut Cluster, name: &str| {
        let dump = c.admin(0, r#"{"prefix":"dump_op_pq_state"}"#);
        dump["OSD:ShardedOpWQ:0"]["store"][name].as_f64()
    };
    assert_eq!((shown(&mut c, "window"), shown(&mut c, "ios_max")), (Some(128.0), Some(128.0)));
    assert_eq!((shown(&mut c, "units"), shown(&mut c, "base_delay_ms")), (Some(0.0), None), "nothing was done yet");
    set(&mut c, 1, &[("osd_op_queue_store_ios", "4")]);
    assert_eq!(shown(&mut c, "ios_max"), Some(4.0));
    assert!(shown(&mut c, "window").is_some_and(|units| units > 1000.0), "operations are counted, whatever they cost");
    set(&mut c, 1, &[("osd_op_queue_store_ios", "0"), ("osd_op_queue_store_ios_ssd", "16")]);
    assert_eq!((shown(&mut c, "window"), shown(&mut c, "ios_max")), (Some(16.0), Some(16.0)));
}

#[test]
fn what_a_scheduler_goes_by_is_shown() {
    let mut c = Cluster::new(78, 1, 1, 1, 8);
    let mut shown = |settings: &[(&str, &str)]| {
        set(&mut c, 1, settings);
        c.admin(0, r#"{"prefix":"dump_op_pq_state"}"#)["OSD:ShardedOpWQ:0"]["parameters"].clone()
    };
    let parameters = shown(&[("osd_op_queue", "cfq"), ("osd_cfq_quantum", "16"), ("osd_cfq_client_weight", "700")]);
    assert_eq!((&parameters["charged_in"], &parameters["quantum"]), (&"time".into(), &16.into()), "{parameters}");
    assert_eq!(
        (&parameters["slice_idle_ms"], &parameters["weights"]["client"]),
        (&8.into(), &700.into()),
        "{parameters}"
    );
    let parameters = shown(&[("osd_op_queue", "cfq"), ("osd_cfq_slice_idle", "0")]);
    assert_eq!((&parameters["charged_in"], &parameters["slice_idle_ms"]), (&"requests".into(), &0.into()));
    let parameters = shown(&[("osd_op_queue", "wpq"), ("osd_op_queue_cut_off", "low")]);
    assert_eq!(parameters["cut_off"], 64, "{parameters}");
}

#[test]
fn the_store_is_given_no_more_than_it_may_have_at_once() {
    let mut c = Cluster::new(75, 1, 1, 1, 8);
    set(&mut c, 1, &[("osd_op_queue_store_ios", "4")]);
    for n in 0..200 {
        let op = c.request(&format!("o{n}"), vec![write_item(&[1; 4096])]);
        c.send(1, op);
    }
    let (mut most, mut waited) = (0, 0);
    while c.step() {
        let dump = c.admin(0, r#"{"prefix":"dump_op_pq_state"}"#);
        let queue = &dump["OSD:ShardedOpWQ:0"];
        most = most.max(queue["store"]["ios"].as_u64().expect("a number"));
        waited = waited.max(queue["queue_sizes"]["scheduler"].as_u64().expect("a number"));
    }
    assert!((4..=5).contains(&most), "{most} in the store");
    assert!(waited > 50, "{waited} waited");
    assert_eq!(c.replies.len(), 200);
}
