//! The cluster log: what daemons and the monitor itself have to say, kept for `log last` and sent to those who watch.
//!
//! Owns the lines and their numbers (v16.2 `src/mon/LogMonitor.cc`, `src/common/LogEntry.cc`). Lines are written with
//! whatever batch comes next, or at the next tick: losing the newest in a crash costs nobody anything. A sender's line
//! that is there already (resent) is not kept twice; lines without a number are always new.

use crate::format::{Value, quantity};
use crate::limits::{LOG_LINE_BYTES_MAX, LOG_LINES_MAX};
use crate::object;
use crate::store::{BadStore, Batch, Image, decode_value};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::codec::Encode;
use wire::messages::LogEntry;
use wire::types::AddrVec;

/// Levels of lines (`clog_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogLevel(pub u16);

impl LogLevel {
    /// For developers.
    pub const DEBUG: LogLevel = LogLevel(0);
    /// Ordinary events.
    pub const INFO: LogLevel = LogLevel(1);
    /// Security.
    pub const SEC: LogLevel = LogLevel(2);
    /// Something is not as it should be.
    pub const WARN: LogLevel = LogLevel(3);
    /// Something failed.
    pub const ERROR: LogLevel = LogLevel(4);

    /// The level that `log last` and subscriptions name.
    pub fn from_name(name: &str) -> Option<LogLevel> {
        match name {
            "debug" => Some(LogLevel::DEBUG),
            "info" => Some(LogLevel::INFO),
            "sec" | "security" => Some(LogLevel::SEC),
            "warn" | "warning" => Some(LogLevel::WARN),
            "error" => Some(LogLevel::ERROR),
            _ => None,
        }
    }

    /// As it stands in a line.
    pub fn tag(self) -> &'static str {
        match self.0 {
            0 => "[DBG]",
            1 => "[INF]",
            2 => "[SEC]",
            3 => "[WRN]",
            4 => "[ERR]",
            _ => "[???]",
        }
    }
}

/// The service.
#[derive(Debug, Default)]
pub struct LogService {
    /// Lines by number, from 1.
    lines: BTreeMap<u64, LogEntry>,
    next: u64,
    /// The last line of each sender: a resent one has no higher number.
    seen: BTreeMap<(String, String), (AddrVec, u64)>,
    batch: Batch,
}

impl LogService {
    /// From the store.
    pub fn load(image: &Image) -> Result<LogService, BadStore> {
        let mut service = LogService::default();
        for (key, value) in image.prefix("log") {
            let Ok(number) = key.parse::<u64>() else { continue };
            service.lines.insert(number, decode_value("log", key, value)?);
            service.next = number;
        }
        Ok(service)
    }

    /// The number of the newest line.
    pub fn newest(&self) -> u64 {
        self.next
    }

    /// Adds a line; false where it was there already.
    pub fn add(&mut self, mut entry: LogEntry) -> bool {
        let sender = (sender_name(&entry), entry.channel.clone());
        if let Some((addrs, seq)) = self.seen.get(&sender)
            && *addrs == entry.addrs
            && entry.seq <= *seq
            && entry.seq != 0
        {
            return false;
        }
        if entry.seq != 0 {
            self.seen.insert(sender, (entry.addrs.clone(), entry.seq));
        }
        while self.seen.len() > LOG_LINES_MAX {
            self.seen.pop_first();
        }
        let cut = entry.text.floor_char_boundary(LOG_LINE_BYTES_MAX);
        entry.text.truncate(cut);
        self.next += 1;
        self.batch.put("log", format!("{:020}", self.next), entry.to_bytes());
        self.lines.insert(self.next, entry);
        while self.lines.len() > LOG_LINES_MAX {
            if let Some((old, _)) = self.lines.pop_first() {
                self.batch.remove("log", format!("{old:020}"));
            }
        }
        true
    }

    /// The lines from number `from` on, of at least `level`.
    pub fn since(&self, from: u64, level: LogLevel) -> impl Iterator<Item = &LogEntry> {
        self.lines.range(from..).map(|(_, line)| line).filter(move |line| line.level >= level.0)
    }

