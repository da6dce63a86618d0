//! A cluster without network, disks or clock: OSD engines, memory stores, a monitor that only makes maps, clients that
//! only send requests. Channels between two ends keep their order; which channel moves next, a seed decides.
#![allow(dead_code, reason = "each test uses its part")]

use base::rng::SecretRng;
use base::{Duration, Epoch, Instant, OsdId, PgId, PoolId, Rng};
use bytes::Bytes;
use maps::osd_map::MapFlags;
use maps::osd_state::OsdXInfo;
use maps::osd_state::WEIGHT_ONE;
use maps::stats::OsdStat;
use maps::{Incremental, OsdAddrs, OsdMap, OsdState, PgPool};
use osd::{BootImage, Command, Osd, OsdConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{CollectionId, Completion, MemoryStore, ObjectId, ObjectStore, Op, ReadRequest, ReadWhat, StoreError};
use wire::messages::{self, Message, OsdMap as OsdMapMessage, OsdOp, OsdOpReply, backoff_op, osd_failure};
use wire::net::{CloseReason, ConnId, Envelope, NetCommand, NetEvent, Peer, Policy, TicketCaps};
use wire::osd::{ObjectLocator, OpCode, OsdOpItem, RequestFlags, SpgId};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType, Uuid};
use wire::{Decode, Encode};

pub(crate) const POOL: PoolId = PoolId(1);
const FSID: Uuid = Uuid([7; 16]);

/// Who may be at an end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum End {
    Osd(i32),
    Mon,
    Client(u64),
}

struct Node {
    osd: Osd,
    store: MemoryStore,
    /// Where not all that is written is durable.
    held: Option<Held>,
    nonce: u32,
    accepted: u64,
    up_since: Instant,
}

/// What an OSD's drive would still have if the power went, and what it has not confirmed.
struct Held {
    /// Where they go; to any group, if nothing is named.
    of: Option<CollectionId>,
    durable: MemoryStore,
    unconfirmed: Vec<(store::CommitId, Result<(), StoreError>)>,
}

impl Held {
    fn holds(&self, collection: CollectionId) -> bool {
        self.of.map_or(matches!(collection, CollectionId::Pg(_)), |of| of == collection)
    }
}

pub(crate) struct Cluster {
    pub(crate) now: Instant,
    pub(crate) rng: Rng,
    pub(crate) map: OsdMap,
    incrementals: BTreeMap<Epoch, Bytes>,
    nodes: BTreeMap<i32, Node>,
    saved: BTreeMap<i32, MemoryStore>,
    /// The other end of each session end.
    links: BTreeMap<(End, ConnId), (End, ConnId)>,
    /// Accepted ends, by who called and whom, whose caller has given the session up and may call again.
    given_up: BTreeMap<(i32, i32), ConnId>,
    channels: BTreeMap<(End, ConnId), VecDeque<NetEvent>>,
    followers: BTreeMap<i32, (ConnId, u64)>,
    pub(crate) replies: BTreeMap<(u64, u64), Vec<OsdOpReply>>,
    /// Answers to commands.
    pub(crate) told: BTreeMap<u64, messages::CommandReply>,
    pub(crate) backoffs: Vec<messages::Backoff>,
    /// The maps that each client was told of.
    pub(crate) maps_told: BTreeMap<u64, Vec<Epoch>>,
    /// What clients heard of their watches and notifications.
    pub(crate) notices: Vec<(u64, messages::WatchNotify)>,
    client_conns: BTreeMap<(u64, i32), ConnId>,
    next_tid: u64,
    /// Sessions between these OSDs deliver nothing.
    pub(crate) cut: Vec<(i32, i32)>,
    /// What the second of these OSDs answers on sessions that the first has opened is not delivered.
    pub(crate) answers_cut: Vec<(i32, i32)>,
    /// An OSD whose store is done with nothing as long as anything else moves.
    pub(crate) slow_store: Option<i32>,
    /// OSDs that hear of no map; what they miss comes with the next one.
    pub(crate) unmapped: Vec<i32>,
    pub(crate) pg_stats: BTreeMap<PgId, Bytes>,
    used_ratios: BTreeMap<i32, f64>,
    /// Objects whose data and map an OSD's store cannot read, until they are replaced.
    pub(crate) rotten: BTreeSet<(i32, ObjectId)>,
    /// Collections that take nothing more, in this life of an OSD.
    broken: BTreeSet<(i32, CollectionId)>,
    pub(crate) log: Vec<String>,
    /// The last report of each OSD's counters.
    pub(crate) manager_reports: BTreeMap<i32, messages::MgrReport>,
    /// What OSDs said to the cluster log.
    pub(crate) cluster_log: Vec<String>,
    nonces: u32,
}

fn addrs(osd: i32, nonce: u32, port: u16) -> AddrVec {
    let socket = format!("127.0.0.1:{}", port + osd as u16).parse().expect("a literal address");
    AddrVec::one(EntityAddr::msgr2(socket, nonce))
}

