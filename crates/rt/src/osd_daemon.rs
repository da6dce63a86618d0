//! The OSD engine with its object store.
//!
//! Owns an OSD's start from what its store holds, and the loop between the engine and its store.

use crate::clock::entropy;
use crate::daemon::{Daemon, DaemonFailed, Output};
use crate::extent_devices::{LOG, MAIN_MODEL};
use crate::host::{self, Metadata};
use crate::hub::Hub;
use crate::osd_store::{OsdStore, StoreKind};
use crate::program;
use crate::reactor::{self, ReactorConfig, Stopper};
use crate::shaped_device::device_model;
use admin::Transport;
use base::rng::SecretRng;
use base::{Duration, Instant, OsdId};
use bytes::Bytes;
use device::Media;
use osd::{BootImage, Command, Osd, OsdConfig};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use store::Completion;
use store::extent::device::let_unused_go;
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
    /// Where it keeps its objects.
    pub store: StoreKind,
    /// The directory of its data: `fsid` names the store, `block` is an extent store's device, `memory.image` what a
    /// clean stop leaves of a memory store.
    pub data: PathBuf,
    /// Options from the configuration file.
    pub options: BTreeMap<String, String>,
    /// The other daemons of this process.
    pub hub: Option<Hub>,
    /// Where `ceph daemon` asks.
    pub admin_socket: Option<PathBuf>,
}

/// How often statistics go to the monitor without cause (`mgr_stats_period`).
const STATS_PERIOD: Duration = Duration::from_secs(5);

/// How often code that is not in use is let go. It costs half a millisecond.
const CODE_PERIOD: Duration = Duration::from_secs(20);

/// How often buffers are let go that were not in use since the last time: longer than a store rests between two of its
/// checkpoints under load.
const BUFFERS_PERIOD: Duration = Duration::from_secs(3);

/// How often an OSD may begin again before it is given up: each time heals an object that other members have, or bridges a
/// gap in the maps.
const LIVES_MAX: u32 = 20;

/// Runs an OSD until it has stopped. One whose store cannot read what a transaction needs, or that lacks maps, begins again
/// with what the store holds.
pub fn run(setup: OsdSetup, stopper: &Stopper) -> Result<(), DaemonFailed> {
    for life in 0..LIVES_MAX {
        let again = Rc::new(Cell::new(false));
        run_life(setup.of_life(life)?, stopper, &again)?;
        if !again.get() {
            return Ok(());
        }
    }
    let reason = format!("it has begun again {LIVES_MAX} times: giving up");
    Err(DaemonFailed { daemon: format!("osd.{}", setup.id), reason })
}

impl OsdSetup {
    /// The same for another life, which has a name of its own: its address's nonce.
    fn of_life(&self, life: u32) -> Result<OsdSetup, DaemonFailed> {
        let failed = |e: io::Error| DaemonFailed { daemon: format!("osd.{}", self.id), reason: e.to_string() };
        let mut addrs = self.addrs.clone();
        // Far from those of other processes at the same port.
        addrs.0.iter_mut().for_each(|addr| addr.nonce = addr.nonce.wrapping_add(life.wrapping_mul(0x9E37_79B9)));
        Ok(OsdSetup {
            id: self.id,
            fsid: self.fsid,
            addrs,
            listener: self.listener.try_clone().map_err(failed)?,
            mon: self.mon.clone(),
            key: self.key.clone(),
            hostname: self.hostname.clone(),
            store: self.store,
            data: self.data.clone(),
            options: self.options.clone(),
            hub: self.hub.clone(),
            admin_socket: self.admin_socket.clone(),
        })
    }
}

fn run_life(setup: OsdSetup, stopper: &Stopper, again: &Rc<Cell<bool>>) -> Result<(), DaemonFailed> {
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
    reactor::run(reactor, stopper, |now| start(now, setup, again.clone()).map_err(failed))
}

fn start(now: Instant, setup: OsdSetup, again: Rc<Cell<bool>>) -> Result<OsdDaemon, String> {
    let (mut store, osd_fsid) = OsdStore::open(setup.store, setup.id, setup.fsid, &setup.data, &setup.options)?;
    let boot = BootImage::load(setup.id, osd_fsid, &mut |request| store.ask(request)).map_err(|e| e.to_string())?;
    let metadata = metadata(&setup, store.bytes());
    let alone = setup.hub.is_none();
    let config = OsdConfig {
        id: setup.id,
        fsid: setup.fsid,
        osd_fsid,
        key: Some(setup.key),
        mon_addrs: vec![setup.mon],
        public_addrs: setup.addrs.clone(),
        cluster_addrs: setup.addrs,
        metadata,
        store_bytes: store.bytes(),
        accept_loss: setup.store == StoreKind::Memory,
        stats_interval: STATS_PERIOD,
        options: setup.options,
    };
    let engine = Osd::new(now, config, SecretRng::from_entropy(entropy()), boot);
    let linger = engine.linger();
    let (name, code_due, buffers_due) = (format!("osd.{}", setup.id), now, now);
    let mut daemon = OsdDaemon { name, engine, store, alone, linger, code_due, buffers_due, again };
    // Before the first report to the manager: what is not declared there can never be reported on that session.
    daemon.note_store();
    Ok(daemon)
}

