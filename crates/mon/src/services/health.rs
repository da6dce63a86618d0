//! Health checks: what they look like, which are muted, and how the cluster log hears of changes.
//!
//! Owns the shapes and the mutes. What is checked is in `health_osd` and `health_pg`, by code; codes and texts are
//! Ceph's (v16.2 `src/mon/health_check.h`, `HealthMonitor.cc`).

use crate::format::Value;
use crate::object;
use crate::store::{BadStore, Batch, Image};
use base::{Duration, Instant};
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// How bad a check is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Severity {
    /// Nothing is wrong.
    #[default]
    Ok,
    /// Something is not as it should be.
    Warn,
    /// Data is unavailable or at risk.
    Error,
}

impl Severity {
    /// `HEALTH_WARN`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "HEALTH_OK",
            Severity::Warn => "HEALTH_WARN",
            Severity::Error => "HEALTH_ERR",
        }
    }

    /// `[WRN]`.
    pub fn tag(self) -> &'static str {
        match self {
            Severity::Ok => "[OK]",
            Severity::Warn => "[WRN]",
            Severity::Error => "[ERR]",
        }
    }
}

/// One failed check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Check {
    /// How bad.
    pub severity: Severity,
    /// One line.
    pub summary: String,
    /// One line for each case.
    pub detail: Vec<String>,
    /// How many things it is about; a mute ends when there are more.
    pub count: u64,
}

/// Failed checks by code.
pub type Checks = BTreeMap<&'static str, Check>;

/// A check that somebody does not want to hear of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mute {
    /// When it ends by itself.
    pub until: Option<Instant>,
    /// Whether it stays when the check gets better or worse.
    pub sticky: bool,
    /// The check's line when it was muted.
    pub summary: String,
    /// The check's count when it was muted.
    pub count: u64,
}

impl Encode for Mute {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.until.map(|at| at.0));
            e.bool(self.sticky);
            e.string(&self.summary);
            e.u64(self.count);
        });
    }
}

impl Decode for Mute {
    const MIN_BYTES: usize = 20;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("health mute", 1, |d, _| {
            let until: Option<u64> = d.get()?;
            Ok(Mute { until: until.map(Instant), sticky: d.bool()?, summary: d.string()?, count: d.u64()? })
        })
    }
}

/// The service.
#[derive(Debug, Default)]
pub struct HealthService {
    mutes: BTreeMap<String, Mute>,
    batch: Batch,
    /// What the cluster log was last told.
    logged: BTreeMap<&'static str, (Severity, String)>,
}

/// A line for the cluster log.
pub type HealthLine = (Severity, String);

impl HealthService {
    /// From the store.
    pub fn load(image: &Image) -> Result<HealthService, BadStore> {
        let mutes = image.decode("health", "mutes")?.unwrap_or_default();
        Ok(HealthService { mutes, ..HealthService::default() })
    }

    /// The mutes by code.
    pub fn mutes(&self) -> &BTreeMap<String, Mute> {
        &self.mutes
    }

    /// Mutes a check for a time or for good.
    pub fn mute(&mut self, now: Instant, code: &str, ttl: Option<Duration>, sticky: bool, check: Option<&Check>) {
        let check = check.cloned().unwrap_or_default();
        let mute = Mute { until: ttl.map(|ttl| now + ttl), sticky, summary: check.summary, count: check.count };
        self.mutes.insert(code.to_owned(), mute);
        self.keep();
    }

    /// Ends a mute, or all.
    pub fn unmute(&mut self, code: Option<&str>) {
        match code {
            Some(code) => drop(self.mutes.remove(code)),
            None => self.mutes.clear(),
        }
        self.keep();
    }

    fn keep(&mut self) {
        self.batch.encode("health", "mutes", &self.mutes);
    }

    /// Ends mutes whose time is over, or whose check went away or got worse.
    pub fn expire_mutes(&mut self, now: Instant, checks: &Checks) {
        let before = self.mutes.len();
        self.mutes.retain(|code, mute| {
            let over = mute.until.is_some_and(|until| until <= now);
            let check = checks.get(code.as_str());
            let changed = !mute.sticky && check.is_none_or(|check| check.count > mute.count);
            !over && !changed
        });
        if self.mutes.len() != before {
            self.keep();
        }
    }

    /// Whether a check is muted.
    pub fn is_muted(&self, code: &str) -> bool {
        self.mutes.contains_key(code)
    }

    /// The overall severity, and the checks that are not muted.
    pub fn overall<'a>(&self, checks: &'a Checks) -> (Severity, Vec<(&'static str, &'a Check)>) {
        let heard: Vec<_> =
            checks.iter().filter(|(code, _)| !self.mutes.contains_key(**code)).map(|(c, check)| (*c, check)).collect();
        (heard.iter().map(|(_, check)| check.severity).max().unwrap_or_default(), heard)
    }

    /// What the cluster log has not been told yet.
    pub fn changes(&mut self, checks: &Checks) -> Vec<HealthLine> {
        let mut lines = Vec::new();
        for (code, check) in checks {
            match self.logged.get(code) {
                None => lines.push((check.severity, format!("Health check failed: {} ({code})", check.summary))),
                Some((_, summary)) if *summary != check.summary => {
                    lines.push((check.severity, format!("Health check update: {} ({code})", check.summary)));
                }
                Some(_) => {}
            }
        }
        for (code, (_, summary)) in &self.logged {
            if !checks.contains_key(code) {
                lines.push((Severity::Ok, format!("Health check cleared: {code} (was: {summary})")));
            }
        }
        if checks.is_empty() && !self.logged.is_empty() {
            lines.push((Severity::Ok, "Cluster is now healthy".to_owned()));
        }
        self.logged = checks.iter().map(|(code, c)| (*code, (c.severity, c.summary.clone()))).collect();
        lines
    }

    /// Moves the unwritten changes to `batch`.
    pub fn flush(&mut self, batch: &mut Batch) {
        batch.append(&mut self.batch);
    }

    /// Whether there are unwritten changes.
    pub fn dirty(&self) -> bool {
        !self.batch.is_empty()
    }

    /// The members of `health`'s JSON.
    pub fn value(&self, checks: &Checks, detail: bool) -> Value {
        let shown = checks.iter().map(|(code, check)| {
            let mut value = object! {
                "severity" => check.severity.name(),
                "summary" => object! { "message" => check.summary.as_str(), "count" => check.count },
            };
            if detail {
                value.push("detail", Value::array(check.detail.iter().map(|line| object! { "message" => line })));
            }
            value.push("muted", self.mutes.contains_key(*code));
            (*code, value)
        });
        let mutes = self.mutes.iter().map(|(code, mute)| {
            let mut value = object! { "code" => code };
            if let Some(until) = mute.until {
                value.push("ttl", crate::format::quantity::local_time(until));
            }
            value.push("sticky", mute.sticky);
            value.push("summary", mute.summary.as_str());
            value.push("count", mute.count);
            value
        });
        object! {
            "status" => self.overall(checks).0.name(),
            "checks" => Value::members(shown),
            "mutes" => Value::array(mutes),
        }
    }
}
