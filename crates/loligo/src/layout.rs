//! Laying out a new cluster: its id, its keys, its configuration.
//!
//! Invariant: a layout is whole or not there. `ceph.conf` is written last, and whoever is interrupted before that is
//! swept away by `Undo`.

use crate::cluster_dir::{ClusterDir, private_dir, write_private};
use crate::conf::Conf;
use anyhow::Context;
use std::io::ErrorKind;
use std::path::PathBuf;
use wire::cephx::{AuthName, CryptoKey, EntityAuth};
use wire::keyring::Keyring;
use wire::types::{EntityType, Uuid};

/// The name of the one monitor.
pub(crate) const MON_NAME: &str = "a";

/// What a new cluster is to be like.
#[derive(Debug)]
pub(crate) struct NewCluster {
    /// How many OSDs.
    pub(crate) osds: u16,
    /// The monitor's port on loopback.
    pub(crate) port: u16,
    /// Further options for ceph.conf.
    pub(crate) options: Vec<(String, String)>,
}

/// Removes what a failed `up` has made, unless told to keep it.
#[derive(Debug)]
pub(crate) struct Undo {
    made: Vec<PathBuf>,
}

impl Undo {
    /// Nothing to undo: the cluster was there before.
    pub(crate) fn nothing() -> Undo {
        Undo { made: Vec::new() }
    }

    /// The cluster works: it stays.
    pub(crate) fn keep(&mut self) {
        self.made.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for path in &self.made {
            let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            if let Err(error) = removed
                && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            {
                crate::out::complain(format_args!("{}: left behind: {error}", path.display()));
            }
        }
    }
}

/// Lays out a new cluster in `dir`.
pub(crate) fn lay_out(dir: &ClusterDir, new: &NewCluster) -> anyhow::Result<Undo> {
    let undo = Undo { made: to_be_made(dir, new.osds) };
    dir.create()?;
    let now = rt::clock::Clock::start().now();
    let mut rng = base::rng::SecretRng::from_entropy(rt::clock::entropy());
    let fsid = Uuid::from_random(rng.bytes());

    let mut make = |kind: EntityType, id: String, caps: &[(&str, &str)]| {
        let caps = caps.iter().map(|(service, caps)| ((*service).to_owned(), (*caps).to_owned())).collect();
        (AuthName::new(kind, id), EntityAuth { key: CryptoKey::generate(now, &mut rng), caps })
    };
    let admin_caps = [("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")];
    let mon = make(EntityType::MON, String::new(), &[("mon", "allow *")]);
    let admin = make(EntityType::CLIENT, "admin".to_owned(), &admin_caps);
    let osds: Vec<_> = (0..new.osds).map(|id| make(EntityType::OSD, id.to_string(), &osd_caps())).collect();

    // The monitor starts its database from a keyring of everybody.
    let everybody = [mon, admin.clone()].into_iter().chain(osds.iter().cloned()).collect();
    let mut keyrings = vec![(format!("mon.{MON_NAME}"), Keyring { entities: everybody })];
    keyrings.extend(osds.into_iter().map(|(name, auth)| (name.to_string(), Keyring::one(name, auth))));
    for (daemon, keyring) in keyrings {
        private_dir(&dir.data(&daemon)).with_context(|| format!("{}: cannot be made", dir.data(&daemon).display()))?;
        write_private(&dir.daemon_keyring(&daemon), keyring.to_text().as_bytes())?;
    }
    write_private(&dir.admin_keyring(), Keyring::one(admin.0, admin.1).to_text().as_bytes())?;
    write_private(&dir.ceph_conf(), conf(dir, new, fsid).render().as_bytes())?;
    Ok(undo)
}

/// What an OSD may do, by service.
pub(crate) fn osd_caps() -> [(&'static str, &'static str); 3] {
    [("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")]
}

/// What laying out will make: one new directory, or our own entries in a directory that is the user's.
fn to_be_made(dir: &ClusterDir, osds: u16) -> Vec<PathBuf> {
    if let Some(topmost) = dir.topmost_missing() {
        return vec![topmost];
    }
    let files = [dir.ceph_conf(), dir.admin_keyring(), dir.run(), dir.root().join("log")];
    files.into_iter().chain(daemon_names(osds).map(|name| dir.data(&name))).collect()
}

fn daemon_names(osds: u16) -> impl Iterator<Item = String> {
    std::iter::once(format!("mon.{MON_NAME}")).chain((0..osds).map(|id| format!("osd.{id}")))
}

fn conf(dir: &ClusterDir, new: &NewCluster, fsid: Uuid) -> Conf {
    let mut conf = Conf::default();
    let mut global = |key: &str, value: &str| conf.set("global", key, value);
    global("fsid", &fsid.to_string());
    global("mon_host", &format!("[v2:127.0.0.1:{}/0]", new.port));
    global("keyring", &dir.admin_keyring().display().to_string());
    for which in ["cluster", "service", "client"] {
        global(&format!("auth_{which}_required"), "cephx");
    }
    global("ms_bind_ipv6", "false");
    global("public_addr", "127.0.0.1");
    global("osd_pool_default_size", &new.osds.min(3).to_string());
    // One machine: copies go to different OSDs, as there are no different hosts.
    global("osd_crush_chooseleaf_type", "0");
    global("mon_allow_pool_delete", "true");
    for (key, value) in &new.options {
        global(key, value);
    }
    // Not in `global`: clients would each make a socket of their own there.
    let socket = dir.run().join("$name.asok");
    for kind in ["mon", "osd"] {
        conf.set(kind, "admin_socket", &socket.display().to_string());
    }
    conf
}