impl Cluster {
    /// A cluster of `osds` OSDs with one pool of `size` replicas and `pg_num` PGs; ready when this returns.
    pub(crate) fn new(seed: u64, osds: i32, size: u8, min_size: u8, pg_num: u32) -> Cluster {
        let mut map = OsdMap::new(FSID);
        let mut inc = Incremental::new(FSID, Epoch(1), Default::default());
        let mut crush = crush::CrushMap::simple("osd").expect("osd is a type");
        for osd in 0..osds {
            let place = [("root", "default"), ("host", "one")].map(|(a, b)| (a.to_owned(), b.to_owned()));
            crush
                .create_or_move_item(osd, WEIGHT_ONE, &format!("osd.{osd}"), &place.into_iter().collect())
                .expect("a new OSD has a place");
        }
        inc.crush = crush.to_bytes();
        inc.new_max_osd = Some(osds as u32);
        for osd in (0..osds).map(OsdId) {
            inc.new_state.insert(osd, OsdState::EXISTS);
            inc.new_weight.insert(osd, WEIGHT_ONE);
        }
        let mut pool = PgPool { size, min_size, crush_rule: 0, ..PgPool::default() };
        pool.set_pg_num(pg_num);
        inc.new_pools.insert(POOL, pool);
        inc.new_pool_names.insert(POOL, "test".to_owned());
        inc.new_pool_max = Some(POOL);
        map.apply(&inc).expect("the first map");
        let mut cluster = Cluster {
            now: Instant::from_secs(1_700_000_000),
            rng: Rng::new(seed),
            map,
            incrementals: BTreeMap::from([(Epoch(1), inc.to_bytes())]),
            nodes: BTreeMap::new(),
            saved: BTreeMap::new(),
            links: BTreeMap::new(),
            given_up: BTreeMap::new(),
            channels: BTreeMap::new(),
            followers: BTreeMap::new(),
            replies: BTreeMap::new(),
            told: BTreeMap::new(),
            backoffs: Vec::new(),
            maps_told: BTreeMap::new(),
            notices: Vec::new(),
            client_conns: BTreeMap::new(),
            next_tid: 0,
            cut: Vec::new(),
            answers_cut: Vec::new(),
            slow_store: None,
            unmapped: Vec::new(),
            pg_stats: BTreeMap::new(),
            used_ratios: BTreeMap::new(),
            rotten: BTreeSet::new(),
            broken: BTreeSet::new(),
            log: Vec::new(),
            manager_reports: BTreeMap::new(),
            cluster_log: Vec::new(),
            nonces: 0,
        };
        (0..osds).for_each(|osd| cluster.start(osd));
        cluster.settle();
        cluster
    }

    /// Starts an OSD with what it had when it ended, or new.
    pub(crate) fn start(&mut self, id: i32) {
        self.nonces += 1;
        let nonce = self.nonces;
        let store = self.saved.remove(&id).unwrap_or_default();
        let config = OsdConfig {
            id: OsdId(id),
            fsid: FSID,
            osd_fsid: Uuid([id as u8; 16]),
            key: None,
            mon_addrs: vec![addrs(0, 0, 3300)],
            public_addrs: addrs(id, nonce, 6800),
            cluster_addrs: addrs(id, nonce, 6900),
            metadata: BTreeMap::new(),
            store_bytes: 1 << 30,
            accept_loss: false,
            stats_interval: Duration::from_secs(5),
            options: std::collections::BTreeMap::new(),
        };
        let image = BootImage::load(config.id, config.osd_fsid, &mut |r| store.read(&r)).expect("our own store");
        let osd = Osd::new(self.now, config, SecretRng::from_entropy([nonce as u8; 32]), image);
        self.nodes.insert(id, Node { osd, store, held: None, nonce, accepted: 0, up_since: self.now });
    }

    /// Ends an OSD without a word; its store keeps what was committed.
    pub(crate) fn kill(&mut self, id: i32) {
        self.broken.retain(|(osd, _)| *osd != id);
        let node = self.nodes.remove(&id).expect("it runs");
        self.saved.insert(id, node.held.map_or(node.store, |held| held.durable));
        self.followers.remove(&id);
        self.client_conns.retain(|(_, osd), _| *osd != id);
        let ends: Vec<_> = self.links.iter().filter(|((end, _), _)| *end == End::Osd(id)).collect();
        let peers: Vec<_> = ends.iter().map(|(_, peer)| **peer).collect();
        self.links.retain(|(end, _), (peer, _)| *end != End::Osd(id) && *peer != End::Osd(id));
        self.channels.retain(|(end, _), _| *end != End::Osd(id));
        self.given_up.retain(|(from, to), _| *from != id && *to != id);
        for (end, conn) in peers {
            self.deliver(end, conn, NetEvent::Closed { conn, why: CloseReason::Fault });
        }
    }

    /// From now on nothing that an OSD's groups write is durable, and it is lost if the OSD is killed.
    pub(crate) fn hold_commits(&mut self, id: i32) {
        self.hold(id, None);
    }

