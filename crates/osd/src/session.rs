//! Client sessions: who is there, what they may do, what they have been told, and how much of us they use.
//!
//! Owns the throttle: requests and their bytes count from their arrival to their answer, and when the OSD is full
//! clients are asked to hold theirs (`Backoff`) placement group by placement group, until it has drained by half.

use crate::limits::{CLIENT_REQUEST_BYTES_MAX, CLIENT_REQUESTS_MAX, SESSIONS_MAX};
use base::hash::FixedHashMap;
use base::{Epoch, PgId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::net::{ConnId, Peer};

/// A session that somebody opened to us.
#[derive(Debug)]
pub struct Session {
    /// Who is there.
    pub peer: Arc<Peer>,
    /// The newest map they are known to have.
    pub has_map: Epoch,
    /// What they may do: opened once, asked for every request.
    pub caps: crate::caps::SessionCaps,
    /// Placement groups whose requests they hold, and the number of each back-off.
    pub holding: BTreeMap<PgId, u64>,
    /// Placement groups in which it watches or notifies, or did.
    pub watching: BTreeSet<PgId>,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: FixedHashMap<ConnId, Session>,
    requests: usize,
    bytes: usize,
    next_backoff: u64,
    holding: usize,
}

impl Sessions {
    /// Takes a new session in; false if there are too many.
    pub fn open(&mut self, conn: ConnId, peer: Arc<Peer>) -> bool {
        if self.sessions.len() >= SESSIONS_MAX {
            return false;
        }
        let caps = crate::caps::SessionCaps::of(&peer);
        let session = Session { peer, has_map: Epoch(0), caps, holding: BTreeMap::new(), watching: BTreeSet::new() };
        self.sessions.insert(conn, session);
        true
    }

    /// Forgets a session; gives the placement groups that have to hear of it.
    pub fn close(&mut self, conn: ConnId) -> BTreeSet<PgId> {
        let Some(session) = self.sessions.remove(&conn) else { return BTreeSet::new() };
        self.holding -= session.holding.len();
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Counts a request in; false if there is no room.
    pub fn admit(&mut self, bytes: usize) -> bool {
        if self.requests >= CLIENT_REQUESTS_MAX || self.bytes + bytes > CLIENT_REQUEST_BYTES_MAX && self.requests > 0 {
            return false;
        }
        self.requests += 1;
        self.bytes += bytes;
        true
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

    /// Whether somebody holds requests although there is room again.
    pub fn drained(&self) -> bool {
        self.holding > 0 && self.requests * 2 <= CLIENT_REQUESTS_MAX && self.bytes * 2 <= CLIENT_REQUEST_BYTES_MAX
    }

    /// Requests and bytes being worked on.
    pub fn load(&self) -> (usize, usize) {
        (self.requests, self.bytes)
    }

    /// Whether `conn` has been asked to hold requests for `pg`.
    pub fn holds(&self, conn: ConnId, pg: PgId) -> bool {
        self.holding > 0 && self.sessions.get(&conn).is_some_and(|s| s.holding.contains_key(&pg))
    }

    /// Notes that `conn` is asked to hold requests for `pg`; gives the back-off's number.
    pub fn hold(&mut self, conn: ConnId, pg: PgId) -> Option<u64> {
        let session = self.sessions.get_mut(&conn)?;
        self.next_backoff += 1;
        if session.holding.insert(pg, self.next_backoff).is_none() {
            self.holding += 1;
        }
        Some(self.next_backoff)
    }

    /// Those to tell to go on: all where `pg` is none and the load has halved, else those that hold for `pg`.
    pub fn resume(&mut self, pg: Option<PgId>) -> Vec<(ConnId, PgId, u64)> {
        if self.holding == 0 {
            return Vec::new();
        }
        if pg.is_none() && (self.requests * 2 > CLIENT_REQUESTS_MAX || self.bytes * 2 > CLIENT_REQUEST_BYTES_MAX) {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (conn, session) in &mut self.sessions {
            session.holding.retain(|held, id| {
                let resumed = pg.is_none_or(|pg| pg == *held);
                if resumed {
                    out.push((*conn, *held, *id));
                }
                !resumed
            });
        }
        self.holding -= out.len();
        out.sort_unstable();
        out
    }
}
