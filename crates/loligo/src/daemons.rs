//! From a cluster's directory to running daemons: alone in this process, or all of them as its threads.
//!
//! Owns the reading of configuration and keys. Every complaint names the file it is about.

use crate::cli::OsdArgs;
use crate::cluster_dir::{ClusterDir, PidFile};
use crate::conf::Conf;
use crate::join;
use crate::layout::MON_NAME;
use crate::logging;
use anyhow::{Context, anyhow, bail};
use base::OsdId;
use rt::ask::Asker;
use rt::hub::Hub;
use rt::mon_daemon::{self, MonSetup};
use rt::osd_daemon::{self, OsdSetup};
use rt::osd_store::StoreKind;
use rt::signals::StopSignals;
use rt::threads::DaemonThreads;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use wire::auth::ConMode;
use wire::cephx::{AuthName, CryptoKey};
use wire::keyring::Keyring;
use wire::types::{AddrVec, EntityAddr, EntityType, Uuid};

/// The name of an embedded cluster's one process.
pub(crate) const EMBEDDED: &str = "loligo";

/// The option that names the device of an OSD's data, where those are not in its directory.
const DATA_PATH: &str = "bluestore_block_path";
/// The same of its log and metadata, where those are not with its data.
pub(crate) const LOG_PATH: &str = "bluestore_block_wal_path";
pub(crate) const META_PATH: &str = "bluestore_block_db_path";

/// The range of ports that OSDs choose from, unless `ms_bind_port_min` and `ms_bind_port_max` say otherwise: that of Ceph's
/// newer releases.
const OSD_PORTS: std::ops::RangeInclusive<u16> = 6800..=7568;

/// What `ceph.conf` and the directory say about a cluster.
#[derive(Debug)]
pub(crate) struct ClusterConfig {
    /// The clients' configuration file.
    pub(crate) conf_path: PathBuf,
    conf: Conf,
    fsid: Uuid,
    mon_addr: SocketAddr,
    /// The OSDs that are laid out.
    pub(crate) osds: Vec<i32>,
}

impl ClusterConfig {
    /// Reads it.
    pub(crate) fn read(dir: &ClusterDir) -> anyhow::Result<ClusterConfig> {
        Ok(ClusterConfig { osds: dir.osd_ids()?, ..ClusterConfig::of_conf(dir.ceph_conf(), dir.read_conf()?)? })
    }

