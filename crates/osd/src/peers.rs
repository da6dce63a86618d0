//! Sessions to other OSDs: a lossless one for work, and a lossy one beside it that shows when the peer dies.
//!
//! Owns their opening, by the map's cluster addresses, and closing, when the map says that a peer is down or has
//! another address. A lossless session hides broken streams, by design; the lossy one is there to break: when it does
//! it is tried again at once, and if nobody listens any more the peer's process is gone and the monitor hears of it.
//!
//! Invariant: at most one session of each kind per peer, to its address in the newest map.

use crate::core::Command;
use crate::limits::{ASK_AGAIN, PEER_PROBE_INTERVAL, PROBE_PAUSE_MIN};
use base::{Duration, Instant, OsdId};
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::net::{CloseReason, ConnId, NetCommand, Peer, Policy};
use wire::types::{AddrVec, EntityAddr, EntityType};

#[derive(Debug)]
struct PeerSession {
    addrs: AddrVec,
    work: ConnId,
    probe: Option<ConnId>,
    /// The probe stands.
    stands: bool,
    /// Probes in a row that never stood.
    vain: u32,
    probe_at: Instant,
    reported_at: Instant,
}

/// Whether a session's peer is the life of `osd` that the map shows as up.
pub fn is_life_of(map: &OsdMap, osd: OsdId, peer: &Peer) -> bool {
    let addrs = map.addrs(osd).filter(|_| map.is_up(osd));
    let mut all = addrs.into_iter().flat_map(|addrs| addrs.cluster.0.iter().chain(&addrs.client.0));
    let same = |a: &EntityAddr, b: &EntityAddr| a.socket.is_some() && (a.socket, a.nonce) == (b.socket, b.nonce);
    all.any(|known| peer.addrs.0.iter().any(|addr| same(known, addr)))
}

/// How long to wait for the next probe: not at all after the first that breaks, as then the peer's process may just have
/// ended, and the next one is refused; longer each time where none stands, and at leisure after a refusal.
fn probe_pause(vain: u32, why: CloseReason) -> Duration {
    match vain {
        0 | 1 if why == CloseReason::Fault => Duration::ZERO,
        _ if why == CloseReason::Fault => (PROBE_PAUSE_MIN * (1 << vain.min(8))).min(PEER_PROBE_INTERVAL),
        _ => PEER_PROBE_INTERVAL,
    }
}

/// All peers.
#[derive(Debug, Default)]
pub struct Peers {
    sessions: BTreeMap<OsdId, PeerSession>,
    by_conn: BTreeMap<ConnId, OsdId>,
    watched: BTreeSet<OsdId>,
    /// Peers whose work session was given up by the transport, and when to open another.
    broken: BTreeMap<OsdId, Instant>,
    next_conn: u64,
}

/// Session numbers of peers begin here; the monitor client's lie below.
pub const FIRST_CONN: u64 = 1 << 32;

impl Peers {
    /// The work session to `osd`; none if the map shows it as down.
    pub fn session(&mut self, osd: OsdId, map: &OsdMap, out: &mut VecDeque<Command>) -> Option<ConnId> {
        if let Some(session) = self.sessions.get(&osd) {
            return Some(session.work);
        }
        if !map.is_up(osd) || self.broken.contains_key(&osd) {
            return None;
        }
        let addrs = map.addrs(osd)?.cluster.clone();
        let work = self.open(osd, &addrs, Policy::Lossless, out);
        let (probe_at, reported_at) = (Instant::ZERO, Instant::ZERO);
        self.sessions
            .insert(osd, PeerSession { addrs, work, probe: None, stands: false, vain: 0, probe_at, reported_at });
        Some(work)
    }

    fn open(&mut self, osd: OsdId, to: &AddrVec, policy: Policy, out: &mut VecDeque<Command>) -> ConnId {
        self.next_conn += 1;
        let conn = ConnId(FIRST_CONN + self.next_conn);
        self.by_conn.insert(conn, osd);
        let open = NetCommand::Open { conn, to: to.clone(), kind: EntityType::OSD, policy };
        out.push_back(Command::Net(open));
        conn
    }

    /// Follows a new map: closes sessions to peers that are down or elsewhere. Gives those who are elsewhere, in another
    /// life: what was sent to the old one is lost, and no map of the batch need show that it was ever down.
    pub fn follow(&mut self, map: &OsdMap, out: &mut VecDeque<Command>) -> Vec<OsdId> {
        let stale = |(osd, s): (&OsdId, &PeerSession)| {
            let there = map.is_up(*osd) && map.addrs(*osd).is_some_and(|a| a.cluster == s.addrs);
            (!there).then_some(*osd)
        };
        let gone: Vec<OsdId> = self.sessions.iter().filter_map(stale).collect();
        for osd in &gone {
            let session = self.sessions.remove(osd).expect("it was just listed");
            for conn in [Some(session.work), session.probe].into_iter().flatten() {
                self.by_conn.remove(&conn);
                out.push_back(Command::Net(NetCommand::Close { conn }));
            }
        }
        gone.into_iter().filter(|osd| map.is_up(*osd)).collect()
    }

