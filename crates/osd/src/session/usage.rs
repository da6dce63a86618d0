//! What the requests of a session use, wherever they are: counted from their arrival to their answer.

use crate::scheduler::UnderWay;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// What all requests of a session use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

impl Usage {
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

/// What those in one placement group use.
#[derive(Debug)]
pub(super) struct PgUsage {
    session: Arc<Usage>,
    requests: AtomicUsize,
    /// Goes up when what is queued is dropped.
    turn: AtomicU32,
}

impl PgUsage {
    pub(super) fn of(session: &Arc<Usage>) -> PgUsage {
        PgUsage { session: Arc::clone(session), requests: AtomicUsize::new(0), turn: AtomicU32::new(0) }
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Relaxed)
    }

    /// Has the requests that are queued now dropped when it is their turn.
    pub(super) fn void_queued(&self) {
        self.turn.fetch_add(1, Relaxed);
    }
}

/// A request's part of what its session uses; given back when the request is gone.
#[derive(Debug)]
pub struct Share {
    usage: Arc<PgUsage>,
    bytes: usize,
    turn: u32,
    /// Tells the scheduler when the request is done, if it wants to know.
    under_way: Option<UnderWay>,
}

impl Share {
    pub(super) fn take(usage: &Arc<PgUsage>, bytes: usize) -> Share {
        usage.requests.fetch_add(1, Relaxed);
        usage.session.requests.fetch_add(1, Relaxed);
        usage.session.bytes.fetch_add(bytes, Relaxed);
        Share { usage: Arc::clone(usage), bytes, turn: usage.turn.load(Relaxed), under_way: None }
    }

    /// Lets go of `under_way` when the request is done.
    pub(crate) fn until_done(&mut self, under_way: Option<UnderWay>) {
        self.under_way = under_way;
    }

    /// Whether the request, which was queued, is to be dropped: one before it was, and its client sends both again.
    pub(crate) fn is_void(&self) -> bool {
        self.turn != self.usage.turn.load(Relaxed)
    }

    /// That of a request which no session has sent.
    pub fn none() -> Share {
        Share::take(&Arc::new(PgUsage::of(&Arc::default())), 0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.usage.requests.fetch_sub(1, Relaxed);
        self.usage.session.requests.fetch_sub(1, Relaxed);
        self.usage.session.bytes.fetch_sub(self.bytes, Relaxed);
    }
}