    /// What a configuration file says of a cluster that may be anywhere.
    pub(crate) fn of_file(path: &Path) -> anyhow::Result<ClusterConfig> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let conf = Conf::parse(&text).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        ClusterConfig::of_conf(path.to_owned(), conf)
    }

    fn of_conf(conf_path: PathBuf, conf: Conf) -> anyhow::Result<ClusterConfig> {
        let value = |key: &str| conf.get("global", key).with_context(|| format!("{}: no {key}", conf_path.display()));
        let fsid = value("fsid")?;
        let fsid = Uuid::parse(fsid).with_context(|| format!("{}: fsid `{fsid}` is no uuid", conf_path.display()))?;
        let host = value("mon_host")?;
        let mon_addr = parse_mon_host(host)
            .with_context(|| format!("{}: mon_host `{host}` is not [v2:IP:PORT/0]", conf_path.display()))?;
        Ok(ClusterConfig { conf_path, conf, fsid, mon_addr, osds: Vec::new() })
    }

    /// The monitor's port.
    pub(crate) fn mon_port(&self) -> anyhow::Result<u16> {
        Ok(self.mon_addr.port())
    }

    /// Where the OSDs keep their objects.
    pub(crate) fn store(&self) -> anyhow::Result<&'static str> {
        let kind = StoreKind::of(&self.conf.values_for("osd"));
        Ok(kind.map_err(|e| anyhow!("{}: {e}", self.conf_path.display()))?.name())
    }

    /// Somebody who asks the monitor as the administrator.
    pub(crate) fn admin_asker(&self, dir: &ClusterDir) -> anyhow::Result<Asker> {
        let admin = AuthName::new(EntityType::CLIENT, "admin");
        let key = read_key(&dir.admin_keyring(), &admin)?;
        Ok(self.asker(admin, key))
    }

    /// Somebody who asks the monitor.
    pub(crate) fn asker(&self, entity: AuthName, key: CryptoKey) -> Asker {
        Asker { entity, key, mon: self.mon_addrs(), fsid: self.fsid }
    }

    /// Where a client's key may be: `keyring`, or the places where Ceph looks (v16.2 `src/common/options.cc`).
    pub(crate) fn client_keyrings(&self, entity: &AuthName) -> Vec<PathBuf> {
        let name = entity.to_string();
        let usual = "/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring";
        let places = self.conf.get(&name, "keyring").unwrap_or(usual);
        places.split(',').map(|place| PathBuf::from(admin::settings::expand(place.trim(), &name))).collect()
    }

    /// The address of this machine that a daemon listens on: `public_addr`, or the monitor's where there is none.
    fn host(&self, entity: &str) -> anyhow::Result<IpAddr> {
        let Some(text) = self.conf.get(entity, "public_addr") else { return Ok(self.mon_addr.ip()) };
        let address = text.parse();
        address.with_context(|| format!("{}: public_addr `{text}` is no IP address", self.conf_path.display()))
    }

    fn mon_addrs(&self) -> AddrVec {
        AddrVec::one(EntityAddr::msgr2(self.mon_addr, 0))
    }

    /// Where a daemon answers `ceph daemon`.
    pub(crate) fn admin_socket(&self, entity: &str) -> Option<PathBuf> {
        let path = self.conf.get(entity, "admin_socket").filter(|path| !path.is_empty())?;
        Some(PathBuf::from(admin::settings::expand(path, entity)))
    }

    /// The port that an option names.
    fn port(&self, entity: &str, option: &str, default: u16) -> anyhow::Result<u16> {
        let Some(text) = self.conf.get(entity, option) else { return Ok(default) };
        text.parse().with_context(|| format!("{}: {option} is `{text}`, no port", self.conf_path.display()))
    }

    /// The connection modes of an option such as `ms_service_mode`, favourite first.
    fn modes(&self, entity: &str, option: &str, default: &str) -> anyhow::Result<Vec<ConMode>> {
        let text = self.conf.get(entity, option).unwrap_or(default);
        let modes = ConMode::list(text).filter(|modes| !modes.is_empty());
        modes
            .with_context(|| format!("{}: {option} is `{text}`; crc and secure are possible", self.conf_path.display()))
    }
}

fn parse_mon_host(text: &str) -> Option<SocketAddr> {
    let inner = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text.trim());
    let v2 = inner.split(',').map(str::trim).find_map(|a| a.strip_prefix("v2:"))?;
    v2.split('/').next()?.parse().ok()
}

fn read_keyring(path: &Path) -> anyhow::Result<Keyring> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Keyring::parse(&text).map_err(|e| anyhow!("{}: {e}", path.display()))
}

pub(crate) fn read_key(path: &Path, name: &AuthName) -> anyhow::Result<CryptoKey> {
    let keyring = read_keyring(path)?;
    let entity = keyring.entity(name).with_context(|| format!("{}: no key of {name}", path.display()))?;
    Ok(entity.key.clone())
}

fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or("localhost").to_owned()
}

fn mon_setup(dir: &ClusterDir, cluster: &ClusterConfig) -> anyhow::Result<MonSetup> {
    let name = format!("mon.{MON_NAME}");
    let listener = TcpListener::bind(cluster.mon_addr)
        .with_context(|| format!("{}, the monitor's address, cannot be used", cluster.mon_addr))?;
    let manager = free_listener(cluster, &name)?;
    Ok(MonSetup {
        name: MON_NAME.to_owned(),
        fsid: cluster.fsid,
        addrs: cluster.mon_addrs(),
        listener,
        manager: (AddrVec::one(EntityAddr::msgr2(manager.local_addr()?, std::process::id())), manager),
        hostname: hostname(),
        modes: cluster.modes(&name, "ms_mon_service_mode", "secure crc")?,
        options: cluster.conf.values_for(&name),
        keyring: read_keyring(&dir.daemon_keyring(&name))?,
        osds: cluster.osds.iter().map(|&id| OsdId(id)).collect(),
        store: dir.data(&name).join("store.redb"),
        admin_socket: cluster.admin_socket(&name),
    })
}

