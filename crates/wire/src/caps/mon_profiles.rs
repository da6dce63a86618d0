//! The monitor's profiles: named lists of grants for daemons, tools and common kinds of clients.
//!
//! Follows Ceph v16.2 `MonCapGrant::expand_profile_mon`. A name that is not listed grants nothing, which is how Ceph
//! treats it too: the text is valid, the holder can do nothing.

use super::mon::{Condition, Conditions, Grant, Rights};
use crate::cephx::AuthName;

/// The pattern that `profile rbd` holds addresses of clients to be fenced against: address and nonce.
const FENCED_ADDRESS: &str = "^[^/]+/[0-9]+$";
/// What osd caps `profile bootstrap-rbd` may hand out: rbd profiles, each perhaps for a pool.
const RBD_OSD_CAPS: &str = r#"^([ ,]*profile(=|[ ]+)['"]?rbd[^ ,'"]*['"]?([ ]+pool(=|[ ]+)['"]?[^,'"]+['"]?)?)+$"#;

const R: Rights = Rights::R;
const W: Rights = Rights::W;

fn service(service: &str, rights: Rights) -> Grant {
    Grant::Service { service: service.to_owned(), rights }
}

fn command<const N: usize>(command: &str, with: [(&str, Condition); N]) -> Grant {
    let with: Conditions = with.into_iter().map(|(key, condition)| (key.to_owned(), condition)).collect();
    Grant::Command { command: command.to_owned(), with }
}

fn equal(value: &str) -> Condition {
    Condition::Equal(value.to_owned())
}

fn prefix(value: &str) -> Condition {
    Condition::Prefix(value.to_owned())
}

fn regex(value: &str) -> Condition {
    Condition::Regex(value.to_owned())
}

/// The grants that `profile` stands for when `entity` holds it.
pub(super) fn grants(profile: &str, entity: &AuthName) -> Vec<Grant> {
    let mut grants = match profile {
        "read-only" => vec![Grant::Everything(R)],
        "read-write" => vec![Grant::Everything(R | W)],
        "mon" => vec![service("mon", Rights::RWX), service("log", Rights::RWX)],
        "osd" => vec![service("osd", Rights::RWX), service("mon", R), service("pg", R | W), service("log", W)],
        "mds" => vec![
            service("mds", Rights::RWX),
            service("mon", R),
            service("osd", R),
            command("osd pool rmsnap", []),
            command("osd blocklist", []),
            command("osd blacklist", []),
            service("log", W),
        ],
        "mgr" => mgr(),
        "crash" => vec![service("mon", R)],
        "fs-client" => ["mon", "mds", "osd", "pg"].map(|s| service(s, R)).into(),
        "simple-rados-client" => reader(),
        "cephfs-mirror" => {
            let mut grants: Vec<_> = ["mon", "mds", "osd", "pg"].map(|s| service(s, R)).into();
            grants.push(command("config-key get", [("key", prefix("cephfs/mirror/peer"))]));
            grants
        }
        "simple-rados-client-with-blocklist" | "rbd" | "rbd-read-only" => fencer(),
        "rbd-mirror" | "rbd-mirror-peer" => {
            let mut grants = fencer();
            grants.push(command("config-key get", [("key", prefix("rbd/mirror/"))]));
            if profile == "rbd-mirror-peer" {
                grants.push(command("config-key set", [("key", prefix("rbd/mirror/peer/"))]));
            }
            grants
        }
        "role-definer" => vec![service("mon", R), service("auth", Rights::RWX)],
        _ => bootstrap(profile),
    };
    if matches!(profile, "mon" | "osd" | "mds" | "mgr") {
        let own = format!("daemon-private/{entity}/");
        for verb in ["get", "put", "set", "exists", "delete"] {
            grants.push(command(&format!("config-key {verb}"), [("key", prefix(&own))]));
        }
    }
    grants
}

fn reader() -> Vec<Grant> {
    ["mon", "osd", "pg"].map(|s| service(s, R)).into()
}

fn mgr() -> Vec<Grant> {
    let mut grants = vec![service("mgr", Rights::RWX), service("auth", R | Rights::X)];
    grants.extend(["log", "mon", "mds", "fs", "osd", "config-key", "config"].map(|s| service(s, R | W)));
    grants.extend(["auth get-or-create", "auth caps", "auth rm", "smart"].map(|c| command(c, [])));
    grants
}

/// One who reads, and fences the dead holder of an exclusive lock.
fn fencer() -> Vec<Grant> {
    let mut grants = reader();
    for (verb, op) in [("osd blocklist", "blocklistop"), ("osd blacklist", "blacklistop")] {
        grants.push(command(verb, [(op, equal("add")), ("addr", regex(FENCED_ADDRESS))]));
    }
    grants
}

/// The profiles that create keys for daemons or clients of one kind and nothing else.
fn bootstrap(profile: &str) -> Vec<Grant> {
    let create = |entity: &str, mon: &str, more: &[(&str, Condition)]| {
        let mut with = Conditions::from([("entity".to_owned(), prefix(entity)), ("caps_mon".to_owned(), equal(mon))]);
        with.extend(more.iter().map(|(key, condition)| ((*key).to_owned(), condition.clone())));
        Grant::Command { command: "auth get-or-create".to_owned(), with }
    };
    let osd_rwx = || ("caps_osd", equal("allow rwx"));
    let made = match profile {
        "bootstrap-osd" => vec![command("osd new", []), command("osd purge-new", [])],
        "bootstrap-mds" => {
            vec![create("mds.", "allow profile mds", &[osd_rwx(), ("caps_mds", equal("allow"))])]
        }
        "bootstrap-mgr" => vec![create("mgr.", "allow profile mgr", &[])],
        "bootstrap-rgw" => vec![create("client.rgw.", "allow rw", &[osd_rwx()])],
        "bootstrap-rbd" => {
            return vec![service("mon", R), create("client.", "profile rbd", &[("caps_osd", regex(RBD_OSD_CAPS))])];
        }
        "bootstrap-rbd-mirror" => {
            let caps_osd = ("caps_osd", regex(RBD_OSD_CAPS));
            return vec![service("mon", R), create("client.", "profile rbd-mirror", &[caps_osd])];
        }
        _ => return vec![],
    };
    let mut grants = vec![service("mon", R), service("osd", R), command("mon getmap", [])];
    grants.extend(made);
    grants
}
