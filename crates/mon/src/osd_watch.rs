//! OSDs that fail, leave or stay away: marking them down and out.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_failure`, `check_failure`, `prepare_mark_me_down`,
//! `handle_osd_timeouts`, `tick`). A refused connection is evidence enough from one reporter. Otherwise
//! `mon_osd_min_down_reporters` of them are needed; where that many could never be found (all others are down or
//! themselves complained about), fewer do after twice the grace, so that a small cluster does not wait for ever.

use crate::crush_view;
use crate::mon::Mon;
use crate::services::log::LogLevel as ClusterLevel;
use crate::services::osd_reports::Complaint;
use base::{Duration, Epoch, Instant, OsdId};
use maps::osd_map::MapFlags;
use maps::{OsdMap, OsdState};
use std::collections::BTreeSet;
use wire::messages::{OsdFailure, OsdFull, OsdMarkMeDead, OsdMarkMeDown, OsdPgTemp, osd_failure};
use wire::net::ConnId;

/// Whether a flag holds for an OSD: set for the cluster, for the OSD itself, for a bucket above it, or for its device
/// class (v16.2 `src/mon/OSDMonitor.cc`, `OSDMonitor::is_osd_noup` and its like).
pub(crate) fn is_flagged(map: &OsdMap, osd: OsdId, flag: MapFlags, state: OsdState) -> bool {
    let set = |flags: Option<&u32>| flags.is_some_and(|bits| OsdState(*bits).contains(state));
    let of_node = || {
        let mut at = Some(osd.0);
        let mut nodes = core::iter::from_fn(|| {
            let node = at?;
            at = crush_view::parent(&map.crush, node);
            Some(node)
        });
        nodes.by_ref().take(map.crush.max_buckets() + 1).any(|node| set(map.crush_node_flags.get(&node)))
    };
    let of_class = || {
        let class = map.device_class(osd).and_then(|name| map.crush.class_id(name));
        class.is_some_and(|class| set(map.device_class_flags.get(&class)))
    };
    map.flags.contains(flag)
        || map.state(osd).contains(state)
        || (!map.crush_node_flags.is_empty() && of_node())
        || (!map.device_class_flags.is_empty() && of_class())
}

impl Mon {
    /// An OSD complains about another, or takes it back.
    pub(crate) fn report_failure(&mut self, now: Instant, reporter: OsdId, m: &OsdFailure) {
        let map = self.osds.map();
        let stale = map.addrs(m.target).is_none_or(|a| a.client != m.target_addrs);
        if m.fsid != self.config.fsid || !map.is_up(reporter) || !map.is_up(m.target) || stale {
            return;
        }
        if m.flags & osd_failure::FAILED == 0 {
            self.reports.withdraw(m.target, reporter);
            return;
        }
        if self.is_protected(m.target, MapFlags::NODOWN, OsdState::NODOWN) {
            return;
        }
        if m.flags & osd_failure::IMMEDIATE != 0 {
            let place = crush_view::location_text(&self.osds.map().crush, m.target.0);
            let text = format!("osd.{} failed ({place}) (connection refused reported by osd.{reporter})", m.target);
            if self.mark_failed(now, m.target, text) {
                // A process that is gone answers nobody: others need not wait until it surely knows of this.
                self.set_dead_epoch(m.target, self.osds.map().epoch);
            }
            return;
        }
        let failed_for = Duration::from_secs(u64::try_from(m.failed_for_s).unwrap_or(0));
        self.reports.complain(m.target, reporter, Complaint { failed_since: now - failed_for, at: now });
        self.judge_failure(now, m.target);
    }

    /// Marks an OSD down if enough others say that it does not answer.
    fn judge_failure(&mut self, now: Instant, target: OsdId) {
        let grace = Duration::from_secs_f64(self.option_number("osd_heartbeat_grace").max(0.0));
        let wanted = self.option_number("mon_osd_min_down_reporters").max(1.0) as usize;
        let level = self.option("mon_osd_reporter_subtree_level");
        let map = self.osds.map();
        let group = |osd: OsdId| crush_view::ancestor_of_type(&map.crush, osd.0, &level).unwrap_or(osd.0);
        let hosts: BTreeSet<i32> = map.osd_ids().filter(|osd| map.is_up(*osd)).map(group).collect();
        // Below one single bucket everybody counts for itself.
        let counts_as = |osd: OsdId| if hosts.len() > 1 { group(osd) } else { osd.0 };
        let reporters: BTreeSet<i32> = self.reports.complaints(target).map(|(osd, _)| counts_as(osd)).collect();
        let failed_since = self.reports.complaints(target).map(|(_, c)| c.failed_since).max();
        let Some(failed_for) = failed_since.map(|since| now.since(since)) else { return };
        if failed_for < grace {
            return;
        }
        let trusted = |osd: &OsdId| map.is_up(*osd) && *osd != target && !self.reports.is_suspect(*osd);
        let possible: BTreeSet<i32> = map.osd_ids().filter(trusted).map(counts_as).collect();
        let enough = reporters.len() >= wanted || (failed_for >= grace * 2 && reporters.len() >= possible.len().max(1));
        if enough {
            let place = crush_view::location_text(&map.crush, target.0);
            let (count, secs) = (reporters.len(), failed_for.as_secs_f64());
            let grace = grace.as_secs_f64();
            let text = format!("osd.{target} failed ({place}) ({count} reporters after {secs:.6} >= grace {grace:.6})");
            self.mark_failed(now, target, text);
        }
    }

