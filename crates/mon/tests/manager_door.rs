//! The manager's door: who is let through, what is answered there, and that the managers' map leads to it.

mod cluster;

use cluster::{Cluster, addrs};
use maps::mgr_map::MgrMap;
use std::sync::Arc;
use wire::codec::{Decode, Encode};
use wire::messages::{Command, Message, MgrCommand};
use wire::net::{ConnId, NetEvent, Peer, TicketCaps};
use wire::types::{EntityName, EntityType, Uuid};

/// A session through the door, with capabilities as a ticket for the manager has them.
fn through_the_door(c: &mut Cluster, number: u64, caps: &str) -> ConnId {
    let conn = ConnId(ConnId::ACCEPTED | 0x1000 | number);
    let peer = Peer {
        name: EntityName { kind: EntityType::CLIENT, num: 5000 },
        entity: "client.x".to_owned(),
        called: Some(EntityType::MGR),
        socket: None,
        addrs: addrs(0),
        global_id: 5000,
        features: mon::version::FEATURES,
        caps: TicketCaps { allow_all: false, caps: caps.to_owned().to_bytes() },
    };
    c.mon.handle_net(c.now, NetEvent::Opened { conn, peer: Arc::new(peer) });
    c.drain();
    conn
}

fn cli(c: &mut Cluster, conn: ConnId, prefix: &str) -> (i32, String, String) {
    let command = vec![format!(r#"{{"prefix":"{prefix}","format":"json"}}"#)];
    c.send(conn, MgrCommand { command, ..MgrCommand::default() });
    match c.received(conn).pop() {
        Some(Message::MgrCommandReply(m)) => (m.result, m.status, String::from_utf8_lossy(&m.output).into_owned()),
        other => panic!("no answer: {other:?}"),
    }
}

fn tell(c: &mut Cluster, conn: ConnId, fsid: Uuid, json: &str) -> (i32, String) {
    c.send(conn, Command { fsid, command: vec![json.to_owned()], ..Command::default() });
    match c.received(conn).pop() {
        Some(Message::CommandReply(m)) => (m.result, String::from_utf8_lossy(&m.output).into_owned()),
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn the_map_leads_to_the_door_and_is_new_with_every_start() {
    let (mut c, admin) = Cluster::with_osds(1);
    c.subscribe(admin, &[("mgrmap", 0)]);
    let map_of = |messages: Vec<Message>| {
        messages.into_iter().find_map(|m| match m {
            Message::MgrMap(m) => Some(MgrMap::from_bytes(&m.map.0).expect("a map")),
            _ => None,
        })
    };
    let map = map_of(c.received(admin)).expect("a map of managers");
    assert_eq!((&map.active_name[..], map.available, &map.active_addrs), ("a", true, &addrs(6800)));
    assert_eq!(map.active_gid.0, mon::manager_door::MANAGER_GID);
    let mut again = Cluster::resume(c.now, c.config.clone(), c.store.clone());
    let admin = again.admin();
    again.subscribe(admin, &[("mgrmap", u64::from(map.epoch.0) + 1)]);
    assert_eq!(map_of(again.received(admin)).map(|m| m.epoch.0), Some(map.epoch.0 + 1));
    assert_eq!(again.json(admin, "mgr dump")["active_gid"], mon::manager_door::MANAGER_GID);
}

#[test]
fn commands_about_the_cluster_need_the_managers_capabilities() {
    let (mut c, admin) = Cluster::with_osds(2);
    let (reader, nobody) = (through_the_door(&mut c, 1, "allow r"), through_the_door(&mut c, 2, ""));
    let (result, status, output) = cli(&mut c, reader, "osd df");
    assert_eq!(result, 0, "{status}");
    let by_mon = c.json(admin, "osd df");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&output).expect("JSON"), by_mon);
    let (result, status, _) = cli(&mut c, nobody, "osd df");
    assert!(result == -13 && status.starts_with("access denied: does your client key have mgr caps?"), "{status}");
    // The monitors' own commands are not answered there, and what changes things needs more than reading.
    let expected = (-22, "No handler found for 'osd tree'".to_owned(), String::new());
    assert_eq!(cli(&mut c, reader, "osd tree"), expected);
    assert_eq!(cli(&mut c, reader, "pg scrub").0, -13);
    // The tool `rbd` tells its user that statistics are not kept by this errno, and that it failed by any other.
    assert_eq!(cli(&mut c, reader, "rbd perf image stats").0, -95);
    let (_, _, known) = cli(&mut c, reader, "get_command_descriptions");
    assert!(known.contains("\"osd\",\"df\"") && !known.contains("\"osd\",\"tree\""), "{known}");
    // Older clients say the same with the message that is for daemons, without naming the cluster.
    let (result, output) = tell(&mut c, reader, Uuid::default(), r#"{"prefix":"pg stat","format":"json"}"#);
    assert!(result == 0 && output.contains("num_pgs"), "{output}");
}

#[test]
fn commands_about_the_manager_need_everything() {
    let (mut c, admin) = Cluster::with_osds(1);
    let fsid = c.config.fsid;
    let (reader, all) = (through_the_door(&mut c, 1, "allow r"), through_the_door(&mut c, 2, "allow *"));
    assert_eq!(tell(&mut c, reader, fsid, r#"{"prefix":"version"}"#).0, -13);
    let (result, output) = tell(&mut c, all, fsid, r#"{"prefix":"version","format":"json"}"#);
    assert!(result == 0 && output.contains("16.2.15"), "{output}");
    // The manager's options are its own.
    c.ok(admin, r#"{"prefix":"config set","who":"mgr","name":"debug_ms","value":"3"}"#);
    let shown = tell(&mut c, all, fsid, r#"{"prefix":"config get","var":"debug_ms","format":"json"}"#).1;
    assert!(shown.contains(r#""debug_ms":"3"#), "{shown}");
    assert_eq!(tell(&mut c, all, fsid, r#"{"prefix":"config set","var":"debug_ms","val":["5"]}"#).0, 0);
    let shown = tell(&mut c, all, fsid, r#"{"prefix":"config get","var":"debug_ms","format":"json"}"#).1;
    assert!(shown.contains(r#""debug_ms":"5"#), "{shown}");
    let (_, name) = tell(&mut c, all, fsid, r#"{"prefix":"config show","format":"json"}"#);
    assert!(name.contains(r#""name":"mgr.a""#));
}

#[test]
fn the_door_is_the_managers_only() {
    let (mut c, admin) = Cluster::with_osds(1);
    let all = through_the_door(&mut c, 1, "allow *");
    let before = c.json(admin, "features")["client"].clone();
    assert_eq!(c.try_command(all, r#"{"prefix":"osd dump"}"#, b""), None);
    c.subscribe(all, &[("osdmap", 0), ("monmap", 0)]);
    assert_eq!(c.received(all), []);
    assert_eq!(c.json(admin, "features")["client"], before);
}
