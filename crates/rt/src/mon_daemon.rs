//! The monitor engine with its store.
//!
//! Owns the monitor's start (a new store is laid out, an old one loaded) and the group commit: batches that wait
//! together go to disk together.

use crate::clock::entropy;
use crate::daemon::{Daemon, DaemonFailed, Output};
use crate::host;
use crate::metrics::{self, MetricsServer, PageRequest};
use crate::mon_store::{Batch, MonStore, MonStoreError};
use crate::osd_store::MEMORY_STORE_BYTES;
use crate::reactor::{self, ReactorConfig, Stopper};
use admin::Transport;
use base::rng::SecretRng;
use base::{Instant, OsdId, PoolId};
use bytes::Bytes;
use mon::manager_door::manager_name;
use mon::{Command, InitialOsd, Mon, MonConfig, NewCluster, PersistId};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use tokio::sync::mpsc;
use wire::auth::{Auth, ConMode};
use wire::cephx::{AuthName, EntityAuth};
use wire::keyring::Keyring;
use wire::msgr::{Door, MessengerConfig};
use wire::net::NetEvent;
use wire::types::{AddrVec, EntityName, EntityType, Uuid};

/// The pool that Ceph's manager makes for itself before anybody makes one (`.mgr`; up to Pacific `device_health_metrics`).
/// It is not needed here. Its id is left out, so that pools get the ids, and their objects the places, that they get in a
/// new cluster of Ceph.
const MANAGERS_POOL: PoolId = PoolId(1);

/// What a monitor is started with.
#[derive(Debug)]
pub struct MonSetup {
    /// Its name: `a`.
    pub name: String,
    /// The cluster.
    pub fsid: Uuid,
    /// Its address as the monitor map has it.
    pub addrs: AddrVec,
    /// The socket bound there.
    pub listener: TcpListener,
    /// Where it is called as the manager, and the socket bound there.
    pub manager: (AddrVec, TcpListener),
    /// The host it runs on.
    pub hostname: String,
    /// Connection modes to offer, favourite first.
    pub modes: Vec<ConMode>,
    /// Options from the configuration file.
    pub options: BTreeMap<String, String>,
    /// The keys a new cluster begins with, the monitors' own among them.
    pub keyring: Keyring,
    /// The OSDs a new cluster begins with.
    pub osds: Vec<OsdId>,
    /// The store's file.
    pub store: PathBuf,
    /// Where `ceph daemon` asks.
    pub admin_socket: Option<PathBuf>,
}

/// Starts serving metrics where the options want it. Nobody needs them to store data: what fails is logged.
fn serve_metrics(setup: &MonSetup) -> Option<(MetricsServer, mpsc::Receiver<PageRequest>)> {
    let option = |name: &str| setup.options.get(name).map(String::as_str);
    let port = match option("mgr/prometheus/server_port") {
        None => metrics::PORT,
        Some("off") => return None,
        Some(text) => {
            text.parse().map_err(|_| tracing::warn!("mgr/prometheus/server_port: `{text}` is no port")).ok()?
        }
    };
    let own = setup.addrs.0.first().and_then(|addr| addr.socket).map(|socket| socket.ip());
    let host = option("mgr/prometheus/server_addr").and_then(|text| text.parse().ok()).or(own)?;
    let started = MetricsServer::start(host, port);
    started.map_err(|error| tracing::warn!(%error, "metrics are not served")).ok()
}

/// Runs a monitor until it has stopped.
pub fn run(setup: MonSetup, stopper: &Stopper) -> Result<(), DaemonFailed> {
    let entity = format!("mon.{}", setup.name);
    let (server, pages) = serve_metrics(&setup).unzip();
    let mut messenger = MessengerConfig::new(EntityName::mon(0), setup.addrs.clone());
    messenger.doors = vec![Door { me: manager_name(), addrs: setup.manager.0.clone() }];
    let socket = |listener: &TcpListener| listener.try_clone().map_err(|e| failed(&entity, e));
    let reactor = ReactorConfig {
        messenger,
        entity: entity.clone(),
        listeners: vec![socket(&setup.listener)?, socket(&setup.manager.1)?],
        // An OSD that is not of this process wants a ticket of those that are: they all get theirs over a socket.
        hub: None,
        entropy: entropy(),
        admin_socket: setup.admin_socket.clone(),
        pages,
    };
    // It outlives the reactor, and ends with this function.
    let url = server.as_ref().map(|server| server.url().to_owned());
    reactor::run(reactor, stopper, |now| start(now, setup, url).map_err(|reason| failed(&entity, reason)))
}

