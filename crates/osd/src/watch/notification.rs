//! One notification on its way: who has not answered yet, and what the others said.
//!
//! Follows Ceph v16.2 `src/osd/Watch.cc` (`Notify`): it ends when every watcher has answered or gone, or when its time
//! is up; then the notifier hears who said what and who did not answer.

use super::record::WatchName;
use base::{Errno, Instant};
use bytes::Bytes;
use std::collections::BTreeSet;
use store::ObjectId;
use wire::Encode;
use wire::messages::{WatchNotify, watch_event};
use wire::net::ConnId;
use wire::osd::payload::NotifyReply;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// Its number.
    pub id: u64,
    /// The object.
    pub object: ObjectId,
    /// The notifier's session, while it stands.
    pub conn: Option<ConnId>,
    /// The notifier.
    pub client: u64,
    /// The notifier's handle.
    pub cookie: u64,
    /// The object's version that users see.
    pub version: u64,
    /// What the watchers get.
    pub payload: Bytes,
    /// When to stop waiting.
    pub deadline: Instant,
    /// Who has not answered.
    pub waiting: BTreeSet<WatchName>,
    /// What the others said, by client and handle.
    pub answers: Vec<((u64, u64), Bytes)>,
}

/// A watch as notifiers see it: client number and handle.
fn shown(watch: &WatchName) -> (u64, u64) {
    (watch.entity.num as u64, watch.cookie)
}

impl Notification {
    /// What the watcher `cookie` gets.
    pub fn call(&self, cookie: u64) -> WatchNotify {
        WatchNotify {
            event: watch_event::NOTIFY,
            cookie,
            version: self.version,
            notify_id: self.id,
            payload: self.payload.clone(),
            notifier: self.client,
            ..WatchNotify::default()
        }
    }

    /// Takes a watcher's answer; false if none was expected.
    pub fn answer(&mut self, watch: &WatchName, payload: Bytes) -> bool {
        let expected = self.waiting.remove(watch);
        if expected {
            self.answers.push((shown(watch), payload));
        }
        expected
    }

    /// What the notifier gets at the end; those who are still waited for have not answered in time.
    pub fn complete(mut self) -> WatchNotify {
        self.answers.sort_by_key(|(who, _)| *who);
        let missed: Vec<_> = self.waiting.iter().map(shown).collect();
        WatchNotify {
            event: watch_event::NOTIFY_COMPLETE,
            cookie: self.cookie,
            version: self.version,
            notify_id: self.id,
            payload: Bytes::new(),
            result: if missed.is_empty() { 0 } else { Errno::ETIMEDOUT.code() },
            notifier: self.client,
            replies: NotifyReply { answers: self.answers, missed }.to_bytes(),
        }
    }

    /// The bytes it holds.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.answers.iter().map(|(_, payload)| payload.len()).sum::<usize>()
    }
}
