//! The OSD engine with its object store.
//!
//! Owns an OSD's start from what a clean stop left on disk, and the loop between the engine and its store.

use crate::clock::entropy;
use crate::daemon::{Daemon, DaemonFailed, Output};
use crate::host::{self, Metadata};
use crate::hub::Hub;
use crate::image;
use crate::reactor::{self, ReactorConfig, Stopper};
use admin::Transport;
use base::rng::SecretRng;
use base::{Duration, Instant, OsdId};
use bytes::Bytes;
use osd::{BootImage, Command, Osd, OsdConfig};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use store::{Completion, MemoryStore, ObjectStore};
use wire::auth::Auth;
use wire::cephx::CryptoKey;
use wire::msgr::MessengerConfig;
use wire::net::NetEvent;
use wire::types::{AddrVec, EntityName, EntityType, Uuid};

/// What an OSD is started with.
#[derive(Debug)]
pub struct OsdSetup {
    /// Its number.
    pub id: OsdId,
    /// The cluster.
    pub fsid: Uuid,
    /// Its address, with this life's nonce.
    pub addrs: AddrVec,
    /// The socket bound there.
    pub listener: TcpListener,
    /// The monitor.
    pub mon: AddrVec,
    /// Its key.
    pub key: CryptoKey,
    /// The host it runs on.
    pub hostname: String,
    /// The directory of its data: `memory.image` is what a clean stop leaves, `fsid` names the store.
    pub data: PathBuf,
    /// Options from the configuration file.
    pub options: BTreeMap<String, String>,
    /// The other daemons of this process.
    pub hub: Option<Hub>,
    /// Where `ceph daemon` asks.
    pub admin_socket: Option<PathBuf>,
}

/// The size a memory store claims, as there is no device to ask: more than tests and measurements fill, because writes
/// are held back from the map's full ratio of it on.
pub const MEMORY_STORE_BYTES: u64 = 16 << 30;

/// How often statistics go to the monitor without cause (`mgr_stats_period`).
const STATS_PERIOD: Duration = Duration::from_secs(5);

/// Runs an OSD until it has stopped.
pub fn run(setup: OsdSetup, stopper: &Stopper) -> Result<(), DaemonFailed> {
    let name = format!("osd.{}", setup.id);
    let failed = |reason: String| DaemonFailed { daemon: name.clone(), reason };
    let mut messenger = MessengerConfig::new(EntityName::osd(setup.id), setup.addrs.clone());
    messenger.lossless_from = vec![EntityType::OSD];
    messenger.replace_lossy = true;
    let reactor = ReactorConfig {
        messenger,
        entity: name.clone(),
        listeners: vec![setup.listener.try_clone().map_err(|e| failed(e.to_string()))?],
        hub: setup.hub.clone(),
        entropy: entropy(),
        admin_socket: setup.admin_socket.clone(),
        pages: None,
    };
    reactor::run(reactor, stopper, |now| start(now, setup).map_err(failed))
}

/// The store that a clean stop left and its name, or a new one with a new name.
fn open_store(setup: &OsdSetup) -> Result<(MemoryStore, Uuid), String> {
    let (image_file, fsid_file) = (setup.data.join("memory.image"), setup.data.join("fsid"));
    let in_file = |path: &PathBuf, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    if let Some(store) = image::take(&image_file).map_err(|e| in_file(&image_file, &e))? {
        let text = std::fs::read_to_string(&fsid_file).map_err(|e| in_file(&fsid_file, &e))?;
        let fsid = Uuid::parse(text.trim()).ok_or_else(|| in_file(&fsid_file, &"is not a uuid"))?;
        return Ok((store, fsid));
    }
    if fsid_file.exists() {
        tracing::warn!("osd.{}: no image of a clean stop: the objects in memory are lost, starting empty", setup.id);
    }
    let fsid = Uuid::from_random(SecretRng::from_entropy(entropy()).bytes());
    std::fs::write(&fsid_file, format!("{fsid}\n")).map_err(|e| in_file(&fsid_file, &e))?;
    Ok((MemoryStore::new(), fsid))
}