/// A socket at any of the daemons' ports.
fn free_listener(cluster: &ClusterConfig, name: &str) -> anyhow::Result<TcpListener> {
    let host = cluster.host(name)?;
    let first = cluster.port(name, "ms_bind_port_min", *OSD_PORTS.start())?;
    let last = cluster.port(name, "ms_bind_port_max", *OSD_PORTS.end())?;
    let bound = (first..=last).find_map(|port| TcpListener::bind((host, port)).ok());
    bound.with_context(|| format!("{name}: no free port on {host} from {first} to {last}"))
}

/// What tells this life of an OSD from the one before: with daemons as threads the pid alone does not.
pub(crate) fn osd_nonce(pid: u32, id: i32) -> u32 {
    pid.wrapping_mul(4096).wrapping_add(id as u32)
}

fn osd_setup(dir: &ClusterDir, cluster: &ClusterConfig, id: i32, hub: Option<Hub>) -> anyhow::Result<OsdSetup> {
    let name = format!("osd.{id}");
    let listener = free_listener(cluster, &name)?;
    let addr = EntityAddr::msgr2(listener.local_addr()?, osd_nonce(std::process::id(), id));
    let key = read_key(&dir.daemon_keyring(&name), &AuthName::new(EntityType::OSD, id.to_string()))?;
    // The engine takes them from its options; what is no mode would leave it with the default, which may be too little.
    for option in ["ms_cluster_mode", "ms_service_mode"] {
        cluster.modes(&name, option, "crc secure")?;
    }
    let options = store_options(cluster, &name);
    Ok(OsdSetup {
        id: OsdId(id),
        fsid: cluster.fsid,
        addrs: AddrVec::one(addr),
        listener,
        mon: cluster.mon_addrs(),
        key,
        hostname: hostname(),
        store: StoreKind::of(&options).map_err(|e| anyhow!("{}: {e}", cluster.conf_path.display()))?,
        data: dir.data(&name),
        options,
        hub,
        admin_socket: cluster.admin_socket(&name),
    })
}

/// Lets this process have as many sockets open as the system allows: shells start programs with room for a thousand,
/// and each client takes one. Where that fails, what there is has to do.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// `loligo mon`.
pub(crate) fn run_mon(dir: &ClusterDir) -> anyhow::Result<()> {
    let mut signals = StopSignals::catch()?;
    let cluster = ClusterConfig::read(dir)?;
    let name = format!("mon.{MON_NAME}");
    let _pid_file = dir.take_pid_file(&name)?;
    let setup = mon_setup(dir, &cluster)?;
    logging::to_file(&dir.log(&name))?;
    allow_many_files();
    rt::program::take_small_pages();
    let mut threads = DaemonThreads::default();
    threads.start(&name, setup, mon_daemon::run)?;
    Ok(threads.run_until_stopped(&mut signals)?)
}

/// Makes so many more OSDs for a cluster that does not run, with its monitor alone for as long as that takes.
pub(crate) fn make_more_osds(dir: &ClusterDir, count: usize) -> anyhow::Result<()> {
    let cluster = ClusterConfig::read(dir)?;
    let name = format!("mon.{MON_NAME}");
    let _pid_file = dir.take_pid_file(&name)?;
    let mut threads = DaemonThreads::default();
    threads.start(&name, mon_setup(dir, &cluster)?, mon_daemon::run)?;
    let asker = cluster.admin_asker(dir)?;
    let made = (0..count).try_for_each(|_| join::make_osd(dir, &asker).map(drop));
    threads.stop()?;
    made
}

/// What it takes to open an OSD's store.
#[derive(Debug)]
pub(crate) struct StoreSetup {
    /// The cluster.
    pub(crate) fsid: Uuid,
    /// The OSD's directory.
    pub(crate) data: PathBuf,
    /// Its options.
    pub(crate) options: BTreeMap<String, String>,
}

impl StoreSetup {
    /// Reads it.
    pub(crate) fn read(dir: &ClusterDir, id: i32) -> anyhow::Result<StoreSetup> {
        let (cluster, name) = (ClusterConfig::read(dir)?, format!("osd.{id}"));
        Ok(StoreSetup { fsid: cluster.fsid, data: dir.data(&name), options: store_options(&cluster, &name) })
    }
}

