//! The JSON of commands has the members and types that Ceph 16.2.15 gives, as captured from its CLI.
//!
//! The fixtures in `golden/` are captured answers with lists cut to two elements. Compared are the members of objects
//! and the types of values; lists by their first elements; free-form objects (metadata, keys, options) not at all.

mod cluster;

use base::{Duration, PgId, PoolId};
use cluster::Cluster;
use serde_json::Value;
use wire::net::ConnId;

/// Objects whose members are data.
const FREE_FORM: [&str; 19] = [
    "osd versions",
    "osd pool application get",
    "options",
    "application_metadata",
    "metadata",
    "services",
    "checks",
    "caps",
    "progress_events",
    "crush_location",
    "stats_by_class",
    "erasure_code_profiles",
    "mon",
    "mgr",
    "osd",
    "mds",
    "overall",
    "recovery_rate",
    "client_io_rate",
];

/// Members that Ceph shows and we have no use for, or shows only sometimes.
const OPTIONAL: [&str; 4] = ["container_name", "device_class", "unknown_pgs_ratio", "mgr"];

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn compare(path: &str, ceph: &Value, ours: &Value, faults: &mut Vec<String>) {
    if kind(ceph) != kind(ours) {
        faults.push(format!("{path}: {} should be {}", kind(ours), kind(ceph)));
        return;
    }
    match (ceph, ours) {
        (Value::Array(ceph), Value::Array(ours)) => {
            if let (Some(ceph), Some(ours)) = (ceph.first(), ours.first()) {
                compare(&format!("{path}[]"), ceph, ours, faults);
            }
        }
        (Value::Object(ceph), Value::Object(ours)) => {
            if path.rsplit('.').next().is_some_and(|last| FREE_FORM.contains(&last)) {
                return;
            }
            for (key, value) in ceph {
                match ours.get(key) {
                    Some(ours) => compare(&format!("{path}.{key}"), value, ours, faults),
                    None if OPTIONAL.contains(&key.as_str()) => {}
                    None => faults.push(format!("{path}: {key} is missing")),
                }
            }
            for key in ours.keys().filter(|k| !ceph.contains_key(*k) && !OPTIONAL.contains(&k.as_str())) {
                faults.push(format!("{path}: {key} is not Ceph's"));
            }
        }
        _ => {}
    }
}

/// Three OSDs and a pool of eight placement groups, all clean.
fn healthy() -> (Cluster, ConnId) {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"data","pg_num":8}"#);
    c.ok(admin, r#"{"prefix":"osd pool application enable","pool":"data","app":"rados"}"#);
    for (who, name, value) in [("global", "mon_max_pg_per_osd", "300"), ("osd.1", "debug_osd", "2/3")] {
        c.ok(admin, &format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#));
    }
    for (who, name, value) in [("osd", "osd_max_backfills", "3"), ("osd/class:ssd", "osd_recovery_sleep", "0.1")] {
        c.ok(admin, &format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#));
    }
    let acting = |c: &mut Cluster, seed: u32| -> Vec<i32> {
        let answer = c.ok(admin, &format!(r#"{{"prefix":"pg map","pgid":"1.{seed:x}","format":"json"}}"#));
        let value: Value = serde_json::from_str(&answer).expect("JSON");
        value["acting"].as_array().expect("a set").iter().map(|o| o.as_i64().expect("an id") as i32).collect()
    };
    let pgs: Vec<_> = (0..8).map(|seed| (PgId::new(PoolId(1), seed), acting(&mut c, seed))).collect();
    for id in 0..3 {
        let conn = c.osd_session(id, 6800 + 10 * id as u16);
        c.report_clean(conn, id, &pgs);
    }
    c.pass(Duration::from_secs(2));
    (c, admin)
}

#[test]
fn json_has_cephs_shapes() {
    let (mut c, admin) = healthy();
    let arguments = |name: &str| match name {
        "osd df tree" => r#"{"prefix":"osd df","output_method":"tree"}"#.to_owned(),
        "df detail" => r#"{"prefix":"df","detail":"detail"}"#.to_owned(),
        "osd pool ls detail" => r#"{"prefix":"osd pool ls","detail":"detail"}"#.to_owned(),
        "osd pool get" => r#"{"prefix":"osd pool get","pool":"data","var":"all"}"#.to_owned(),
        "osd pool get-quota" => r#"{"prefix":"osd pool get-quota","pool":"data"}"#.to_owned(),
        "osd find" => r#"{"prefix":"osd find","id":0}"#.to_owned(),
        "osd map" => r#"{"prefix":"osd map","pool":"data","object":"obj1"}"#.to_owned(),
        "pg map" => r#"{"prefix":"pg map","pgid":"1.0"}"#.to_owned(),
        "auth get" | "auth print-key" => format!(r#"{{"prefix":"{name}","entity":"client.admin"}}"#),
        "config get" => r#"{"prefix":"config get","who":"osd.1"}"#.to_owned(),
        "config help" => r#"{"prefix":"config help","key":"osd_max_backfills"}"#.to_owned(),
        "osd ok-to-stop" | "osd safe-to-destroy" => format!(r#"{{"prefix":"{name}","ids":["0"]}}"#),
        dump if dump.starts_with("pg dump ") => {
            format!(r#"{{"prefix":"pg dump","dumpcontents":["{}"]}}"#, dump.trim_start_matches("pg dump "))
        }
        other => format!(r#"{{"prefix":"{other}"}}"#),
    };
    let mut faults = Vec::new();
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut names: Vec<_> =
        std::fs::read_dir(&fixtures).expect("fixtures").map(|e| e.expect("an entry").path()).collect();
    names.sort();
    assert!(names.len() > 50, "the fixtures are there");
    for path in names {
        let name = path.file_stem().and_then(|n| n.to_str()).expect("a name");
        // Underscores stand for spaces, except in two names.
        let name = match name {
            "quorum_status" | "pg_dump_stuck" => name.replacen("pg_dump", "pg dump", 1),
            "pg_dump_pgs_brief" => "pg dump pgs_brief".to_owned(),
            _ => name.replace('_', " "),
        };
        let ceph: Value = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
        let command = arguments(&name).replacen('{', r#"{"format":"json","#, 1);
        let answer = c.ok(admin, &command);
        match serde_json::from_str(&answer) {
            Ok(ours) => compare(&name, &ceph, &ours, &mut faults),
            Err(e) => faults.push(format!("{name}: {e}: {answer}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_healthy_cluster_says_so() {
    let (mut c, admin) = healthy();
    assert_eq!(c.ok(admin, r#"{"prefix":"health"}"#), "HEALTH_OK\n");
    let status = c.ok(admin, r#"{"prefix":"status"}"#);
    assert!(status.contains("pgs:     8 active+clean") && status.contains("health: HEALTH_OK"), "{status}");
    assert!(c.ok(admin, r#"{"prefix":"pg stat"}"#).starts_with("8 pgs: 8 active+clean; "));
}
