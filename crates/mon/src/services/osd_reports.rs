//! What OSDs report of themselves and of each other: beacons, failures, how long somebody has been down.
//!
//! Owns the bookkeeping behind marking OSDs down and out; `osd_health` in the engine acts on it. Nothing here is
//! persisted: a new monitor gives everybody a fresh grace.

use crate::limits::FAILURE_REPORTERS_MAX;
use base::{Duration, Instant, OsdId};
use maps::OsdMap;
use std::collections::BTreeMap;

/// One OSD's complaint about another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// Since when the target does not answer.
    pub failed_since: Instant,
    /// When the complaint arrived.
    pub at: Instant,
}

/// The books.
#[derive(Debug, Default)]
pub struct OsdReports {
    heard: BTreeMap<OsdId, Instant>,
    complaints: BTreeMap<OsdId, BTreeMap<OsdId, Complaint>>,
    down_since: BTreeMap<OsdId, Instant>,
}

impl OsdReports {
    /// Books that begin now: everybody up was just heard from.
    pub fn new(now: Instant, map: &OsdMap) -> OsdReports {
        let heard = map.osd_ids().filter(|osd| map.is_up(*osd)).map(|osd| (osd, now)).collect();
        let mut reports = OsdReports { heard, ..OsdReports::default() };
        reports.follow(now, map);
        reports
    }

    /// An OSD gave a sign of life.
    pub fn heard_from(&mut self, osd: OsdId, now: Instant) {
        self.heard.insert(osd, now);
    }

    /// OSDs that are up and gave no sign of life for `limit`, with how long.
    pub fn silent(&self, now: Instant, map: &OsdMap, limit: Duration) -> Vec<(OsdId, Duration)> {
        let up = map.osd_ids().filter(|osd| map.is_up(*osd));
        let silence = |osd| self.heard.get(&osd).map(|at| (osd, now.since(*at)));
        up.filter_map(silence).filter(|(_, silence)| *silence > limit).collect()
    }

    /// OSDs that are down but in, with how long they have been down.
    pub fn down_and_in(&self, now: Instant) -> Vec<(OsdId, Duration)> {
        self.down_since.iter().map(|(osd, since)| (*osd, now.since(*since))).collect()
    }

    /// Takes a complaint; a reporter's first one counts.
    pub fn complain(&mut self, target: OsdId, reporter: OsdId, complaint: Complaint) {
        let reporters = self.complaints.entry(target).or_default();
        if reporters.len() < FAILURE_REPORTERS_MAX || reporters.contains_key(&reporter) {
            reporters.entry(reporter).or_insert(complaint);
        }
    }

    /// Takes a complaint back.
    pub fn withdraw(&mut self, target: OsdId, reporter: OsdId) {
        if let Some(reporters) = self.complaints.get_mut(&target) {
            reporters.remove(&reporter);
            if reporters.is_empty() {
                self.complaints.remove(&target);
            }
        }
    }

    /// The complaints about an OSD.
    pub fn complaints(&self, target: OsdId) -> impl Iterator<Item = (OsdId, Complaint)> {
        self.complaints.get(&target).into_iter().flatten().map(|(osd, c)| (*osd, *c))
    }

    /// Whether anybody complains about an OSD.
    pub fn is_suspect(&self, osd: OsdId) -> bool {
        self.complaints.contains_key(&osd)
    }

    /// The OSDs somebody complains about.
    pub fn suspects(&self) -> Vec<OsdId> {
        self.complaints.keys().copied().collect()
    }

    /// Follows a new map: complaints about and of OSDs that are down are void, clocks of down OSDs start.
    pub fn follow(&mut self, now: Instant, map: &OsdMap) {
        self.heard.retain(|osd, _| map.is_up(*osd));
        self.complaints.retain(|osd, reporters| {
            reporters.retain(|reporter, _| map.is_up(*reporter));
            map.is_up(*osd) && !reporters.is_empty()
        });
        self.down_since.retain(|osd, _| map.is_down(*osd) && map.is_in(*osd));
        for osd in map.osd_ids() {
            if map.is_up(osd) {
                self.heard.entry(osd).or_insert(now);
            } else if map.is_in(osd) {
                self.down_since.entry(osd).or_insert(now);
            }
        }
    }
}
