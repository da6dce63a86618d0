//! Capabilities: validity against a real monitor's verdicts, decisions against the documented meaning.

use super::mon::Rights;
use super::osd::Applications;
use super::*;
use crate::cephx::AuthName;
use crate::codec::Encode;
use crate::net::TicketCaps;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What `ceph auth caps client.t SERVICE TEXT` said on Ceph 16.2.15: service, text, errno, message; with `\t`, `\n` and
/// `\\` escaped.
const VERDICTS: &str = include_str!("../../tests/golden/caps.txt");

fn unescape(text: &str) -> String {
    text.replace("\\\\", "\0").replace("\\t", "\t").replace("\\n", "\n").replace('\0', "\\")
}

#[test]
fn texts_are_accepted_and_refused_as_a_real_monitor_does() {
    let mut wrong = vec![];
    for line in VERDICTS.lines() {
        let [service, text, errno, message] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a verdict has four columns: {line}")
        };
        let expected = if errno == "0" { Ok(()) } else { Err(BadCap(unescape(message))) };
        let ours = validate(service, &unescape(text));
        if ours != expected {
            wrong.push(format!("{service} {text:?}: expected {expected:?}, got {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), VERDICTS.lines().count(), wrong.join("\n"));
}

fn args(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Whether `caps` lets `who` do something with the monitor.
fn mon(caps: &str, who: &str, service: &str, command: &str, pairs: &[(&str, &str)], needs: Rights) -> bool {
    let caps = MonCap::parse(caps).expect("a valid text");
    let entity = AuthName::parse(who).expect("a literal name");
    let from = Some("10.1.2.3".parse().expect("a literal address"));
    caps.is_capable(&MonRequest { entity: &entity, service, command, args: &args(pairs), needs, from })
}

const R: Rights = Rights::R;
const W: Rights = Rights::W;

#[test]
fn rights_over_services_add_up() {
    let service = |caps: &str, service: &str, needs| mon(caps, "client.a", service, "", &[], needs);
    assert!(service("allow r", "osd", R) && !service("allow r", "osd", W));
    assert!(service("allow r, allow service osd w", "osd", R | W));
    assert!(!service("allow r, allow service osd w", "mon", R | W));
    assert!(!service("allow rwx", "config-key", R), "secrets need more than blanket rights");
    assert!(service("allow *", "config-key", R | W) && service("allow service config-key r", "config-key", R));
    assert!(!service("allow rw", "auth", R | Rights::X) && service("allow rwx", "auth", R | Rights::X));
    assert!(service("allow r network 10.0.0.0/8", "osd", R));
    assert!(!service("allow * network 11.0.0.0/8", "osd", R) && !service("allow r network 10.1.2.3", "osd", R));
    assert!(!service("profile nonsense", "mon", R));
}

#[test]
fn commands_are_allowed_under_conditions() {
    let create = "osd pool create";
    let with = |caps: &str, pairs: &[(&str, &str)]| mon(caps, "client.a", "osd", create, pairs, R | W);
    assert!(with("allow command \"osd pool create\"", &[]));
    let caps = "allow command \"osd pool create\" with pool prefix test- pg_num=8";
    assert!(with(caps, &[("pool", "test-1"), ("pg_num", "8"), ("more", "x")]));
    assert!(!with(caps, &[("pool", "test-1"), ("pg_num", "9")]));
    assert!(!with(caps, &[("pool", "prod"), ("pg_num", "8")]) && !with(caps, &[("pool", "test-1")]));
    let caps = "allow command \"osd pool create\" with pool regex \"te[sx]t\"";
    assert!(with(caps, &[("pool", "text")]) && !with(caps, &[("pool", "texts")]));
    assert!(!with("allow command \"osd pool create\" with pool regex \"(\"", &[("pool", "(")]));
    assert!(!mon(caps, "client.a", "osd", "osd pool rm", &[("pool", "test")], R | W));
}

#[test]
fn profiles_give_what_their_holders_need() {
    let service = |profile: &str, service: &str, needs| {
        mon(&format!("allow profile {profile}"), "osd.3", service, "", &[], needs)
    };
    assert!(service("osd", "osd", Rights::RWX) && service("osd", "pg", R | W) && service("osd", "log", W));
    assert!(service("osd", "mon", R) && !service("osd", "mon", W) && !service("osd", "auth", R));
    assert!(service("mgr", "osd", R | W) && service("mgr", "config-key", R | W));
    assert!(service("simple-rados-client", "pg", R) && !service("simple-rados-client", "osd", W));
    assert!(service("role-definer", "auth", Rights::RWX) && !service("role-definer", "osd", R));
    assert!(service("read-only", "osd", R) && !service("read-only", "auth", R | Rights::X));

    let own = |key: &str| mon("profile osd", "osd.3", "config-key", "config-key get", &[("key", key)], R);
    assert!(own("daemon-private/osd.3/x") && !own("daemon-private/osd.4/x") && !own("other"));

    let fence = |caps: &str, op: &str, addr: &str| {
        let pairs = [("blocklistop", op), ("addr", addr)];
        mon(caps, "client.rbd", "osd", "osd blocklist", &pairs, R | W)
    };
    assert!(fence("profile rbd", "add", "192.168.0.1:0/123"));
    assert!(!fence("profile rbd", "rm", "192.168.0.1:0/123") && !fence("profile rbd", "add", "192.168.0.1"));
    assert!(!fence("profile simple-rados-client", "add", "192.168.0.1:0/123"));

    let create = |entity: &str, osd: &str| {
        let pairs = [("entity", entity), ("caps_mon", "profile rbd"), ("caps_osd", osd)];
        mon("profile bootstrap-rbd", "client.boot", "auth", "auth get-or-create", &pairs, Rights::RWX)
    };
    assert!(create("client.vm", "profile rbd pool=vms, profile rbd-read-only pool=images"));
    assert!(!create("client.vm", "allow *") && !create("osd.1", "profile rbd"));
    assert!(mon("profile bootstrap-osd", "client.b", "osd", "osd new", &[], R | W));
}

/// Whether `caps` lets somebody read (`r`), write (`w`) or both an object `pool/namespace/object`.
fn osd(caps: &str, place: &str, how: &str, classes: &[ClassCall<'_>]) -> bool {
    let caps = OsdCap::parse(caps).expect("a valid text");
    let [pool, namespace, object] = place.split('/').collect::<Vec<_>>()[..] else { panic!("{place}") };
    let applications: Applications = match pool {
        "fs_data" => [("cephfs".to_owned(), args(&[("data", "fs")]))].into(),
        _ => [("rbd".to_owned(), args(&[]))].into(),
    };
    caps.is_capable(&OsdRequest {
        pool,
        namespace,
        applications: &applications,
        object: object.as_bytes(),
        reads: how.contains('r'),
        writes: how.contains('w'),
        classes,
        from: Some("10.1.2.3".parse().expect("a literal address")),
    })
}

#[test]
fn objects_are_matched_by_pool_namespace_prefix_and_tag() {
    assert!(osd("allow r", "a//x", "r", &[]) && !osd("allow r", "a//x", "w", &[]));
    assert!(!osd("allow r, allow w", "a//x", "rw", &[]), "reading and writing come from one grant");
    assert!(osd("allow rw pool=a", "a/n/x", "rw", &[]) && !osd("allow rw pool=a", "b//x", "r", &[]));
    assert!(osd("allow pool a rw", "a//x", "w", &[]));
    let caps = "allow r namespace=team*";
    assert!(osd(caps, "a/team1/x", "r", &[]) && osd(caps, "a/team/x", "r", &[]));
    assert!(!osd(caps, "a/tea/x", "r", &[]) && !osd(caps, "a//x", "r", &[]));
    assert!(osd("allow r namespace=\"\"", "a//x", "r", &[]) && !osd("allow r namespace=\"\"", "a/n/x", "r", &[]));
    assert!(osd("allow r object_prefix rbd_", "a//rbd_1", "r", &[]));
    assert!(!osd("allow r object_prefix rbd_", "a//x", "r", &[]));
    for (tag, allowed) in [
        ("cephfs data=fs", true),
        ("cephfs *=fs", true),
        ("cephfs data=*", true),
        ("cephfs *=*", true),
        ("cephfs data=other", false),
        ("cephfs metadata=*", false),
        ("rbd *=*", false),
    ] {
        assert_eq!(osd(&format!("allow rw tag {tag}"), "fs_data//x", "rw", &[]), allowed, "{tag}");
    }
    assert!(osd("allow r network 10.0.0.0/8", "a//x", "r", &[]));
    assert!(!osd("allow * network 127.0.0.0/8", "a//x", "r", &[]));
    assert!(!osd("profile nonsense", "a//x", "r", &[]));
}

#[test]
fn class_calls_need_their_own_rights() {
    let call = |class, method, reads, writes| ClassCall { class, method, reads, writes, listed: true };
    let read = [call("rbd", "get_size", true, false)];
    let write = [call("rbd", "set_size", true, true)];
    let unlisted = [ClassCall { listed: false, ..read[0] }];
    assert!(!osd("allow rw", "a//x", "r", &read) && osd("allow rwx", "a//x", "rw", &write));
    assert!(osd("allow class-read", "a//x", "", &read) && !osd("allow class-read", "a//x", "", &write));
    assert!(osd("allow r class-read", "a//x", "r", &read));
    assert!(!osd("allow rwx", "a//x", "", &unlisted), "x reaches listed classes only");
    assert!(osd("allow *", "a//x", "", &unlisted) && osd("allow class rbd", "a//x", "", &unlisted));
    assert!(osd("allow class rbd get_size", "a//x", "", &read) && !osd("allow class rbd get_size", "a//x", "", &write));
    // Calls may be allowed by different grants; the last of them must be the one that decides.
    let both = [read[0], call("lock", "lock", true, true)];
    assert!(osd("allow class rbd, allow class lock", "a//x", "", &both));
    assert!(!osd("allow class rbd", "a//x", "", &both));
}

#[test]
fn rbd_profiles_work_within_their_pool() {
    let list = [ClassCall { class: "rbd", method: "metadata_list", reads: true, writes: false, listed: true }];
    let attach = [ClassCall { class: "rbd", method: "child_attach", reads: true, writes: true, listed: true }];
    let caps = "profile rbd pool=vms, profile rbd-read-only pool=images";
    assert!(osd(caps, "vms//rbd_data.1", "rw", &[]) && osd(caps, "vms/n/rbd_header.1", "rw", &attach));
    assert!(osd(caps, "images//rbd_data.1", "r", &[]) && !osd(caps, "images//rbd_data.1", "w", &[]));
    assert!(osd(caps, "images//rbd_header.1", "", &attach), "clones are noted at their parent");
    assert!(!osd(caps, "images//rbd_data.1", "", &attach));
    assert!(osd(caps, "other//rbd_info", "r", &[]) && !osd(caps, "other//rbd_data.1", "r", &[]));
    assert!(osd("profile rbd pool=vms namespace=a", "vms//rbd_info", "", &list));
    assert!(!osd("profile rbd pool=vms namespace=a", "vms//rbd_data.1", "r", &[]));
}

#[test]
fn tickets_without_caps_or_with_broken_ones_allow_nothing() {
    let ticket = |caps: bytes::Bytes| TicketCaps { allow_all: false, caps };
    for caps in [bytes::Bytes::new(), bytes::Bytes::from_static(b"\xff\xff\xff\xffallow *"), "nonsense".to_bytes()] {
        assert_eq!(OsdCap::from_ticket(&ticket(caps.clone())), OsdCap::default());
        assert_eq!(MonCap::from_ticket(&ticket(caps)), MonCap::default());
    }
    assert!(OsdCap::from_ticket(&ticket("allow *".to_bytes())).is_allow_all());
    assert!(MonCap::from_ticket(&ticket("allow *".to_bytes())).is_allow_all());
    let all = TicketCaps { allow_all: true, ..TicketCaps::default() };
    assert!(OsdCap::from_ticket(&all).is_allow_all() && MonCap::from_ticket(&all).is_allow_all());
    assert!(!OsdCap::parse("allow * pool=a").expect("valid").is_allow_all());
    assert!(!MonCap::parse("allow * network 10.0.0.0/8").expect("valid").is_allow_all());
}

proptest! {
    #[test]
    fn any_text_is_judged(service in "mon|osd|mds|mgr", text in "(allow |profile |[rwx* ]|pool=|[a-z\"'=,;/\n\t]|class|network |namespace|tag |with |é){0,24}") {
        let _ = validate(&service, &text);
    }

    #[test]
    fn what_is_refused_stops_at_an_end_of_the_text(text in "[a-z *,;=\"]{0,40}") {
        if let Err(BadCap(message)) = validate("osd", &text) {
            let rest = message.strip_prefix("osd capability parse failed, stopped at '").expect("Ceph's words");
            let rest = rest.strip_suffix(&format!("' of '{text}'")).expect("Ceph's words");
            prop_assert!(text.ends_with(rest) && !rest.starts_with(' '));
        }
    }
}

/// What `client.p` at 127.0.0.1 could do on Ceph 16.2.15: caps, the command's module and needs, its prefix, its
/// arguments, and whether it was refused with EACCES.
const DECISIONS: &str = include_str!("../../tests/golden/mon_caps.txt");

#[test]
fn commands_are_allowed_and_refused_as_on_a_real_monitor() {
    let entity = AuthName::parse("client.p").expect("a literal name");
    let mut wrong = vec![];
    for line in DECISIONS.lines() {
        let [caps, service, needs, command, pairs, verdict] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a decision has six columns: {line}")
        };
        let args: BTreeMap<_, _> =
            pairs.split(' ').filter_map(|p| p.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let needs = needs.chars().fold(Rights::NONE, |all, letter| {
            all | match letter {
                'r' => Rights::R,
                'w' => Rights::W,
                _ => Rights::X,
            }
        });
        let from = Some("127.0.0.1".parse().expect("a literal address"));
        let request = MonRequest { entity: &entity, service, command, args: &args, needs, from };
        let ours = MonCap::parse(caps).expect("a valid text").is_capable(&request);
        if ours != (verdict == "allowed") {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), DECISIONS.lines().count(), wrong.join("\n"));
}