/// Whether the disk that an option names a model for turns. What lies behind a file is not asked: what this is made for
/// does not turn.
fn turns(setup: &OsdSetup, model_option: &str) -> bool {
    let model = setup.options.get(model_option).filter(|_| setup.store != StoreKind::Memory);
    model.is_some_and(|text| device_model(text).is_ok_and(|model| matches!(model.media, Media::Platters(_))))
}

fn metadata(setup: &OsdSetup, store_bytes: u64) -> Metadata {
    let data = setup.data.display().to_string();
    let main_turns = turns(setup, MAIN_MODEL);
    let log_turns =
        if setup.options.contains_key(LOG.path_option) { turns(setup, LOG.model_option) } else { main_turns };
    let digit = |turns| if turns { "1" } else { "0" };
    let own = [
        ("osd_objectstore", setup.store.name()),
        ("osd_data", data.as_str()),
        ("rotational", digit(main_turns)),
        ("journal_rotational", digit(log_turns)),
        ("default_device_class", if main_turns { "hdd" } else { "ssd" }),
        ("front_iface", ""),
        ("back_iface", ""),
    ];
    let mut metadata = host::metadata(&setup.hostname);
    metadata.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    metadata.insert("osd_device_bytes".to_owned(), store_bytes.to_string());
    metadata
}

/// An OSD as the reactor drives it.
pub struct OsdDaemon {
    name: String,
    engine: Osd,
    store: OsdStore,
    /// Whether its process has no other daemons.
    alone: bool,
    /// What the option says, which is too much to look up in every turn.
    linger: Duration,
    /// When code that is not in use is let go next.
    code_due: Instant,
    /// When buffers are.
    buffers_due: Instant,
    /// Whether another life is to follow.
    again: Rc<Cell<bool>>,
}

impl OsdDaemon {
    fn failed(&self, reason: impl ToString) -> DaemonFailed {
        DaemonFailed { daemon: self.name.clone(), reason: reason.to_string() }
    }

    /// Hands all that the store has completed to the engine at once, so that what is durable together is confirmed
    /// together; whether there was anything.
    fn hear_store(&mut self, now: Instant) -> Result<bool, DaemonFailed> {
        let mut any = false;
        while let Some(completion) = self.store.poll_completion(now).map_err(|e| self.failed(e))? {
            match completion {
                Completion::Read(id, result) => self.engine.handle_read(now, id, result),
                Completion::Committed(id, result) => self.engine.handle_committed(now, id, result),
                Completion::Ahead(id) => self.engine.handle_ahead(now, id),
            }
            any = true;
        }
        Ok(any)
    }

    fn note_store(&mut self) {
        if let Some(counters) = self.store.counters() {
            self.engine.note_store(counters);
        }
    }
}

impl Daemon for OsdDaemon {
    fn handle_net(&mut self, now: Instant, event: NetEvent) {
        self.engine.handle_net(now, event);
    }

    fn handle_timer(&mut self, now: Instant) {
        self.note_store();
        if self.engine.memory_due().is_some_and(|due| due <= now) {
            let resident = if self.alone { host::resident() } else { None };
            let cache_bytes = self.engine.divide_memory(now, resident);
            self.store.set_cache_bytes(cache_bytes);
        }
        if now >= self.buffers_due {
            self.buffers_due = now + BUFFERS_PERIOD;
            let_unused_go();
        }
        if self.alone && now >= self.code_due {
            self.code_due = now + CODE_PERIOD;
            if let Err(error) = program::let_code_go() {
                tracing::debug!(%error, "the program's code stays in memory");
            }
        }
        self.linger = self.engine.linger();
        self.engine.handle_timer(now);
        self.store.rest(now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        [self.engine.next_wakeup(), self.engine.memory_due()].into_iter().flatten().min()
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
                Some(Command::Ahead { id, offset, data }) => self.store.submit_ahead(now, id, offset, data),
                Some(Command::ForgetAhead(id)) => self.store.forget_ahead(id),
                Some(Command::Log { level, text }) => crate::log::line(level, &text),
                Some(command @ (Command::Stopped | Command::BeginAgain)) => {
                    self.again.set(command == Command::BeginAgain);
                    self.store.close().map_err(|e| self.failed(e))?;
                    return Ok(Some(Output::Stopped));
                }
                None if self.hear_store(now)? => {}
                // Others may have to hear of it.
                None if self.store.room().is_some_and(|room| self.engine.note_room(room)) => {}
                None => return Ok(None),
            }
        }
    }

    fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        self.store.bells()
    }

    fn has_work(&self) -> bool {
        self.store.has_work()
    }

    fn owed(&self) -> u64 {
        self.store.reads_owed()
    }

    fn committing(&self) -> Option<u64> {
        self.store.committing()
    }

    fn reads(&self) -> u64 {
        self.engine.reads()
    }

    fn wait_for_disk(&mut self, count: u64, limit: Duration) -> Result<(), DaemonFailed> {
        self.store.wait_for_data(count, limit).map_err(|e| self.failed(e))
    }

    fn linger(&self) -> Duration {
        self.linger
    }

    fn admin(&mut self, now: Instant, request: &str) -> Bytes {
        self.note_store();
        self.engine.admin_command(now, request)
    }

    fn note_transport(&mut self, counts: &Transport) {
        self.engine.note_transport(counts);
    }

    fn shutdown(&mut self, now: Instant) {
        self.engine.shutdown(now);
    }
}
