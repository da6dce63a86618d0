//! What idle clients cost: memory of the servers, and latency of a client that works beside them.
//!
//! `cargo xtask idle [CLIENTS]` starts a cluster, makes a pool and runs this: `idle_clients DIR POOL CLIENTS`. Every
//! client authenticates with the monitor, asks for objects until it has a session with every OSD, and then rests. One
//! further client reads one object at a time, first alone, then beside all the others.

use admin::Transport;
use base::rng::SecretRng;
use base::{Instant, PoolId};
use bytes::Bytes;
use client::{Client, ClientConfig, OpId, Request, Target};
use monclient::MonClientConfig;
use rt::clock::entropy;
use rt::daemon::{Daemon, DaemonFailed, Output};
use rt::reactor::{self, ReactorConfig, Stopper};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::auth::Auth;
use wire::cephx::{AuthName, CryptoKey};
use wire::keyring::Keyring;
use wire::msgr::MessengerConfig;
use wire::net::NetEvent;
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType};

/// Enough objects for every OSD of a small cluster to lead some of them.
const OBJECTS: u64 = 48;
/// Clients that connect at once.
const BATCH: u64 = 64;
/// How long the working client's latency is measured.
const SAMPLE: Duration = Duration::from_secs(5);

/// What all clients are told.
#[derive(Clone)]
struct Setup {
    mon: AddrVec,
    key: CryptoKey,
    pool: PoolId,
}

/// What a working client has seen since the last look.
type Samples = Arc<Mutex<Vec<u64>>>;

struct Reader {
    client: Client,
    pool: PoolId,
    asked: u64,
    answered: u64,
    /// Counts the clients that are through.
    ready: Arc<AtomicU64>,
    /// A working client goes on, and notes how many nanoseconds each read took.
    works: Option<Samples>,
    clock: std::time::Instant,
    stopped: bool,
}

impl Reader {
    fn ask(&mut self, now: Instant) {
        let name = Bytes::from(format!("object{}", self.asked % OBJECTS));
        let request = Request::new(Target::object(self.pool, name)).read(0, 4096);
        self.client.submit(now, OpId(self.asked), request).expect("one request at a time");
        self.asked += 1;
        self.clock = std::time::Instant::now();
    }

    fn go_on(&mut self, now: Instant) {
        while let Some(done) = self.client.poll_completion() {
            assert!(done.result.is_ok(), "{done:?}");
            self.answered += 1;
            if let Some(samples) = &self.works {
                let nanos = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
                samples.lock().expect("nobody panics with it").push(nanos);
            }
            if self.answered == OBJECTS {
                self.ready.fetch_add(1, Ordering::Relaxed);
            }
        }
        let idle = self.asked == self.answered && self.client.map().is_some();
        if idle && (self.works.is_some() || self.asked < OBJECTS) {
            self.ask(now);
        }
    }
}

impl Daemon for Reader {
    fn handle_net(&mut self, now: Instant, event: NetEvent) {
        self.client.handle_net(now, event);
    }

    fn handle_timer(&mut self, now: Instant) {
        self.client.handle_timer(now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.client.next_wakeup()
    }

    fn auth(&mut self) -> &mut dyn Auth {
        self.client.auth()
    }

    fn poll(&mut self, now: Instant) -> Result<Option<Output>, DaemonFailed> {
        if self.stopped {
            return Ok(Some(Output::Stopped));
        }
        self.go_on(now);
        Ok(self.client.poll_command(now).map(Output::Net))
    }

    fn admin(&mut self, _now: Instant, _request: &str) -> Bytes {
        unreachable!("it has no admin socket")
    }

    fn note_transport(&mut self, _counts: &Transport) {}

    fn shutdown(&mut self, _now: Instant) {
        self.stopped = true;
    }
}

struct Running {
    stopper: Stopper,
    thread: JoinHandle<Result<(), DaemonFailed>>,
}

fn start(setup: &Setup, ready: &Arc<AtomicU64>, works: Option<Samples>) -> Running {
    let stopper = Stopper::default();
    let (setup, ready, theirs) = (setup.clone(), ready.clone(), stopper.clone());
    let body = move || {
        let nonce = u32::from_le_bytes(entropy()[..4].try_into().expect("four bytes of thirty-two"));
        let addrs = AddrVec::one(EntityAddr::msgr2(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), nonce));
        let me = EntityName { kind: EntityType::CLIENT, num: -1 };
        let entity = AuthName::new(EntityType::CLIENT, "admin".to_owned());
        let config = ReactorConfig {
            messenger: MessengerConfig::new(me, addrs),
            entity: entity.to_string(),
            listeners: Vec::new(),
            hub: None,
            entropy: entropy(),
            admin_socket: None,
            pages: None,
        };
        reactor::run(config, &theirs, |now| {
            let mon = MonClientConfig::new(entity, Some(setup.key), vec![setup.mon]);
            let config = ClientConfig { mon, features: wire::msgr::features::SUPPORTED, follows_maps: true };
            Ok(Reader {
                client: Client::new(now, config, SecretRng::from_entropy(entropy())),
                pool: setup.pool,
                asked: 0,
                answered: 0,
                ready,
                works,
                clock: std::time::Instant::now(),
                stopped: false,
            })
        })
    };
    let builder = std::thread::Builder::new().stack_size(256 << 10);
    Running { stopper, thread: builder.spawn(body).expect("there is room for another thread") }
}

