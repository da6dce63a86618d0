//! What we asked the monitor to keep us informed of.
//!
//! Follows Ceph v16.2 `src/mon/MonSub.cc`. Invariant: on a new session everything is asked for again, from the version
//! after the last one that came.

use std::collections::{BTreeMap, BTreeSet};
use wire::messages::{MonSubscribe, Subscription};

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: BTreeMap<String, Subscription>,
    unsent: BTreeSet<String>,
}

impl Subscriptions {
    /// Asks for `what` from version `start`, once or for ever. Asking for the same again asks the monitor again.
    pub(crate) fn want(&mut self, what: &str, start: u64, onetime: bool) {
        self.wanted.insert(what.to_owned(), Subscription { start, onetime });
        self.unsent.insert(what.to_owned());
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
        self.unsent = self.wanted.keys().cloned().collect();
    }

    /// The message that asks for what has not been asked for on this session.
    pub(crate) fn message(&mut self, hostname: &str) -> Option<MonSubscribe> {
        let unsent = core::mem::take(&mut self.unsent);
        let what = |name| Some((String::clone(name), *self.wanted.get(name)?));
        let what: BTreeMap<_, _> = unsent.iter().filter_map(what).collect();
        (!what.is_empty()).then(|| MonSubscribe { what, hostname: hostname.to_owned() })
    }
}