    /// Says whether it was.
    fn mark_failed(&mut self, now: Instant, target: OsdId, text: String) -> bool {
        let counts = self.osds.upcoming().osd_counts();
        let ratio = counts.up.saturating_sub(1) as f64 / counts.exist.max(1) as f64;
        if !self.osds.upcoming().is_up(target) || ratio < self.option_number("mon_osd_min_up_ratio") {
            return false;
        }
        self.osds.mark_down(target);
        self.cluster_log(now, ClusterLevel::INFO, "cluster", text);
        true
    }

    /// An OSD says that it stops.
    pub(crate) fn mark_me_down(&mut self, now: Instant, conn: ConnId, tid: u64, osd: OsdId, m: OsdMarkMeDown) {
        let map = self.osds.upcoming();
        let current = map.is_up(osd) && map.addrs(osd).is_some_and(|a| a.client == m.target_addrs);
        if m.target != osd || m.fsid != self.config.fsid {
            return;
        }
        if current {
            let dead = if m.down_and_dead { " and dead" } else { "" };
            self.cluster_log(now, ClusterLevel::INFO, "cluster", format!("osd.{osd} marked itself down{dead}"));
            self.osds.mark_down(osd);
            if m.down_and_dead {
                self.set_dead_epoch(osd, m.epoch);
            }
            self.urgent = true;
        }
        if m.request_ack {
            self.reply(conn, tid, OsdMarkMeDown { request_ack: false, ..m });
        }
    }

    /// An OSD that is down says that it knows.
    pub(crate) fn mark_me_dead(&mut self, osd: OsdId, m: &OsdMarkMeDead) {
        if m.target == osd && m.fsid == self.config.fsid && self.osds.upcoming().is_down(osd) {
            self.set_dead_epoch(osd, m.epoch);
        }
    }

    pub(crate) fn set_dead_epoch(&mut self, osd: OsdId, epoch: Epoch) {
        let Some(mut xinfo) = self.osds.upcoming().xinfo(osd).copied() else { return };
        if self.osds.upcoming().exists(osd) && xinfo.dead_epoch < epoch {
            xinfo.dead_epoch = epoch;
            self.osds.change().new_xinfo.insert(osd, xinfo);
        }
    }

    /// An OSD says how full it is.
    pub(crate) fn report_full(&mut self, osd: OsdId, m: &OsdFull) {
        let bits = OsdState::FULL.with(OsdState::BACKFILLFULL).with(OsdState::NEARFULL);
        let have = self.osds.upcoming().state(osd);
        let flip = OsdState((have.0 ^ m.state) & bits.0);
        if self.osds.upcoming().is_up(osd) && flip != OsdState::default() {
            self.osds.flip_state(osd, flip);
        }
    }

    /// A primary asks for temporary acting sets.
    pub(crate) fn request_pg_temp(&mut self, osd: OsdId, m: OsdPgTemp) {
        let map = self.osds.map();
        if !map.is_up(osd) || m.epoch < map.info(osd).map_or(Epoch(0), |i| i.up_from) {
            return;
        }
        for (pg, wish) in m.pg_temp {
            let next = self.osds.upcoming();
            let members_exist = wish.iter().all(|osd| next.exists(*osd));
            let leads =
                next.pg_to_up_acting(pg).concerns(osd) || next.pg_temp.get(&pg).is_some_and(|t| t.contains(&osd));
            let same = next.pg_temp.get(&pg).map_or(wish.is_empty(), |have| *have == wish);
            let pinned = next.primary_temp.contains_key(&pg);
            if next.pg_exists(pg) && members_exist && leads && (m.forced || pinned || !same) {
                self.raise_up_thru(osd, m.epoch);
                // The wish says who leads, too: by the order of its members.
                let change = self.osds.change();
                change.new_pg_temp.insert(pg, wish);
                if pinned {
                    change.new_primary_temp.insert(pg, OsdId::NONE);
                }
            }
        }
    }