    /// The same of what goes there, and of that alone.
    pub(crate) fn hold_commits_to(&mut self, id: i32, collection: CollectionId) {
        self.hold(id, Some(collection));
    }

    fn hold(&mut self, id: i32, of: Option<CollectionId>) {
        let node = self.nodes.get_mut(&id).expect("it runs");
        let durable = MemoryStore::from_records(node.store.records()).expect("a store reads its own image");
        node.held = Some(Held { of, durable, unconfirmed: Vec::new() });
    }

    /// All of it is durable.
    pub(crate) fn release_commits(&mut self, id: i32) {
        let now = self.now;
        let node = self.nodes.get_mut(&id).expect("it runs");
        let held = node.held.take().expect("its commits are held");
        held.unconfirmed.into_iter().for_each(|(commit, result)| node.osd.handle_committed(now, commit, result));
        self.drain(id);
    }

    /// Ends the sessions that an OSD has opened to another; both live on. What is under way on them is lost.
    pub(crate) fn end_sessions(&mut self, from: i32, to: i32) {
        let (from, to) = (End::Osd(from), End::Osd(to));
        let ours = |((end, conn), (peer, _)): (&(End, ConnId), &(End, ConnId))| {
            (*end == from && *peer == to && !conn.is_accepted()).then_some(*conn)
        };
        for conn in self.links.iter().filter_map(ours).collect::<Vec<_>>() {
            let there = self.links.remove(&(from, conn)).expect("it was just listed");
            self.links.remove(&there);
            for (end, conn) in [(from, conn), there] {
                self.channels.remove(&(end, conn));
                self.deliver(end, conn, NetEvent::Closed { conn, why: CloseReason::Fault });
            }
        }
    }

    /// An OSD gives up the session that it has opened to another, and calls again a little later; who is called takes that
    /// for the session that it had, and does not hear of it. What is under way is lost.
    pub(crate) fn give_up_session(&mut self, from: i32, to: i32) {
        let ours = |((end, conn), peer): (&(End, ConnId), &(End, ConnId))| {
            (*end == End::Osd(from) && peer.0 == End::Osd(to) && !conn.is_accepted()).then_some((*conn, *peer))
        };
        // The first is the one for work; another is for signs of life.
        let (conn, there) = self.links.iter().filter_map(ours).min().expect("there is a session");
        self.links.remove(&(End::Osd(from), conn));
        self.links.remove(&there);
        self.channels.remove(&(End::Osd(from), conn));
        self.channels.remove(&there);
        self.given_up.insert((from, to), there.1);
        self.deliver(End::Osd(from), conn, NetEvent::Closed { conn, why: CloseReason::Fault });
    }

    /// Ends an OSD and throws its store away.
    pub(crate) fn kill_and_forget(&mut self, id: i32) {
        self.kill(id);
        self.saved.remove(&id);
    }

    pub(crate) fn is_running(&self, id: i32) -> bool {
        self.nodes.contains_key(&id)
    }

    /// Takes an OSD and its store out of the cluster, to be driven by hand.
    pub(crate) fn take(&mut self, id: i32) -> (Osd, MemoryStore) {
        let node = self.nodes.remove(&id).expect("it runs");
        (node.osd, node.store)
    }

    /// Opens a client's session to an OSD that is driven by hand.
    pub(crate) fn open_client(osd: &mut Osd, now: Instant) -> ConnId {
        let conn = ConnId(ConnId::ACCEPTED | 1 << 40);
        let peer = Arc::new(peer(EntityName::client(base::GlobalId(99))));
        osd.handle_net(now, NetEvent::Opened { conn, peer });
        conn
    }

    /// Asks an OSD to stop cleanly, and waits for it.
    pub(crate) fn stop(&mut self, id: i32) {
        let now = self.now;
        self.nodes.get_mut(&id).expect("it runs").osd.shutdown(now);
        for _ in 0..200 {
            self.settle_for(Duration::from_millis(50));
            if !self.nodes.contains_key(&id) {
                return;
            }
        }
        panic!("osd.{id} does not stop");
    }

    /// A command of an OSD's admin socket, answered in JSON.
    pub(crate) fn admin(&mut self, id: i32, command: &str) -> serde_json::Value {
        let now = self.now;
        let text = self.nodes.get_mut(&id).expect("it runs").osd.admin_command(now, command);
        self.drain(id);
        serde_json::from_slice(&text).expect("answers are JSON")
    }

    /// The store of an OSD says how full it is.
    pub(crate) fn set_room(&mut self, id: i32, total: u64, free: u64) {
        self.nodes.get_mut(&id).expect("it runs").osd.note_room(osd::room::Room { total, free });
        self.drain(id);
    }

    /// How full an OSD said that it is.
    pub(crate) fn used_ratio(&self, id: i32) -> f64 {
        self.used_ratios[&id]
    }

    pub(crate) fn osd(&self, id: i32) -> &Osd {
        &self.nodes[&id].osd
    }

