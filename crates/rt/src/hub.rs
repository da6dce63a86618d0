//! Daemons of one process pass messages in memory: a mailbox each, and a directory of mailboxes by address.
//!
//! Owns delivery between threads, in order, whole batches under one lock and one wake-up. The contract is
//! `wire::net`'s; a session here never breaks while both daemons live, so lossless and lossy are alike.
//!
//! Read next: `local`, which keeps one daemon's ends of such sessions.

use base::hash::FixedHashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use wire::net::{Envelope, Peer};
use wire::types::{AddrVec, EntityAddr};

/// How many letters wait at one daemon before senders are cut off. Engines bound what they have in flight far below
/// this; reaching it means the receiver has stopped.
pub const MAILBOX_LETTERS_MAX: usize = 1 << 20;

/// Names a session between two daemons of this process, the same number at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LocalId(pub u64);

/// What one daemon puts into another's mailbox.
#[derive(Debug)]
pub enum Letter {
    /// The sender opens a session.
    Open {
        /// The session's name.
        session: LocalId,
        /// Who opens it.
        peer: Arc<Peer>,
        /// Where answers go.
        reply_to: Arc<Mailbox>,
    },
    /// The receiver of `Open` took the session.
    Accepted {
        /// The session's name.
        session: LocalId,
        /// Who accepted it.
        peer: Arc<Peer>,
    },
    /// A message on a session.
    Message {
        /// The session's name.
        session: LocalId,
        /// The message.
        envelope: Envelope,
    },
    /// The sender ends the session.
    Close {
        /// The session's name.
        session: LocalId,
    },
}

#[derive(Debug, Default)]
struct Letters {
    waiting: Vec<Letter>,
    closed: bool,
}

/// A daemon's mailbox.
#[derive(Debug, Default)]
pub struct Mailbox {
    letters: Mutex<Letters>,
    arrived: Notify,
}

impl Mailbox {
    /// Moves all of `letters` into the mailbox. False where its daemon is gone or has stopped reading: the letters
    /// are dropped.
    pub fn post(&self, letters: &mut Vec<Letter>) -> bool {
        let mut inner = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.closed || inner.waiting.len() + letters.len() > MAILBOX_LETTERS_MAX {
            letters.clear();
            return false;
        }
        let was_empty = inner.waiting.is_empty();
        inner.waiting.append(letters);
        drop(inner);
        if was_empty {
            self.arrived.notify_one();
        }
        true
    }

    /// Takes everything that has arrived, into an empty vector whose capacity is reused.
    pub fn take(&self, into: &mut Vec<Letter>) {
        debug_assert!(into.is_empty(), "the last batch was worked off");
        let mut inner = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut inner.waiting, into);
    }

    /// Waits until something has arrived.
    pub async fn arrival(&self) {
        self.arrived.notified().await;
    }

    /// Accepts nothing any more.
    pub fn close(&self) {
        let mut inner = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        inner.closed = true;
        inner.waiting.clear();
    }
}

#[derive(Debug, Default)]
struct Directory {
    mailboxes: FixedHashMap<EntityAddr, Arc<Mailbox>>,
    sessions: u64,
}

/// The directory of the daemons in this process.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    directory: Arc<Mutex<Directory>>,
}

impl Hub {
    /// Makes a daemon reachable under its addresses.
    pub fn register(&self, addrs: &AddrVec, mailbox: &Arc<Mailbox>) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        for addr in &addrs.0 {
            directory.mailboxes.insert(*addr, mailbox.clone());
        }
    }

    /// Makes a daemon unreachable again.
    pub fn unregister(&self, addrs: &AddrVec) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        for addr in &addrs.0 {
            directory.mailboxes.remove(addr);
        }
    }

    /// The mailbox of the daemon at these addresses, and a name for a new session with it.
    pub fn find(&self, addrs: &AddrVec) -> Option<(Arc<Mailbox>, LocalId)> {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let mailbox = addrs.0.iter().find_map(|a| directory.mailboxes.get(a)).cloned()?;
        directory.sessions += 1;
        Some((mailbox, LocalId(directory.sessions)))
    }
}
