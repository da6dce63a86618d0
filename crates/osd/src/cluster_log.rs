//! Lines for the cluster log, on their way to the monitor.
//!
//! Owns their numbers and their keeping until the monitor has them (v16.2 `src/common/LogClient.cc`): a lost session
//! loses no line, and the monitor knows a line that it gets twice by its number.

use crate::config::OsdConfig;
use crate::limits::CLUSTER_LOG_LINES_MAX;
use base::Instant;
use std::collections::VecDeque;
use wire::messages::{AuthName, Log, LogAck, LogEntry, PaxosHead};
use wire::types::{AddrVec, EntityName, EntityType, Uuid};

/// How bad a line is (`clog_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level(pub u16);

impl Level {
    /// For developers.
    pub const DEBUG: Level = Level(0);
    /// Ordinary events.
    pub const INFO: Level = Level(1);
    /// Something is not as it should be.
    pub const WARN: Level = Level(3);
    /// Something failed.
    pub const ERROR: Level = Level(4);
}

/// The most lines in one message (`mon_client_max_log_entries_per_message`).
const LINES_PER_MESSAGE_MAX: usize = 1000;

/// The channel of daemons' own lines.
const CHANNEL: &str = "cluster";

/// The lines that the monitor has not confirmed.
#[derive(Debug)]
pub struct ClusterLog {
    name: AuthName,
    rank: EntityName,
    addrs: AddrVec,
    fsid: Uuid,
    waiting: VecDeque<LogEntry>,
    /// How many of them have been sent on this session.
    sent: usize,
    seq: u64,
}

impl ClusterLog {
    /// The log of an OSD that has said nothing yet.
    pub fn new(config: &OsdConfig) -> ClusterLog {
        ClusterLog {
            name: AuthName { kind: EntityType::OSD, id: config.id.to_string() },
            rank: EntityName::osd(config.id),
            addrs: config.public_addrs.clone(),
            fsid: config.fsid,
            waiting: VecDeque::new(),
            sent: 0,
            seq: 0,
        }
    }

    /// Says something. Where too much waits already the oldest line is forgotten.
    pub fn line(&mut self, now: Instant, level: Level, text: impl Into<String>) {
        if self.waiting.len() >= CLUSTER_LOG_LINES_MAX {
            self.waiting.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
        self.seq += 1;
        self.waiting.push_back(LogEntry {
            name: self.name.clone(),
            rank: self.rank,
            addrs: self.addrs.clone(),
            stamp: now.into(),
            seq: self.seq,
            level: level.0,
            text: text.into(),
            channel: CHANNEL.to_owned(),
        });
    }

    /// The session is new: everything unconfirmed is sent again.
    pub fn send_again(&mut self) {
        self.sent = 0;
    }

    /// Whether there is something to send.
    pub fn is_due(&self) -> bool {
        self.sent < self.waiting.len()
    }

    /// What to send now.
    pub fn message(&mut self) -> Option<Log> {
        let entries: Vec<LogEntry> = self.waiting.iter().skip(self.sent).take(LINES_PER_MESSAGE_MAX).cloned().collect();
        self.sent += entries.len();
        (!entries.is_empty()).then(|| Log { paxos: PaxosHead::new(0), fsid: self.fsid, entries })
    }

    /// The monitor has everything up to a number.
    pub fn acknowledged(&mut self, ack: &LogAck) {
        if ack.fsid != self.fsid || ack.channel != CHANNEL {
            return;
        }
        while self.waiting.front().is_some_and(|entry| entry.seq <= ack.last) {
            self.waiting.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> ClusterLog {
        ClusterLog {
            name: AuthName { kind: EntityType::OSD, id: "3".to_owned() },
            rank: EntityName::osd(base::OsdId(3)),
            addrs: AddrVec::default(),
            fsid: Uuid::default(),
            waiting: VecDeque::new(),
            sent: 0,
            seq: 0,
        }
    }

    #[test]
    fn a_line_is_sent_until_it_is_confirmed() {
        let mut log = log();
        assert_eq!(log.message(), None);
        for text in ["one", "two"] {
            log.line(Instant::from_secs(5), Level::WARN, text);
        }
        let texts = |log: Option<Log>| log.map(|l| l.entries.into_iter().map(|e| e.text).collect::<Vec<_>>());
        assert_eq!(texts(log.message()), Some(vec!["one".to_owned(), "two".to_owned()]));
        assert!(!log.is_due() && log.message().is_none());
        let ack = |last| LogAck { fsid: Uuid::default(), last, channel: "cluster".to_owned() };
        log.acknowledged(&ack(1));
        log.send_again();
        assert_eq!(texts(log.message()), Some(vec!["two".to_owned()]));
        log.acknowledged(&ack(2));
        log.send_again();
        assert_eq!(log.message(), None);
    }

    #[test]
    fn an_endless_talker_keeps_to_the_bound() {
        let mut log = log();
        (0..CLUSTER_LOG_LINES_MAX + 7).for_each(|n| log.line(Instant::ZERO, Level::INFO, n.to_string()));
        let first = log.message().expect("lines wait").entries.remove(0);
        assert_eq!((first.seq, log.waiting.len()), (8, CLUSTER_LOG_LINES_MAX));
    }
}
