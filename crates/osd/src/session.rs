//! Client sessions: who is there, what they may do, what they have been told, and how much of us they use.
//!
//! Owns the throttle: requests and their bytes count from their arrival to their answer. A session may use as much as
//! is left free by all: one alone gets half of the OSD, n get an (n+1)th each, and there is always room for one more
//! (dynamic thresholds, as shared-memory switches have them: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). A client
//! beyond its share is asked to hold its requests (`Backoff`), placement group by placement group, until it uses little of
//! what is free, or no more than half of it and few of those that the group had then are left: who goes on sends them all
//! again, and takes answers to the new attempts only.
//!
//! A back-off ends when the client has been told to go on and has said that it held: what comes before that was sent
//! before, and could overtake what was dropped (so in Ceph, v16.2 `src/osd/Session.cc`, `ack_backoff`).

mod usage;

pub use usage::Share;

use crate::limits::{CLIENT_REQUEST_BYTES_MAX, CLIENT_REQUESTS_MAX, SESSIONS_MAX};
use base::hash::FixedHashMap;
use base::{Epoch, OsdId, PgId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use usage::{PgUsage, Usage};
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
    /// What its requests use, in all and by placement group.
    usage: Arc<Usage>,
    by_pg: FixedHashMap<PgId, Arc<PgUsage>>,
}

/// Of how many placement groups a session's usage is kept before those that it no longer uses are looked for.
const PGS_KEPT: usize = 64;

impl Session {
    fn usage_in(&mut self, pg: PgId) -> &Arc<PgUsage> {
        if self.by_pg.len() >= PGS_KEPT && !self.by_pg.contains_key(&pg) {
            self.by_pg.retain(|_, usage| usage.requests() > 0);
        }
        self.by_pg.entry(pg).or_insert_with(|| Arc::new(PgUsage::of(&self.usage)))
    }

    fn in_hand(&self, pg: PgId) -> usize {
        self.by_pg.get(&pg).map_or(0, |usage| usage.requests())
    }
}

/// Who was held because of its share goes on when of what it had in hand in the placement group no more than one in so
/// many is left, or it uses no more than such a part of what is free.
const LEFT_ONE_IN: usize = 8;

/// A back-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    id: u64,
    until: Until,
    /// How many of the session's requests the placement group had in hand.
    in_hand: usize,
    /// Whether the client has said that it holds its requests.
    heard: bool,
    /// Whether the client has been told to go on.
    over: bool,
}