    pub(crate) fn store(&self, id: i32) -> &MemoryStore {
        &self.nodes[&id].store
    }

    /// Changes what an OSD's store holds behind its back.
    pub(crate) fn damage(&mut self, id: i32, transaction: &store::Transaction) {
        self.nodes.get_mut(&id).expect("it runs").store.commit(transaction).expect("it can be carried out");
    }

    /// The monitor asks a PG's primary for a scrub.
    pub(crate) fn scrub(&mut self, pg: PgId, deep: bool, repair: bool) {
        let pgs = vec![SpgId::replicated(pg)];
        let message = messages::OsdScrub { fsid: FSID, epoch: self.map.epoch, pgs, repair, deep };
        self.tell_primary(pg, message);
    }

    /// An operator wants a PG recovered or backfilled first, or no longer.
    pub(crate) fn force(&mut self, pg: PgId, options: u8) {
        self.tell_primary(pg, messages::OsdForceRecovery { fsid: FSID, pgs: vec![SpgId::replicated(pg)], options });
    }

    /// An operator gives up all copies of a PG.
    pub(crate) fn make_anew(&mut self, pg: PgId) {
        let pgs = BTreeMap::from([(SpgId::replicated(pg), (self.map.epoch, Default::default()))]);
        self.tell_primary(pg, messages::OsdPgCreate { epoch: self.map.epoch, pgs, history: BTreeMap::new() });
    }

    /// An OSD gets data again.
    pub(crate) fn mark_in(&mut self, osd: i32) {
        self.publish(|_, inc| inc.new_weight.extend([(OsdId(osd), WEIGHT_ONE)]));
    }

    fn tell_primary(&mut self, pg: PgId, message: impl Into<messages::Message>) {
        let primary = self.map.pg_to_up_acting(pg).acting_primary.0;
        let (conn, _) = self.followers[&primary];
        self.deliver(End::Osd(primary), conn, NetEvent::Message { conn, envelope: Envelope::new(message) });
    }

    fn deliver(&mut self, end: End, conn: ConnId, event: NetEvent) {
        self.channels.entry((end, conn)).or_default().push_back(event);
    }

    /// Publishes the next map.
    pub(crate) fn publish(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        let mut inc = Incremental::new(FSID, self.map.epoch.next(), Default::default());
        change(&self.map, &mut inc);
        self.map.apply(&inc).expect("our own map");
        self.incrementals.insert(inc.epoch, inc.to_bytes());
        for osd in self.followers.keys().copied().collect::<Vec<_>>() {
            self.send_maps(osd);
        }
    }

    /// The monitor keeps no map but the newest.
    pub(crate) fn forget_old_maps(&mut self) {
        self.incrementals.retain(|epoch, _| *epoch > self.map.epoch);
    }

    pub(crate) fn mark_down(&mut self, osd: i32) {
        if self.map.is_up(OsdId(osd)) {
            // Whether its process is gone a real monitor hears from those whom it refuses.
            let dead = (!self.nodes.contains_key(&osd)).then(|| (OsdId(osd), self.dead(osd)));
            self.publish(|_, inc| {
                inc.new_state.extend([(OsdId(osd), OsdState::UP)]);
                inc.new_xinfo.extend(dead);
            });
        }
    }

    /// What shows that the last life of an OSD is over.
    fn dead(&self, osd: i32) -> OsdXInfo {
        OsdXInfo { dead_epoch: self.map.epoch, ..self.map.xinfo(OsdId(osd)).copied().unwrap_or_default() }
    }

    fn mark_dead(&mut self, osd: i32) {
        let dead = (OsdId(osd), self.dead(osd));
        self.publish(|_, inc| inc.new_xinfo.extend([dead]));
    }

    pub(crate) fn mark_out(&mut self, osd: i32) {
        self.publish(|_, inc| inc.new_weight.extend([(OsdId(osd), 0)]));
    }

    fn send_maps(&mut self, osd: i32) {
        if self.unmapped.contains(&osd) {
            return;
        }
        let Some((conn, start)) = self.followers.get_mut(&osd) else { return };
        let mut message = OsdMapMessage { fsid: FSID, newest: self.map.epoch, ..Default::default() };
        let from = Epoch(*start as u32);
        message.incremental = self.incrementals.range(from..).map(|(e, b)| (*e, b.clone())).collect();
        if from <= self.map.epoch && !message.incremental.contains_key(&from.max(Epoch(1))) {
            message.incremental.clear();
            message.full.insert(self.map.epoch, self.map.encoded().bytes);
        }
        *start = u64::from(self.map.epoch.0) + 1;
        let (conn, event) = (*conn, message);
        if !event.incremental.is_empty() || !event.full.is_empty() {
            self.deliver(End::Osd(osd), conn, NetEvent::Message { conn, envelope: Envelope::new(event) });
        }
    }

