//! Client sessions: who is there, what they may do, what they have been told, and how much of us they use.
//!
//! Owns the throttle: requests and their bytes count from their arrival to their answer. A session may use as much as
//! is left free by all: one alone gets half of the OSD, n get an (n+1)th each, and there is always room for one more
//! (dynamic thresholds, as shared-memory switches have them: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). A client
//! beyond its share is asked to hold its requests (`Backoff`), placement group by placement group, until it uses no
//! more than half of what is free.

use crate::limits::{CLIENT_REQUEST_BYTES_MAX, CLIENT_REQUESTS_MAX, SESSIONS_MAX};
use crate::scheduler::UnderWay;
use base::hash::FixedHashMap;
use base::{Epoch, OsdId, PgId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use wire::net::{ConnId, Peer};
use wire::types::EntityType;

/// A session that somebody opened to us.
#[derive(Debug)]
pub struct Session {
    /// Who is there.
    pub peer: Arc<Peer>,
    /// The newest map they are known to have.
    pub has_map: Epoch,
    /// What they may do: opened once, asked for every request.
    pub caps: crate::caps::SessionCaps,
    /// Placement groups whose requests they hold.
    pub holding: BTreeMap<PgId, Hold>,
    /// Placement groups in which it watches or notifies, or did.
    pub watching: BTreeSet<PgId>,
    /// What its requests use.
    usage: Arc<Usage>,
}

/// A back-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Its number.
    pub id: u64,
    /// When it ends.
    pub until: Until,
}

/// When a back-off ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// When the placement group serves.
    Active,
    /// When the session's requests have drained, or the placement group begins to serve.
    Drained,
}

/// What the requests of a session use, wherever they are.
#[derive(Debug, Default)]
struct Usage {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// A request's part of what its session uses; given back when the request is gone.
#[derive(Debug)]
pub struct Share {
    usage: Arc<Usage>,
    bytes: usize,
    /// Tells the scheduler when the request is done, if it wants to know.
    under_way: Option<UnderWay>,
}

impl Share {
    fn take(usage: &Arc<Usage>, bytes: usize) -> Share {
        usage.requests.fetch_add(1, Relaxed);
        usage.bytes.fetch_add(bytes, Relaxed);
        Share { usage: Arc::clone(usage), bytes, under_way: None }
    }

    /// Lets go of `under_way` when the request is done.
    pub(crate) fn until_done(&mut self, under_way: Option<UnderWay>) {
        self.under_way = under_way;
    }

    /// That of a request which no session has sent.
    pub fn none() -> Share {
        Share::take(&Arc::default(), 0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.usage.requests.fetch_sub(1, Relaxed);
        self.usage.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    sessions: FixedHashMap<ConnId, Session>,
    requests: usize,
    bytes: usize,
    /// The most requests at once.
    requests_max: usize,
    /// The most bytes of requests at once, by the options.
    bytes_allowed: usize,
    /// The same, or less where stores are nearly full.
    bytes_max: usize,
    next_backoff: u64,
    /// Sessions that hold requests.
    holding: BTreeSet<ConnId>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions {
            sessions: FixedHashMap::default(),
            requests: 0,
            bytes: 0,
            requests_max: CLIENT_REQUESTS_MAX,
            bytes_allowed: CLIENT_REQUEST_BYTES_MAX,
            bytes_max: CLIENT_REQUEST_BYTES_MAX,
            next_backoff: 0,
            holding: BTreeSet::new(),
        }
    }
}

impl Sessions {
    /// Sets how many requests there may be at once, and how many bytes they may have, as far as there is room for either;
    /// 0 for as many as that.
    pub fn set_allowed(&mut self, requests: usize, bytes: usize) {
        let within = |wanted: usize, max: usize| if wanted == 0 { max } else { wanted.min(max) };
        self.requests_max = within(requests, CLIENT_REQUESTS_MAX);
        self.bytes_allowed = within(bytes, CLIENT_REQUEST_BYTES_MAX);
    }

    /// Sets how many bytes the fullest store has room for.
    pub fn set_room(&mut self, bytes: usize) {
        self.bytes_max = self.bytes_allowed.min(bytes);
    }

    /// How many requests there may be at once, and how many bytes they may have.
    pub fn bounds(&self) -> (usize, usize) {
        (self.requests_max, self.bytes_max)
    }

    /// Takes a new session in; false if there are too many.
    pub fn open(&mut self, conn: ConnId, peer: Arc<Peer>) -> bool {
        if self.sessions.len() >= SESSIONS_MAX {
            return false;
        }
        let caps = crate::caps::SessionCaps::of(&peer);
        let session = Session {
            peer,
            has_map: Epoch(0),
            caps,
            holding: BTreeMap::new(),
            watching: BTreeSet::new(),
            usage: Arc::default(),
        };
        self.sessions.insert(conn, session);
        true
    }