/// When a client that holds its requests is told to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// When the placement group serves.
    Active,
    /// When the session's requests have drained, or the placement group begins to serve.
    Drained,
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
            by_pg: FixedHashMap::default(),
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

    /// Counts a request for `pg` in; none if there is no room for it. A session may always have one.
    pub fn admit(&mut self, conn: ConnId, pg: PgId, bytes: usize) -> Option<Share> {
        let session = self.sessions.get_mut(&conn)?;
        let (requests, used) = (session.usage.requests(), session.usage.bytes());
        let free_requests = self.requests_max.saturating_sub(self.requests);
        let free_bytes = self.bytes_max.saturating_sub(self.bytes);
        let first = requests == 0 && free_requests > 0 && (bytes <= free_bytes || self.requests == 0);
        if !first && (requests >= free_requests || used + bytes > free_bytes) {
            return None;
        }
        self.requests += 1;
        self.bytes += bytes;
        Some(Share::take(session.usage_in(pg), bytes))
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
        let in_hand = session.in_hand(pg);
        session.holding.insert(pg, Hold { id: self.next_backoff, until, in_hand, heard: false, over: false });
        self.holding.insert(conn);
        Some(self.next_backoff)
    }

    /// Has the requests of `conn` for `pg` that are queued now dropped when it is their turn: one that came before them was.
    pub fn void_queued(&mut self, conn: ConnId, pg: PgId) {
        if let Some(usage) = self.sessions.get(&conn).and_then(|session| session.by_pg.get(&pg)) {
            usage.void_queued();
        }
    }

    /// Notes that `conn` holds its requests for `pg`, as the back-off of that number asked.
    pub fn heard(&mut self, conn: ConnId, pg: PgId, id: u64) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let Some(hold) = session.holding.get_mut(&pg).filter(|hold| hold.id == id) else { return };
        hold.heard = true;
        if hold.over {
            session.holding.remove(&pg);
            if session.holding.is_empty() {
                self.holding.remove(&conn);
            }
        }
    }

    /// Those to tell to go on: all whose share has drained where `pg` is none, else those that hold for `pg`.
    pub fn resume(&mut self, pg: Option<PgId>) -> Vec<(ConnId, PgId, u64)> {
        let free_requests = self.requests_max.saturating_sub(self.requests);
        let free_bytes = self.bytes_max.saturating_sub(self.bytes);
        let mut out = Vec::new();
        for conn in self.holding.clone() {
            let Some(session) = self.sessions.get_mut(&conn) else { continue };
            let (requests, bytes) = (session.usage.requests(), session.usage.bytes());
            let uses = |part: usize| part * requests <= free_requests && part * bytes <= free_bytes;
            let (much, little) = (!uses(2), uses(LEFT_ONE_IN));
            let by_pg = &session.by_pg;
            let left = |pg: &PgId| by_pg.get(pg).map_or(0, |usage| usage.requests());
            session.holding.retain(|held, hold| {
                let few = || !much && LEFT_ONE_IN * left(held) <= hold.in_hand;
                let drained = || hold.until == Until::Drained && (little || few());
                if !hold.over && pg.map_or_else(drained, |pg| pg == *held) {
                    out.push((conn, *held, hold.id));
                    hold.over = true;
                }
                !(hold.over && hold.heard)
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

    const PG: PgId = PgId { pool: PoolId(1), seed: 0 };

    fn fill(sessions: &mut Sessions, conn: u64, bytes: usize) -> Vec<Share> {
        core::iter::from_fn(|| sessions.admit(ConnId(conn), PG, bytes)).collect()
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
        assert!(s.admit(ConnId(2), PG, 10).is_some(), "there is room for one more");
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
            s.admit(ConnId(1), PG, CLIENT_REQUEST_BYTES_MAX / 2).is_some(),
            "the first of a session takes what there is"
        );
        let mut alone = sessions(1);
        assert!(alone.admit(ConnId(0), PG, 2 * CLIENT_REQUEST_BYTES_MAX).is_some(), "whatever its size");
        assert!(alone.admit(ConnId(0), PG, 1).is_none());
    }

    #[test]
    fn who_holds_goes_on_when_few_of_its_requests_are_left_in_the_group() {
        let mut s = sessions(1);
        let (conn, other) = (ConnId(0), PgId::new(PoolId(1), 1));
        let elsewhere: Vec<Share> = (0..1000).map(|_| s.admit(conn, other, 0).expect("there is room")).collect();
        let mut shares = fill(&mut s, 0, 0);
        let full = shares.len();
        let id = s.hold(conn, PG, Until::Drained).expect("a session");
        s.heard(conn, PG, id);
        assert!(s.holds(conn, PG) && s.somebody_holds());
        while shares.len() > full / LEFT_ONE_IN {
            assert_eq!(s.resume(None), [], "{} left", shares.len());
            shares.pop();
            s.release(0);
        }
        assert_eq!(s.resume(None), [(conn, PG, id)], "whatever it has elsewhere");
        assert!(!s.somebody_holds());
        drop(elsewhere);
    }

    #[test]
    fn who_holds_for_a_group_that_does_not_serve_goes_on_with_it() {
        let (mut s, conn) = (sessions(1), ConnId(0));
        let id = s.hold(conn, PG, Until::Active).expect("a session");
        s.heard(conn, PG, id);
        assert_eq!(s.resume(None), [], "the group does not serve yet");
        assert_eq!(s.resume(Some(PG)), [(conn, PG, id)]);
        s.hold(conn, PG, Until::Active);
        assert_eq!(s.close(conn), BTreeSet::new());
        assert!(!s.somebody_holds());
    }

    /// A client with more requests than its share took answers to the last attempt only, and was told to go on when two
    /// thirds of its share were in hand: what was answered next was from attempts before, each time, and nothing else.
    #[test]
    fn a_client_that_wants_more_than_its_share_gets_on_however_often_it_is_held() {
        let (mut s, conn) = (sessions(1), ConnId(0));
        s.set_allowed(64, 0);
        let (mut wanted, mut rounds) = ((0..100).collect::<BTreeSet<u32>>(), 0);
        // What is in hand, in order, with the round in which it was sent.
        let mut in_hand = std::collections::VecDeque::new();
        loop {
            rounds += 1;
            assert!(rounds < 100, "{} are never answered", wanted.len());
            let before = in_hand.len();
            let taken = wanted.iter().map_while(|tid| Some((*tid, s.admit(conn, PG, 0)?)));
            in_hand.extend(taken.map(|(tid, share)| (tid, rounds, share)));
            if in_hand.len() - before == wanted.len() {
                break;
            }
            let id = s.hold(conn, PG, Until::Drained).expect("a session");
            s.heard(conn, PG, id);
            while s.resume(None).is_empty() {
                let (tid, sent_in, share) = in_hand.pop_front().expect("it is told when none is left");
                drop(share);
                s.release(0);
                if sent_in == rounds {
                    wanted.remove(&tid);
                }
            }
        }
    }

    #[test]
    fn what_is_queued_behind_a_dropped_request_is_dropped_and_nothing_else() {
        let (mut s, conn, other) = (sessions(2), ConnId(0), PgId::new(PoolId(1), 1));
        let share = |s: &mut Sessions, conn: u64, pg| s.admit(ConnId(conn), pg, 0).expect("there is room");
        let (behind, elsewhere, another) = (share(&mut s, 0, PG), share(&mut s, 0, other), share(&mut s, 1, PG));
        s.void_queued(conn, PG);
        assert!(behind.is_void() && !elsewhere.is_void() && !another.is_void());
        assert!(!share(&mut s, 0, PG).is_void(), "it was sent again");
    }

    #[test]
    fn who_is_told_to_go_on_before_it_was_heard_to_hold_is_told_once_and_heard_first() {
        let mut s = sessions(1);
        let conn = ConnId(0);
        let id = s.hold(conn, PG, Until::Active).expect("a session");
        assert_eq!(s.resume(Some(PG)), [(conn, PG, id)]);
        assert!(s.holds(conn, PG), "what was sent before it heard may still come");
        assert_eq!(s.resume(Some(PG)), []);
        s.heard(conn, PG, id + 1);
        s.heard(conn, PgId::new(PoolId(1), 1), id);
        assert!(s.holds(conn, PG), "those are others");
        s.heard(conn, PG, id);
        assert!(!s.holds(conn, PG) && !s.somebody_holds());
    }
}
