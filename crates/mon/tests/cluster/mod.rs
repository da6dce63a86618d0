//! A monitor with a store that persists at once, and peers that talk to it by messages.
//!
//! Owns the driver that the tests share: what `rt` does in production, without sockets and disks.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use base::rng::SecretRng;
use base::{Duration, Epoch, Instant, OsdId, PgId, PoolId};
use bytes::Bytes;
use maps::stats::{ObjectStatSum, OsdStat, PgStat, PgState, StoreStatfs};
use mon::{BatchWrites, Command, InitialOsd, Mon, MonConfig, NewCluster, PersistId};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::auth::ConMode;
use wire::cephx::{AuthName, CryptoKey, EntityAuth};
use wire::codec::Encode;
use wire::messages::{
    self, Message, MonCommand, MonCommandAck, MonSubscribe, OsdBoot, OsdSuperblock, PaxosHead, PgStats, Sealed,
    Subscription,
};
use wire::net::{CloseReason, ConnId, Envelope, NetCommand, NetEvent, Peer, TicketCaps};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType, Uuid};

pub const GIB: u64 = 1 << 30;

/// The monitor under test.
pub struct Cluster {
    pub mon: Mon,
    pub now: Instant,
    pub store: BTreeMap<(String, String), Bytes>,
    pub config: MonConfig,
    /// Whether batches are acknowledged at once.
    pub disk_works: bool,
    pub waiting: Vec<(PersistId, BatchWrites)>,
    pub commits: u64,
    pub stopped: bool,
    inbox: BTreeMap<ConnId, Vec<Envelope>>,
    closed: Vec<ConnId>,
    next_conn: u64,
    next_tid: u64,
}

pub fn addrs(port: u16) -> AddrVec {
    AddrVec::one(EntityAddr::msgr2(format!("127.0.0.1:{port}").parse().expect("an address"), u32::from(port)))
}

pub fn uuid(n: u8) -> Uuid {
    Uuid::from_random([n; 16])
}

pub fn config() -> MonConfig {
    let options = [("osd_crush_chooseleaf_type", "0"), ("mon_allow_pool_delete", "true")];
    MonConfig {
        fsid: uuid(1),
        name: "a".to_owned(),
        addrs: addrs(3300),
        manager_addrs: addrs(6800),
        hostname: "vm".to_owned(),
        modes: vec![ConMode::Crc, ConMode::Secure],
        options: options.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        metadata: BTreeMap::new(),
    }
}

pub fn caps(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(service, text)| ((*service).to_owned(), (*text).to_owned())).collect()
}

fn auth(n: u8, pairs: &[(&str, &str)]) -> EntityAuth {
    EntityAuth { key: CryptoKey::aes(Instant::from_secs(1), [n; 16]), caps: caps(pairs) }
}

pub fn start() -> Instant {
    Instant::from_secs(1_795_290_000)
}