    fn mon_hears(&mut self, osd: i32, conn: ConnId, message: Message) {
        match message {
            Message::MonSubscribe(m) => {
                if let Some(sub) = m.what.get("osdmap") {
                    self.followers.insert(osd, (conn, sub.start));
                    self.send_maps(osd);
                }
            }
            Message::OsdBoot(m) => {
                self.mark_down(osd);
                let nonce = self.nodes.get(&osd).map_or(0, |n| n.nonce);
                let all = OsdAddrs {
                    client: addrs(osd, nonce, 6800),
                    cluster: m.cluster_addrs,
                    heartbeat_front: m.hb_front_addrs,
                    heartbeat_back: m.hb_back_addrs,
                };
                self.publish(|_, inc| inc.new_up.extend([(OsdId(osd), all)]));
            }
            Message::OsdAlive(m) => self.publish(|_, inc| inc.new_up_thru.extend([(OsdId(osd), m.want)])),
            Message::OsdPgTemp(m) => self.publish(|_, inc| inc.new_pg_temp.extend(m.pg_temp)),
            Message::OsdPgReadyToMerge(m) => self.merge_as_told(&m),
            Message::OsdFailure(m) if m.flags & osd_failure::IMMEDIATE != 0 => self.mark_down(m.target.0),
            Message::OsdMarkMeDead(m) => self.mark_dead(m.target.0),
            Message::OsdMarkMeDown(m) => {
                self.mark_down(m.target.0);
                self.mark_dead(m.target.0);
                let envelope = Envelope::new(*m);
                self.deliver(End::Osd(osd), conn, NetEvent::Message { conn, envelope });
            }
            Message::MgrReport(m) => drop(self.manager_reports.insert(osd, *m)),
            Message::Log(m) => self.cluster_log.extend(m.entries.into_iter().map(|entry| entry.text)),
            Message::PgStats(m) => {
                let stat = OsdStat::from_bytes(&m.osd_stat.0).expect("our own report");
                self.used_ratios.insert(osd, stat.statfs.used_ratio());
                for (pg, stat) in m.pg_stats {
                    self.pg_stats.insert(pg, stat.0);
                }
            }
            _ => {}
        }
    }

    /// Two groups are ready to be merged, or are not.
    fn merge_as_told(&mut self, m: &wire::messages::OsdPgReadyToMerge) {
        let mut pool = maps::PgPool::clone(self.map.pool(m.source.pool).expect("the pool exists"));
        if pool.pg_num_pending == pool.pg_num || m.paxos.version < u64::from(pool.last_change.0) {
            return;
        }
        if m.ready {
            pool.pg_num -= 1;
            pool.last_pg_merge = maps::pool::PgMergeMeta {
                source: m.source,
                ready_epoch: self.map.epoch.next(),
                last_epoch_started: m.last_epoch_started,
                last_epoch_clean: m.last_epoch_clean,
                source_version: m.source_version,
                target_version: m.target_version,
            };
        }
        (pool.pg_num_pending, pool.last_change) = (pool.pg_num, self.map.epoch.next());
        self.publish(|_, inc| drop(inc.new_pools.insert(m.source.pool, pool)));
    }

    fn drain(&mut self, id: i32) {
        loop {
            let osd_id = id;
            let Some(node) = self.nodes.get_mut(&id) else { return };
            let Some(command) = node.osd.poll_command() else { break };
            match command {
                Command::Net(net) => self.net(id, net),
                Command::Read { id, request } if reads_rot(&self.rotten, osd_id, &request) => {
                    node.osd.handle_read(self.now, id, Err(rot()));
                }
                Command::Read { id, request } => node.store.submit_read(self.now, id, request),
                Command::Commit { id, transaction } if self.broken.contains(&(osd_id, transaction.collection)) => {
                    node.osd.handle_committed(self.now, id, Err(rot()));
                }
                Command::Commit { id, transaction } if keeps_rot(&mut self.rotten, osd_id, &transaction) => {
                    self.broken.insert((osd_id, transaction.collection));
                    node.osd.handle_committed(self.now, id, Err(rot()));
                }
                Command::Commit { id, transaction } => match &mut node.held {
                    Some(held) if held.holds(transaction.collection) => {
                        held.unconfirmed.push((id, node.store.commit(&transaction)));
                    }
                    held => {
                        held.iter_mut().for_each(|held| held.durable.commit(&transaction).expect("both take it"));
                        node.store.submit_commit(self.now, id, transaction);
                    }
                },
                Command::Ahead { id, offset, data } => node.store.submit_ahead(self.now, id, offset, data),
                Command::ForgetAhead(id) => node.store.forget_ahead(id),
                Command::Log { text, level } => self.log.push(format!("osd.{id} {level:?}: {text}")),
                Command::Stopped => {
                    self.kill(id);
                    return;
                }
                Command::BeginAgain => {
                    self.kill(id);
                    self.start(id);
                    return;
                }
            }
        }
    }