fn start(now: Instant, setup: OsdSetup) -> Result<OsdDaemon, String> {
    let (store, osd_fsid) = open_store(&setup)?;
    let mut ask = |request| store.read(&request);
    let boot = BootImage::load(setup.id, osd_fsid, &mut ask).map_err(|e| e.to_string())?;
    let metadata = metadata(&setup);
    let config = OsdConfig {
        id: setup.id,
        fsid: setup.fsid,
        osd_fsid,
        key: Some(setup.key),
        mon_addrs: vec![setup.mon],
        public_addrs: setup.addrs.clone(),
        cluster_addrs: setup.addrs,
        metadata,
        store_bytes: MEMORY_STORE_BYTES,
        accept_loss: true,
        stats_interval: STATS_PERIOD,
        options: setup.options,
    };
    let engine = Osd::new(now, config, SecretRng::from_entropy(entropy()), boot);
    let (name, image) = (format!("osd.{}", setup.id), setup.data.join("memory.image"));
    Ok(OsdDaemon { name, engine, store, image })
}

fn metadata(setup: &OsdSetup) -> Metadata {
    let data = setup.data.display().to_string();
    let own = [
        ("osd_objectstore", "memory"),
        ("osd_data", data.as_str()),
        // Memory does not turn.
        ("rotational", "0"),
        ("journal_rotational", "0"),
        ("default_device_class", "ssd"),
        ("front_iface", ""),
        ("back_iface", ""),
    ];
    let mut metadata = host::metadata(&setup.hostname);
    metadata.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    metadata.insert("osd_device_bytes".to_owned(), MEMORY_STORE_BYTES.to_string());
    metadata
}

/// An OSD as the reactor drives it.
pub struct OsdDaemon {
    name: String,
    engine: Osd,
    store: MemoryStore,
    /// Where a clean stop leaves the store's image.
    image: PathBuf,
}

impl OsdDaemon {
    fn failed(&self, reason: impl ToString) -> DaemonFailed {
        DaemonFailed { daemon: self.name.clone(), reason: reason.to_string() }
    }

    fn save(&self) -> Result<(), DaemonFailed> {
        image::save(&self.image, &self.store).map_err(|e| self.failed(e))
    }
}

impl Daemon for OsdDaemon {
    fn handle_net(&mut self, now: Instant, event: NetEvent) {
        self.engine.handle_net(now, event);
    }

    fn handle_timer(&mut self, now: Instant) {
        self.engine.handle_timer(now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.engine.next_wakeup()
    }

    fn auth(&mut self) -> &mut dyn Auth {
        self.engine.auth()
    }

    fn poll(&mut self, now: Instant) -> Result<Option<Output>, DaemonFailed> {
        loop {
            match self.engine.poll_command() {
                Some(Command::Net(command)) => return Ok(Some(Output::Net(command))),
                Some(Command::Read { id, request }) => self.store.submit_read(now, id, request),
                Some(Command::Commit { id, transaction }) => self.store.submit_commit(now, id, transaction),
                Some(Command::Log { level, text }) => crate::log::line(level, &text),
                Some(Command::Stopped) => {
                    self.save()?;
                    return Ok(Some(Output::Stopped));
                }
                None => match self.store.poll_completion() {
                    Some(Completion::Read(id, result)) => self.engine.handle_read(now, id, result),
                    Some(Completion::Committed(id, result)) => self.engine.handle_committed(now, id, result),
                    None => return Ok(None),
                },
            }
        }
    }

    fn admin(&mut self, now: Instant, request: &str) -> Bytes {
        self.engine.admin_command(now, request)
    }

    fn note_transport(&mut self, counts: &Transport) {
        self.engine.note_transport(counts);
    }

    fn shutdown(&mut self, now: Instant) {
        self.engine.shutdown(now);
    }
}