    /// Says whose death this OSD is to notice.
    pub fn watch(&mut self, osds: BTreeSet<OsdId>) {
        self.watched = osds;
    }

    /// Whether `conn` is one of ours; if so, whose.
    pub fn owner(&self, conn: ConnId) -> Option<OsdId> {
        self.by_conn.get(&conn).copied()
    }

    /// A session has ended. Gives the peer if nobody listens there any more.
    pub fn closed(&mut self, conn: ConnId, why: CloseReason, now: Instant) -> Option<OsdId> {
        let osd = self.by_conn.remove(&conn)?;
        let session = self.sessions.get_mut(&osd)?;
        if session.work == conn {
            // The transport gave a lossless session up (the peer may not know our ticket yet): another, a little later.
            let session = self.sessions.remove(&osd)?;
            if let Some(probe) = session.probe {
                self.by_conn.remove(&probe);
            }
            self.broken.insert(osd, now + PEER_PROBE_INTERVAL);
        } else if session.probe == Some(conn) {
            let stood = core::mem::take(&mut session.stands);
            session.vain = if stood { 0 } else { session.vain + 1 };
            session.probe = None;
            session.probe_at = now + probe_pause(session.vain, why);
        }
        (why == CloseReason::Refused).then_some(osd)
    }

    /// A session stands: the peer lives. Gives the peer if it is the probe.
    pub fn opened(&mut self, conn: ConnId) -> Option<OsdId> {
        let osd = *self.by_conn.get(&conn)?;
        let session = self.sessions.get_mut(&osd)?;
        session.stands |= session.probe == Some(conn);
        session.vain = if session.stands { 0 } else { session.vain };
        (session.probe == Some(conn)).then_some(osd)
    }

    /// The session to `osd` on which nothing waits behind work, if it stands.
    pub fn probe(&self, osd: OsdId) -> Option<ConnId> {
        self.sessions.get(&osd).filter(|session| session.stands)?.probe
    }

    /// Opens what is due. Gives the peers whose work session is a new one: what was sent on the old is lost.
    pub fn tick(&mut self, map: &OsdMap, now: Instant, out: &mut VecDeque<Command>) -> Vec<OsdId> {
        let due: Vec<OsdId> = self.broken.iter().filter(|(_, at)| **at <= now).map(|(osd, _)| *osd).collect();
        self.broken.retain(|_, at| *at > now);
        let renewed = due.into_iter().filter(|osd| self.session(*osd, map, out).is_some()).collect();
        self.open_probes(map, now, out);
        renewed
    }

    fn open_probes(&mut self, map: &OsdMap, now: Instant, out: &mut VecDeque<Command>) {
        // Mostly all are there: then there is nothing to do.
        let is_there = |osd: &&OsdId| self.sessions.get(osd).is_some_and(|session| session.probe.is_some());
        let absent: Vec<OsdId> = self.watched.iter().filter(|osd| !is_there(osd)).copied().collect();
        for osd in absent {
            if self.session(osd, map, out).is_none() {
                continue;
            }
            let session = &self.sessions[&osd];
            if session.probe.is_none() && session.probe_at <= now {
                let addrs = session.addrs.clone();
                let probe = self.open(osd, &addrs, Policy::Lossy, out);
                self.sessions.get_mut(&osd).expect("it was just there").probe = Some(probe);
            }
        }
    }

    /// When the next probe is due.
    pub fn next_wakeup(&self) -> Option<Instant> {
        // Few have none, so these are asked whether they are watched, and not the other way round.
        let unprobed = self.sessions.iter().filter(|(_, session)| session.probe.is_none());
        let due = unprobed.filter(|(osd, _)| self.watched.contains(osd)).map(|(_, session)| session.probe_at);
        due.chain(self.broken.values().copied()).min()
    }

    /// Whether to tell the monitor (again) that `osd` is gone; remembers that it was told.
    pub fn should_report(&mut self, osd: OsdId, now: Instant) -> Option<AddrVec> {
        let session = self.sessions.get_mut(&osd)?;
        if session.reported_at != Instant::ZERO && now < session.reported_at + ASK_AGAIN {
            return None;
        }
        session.reported_at = now;
        Some(session.addrs.clone())
    }
}