    fn net(&mut self, id: i32, command: NetCommand) {
        let me = End::Osd(id);
        match command {
            NetCommand::Open { conn, to, kind: EntityType::MON, .. } => {
                drop(to);
                self.links.insert((me, conn), (End::Mon, conn));
                let peer = Arc::new(peer(EntityName::mon(0)));
                self.deliver(me, conn, NetEvent::Opened { conn, peer });
            }
            NetCommand::Open { conn, to, policy, .. } => {
                let there = |(osd, node): (&i32, &Node)| (addrs(*osd, node.nonce, 6900) == to).then_some(*osd);
                match self.nodes.iter().find_map(there) {
                    Some(other) => {
                        let again = self.given_up.remove(&(id, other));
                        let accepted = again.unwrap_or_else(|| self.accept(other));
                        self.links.insert((me, conn), (End::Osd(other), accepted));
                        self.links.insert((End::Osd(other), accepted), (me, conn));
                        let called = |osd: i32| {
                            let addrs = addrs(osd, self.nodes[&osd].nonce, 6900);
                            Arc::new(Peer { addrs, ..peer(EntityName::osd(OsdId(osd))) })
                        };
                        let (ours, theirs) = (called(id), called(other));
                        if again.is_none() {
                            self.deliver(End::Osd(other), accepted, NetEvent::Opened { conn: accepted, peer: ours });
                        }
                        self.deliver(me, conn, NetEvent::Opened { conn, peer: theirs });
                    }
                    None if policy == Policy::Lossy => {
                        self.deliver(me, conn, NetEvent::Closed { conn, why: CloseReason::Refused });
                    }
                    None => {}
                }
            }
            NetCommand::Send { conn, envelope } => match self.links.get(&(me, conn)).copied() {
                Some((End::Mon, _)) => self.mon_hears(id, conn, envelope.message),
                Some((End::Client(client), _)) => self.client_hears(client, (id, conn), envelope),
                Some((end, conn)) => {
                    // Through the bytes, as between processes.
                    let message = Message::decode(envelope.message.into_payload()).expect("our own message");
                    let envelope = Envelope { message, ..envelope };
                    self.deliver(end, conn, NetEvent::Message { conn, envelope });
                }
                None => {}
            },
            NetCommand::Close { conn } => {
                self.channels.remove(&(me, conn));
                if let Some((end, conn)) = self.links.remove(&(me, conn)) {
                    self.links.remove(&(end, conn));
                    self.deliver(end, conn, NetEvent::Closed { conn, why: CloseReason::Fault });
                }
            }
        }
    }

    fn client_hears(&mut self, client: u64, (osd, conn): (i32, ConnId), envelope: Envelope) {
        match envelope.message {
            Message::OsdOpReply(reply) => self.replies.entry((client, envelope.tid)).or_default().push(*reply),
            Message::Backoff(backoff) => {
                if backoff.op == backoff_op::BLOCK {
                    let ack = messages::Backoff { op: backoff_op::ACK_BLOCK, ..(*backoff).clone() };
                    let envelope = Envelope::new(ack);
                    self.deliver(End::Osd(osd), conn, NetEvent::Message { conn, envelope });
                }
                self.backoffs.push(*backoff);
            }
            Message::CommandReply(reply) => drop(self.told.insert(envelope.tid, *reply)),
            Message::WatchNotify(notice) => self.notices.push((client, *notice)),
            Message::OsdMap(maps) => {
                assert_eq!(maps.full.len() + maps.incremental.len(), 1, "client {client} is told of one map at a time");
                self.maps_told.entry(client).or_default().extend(maps.full.keys().chain(maps.incremental.keys()));
            }
            _ => {}
        }
    }

    fn accept(&mut self, osd: i32) -> ConnId {
        let node = self.nodes.get_mut(&osd).expect("it runs");
        node.accepted += 1;
        ConnId(ConnId::ACCEPTED | node.accepted)
    }