pub fn new_cluster(osds: i32) -> NewCluster {
    let everything = [("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")];
    let mut entities = vec![(AuthName::new(EntityType::CLIENT, "admin"), auth(7, &everything))];
    let daemon = [("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];
    for id in 0..osds {
        entities.push((AuthName::new(EntityType::OSD, id.to_string()), auth(10 + id as u8, &daemon)));
    }
    let osd = |id| InitialOsd {
        id: OsdId(id),
        uuid: uuid(100 + id as u8),
        host: "vm".to_owned(),
        device_class: "ssd".to_owned(),
        size_bytes: 4 * GIB,
    };
    let (mon_auth, osds) = (auth(3, &[("mon", "allow *")]), (0..osds).map(osd).collect());
    NewCluster { mon_auth, entities, osds, pool_max: PoolId(0) }
}

impl Cluster {
    /// A new cluster whose OSDs have not booted.
    pub fn new(osds: i32) -> Cluster {
        let config = config();
        let mut rng = SecretRng::from_entropy([5; 32]);
        let batch = Mon::mkfs(start(), &config, &new_cluster(osds), &mut rng);
        let mut store = BTreeMap::new();
        apply(&mut store, batch);
        Cluster::resume(start(), config, store)
    }

    /// A new cluster with OSDs up and an administrator's session.
    pub fn with_osds(osds: i32) -> (Cluster, ConnId) {
        let mut cluster = Cluster::new(osds);
        for id in 0..osds {
            cluster.boot(id);
        }
        cluster.pass(Duration::from_millis(20));
        let admin = cluster.admin();
        (cluster, admin)
    }

    /// The monitor that a store makes.
    pub fn resume(now: Instant, config: MonConfig, store: BTreeMap<(String, String), Bytes>) -> Cluster {
        let rng = SecretRng::from_entropy([6; 32]);
        let mon = Mon::new(now, config.clone(), rng, store.clone()).expect("a good store");
        let mut cluster = Cluster {
            mon,
            now,
            store,
            config,
            disk_works: true,
            waiting: Vec::new(),
            commits: 0,
            stopped: false,
            inbox: BTreeMap::new(),
            closed: Vec::new(),
            next_conn: 1,
            next_tid: 1,
        };
        cluster.drain();
        cluster
    }

    /// Carries out what the monitor wants.
    pub fn drain(&mut self) {
        while let Some(command) = self.mon.poll_command() {
            match command {
                Command::Net(NetCommand::Send { conn, envelope }) => {
                    self.inbox.entry(conn).or_default().push(envelope);
                }
                Command::Net(NetCommand::Close { conn }) => self.closed.push(conn),
                Command::Net(NetCommand::Open { .. }) => panic!("the monitor opens no sessions"),
                Command::Persist { id, batch } => {
                    self.waiting.push((id, batch));
                    if self.disk_works {
                        self.sync();
                    }
                }
                Command::Log { .. } => {}
                Command::Stopped => self.stopped = true,
            }
            self.mon.check_invariants();
            self.mon.check_newest_map();
        }
    }

    /// Makes waiting batches durable.
    pub fn sync(&mut self) {
        for (id, batch) in std::mem::take(&mut self.waiting) {
            apply(&mut self.store, batch);
            self.commits += 1;
            self.mon.handle_persisted(self.now, id);
        }
    }

    /// Lets time pass, waking the monitor when it wants.
    pub fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.mon.next_wakeup().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.mon.handle_timer(self.now);
            self.drain();
        }
        self.now = until;
        self.mon.handle_timer(self.now);
        self.drain();
    }

    /// Opens a session.
    pub fn open(&mut self, entity: &str, name: EntityName, addrs: AddrVec, mon_caps: &str) -> ConnId {
        let conn = ConnId(ConnId::ACCEPTED | self.next_conn);
        self.next_conn += 1;
        let peer = Peer {
            name,
            entity: entity.to_owned(),
            called: None,
            socket: addrs.0.first().and_then(|addr| addr.socket),
            addrs,
            global_id: 4000 + self.next_conn,
            features: mon::version::FEATURES,
            caps: TicketCaps { allow_all: false, caps: mon_caps.to_owned().to_bytes() },
        };
        self.mon.handle_net(self.now, NetEvent::Opened { conn, peer: Arc::new(peer) });
        self.drain();
        conn
    }

    pub fn admin(&mut self) -> ConnId {
        let name = EntityName { kind: EntityType::CLIENT, num: 4100 };
        self.open("client.admin", name, addrs(0), "allow *")
    }

    pub fn osd_session(&mut self, id: i32, port: u16) -> ConnId {
        self.open(&format!("osd.{id}"), EntityName::osd(OsdId(id)), addrs(port), "allow profile osd")
    }

    pub fn close(&mut self, conn: ConnId) {
        self.mon.handle_net(self.now, NetEvent::Closed { conn, why: CloseReason::Fault });
        self.drain();
    }

    /// Sends a message to the monitor.
    pub fn send(&mut self, conn: ConnId, message: impl Into<Message>) {
        self.next_tid += 1;
        let envelope = Envelope::with_tid(self.next_tid, message);
        self.mon.handle_net(self.now, NetEvent::Message { conn, envelope });
        self.drain();
    }

    /// What the monitor sent to a session since the last call.
    pub fn received(&mut self, conn: ConnId) -> Vec<Message> {
        self.inbox.remove(&conn).unwrap_or_default().into_iter().map(|e| e.message).collect()
    }

    pub fn subscribe(&mut self, conn: ConnId, what: &[(&str, u64)]) {
        let what =
            what.iter().map(|(name, start)| ((*name).to_owned(), Subscription { start: *start, onetime: false }));
        self.send(conn, MonSubscribe { what: what.collect(), hostname: "vm".to_owned() });
    }

    /// Runs a command: result, status line, output.
    pub fn command(&mut self, conn: ConnId, json: &str) -> (i32, String, String) {
        self.command_with(conn, json, b"")
    }

    /// Runs a command with input.
    pub fn command_with(&mut self, conn: ConnId, json: &str, input: &[u8]) -> (i32, String, String) {
        let ack = self.try_command(conn, json, input).expect("an answer");
        (ack.result, ack.status, String::from_utf8_lossy(&ack.output).into_owned())
    }

    pub fn try_command(&mut self, conn: ConnId, json: &str, input: &[u8]) -> Option<MonCommandAck> {
        self.received(conn);
        let input = Bytes::copy_from_slice(input);
        let command = vec![json.to_owned()];
        self.send(conn, MonCommand { paxos: PaxosHead::default(), fsid: self.config.fsid, command, input });
        self.received(conn).into_iter().find_map(|m| match m {
            Message::MonCommandAck(ack) => Some(*ack),
            _ => None,
        })
    }

    /// Runs a command that must succeed, for its output.
    pub fn ok(&mut self, conn: ConnId, json: &str) -> String {
        let (result, status, output) = self.command(conn, json);
        assert_eq!(result, 0, "{json}: {status}");
        output
    }

    /// Runs a command that must succeed, for its JSON.
    pub fn json(&mut self, conn: ConnId, prefix: &str) -> serde_json::Value {
        let text = self.ok(conn, &format!(r#"{{"prefix":"{prefix}","format":"json"}}"#));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{prefix}: {e}: {text}"))
    }

    /// Boots an OSD, on its own port.
    pub fn boot(&mut self, id: i32) -> ConnId {
        let conn = self.osd_session(id, 6800 + 10 * id as u16);
        self.boot_on(conn, id);
        conn
    }

    pub fn boot_on(&mut self, conn: ConnId, id: i32) {
        let superblock = OsdSuperblock {
            cluster_fsid: self.config.fsid,
            whoami: OsdId(id),
            osd_fsid: uuid(100 + id as u8),
            ..OsdSuperblock::default()
        };
        let metadata = [
            ("hostname", "vm"),
            ("ceph_version", mon::version::LONG),
            ("default_device_class", "ssd"),
            ("osd_device_bytes", "4294967296"),
        ];
        let port = 6800 + 10 * id as u16;
        let boot = OsdBoot {
            paxos: PaxosHead::new(1),
            superblock,
            hb_back_addrs: addrs(port + 1),
            cluster_addrs: addrs(port + 2),
            boot_epoch: Epoch(0),
            hb_front_addrs: addrs(port + 3),
            metadata: metadata.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            features: mon::version::FEATURES,
        };
        self.send(conn, boot);
    }

    /// Reports every placement group that an OSD leads as active and clean.
    pub fn report_clean(&mut self, conn: ConnId, id: i32, pgs: &[(PgId, Vec<i32>)]) {
        let statfs = StoreStatfs { total: 4 * GIB, available: 3 * GIB, ..StoreStatfs::default() };
        let stat = |acting: &Vec<i32>| {
            let mut stat = PgStat {
                state: PgState::ACTIVE.with(PgState::CLEAN),
                reported_epoch: Epoch(99),
                reported_seq: 7,
                acting: acting.iter().map(|o| OsdId(*o)).collect(),
                up: acting.iter().map(|o| OsdId(*o)).collect(),
                acting_primary: OsdId(acting[0]),
                up_primary: OsdId(acting[0]),
                last_change: self.now.into(),
                ..PgStat::default()
            };
            stat.stats.sum =
                ObjectStatSum { num_objects: 2, num_object_copies: 6, num_bytes: 1000, ..ObjectStatSum::default() };
            Sealed(stat.to_bytes())
        };
        let pg_stats =
            pgs.iter().filter(|(_, acting)| acting.first() == Some(&id)).map(|(pg, a)| (*pg, stat(a))).collect();
        let message = PgStats {
            fsid: self.config.fsid,
            osd_stat: Sealed(OsdStat { num_per_pool_osds: 0, ..OsdStat::of_store(statfs) }.to_bytes()),
            pg_stats,
            epoch: Epoch(1),
            ..PgStats::default()
        };
        self.send(conn, message);
    }
}

pub fn apply(store: &mut BTreeMap<(String, String), Bytes>, batch: BatchWrites) {
    for (prefix, key, value) in batch {
        match value {
            Some(value) => drop(store.insert((prefix, key), value)),
            None => drop(store.remove(&(prefix, key))),
        }
    }
}

/// The OSD maps among messages.
pub fn osd_maps(messages: Vec<Message>) -> Vec<messages::OsdMap> {
    messages
        .into_iter()
        .filter_map(|m| match m {
            Message::OsdMap(m) => Some(*m),
            _ => None,
        })
        .collect()
}