    /// The last `count` lines of at least `level`; `*` stands for every channel.
    pub fn last(&self, count: usize, level: LogLevel, channel: &str) -> Vec<&LogEntry> {
        let wanted = |line: &&LogEntry| line.level >= level.0 && (channel == "*" || line.channel == channel);
        let mut lines: Vec<_> = self.lines.values().rev().filter(wanted).take(count).collect();
        lines.reverse();
        lines
    }

    /// Moves the unwritten lines to `batch`.
    pub fn flush(&mut self, batch: &mut Batch) {
        batch.append(&mut self.batch);
    }

    /// Whether there are unwritten lines.
    pub fn dirty(&self) -> bool {
        !self.batch.is_empty()
    }
}

fn sender_name(e: &LogEntry) -> String {
    format!("{}.{}", e.name.kind.name(), e.name.id)
}

/// A line as people read it.
pub fn plain_line(e: &LogEntry) -> String {
    let stamp = quantity::local_time(e.stamp.into());
    let tag = LogLevel(e.level).tag();
    format!("{stamp} {} ({}) {} : {} {tag} {}", sender_name(e), e.rank, e.seq, e.channel, e.text)
}

/// A line as programs read it.
pub fn line_value(e: &LogEntry) -> Value {
    object! {
        "name" => sender_name(e),
        "rank" => e.rank.to_string(),
        "addrs" => crate::format::address::addr_vec(&e.addrs),
        "stamp" => quantity::local_time(e.stamp.into()),
        "seq" => e.seq,
        "channel" => e.channel.as_str(),
        "priority" => LogLevel(e.level).tag(),
        "message" => e.text.as_str(),
    }
}

/// Lines as data for `log last`.
pub fn plain_lines(lines: &[&LogEntry]) -> Bytes {
    lines.iter().map(|line| plain_line(line) + "\n").collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::OsdId;
    use wire::types::{EntityName, EntityType, UTime};

    fn entry(seq: u64, level: LogLevel, text: &str) -> LogEntry {
        LogEntry {
            name: wire::messages::AuthName { kind: EntityType::OSD, id: "3".to_owned() },
            rank: EntityName::osd(OsdId(3)),
            addrs: AddrVec::default(),
            stamp: UTime { secs: 1_795_291_110, nanos: 236_206_000 },
            seq,
            level: level.0,
            text: text.to_owned(),
            channel: "cluster".to_owned(),
        }
    }

    #[test]
    fn lines_are_kept_once_bounded_and_over_a_restart() {
        let mut log = LogService::default();
        assert!(log.add(entry(1, LogLevel::INFO, "one")));
        assert!(!log.add(entry(1, LogLevel::INFO, "one")));
        for seq in 2..(LOG_LINES_MAX as u64 + 10) {
            log.add(entry(seq, LogLevel::WARN, &"é".repeat(LOG_LINE_BYTES_MAX)));
            log.lines.values_mut().for_each(|line| line.text.truncate(8));
        }
        assert_eq!(log.lines.len(), LOG_LINES_MAX);
        assert_eq!(log.last(2, LogLevel::WARN, "*").len(), 2);
        assert!(log.last(2, LogLevel::ERROR, "*").is_empty() && log.last(2, LogLevel::INFO, "audit").is_empty());
        let (mut batch, mut image) = (Batch::default(), Image::default());
        log.flush(&mut batch);
        image.apply(&batch.into_writes());
        let again = LogService::load(&image).expect("it reads");
        assert_eq!((again.next, again.lines.len()), (log.next, log.lines.len()));
    }

    #[test]
    fn a_line_looks_like_cephs() {
        let line = plain_line(&entry(7, LogLevel::WARN, "slow"));
        assert_eq!(line, "2026-11-21T19:58:30.236206+0000 osd.3 (osd.3) 7 : cluster [WRN] slow");
    }
}