    /// Forgets a session; gives the placement groups that have to hear of it.
    pub fn close(&mut self, conn: ConnId) -> BTreeSet<PgId> {
        let Some(session) = self.sessions.remove(&conn) else { return BTreeSet::new() };
        self.holding.remove(&conn);
        session.watching
    }

    /// The session, while it lasts.
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.sessions.get(&conn)
    }

    /// The session, while it lasts.
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.sessions.get_mut(&conn)
    }

    /// The sessions of OSDs in the lives that `is_over` knows to be over.
    pub fn of_osds(&self, is_over: impl Fn(OsdId, &Peer) -> bool) -> Vec<ConnId> {
        let theirs = |(conn, session): (&ConnId, &Session)| {
            let name = session.peer.name;
            let osd = OsdId(i32::try_from(name.num).unwrap_or(-1));
            (name.kind == EntityType::OSD && is_over(osd, &session.peer)).then_some(*conn)
        };
        let mut conns: Vec<ConnId> = self.sessions.iter().filter_map(theirs).collect();
        conns.sort_unstable();
        conns
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Counts a request in; none if there is no room for it. A session may always have one.
    pub fn admit(&mut self, conn: ConnId, bytes: usize) -> Option<Share> {
        let usage = &self.sessions.get(&conn)?.usage;
        let (requests, used) = (usage.requests.load(Relaxed), usage.bytes.load(Relaxed));
        let free_requests = self.requests_max.saturating_sub(self.requests);
        let free_bytes = self.bytes_max.saturating_sub(self.bytes);
        let first = requests == 0 && free_requests > 0 && (bytes <= free_bytes || self.requests == 0);
        if !first && (requests >= free_requests || used + bytes > free_bytes) {
            return None;
        }
        self.requests += 1;
        self.bytes += bytes;
        Some(Share::take(usage, bytes))
    }

    /// Counts in a request that this OSD asks of itself: what has begun must come to its end.
    pub fn admit_own(&mut self) {
        self.requests += 1;
    }

    /// Counts a request out.
    pub fn release(&mut self, bytes: usize) {
        self.requests -= 1;
        self.bytes -= bytes;
    }

    /// Whether somebody holds requests.
    pub fn somebody_holds(&self) -> bool {
        !self.holding.is_empty()
    }

    /// Requests and bytes being worked on.
    pub fn load(&self) -> (usize, usize) {
        (self.requests, self.bytes)
    }

    /// Whether `conn` has been asked to hold requests for `pg`.
    pub fn holds(&self, conn: ConnId, pg: PgId) -> bool {
        self.holding.contains(&conn) && self.sessions.get(&conn).is_some_and(|s| s.holding.contains_key(&pg))
    }

    /// Notes that `conn` is asked to hold requests for `pg`; gives the back-off's number.
    pub fn hold(&mut self, conn: ConnId, pg: PgId, until: Until) -> Option<u64> {
        let session = self.sessions.get_mut(&conn)?;
        self.next_backoff += 1;
        session.holding.insert(pg, Hold { id: self.next_backoff, until });
        self.holding.insert(conn);
        Some(self.next_backoff)
    }

    /// Those to tell to go on: all whose share has drained where `pg` is none, else those that hold for `pg`.
    pub fn resume(&mut self, pg: Option<PgId>) -> Vec<(ConnId, PgId, u64)> {
        let free_requests = self.requests_max.saturating_sub(self.requests);
        let free_bytes = self.bytes_max.saturating_sub(self.bytes);
        let mut out = Vec::new();
        for conn in self.holding.clone() {
            let Some(session) = self.sessions.get_mut(&conn) else { continue };
            let (requests, bytes) = (session.usage.requests.load(Relaxed), session.usage.bytes.load(Relaxed));
            let drained = 2 * requests <= free_requests && 2 * bytes <= free_bytes;
            session.holding.retain(|held, hold| {
                let resumed = pg.map_or(drained && hold.until == Until::Drained, |pg| pg == *held);
                if resumed {
                    out.push((conn, *held, hold.id));
                }
                !resumed
            });
            if session.holding.is_empty() {
                self.holding.remove(&conn);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{GlobalId, PoolId};
    use wire::types::{AddrVec, EntityName};

    fn sessions(count: u64) -> Sessions {
        let mut sessions = Sessions::default();
        for conn in 0..count {
            let name = EntityName::client(GlobalId(conn));
            let caps = wire::net::TicketCaps::default();
            let (entity, addrs) = (name.to_string(), AddrVec::default());
            let peer = Peer { name, entity, called: None, addrs, socket: None, global_id: conn, features: 0, caps };
            assert!(sessions.open(ConnId(conn), Arc::new(peer)));
        }
        sessions
    }

    fn fill(sessions: &mut Sessions, conn: u64, bytes: usize) -> Vec<Share> {
        core::iter::from_fn(|| sessions.admit(ConnId(conn), bytes)).collect()
    }

    #[test]
    fn sessions_of_osds_are_told_from_those_of_clients_and_by_the_life_that_opened_them() {
        let mut s = sessions(2);
        let addr = |nonce| wire::types::EntityAddr::msgr2("10.0.0.1:6800".parse().expect("an address"), nonce);
        for (conn, osd, nonce) in [(7, 1, 1), (8, 1, 2), (9, 0, 1)] {
            let peer = Peer {
                name: EntityName::osd(OsdId(osd)),
                addrs: AddrVec::one(addr(nonce)),
                ..Peer::clone(&s.get(ConnId(0)).expect("a session").peer)
            };
            assert!(s.open(ConnId(conn), Arc::new(peer)));
        }
        assert_eq!(s.of_osds(|_, _| true), [7, 8, 9].map(ConnId));
        let first_life = |osd, peer: &Peer| osd == OsdId(1) && peer.addrs.0.contains(&addr(1));
        assert_eq!(s.of_osds(first_life), [ConnId(7)]);
    }

    #[test]
    fn one_client_cannot_fill_the_osd() {
        let mut s = sessions(3);
        let first = fill(&mut s, 0, 10);
        assert_eq!(first.len(), CLIENT_REQUESTS_MAX / 2);
        let second = fill(&mut s, 1, 10);
        assert_eq!(second.len(), CLIENT_REQUESTS_MAX / 4, "half of what the first left");
        assert!(s.admit(ConnId(2), 10).is_some(), "there is room for one more");
    }

    #[test]
    fn options_and_a_full_store_lower_the_bounds_and_never_raise_them() {
        let mut s = sessions(1);
        s.set_allowed(8, 1 << 20);
        assert_eq!(fill(&mut s, 0, 10).len(), 4);
        s.set_room(usize::MAX);
        assert_eq!(s.bounds(), (8, 1 << 20));
        s.set_room(1 << 10);
        assert_eq!(s.bounds(), (8, 1 << 10));
        s.set_allowed(0, usize::MAX);
        s.set_room(usize::MAX);
        assert_eq!(s.bounds(), (CLIENT_REQUESTS_MAX, CLIENT_REQUEST_BYTES_MAX));
    }

    #[test]
    fn bytes_are_shared_as_requests_are_and_one_large_request_goes() {
        let mut s = sessions(2);
        let all = fill(&mut s, 0, 1 << 20);
        assert_eq!(all.len(), CLIENT_REQUEST_BYTES_MAX >> 21);
        assert!(
            s.admit(ConnId(1), CLIENT_REQUEST_BYTES_MAX / 2).is_some(),
            "the first of a session takes what there is"
        );
        let mut alone = sessions(1);
        assert!(alone.admit(ConnId(0), 2 * CLIENT_REQUEST_BYTES_MAX).is_some(), "whatever its size");
        assert!(alone.admit(ConnId(0), 1).is_none());
    }

    #[test]
    fn who_holds_goes_on_when_its_share_has_drained() {
        let mut s = sessions(1);
        let (conn, pg) = (ConnId(0), PgId::new(PoolId(1), 0));
        let mut shares = fill(&mut s, 0, 0);
        let id = s.hold(conn, pg, Until::Drained).expect("a session");
        assert!(s.holds(conn, pg) && s.somebody_holds());
        assert_eq!(s.resume(None), []);
        while 2 * shares.len() > CLIENT_REQUESTS_MAX - shares.len() {
            assert_eq!(s.resume(None), [], "{} left", shares.len());
            shares.pop();
            s.release(0);
        }
        assert_eq!(s.resume(None), [(conn, pg, id)]);
        assert!(!s.somebody_holds());
        let id = s.hold(conn, pg, Until::Active).expect("a session");
        assert_eq!(s.resume(None), [], "the group does not serve yet");
        assert_eq!(s.resume(Some(pg)), [(conn, pg, id)]);
        s.hold(conn, pg, Until::Active);
        assert_eq!(s.close(conn), BTreeSet::new());
        assert!(!s.somebody_holds());
    }
}