    /// Moves one thing, chosen by the seed: a message, or a store's completion. False if nothing moves.
    pub(crate) fn step(&mut self) -> bool {
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.drain(id);
        }
        let is_cut = |(here, conn): &(End, ConnId), there: End| match (*here, there) {
            (End::Osd(a), End::Osd(b)) => {
                let answers = !conn.is_accepted() && self.answers_cut.contains(&(a, b));
                answers || self.cut.contains(&(a, b)) || self.cut.contains(&(b, a))
            }
            _ => false,
        };
        let open = |(key, queue): (&(End, ConnId), &VecDeque<NetEvent>)| {
            let cut = self.links.get(key).is_some_and(|(peer, _)| is_cut(key, *peer));
            (!queue.is_empty() && !cut).then_some(*key)
        };
        let ready: Vec<(End, ConnId)> = self.channels.iter().filter_map(open).collect();
        let count = ready.len() + self.nodes.len();
        let start = self.rng.below(count.max(1) as u64) as usize;
        for turn in (0..count).map(|i| (start + i) % count) {
            if let Some(key) = ready.get(turn) {
                let event = self.channels.get_mut(key).and_then(VecDeque::pop_front).expect("it is not empty");
                if let End::Osd(id) = key.0
                    && let Some(node) = self.nodes.get_mut(&id)
                {
                    node.osd.handle_net(self.now, event);
                    self.drain(id);
                }
                return true;
            }
            let id = *self.nodes.keys().nth(turn - ready.len()).expect("within the count");
            if self.slow_store != Some(id) && self.complete(id) {
                return true;
            }
        }
        self.slow_store.is_some_and(|id| self.complete(id))
    }

    /// A store is done with something. False if it has nothing to do.
    fn complete(&mut self, id: i32) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        match node.store.poll_completion() {
            Some(Completion::Committed(id, result)) => node.osd.handle_committed(self.now, id, result),
            Some(Completion::Read(id, result)) => node.osd.handle_read(self.now, id, result),
            Some(Completion::Ahead(id)) => node.osd.handle_ahead(self.now, id),
            None => return false,
        }
        node.osd.check_invariants();
        self.drain(id);
        true
    }

    /// Lets time pass until nothing moves for a while.
    pub(crate) fn settle(&mut self) {
        self.settle_for(Duration::from_secs(6));
    }

    pub(crate) fn settle_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let mut steps = 0;
            while self.step() {
                steps += 1;
                assert!(steps < 2_000_000, "the cluster never rests");
            }
            self.now = self.now + Duration::from_millis(100);
            let due: Vec<i32> = self.nodes.keys().copied().collect();
            for id in due {
                let now = self.now;
                let node = self.nodes.get_mut(&id).expect("it runs");
                if node.osd.next_wakeup().is_some_and(|at| at <= now) {
                    node.osd.handle_timer(now);
                }
                self.drain(id);
            }
        }
        self.nodes.values().for_each(|node| node.osd.check_invariants());
    }

    /// The PG and primary of an object.
    pub(crate) fn locate(&self, name: &str) -> (PgId, u32, i32) {
        let locator = maps::ObjectLocator::pool(POOL);
        let raw = self.map.object_to_raw_pg(&locator, name.as_bytes()).expect("the pool exists");
        let pg = self.map.pool(POOL).expect("the pool exists").raw_pg_to_pg(raw);
        (pg, raw.seed, self.map.pg_to_up_acting(pg).acting_primary.0)
    }

    /// A request on an object, as a client with the newest map sends it.
    pub(crate) fn request(&self, name: &str, ops: Vec<OsdOpItem>) -> OsdOp {
        let (pg, hash, _) = self.locate(name);
        let mut op = OsdOp::new(
            SpgId::replicated(pg),
            hash,
            ObjectLocator::new(POOL),
            Bytes::copy_from_slice(name.as_bytes()),
            ops,
        );
        op.map_epoch = self.map.epoch;
        op.flags = RequestFlags::ACK | RequestFlags::ONDISK;
        op.mtime = self.now.into();
        op
    }

    /// Sends a request; gives its number, by which `replies` has the answers.
    pub(crate) fn send(&mut self, client: u64, op: OsdOp) -> u64 {
        self.next_tid += 1;
        self.resend(client, self.next_tid, op);
        self.next_tid
    }

    /// Sends a request (again) under a number.
    pub(crate) fn resend(&mut self, client: u64, tid: u64, op: OsdOp) {
        let primary = self.map.pg_to_up_acting(op.pgid.pg).acting_primary.0;
        self.send_to(primary, client, tid, op);
    }

    /// Sends a request to an OSD, right or wrong.
    pub(crate) fn send_to(&mut self, osd: i32, client: u64, tid: u64, op: OsdOp) {
        let message = Message::decode(Message::from(op).into_payload()).expect("our own message");
        self.send_message(osd, client, tid, message);
    }

    fn send_message(&mut self, osd: i32, client: u64, tid: u64, message: Message) {
        if !self.nodes.contains_key(&osd) {
            return;
        }
        let conn = match self.client_conns.get(&(client, osd)) {
            Some(conn) => *conn,
            None => {
                let conn = self.accept(osd);
                self.client_conns.insert((client, osd), conn);
                self.links.insert((End::Osd(osd), conn), (End::Client(client), conn));
                let peer = Arc::new(peer(EntityName::client(base::GlobalId(client))));
                self.deliver(End::Osd(osd), conn, NetEvent::Opened { conn, peer });
                conn
            }
        };
        let envelope = Envelope { tid, priority: 127, message };
        self.deliver(End::Osd(osd), conn, NetEvent::Message { conn, envelope });
    }

    /// Gives an OSD a command as `ceph tell` does, and waits for its answer: what it is, and the status line.
    pub(crate) fn tell(&mut self, osd: i32, command: &str) -> (i32, String) {
        self.next_tid += 1;
        let tid = self.next_tid;
        let command = messages::Command { fsid: FSID, command: vec![command.to_owned()], input: Bytes::new() };
        self.send_message(osd, 1, tid, command.into());
        for _ in 0..100 {
            if let Some(reply) = self.told.remove(&tid) {
                return (reply.result, reply.status);
            }
            self.settle_for(Duration::from_millis(100));
        }
        panic!("no answer; log: {:#?}", self.log);
    }

    /// The monitor's flags of the cluster.
    pub(crate) fn set_flags(&mut self, flags: MapFlags) {
        self.publish(|_, inc| inc.new_flags = Some(flags));
    }

    /// An operator says that what an OSD had will not come back.
    pub(crate) fn mark_lost(&mut self, osd: i32) {
        self.mark_down(osd);
        self.publish(|map, inc| inc.new_lost.extend([(OsdId(osd), map.epoch)]));
    }

    /// Ends a client's sessions.
    pub(crate) fn drop_client(&mut self, client: u64) {
        let ours = |(key, _): (&(u64, i32), &ConnId)| key.0 == client;
        let ended: Vec<_> = self.client_conns.iter().filter(|entry| ours(*entry)).map(|(k, c)| (k.1, *c)).collect();
        self.client_conns.retain(|key, _| key.0 != client);
        for (osd, conn) in ended {
            self.links.remove(&(End::Osd(osd), conn));
            self.deliver(End::Osd(osd), conn, NetEvent::Closed { conn, why: CloseReason::Fault });
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn call(&mut self, name: &str, ops: Vec<OsdOpItem>) -> OsdOpReply {
        self.call_as(1, name, ops)
    }

    /// The same as another client.
    pub(crate) fn call_as(&mut self, client: u64, name: &str, ops: Vec<OsdOpItem>) -> OsdOpReply {
        let op = self.request(name, ops);
        self.call_op_as(client, op)
    }

    /// Sends a request as it is and waits for its answer.
    pub(crate) fn call_op(&mut self, op: OsdOp) -> OsdOpReply {
        self.call_op_as(1, op)
    }

    fn call_op_as(&mut self, client: u64, op: OsdOp) -> OsdOpReply {
        let tid = self.send(client, op);
        for _ in 0..100 {
            while self.step() {
                if let Some(replies) = self.replies.get(&(client, tid)) {
                    return replies[0].clone();
                }
            }
            self.settle_for(Duration::from_millis(100));
            if let Some(replies) = self.replies.get(&(client, tid)) {
                return replies[0].clone();
            }
        }
        panic!("no answer; log: {:#?}", self.log);
    }

    pub(crate) fn write(&mut self, name: &str, data: &[u8]) -> i32 {
        let item = OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64);
        self.call(name, vec![item.with_payload(Bytes::copy_from_slice(data))]).result
    }

    pub(crate) fn read(&mut self, name: &str) -> Result<Bytes, i32> {
        let reply = self.call(name, vec![OsdOpItem::extent(OpCode::READ, 0, 0)]);
        if reply.result < 0 { Err(reply.result) } else { Ok(reply.ops[0].item.payload.clone()) }
    }

    /// How many PGs serve.
    pub(crate) fn active(&self) -> usize {
        self.nodes.values().map(|node| node.osd.primaries().1).sum()
    }
}