fn wait_for(ready: &AtomicU64, count: u64) {
    let start = std::time::Instant::now();
    while ready.load(Ordering::Relaxed) < count {
        assert!(start.elapsed() < Duration::from_secs(120), "{} of {count} clients", ready.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The resident memory of each server, in KiB, by the name of its pid file.
fn resident_kib(dir: &Path) -> BTreeMap<String, u64> {
    let files = std::fs::read_dir(dir.join("run")).expect("a cluster runs there").flatten();
    let pids = files.filter(|file| file.path().extension().is_some_and(|e| e == "pid"));
    pids.map(|file| {
        let pid = std::fs::read_to_string(file.path()).expect("pid files are text");
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).expect("the server lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("Linux tells");
        let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
        (file.file_name().to_string_lossy().trim_end_matches(".pid").to_owned(), kib)
    })
    .collect()
}

/// The median and the 99th percentile of what a working client has seen, in microseconds.
fn latency_us(samples: &Samples) -> (f64, f64) {
    samples.lock().expect("nobody panics with it").clear();
    std::thread::sleep(SAMPLE);
    let mut seen = std::mem::take(&mut *samples.lock().expect("nobody panics with it"));
    seen.sort_unstable();
    let at = |percent: usize| seen.get(seen.len() * percent / 100).map_or(f64::NAN, |ns| *ns as f64 / 1e3);
    (at(50), at(99))
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, dir, pool, clients] = &args[..] else { panic!("usage: idle_clients DIR POOL-NUMBER CLIENTS") };
    let (dir, clients) = (PathBuf::from(dir), clients.parse::<u64>().expect("a number of clients"));
    let conf = std::fs::read_to_string(dir.join("ceph.conf")).expect("the cluster has a ceph.conf");
    let mon = conf.lines().find_map(|line| line.strip_prefix("mon_host = [v2:")?.split('/').next());
    let mon = mon.and_then(|text| text.parse().ok()).expect("it names the monitor");
    let keyring = std::fs::read_to_string(dir.join("ceph.client.admin.keyring")).expect("it has a keyring");
    let keyring = Keyring::parse(&keyring).expect("the keyring is whole");
    let admin = AuthName::new(EntityType::CLIENT, "admin".to_owned());
    let key = keyring.entity(&admin).expect("the admin's key is there").key.clone();
    let pool = PoolId(pool.parse().expect("a pool's number"));
    let setup = Setup { mon: AddrVec::one(EntityAddr::msgr2(mon, 0)), key, pool };

    let ready = Arc::new(AtomicU64::new(0));
    let samples = Samples::default();
    let worker = start(&setup, &ready, Some(samples.clone()));
    wait_for(&ready, 1);
    let (memory, alone) = (resident_kib(&dir), latency_us(&samples));

    let begun = std::time::Instant::now();
    let mut idle = Vec::new();
    for batch in 0..clients / BATCH {
        idle.extend((0..BATCH).map(|_| start(&setup, &ready, None)));
        wait_for(&ready, 1 + (batch + 1) * BATCH);
    }
    let count = idle.len() as u64;
    println!("{count} clients have a session with every server, after {:.1} s", begun.elapsed().as_secs_f64());
    let (after, beside) = (resident_kib(&dir), latency_us(&samples));
    println!("{:<10}{:>12}{:>12}{:>16}", "server", "KiB before", "KiB after", "KiB a client");
    for (name, kib) in &after {
        let before = memory.get(name).copied().unwrap_or(0);
        println!("{name:<10}{before:>12}{kib:>12}{:>16.1}", kib.saturating_sub(before) as f64 / count.max(1) as f64);
    }
    println!("one client's 4 KiB reads, us: median {:.0} and p99 {:.0} alone", alone.0, alone.1);
    println!("{:30}median {:.0} and p99 {:.0} beside {count} idle ones", "", beside.0, beside.1);
    for running in idle.into_iter().chain([worker]) {
        running.stopper.stop();
        running.thread.join().expect("clients do not panic").expect("clients stop cleanly");
    }
}