fn failed(daemon: &str, reason: impl ToString) -> DaemonFailed {
    DaemonFailed { daemon: daemon.to_owned(), reason: reason.to_string() }
}

fn start(now: Instant, setup: MonSetup, metrics_url: Option<String>) -> Result<MonDaemon, String> {
    let in_file = |e: &dyn std::fmt::Display| format!("{}: {e}", setup.store.display());
    let mut store = MonStore::open(&setup.store).map_err(|e| in_file(&e))?;
    let mut contents = store.load().map_err(|e| in_file(&e))?;
    let config = MonConfig {
        fsid: setup.fsid,
        name: setup.name,
        addrs: setup.addrs,
        manager_addrs: setup.manager.0,
        hostname: setup.hostname.clone(),
        modes: setup.modes,
        options: setup.options,
        metadata: host::metadata(&setup.hostname),
    };
    let mut rng = SecretRng::from_entropy(entropy());
    if contents.is_empty() {
        let new = new_cluster(&setup.keyring, &setup.osds, &setup.hostname)?;
        let batch = Mon::mkfs(now, &config, &new, &mut rng);
        store.commit(std::slice::from_ref(&batch)).map_err(|e| in_file(&e))?;
        contents = batch.into_iter().filter_map(|(prefix, key, value)| Some(((prefix, key), value?))).collect();
    }
    let mut engine = Mon::new(now, config, rng, contents).map_err(|e| in_file(&e))?;
    metrics_url.into_iter().for_each(|url| engine.serve_metrics_at(url));
    Ok(MonDaemon { engine, store, batches: Vec::new(), ids: Vec::new() })
}

fn new_cluster(keyring: &Keyring, osds: &[OsdId], host: &str) -> Result<NewCluster, String> {
    let own = AuthName::new(EntityType::MON, "");
    let mon_auth = keyring.entity(&own).ok_or("the monitor's keyring has no key of mon.")?.clone();
    let others = keyring.entities.iter().filter(|(name, _)| **name != own);
    let entities: Vec<(AuthName, EntityAuth)> = others.map(|(name, auth)| (name.clone(), auth.clone())).collect();
    let osds = osds
        .iter()
        .map(|&id| InitialOsd {
            id,
            uuid: Uuid::default(),
            host: host.to_owned(),
            device_class: "ssd".to_owned(),
            size_bytes: MEMORY_STORE_BYTES,
        })
        .collect();
    Ok(NewCluster { mon_auth, entities, osds, pool_max: MANAGERS_POOL })
}

/// The monitor as the reactor drives it.
pub struct MonDaemon {
    engine: Mon,
    store: MonStore,
    // Reused: batches that go to disk together.
    batches: Vec<Batch>,
    ids: Vec<PersistId>,
}

impl MonDaemon {
    /// Makes everything asked for so far durable in one commit, and tells the engine.
    fn persist(&mut self, now: Instant) -> Result<(), MonStoreError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        self.store.commit(&self.batches)?;
        self.batches.clear();
        for id in self.ids.drain(..) {
            self.engine.handle_persisted(now, id);
        }
        Ok(())
    }
}

impl Daemon for MonDaemon {
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
                Some(Command::Persist { id, batch }) => {
                    self.ids.push(id);
                    self.batches.push(batch);
                }
                Some(Command::Log { level, text }) => crate::log::line(level, &text),
                Some(Command::Stopped) => return Ok(Some(Output::Stopped)),
                None if self.ids.is_empty() => return Ok(None),
                None => {
                    self.persist(now).map_err(|e| DaemonFailed { daemon: "mon".to_owned(), reason: e.to_string() })?
                }
            }
        }
    }

    fn admin(&mut self, now: Instant, request: &str) -> Bytes {
        self.engine.admin_command(now, request)
    }

    fn note_transport(&mut self, counts: &Transport) {
        self.engine.note_transport(counts);
    }

    fn metrics(&self, now: Instant) -> String {
        self.engine.metrics(now)
    }

    fn shutdown(&mut self, now: Instant) {
        self.engine.shutdown(now);
    }
}