/// What a store says of what it cannot read.
fn rot() -> StoreError {
    StoreError::Corrupt(wire::Malformed::new("block", "is rotten"))
}

fn reads_rot(rotten: &BTreeSet<(i32, ObjectId)>, osd: i32, request: &ReadRequest) -> bool {
    let ReadWhat::Object(id, want) = &request.what else { return false };
    (!want.data.is_empty() || !want.omap.is_empty()) && rotten.contains(&(osd, id.clone()))
}

/// Whether a transaction writes to a part of a rotten object and keeps others; what it removes or replaces rots no more.
fn keeps_rot(rotten: &mut BTreeSet<(i32, ObjectId)>, osd: i32, t: &store::Transaction) -> bool {
    t.ops.iter().any(|(at, op)| {
        let object = match op {
            Op::RenameTo(to) => &t.objects[usize::from(*to)],
            _ => &t.objects[usize::from(*at)],
        };
        let key = (osd, object.clone());
        match op {
            Op::Remove | Op::RenameTo(_) | Op::Truncate(0) => {
                rotten.remove(&key);
                false
            }
            Op::Write(..) | Op::Zero(..) => rotten.contains(&key),
            _ => false,
        }
    })
}

/// Where a client is.
pub(crate) fn client_addr(client: u64) -> EntityAddr {
    EntityAddr::msgr2("10.1.2.3:0".parse().expect("a literal address"), client as u32)
}

fn peer(name: EntityName) -> Peer {
    Peer {
        entity: name.to_string(),
        name,
        called: None,
        addrs: AddrVec::one(client_addr(name.num as u64)),
        socket: None,
        global_id: name.num as u64,
        features: 0,
        caps: TicketCaps { allow_all: true, caps: Bytes::new() },
    }
}

/// Reads a value that a test knows to be there.
pub(crate) fn open<T: Decode>(bytes: &Bytes) -> T {
    T::from_bytes(bytes).expect("our own encoding")
}