    /// Marks silent OSDs down, judges complaints again, marks out who is down for long.
    pub(crate) fn watch_osds(&mut self, now: Instant) {
        for suspect in self.reports.suspects() {
            self.judge_failure(now, suspect);
        }
        let timeout = Duration::from_secs_f64(self.option_number("mon_osd_report_timeout").max(1.0));
        for (osd, silence) in self.reports.silent(now, self.osds.map(), timeout) {
            if self.is_protected(osd, MapFlags::NODOWN, OsdState::NODOWN) || !self.osds.upcoming().is_up(osd) {
                continue;
            }
            self.osds.mark_down(osd);
            let text = format!("osd.{osd} marked down after no beacon for {:.6} seconds", silence.as_secs_f64());
            self.cluster_log(now, ClusterLevel::INFO, "cluster", text);
        }
        let interval = self.option_number("mon_osd_down_out_interval");
        if interval > 0.0 {
            self.mark_out_absent(now, Duration::from_secs_f64(interval));
        }
    }

    fn mark_out_absent(&mut self, now: Instant, interval: Duration) {
        for (osd, absence) in self.reports.down_and_in(now) {
            let counts = self.osds.upcoming().osd_counts();
            let ratio = counts.r#in.saturating_sub(1) as f64 / counts.exist.max(1) as f64;
            let protected = self.is_protected(osd, MapFlags::NOOUT, OsdState::NOOUT);
            let due = absence >= interval && self.osds.upcoming().is_in(osd) && self.osds.upcoming().is_down(osd);
            let enough = ratio >= self.option_number("mon_osd_min_in_ratio");
            if !due || protected || !enough || self.whole_subtree_is_down(osd) {
                continue;
            }
            let mut xinfo = self.osds.upcoming().xinfo(osd).copied().unwrap_or_default();
            xinfo.old_weight = self.osds.upcoming().weight(osd);
            self.osds.change().new_xinfo.insert(osd, xinfo);
            self.osds.set_weight(osd, 0);
            if !self.osds.upcoming().state(osd).contains(OsdState::AUTOOUT) {
                self.osds.flip_state(osd, OsdState::AUTOOUT);
            }
            let text = format!("Marking osd.{osd} out (has been down for {} seconds)", absence.as_secs());
            self.cluster_log(now, ClusterLevel::INFO, "cluster", text);
        }
    }

    /// Whether all of a rack (`mon_osd_down_out_subtree_limit`) is down: then the network is more likely at fault.
    fn whole_subtree_is_down(&self, osd: OsdId) -> bool {
        let map = self.osds.map();
        let limit = self.option("mon_osd_down_out_subtree_limit");
        let Some(bucket) = crush_view::ancestor_of_type(&map.crush, osd.0, &limit) else { return false };
        crush_view::osds_below(&map.crush, bucket).into_iter().all(|osd| map.is_down(osd))
    }

    /// Whether a flag of the cluster, the OSD itself, a bucket above it or its device class forbids a change.
    pub(crate) fn is_protected(&self, osd: OsdId, flag: MapFlags, state: OsdState) -> bool {
        is_flagged(self.osds.map(), osd, flag, state)
    }

    /// Lets in clients whose time on the blocklist is over.
    pub(crate) fn expire_blocklist(&mut self, now: Instant) {
        let over = |until: &wire::types::UTime| Instant::from(*until) <= now;
        let expired: Vec<_> = self.osds.map().blocklist.iter().filter(|(_, u)| over(u)).map(|(a, _)| *a).collect();
        for addr in expired {
            let old = &mut self.osds.change().old_blocklist;
            if !old.contains(&addr) {
                old.push(addr);
            }
        }
        let ranges = &self.osds.map().range_blocklist;
        let expired: Vec<_> = ranges.iter().filter(|(_, u)| over(u)).map(|(a, _)| *a).collect();
        for range in expired {
            let old = &mut self.osds.change().old_range_blocklist;
            if !old.contains(&range) {
                old.push(range);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn flags_hold_for_what_lies_below_and_for_classes() {
        let mut map = OsdMap::new(Default::default());
        let mut crush = crush::CrushMap::simple("host").expect("host is a type");
        for (osd, host) in [(0, "a"), (1, "b")] {
            let place = [("root", "default"), ("host", host)].map(|(kind, name)| (kind.to_owned(), name.to_owned()));
            crush.insert_item(osd, 0x1_0000, &format!("osd.{osd}"), &place.into_iter().collect()).expect("a place");
        }
        crush.set_device_class(1, "ssd").expect("a class");
        let (host, class) = (crush.item_id("a").expect("a host"), crush.class_id("ssd").expect("a class"));
        map.crush = Arc::new(crush);
        map.set_max_osd(2);
        let noout = |map: &OsdMap| [0, 1].map(|osd| is_flagged(map, OsdId(osd), MapFlags::NOOUT, OsdState::NOOUT));
        assert_eq!(noout(&map), [false, false]);
        map.crush_node_flags.insert(host, OsdState::NOOUT.0);
        assert_eq!(noout(&map), [true, false]);
        map.crush_node_flags.insert(host, OsdState::NOIN.0);
        map.device_class_flags.insert(class, OsdState::NOOUT.0);
        assert_eq!(noout(&map), [false, true]);
        map.flags = MapFlags::NOOUT;
        assert_eq!(noout(&map), [true, true]);
    }
}