/// An OSD's options, its own number in the paths of its store's devices.
fn store_options(cluster: &ClusterConfig, name: &str) -> BTreeMap<String, String> {
    let mut options = cluster.conf.values_for(name);
    for path in [DATA_PATH, LOG_PATH, META_PATH] {
        options.entry(path.to_owned()).and_modify(|path| *path = admin::settings::expand(path, name));
    }
    options
}

/// `loligo osd`.
pub(crate) fn run_osd(dir: &ClusterDir, args: &OsdArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::catch()?;
    let cluster = ClusterConfig::read(dir)?;
    let id = match args.id {
        Some(id) if cluster.osds.contains(&id) => id,
        Some(id) => bail!("{} has no osd.{id}; it has {:?}", dir.root().display(), cluster.osds),
        None => {
            let id = join::make_osd(dir, &cluster.admin_asker(dir)?)?;
            say!("osd.{id} joins the cluster");
            id
        }
    };
    let name = format!("osd.{id}");
    let _pid_file = dir.take_pid_file(&name)?;
    let mut setup = osd_setup(dir, &cluster, id, None)?;
    for (path, option) in [(&args.log_device, LOG_PATH), (&args.meta_device, META_PATH)] {
        let Some(path) = path else { continue };
        let whole = std::path::absolute(path).with_context(|| format!("{}: not a usable path", path.display()))?;
        setup.options.insert(option.to_owned(), whole.display().to_string());
    }
    logging::to_file(&dir.log(&name))?;
    allow_many_files();
    if setup.store != StoreKind::Memory {
        rt::program::take_small_pages();
    }
    let mut threads = DaemonThreads::default();
    threads.start(&name, setup, osd_daemon::run)?;
    Ok(threads.run_until_stopped(&mut signals)?)
}

/// `loligo serve`: an embedded cluster in a process that somebody else watches.
pub(crate) fn run_embedded(dir: &ClusterDir) -> anyhow::Result<()> {
    let mut signals = StopSignals::catch()?;
    Embedded::start(dir, &ClusterConfig::read(dir)?)?.run_until_stopped(&mut signals)
}

/// All daemons of a cluster as threads of this process.
#[derive(Debug)]
pub(crate) struct Embedded {
    threads: DaemonThreads,
    _pid_file: PidFile,
}

impl Embedded {
    /// Reads every key and takes every port, then starts the threads: what is wrong shows before anything runs.
    pub(crate) fn start(dir: &ClusterDir, cluster: &ClusterConfig) -> anyhow::Result<Embedded> {
        let pid_file = dir.take_pid_file(EMBEDDED)?;
        let hub = Hub::default();
        let mon = mon_setup(dir, cluster)?;
        let osds: Vec<(i32, OsdSetup)> = cluster
            .osds
            .iter()
            .map(|&id| Ok((id, osd_setup(dir, cluster, id, Some(hub.clone()))?)))
            .collect::<anyhow::Result<_>>()?;
        logging::to_file(&dir.log(EMBEDDED))?;
        allow_many_files();
        if osds.iter().all(|(_, osd)| osd.store != StoreKind::Memory) {
            rt::program::take_small_pages();
        }
        let mut threads = DaemonThreads::default();
        threads.start(&format!("mon.{MON_NAME}"), mon, mon_daemon::run)?;
        for (id, setup) in osds {
            threads.start(&format!("osd.{id}"), setup, osd_daemon::run)?;
        }
        Ok(Embedded { threads, _pid_file: pid_file })
    }

    /// What went wrong, if a daemon has ended by itself.
    pub(crate) fn failure(&self) -> Option<String> {
        self.threads.ended_early().map(|name| format!("{name} ended by itself"))
    }

    /// Waits for SIGINT or SIGTERM, or for a daemon that fails; then stops all.
    pub(crate) fn run_until_stopped(self, signals: &mut StopSignals) -> anyhow::Result<()> {
        Ok(self.threads.run_until_stopped(signals)?)
    }

    /// Stops all.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        Ok(self.threads.stop()?)
    }
}
