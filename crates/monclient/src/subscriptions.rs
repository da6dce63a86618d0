//! What we asked the monitor to keep us informed of.
//!
//! Follows Ceph v16.2 `src/mon/MonSub.cc`. Invariant: on a new session everything is asked for again, from the version
//! after the last one that came.

use std::collections::BTreeMap;
use wire::messages::{MonSubscribe, Subscription};

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: BTreeMap<String, Subscription>,
    unsent: bool,
}

impl Subscriptions {
    /// Asks for `what` from version `start`, once or for ever.
    pub(crate) fn want(&mut self, what: &str, start: u64, onetime: bool) {
        let new = Subscription { start, onetime };
        if self.wanted.get(what) != Some(&new) {
            self.wanted.insert(what.to_owned(), new);
            self.unsent = true;
        }
    }

    /// Asks for nothing more of `what`. A monitor that was asked already goes on until the session ends.
    pub(crate) fn unwant(&mut self, what: &str) {
        self.wanted.remove(what);
    }

    /// Notes that version `have` of `what` came.
    pub(crate) fn got(&mut self, what: &str, have: u64) {
        let Some(wanted) = self.wanted.get_mut(what).filter(|w| w.start <= have) else { return };
        if wanted.onetime {
            self.wanted.remove(what);
        } else {
            wanted.start = have.saturating_add(1);
        }
    }

    /// A new session has heard nothing yet.
    pub(crate) fn new_session(&mut self) {
        self.unsent = !self.wanted.is_empty();
    }

    /// The message that asks for what has not been asked for on this session.
    pub(crate) fn message(&mut self, hostname: &str) -> Option<MonSubscribe> {
        core::mem::take(&mut self.unsent)
            .then(|| MonSubscribe { what: self.wanted.clone(), hostname: hostname.to_owned() })
    }
}
