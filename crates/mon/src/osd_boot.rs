//! OSDs that come up: what a boot changes in the map.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`preprocess_boot`, `prepare_boot`). An OSD whose id is not in the map yet
//! is entered by its boot, since its key was given out for that id; an OSD that the map thinks up from another address
//! is marked down first, and its boot waits for that epoch.

use crate::genesis::{default_location, weight_of_size};
use crate::mon::{LogLevel, Mon};
use crate::osd_watch::is_flagged;
use crate::services::log::LogLevel as ClusterLevel;
use crate::services::osd_map::IN;
use base::{Epoch, Instant, OsdId};
use maps::osd_map::MapFlags;
use maps::{OsdAddrs, OsdState};
use wire::messages::OsdBoot;
use wire::net::ConnId;
use wire::types::{EntityName, Uuid};

impl Mon {
    /// Takes an OSD's word that it is ready.
    pub(crate) fn boot_osd(&mut self, now: Instant, conn: ConnId, boot: OsdBoot) {
        let Some(session) = self.sessions.get(conn) else { return };
        let osd = boot.superblock.whoami;
        let addrs = OsdAddrs {
            client: session.peer.addrs.clone(),
            cluster: boot.cluster_addrs.clone(),
            heartbeat_front: boot.hb_front_addrs.clone(),
            heartbeat_back: boot.hb_back_addrs.clone(),
        };
        if let Err(why) = self.may_boot(session.peer.name, osd, &boot) {
            self.debug_log(LogLevel::Warn, format!("boot of {osd:?} refused: {why}"));
            return;
        }
        self.reports.heard_from(osd, now);
        let next = self.osds.upcoming();
        if next.is_up(osd) {
            let same =
                next.addrs(osd).is_some_and(|a| **a == addrs) && next.uuid(osd) == Some(boot.superblock.osd_fsid);
            if !same {
                self.osds.mark_down(osd);
                // Its life before is over: nobody need wait for that.
                self.set_dead_epoch(osd, self.osds.map().epoch);
                self.deferred_boots.push((conn, boot));
            }
            return;
        }
        if self.osds.map().is_up(osd) {
            // It goes down in the pending epoch and can come up in the one after.
            self.deferred_boots.push((conn, boot));
            return;
        }
        self.enter_osd(now, osd, boot.superblock.osd_fsid);
        self.record_boot(osd, &boot, addrs);
        self.place_new_osd(osd, &boot);
        self.osds.set_metadata(osd, boot.metadata);
        self.cluster_log(now, ClusterLevel::INFO, "cluster", format!("osd.{osd} boot"));
    }

    fn may_boot(&self, peer: EntityName, osd: OsdId, boot: &OsdBoot) -> Result<(), &'static str> {
        let map = self.osds.map();
        if peer != EntityName::osd(osd) {
            return Err("another entity speaks for it");
        }
        if boot.superblock.cluster_fsid != self.config.fsid {
            return Err("it belongs to another cluster");
        }
        if !(0..self.osd_id_max()).contains(&osd.0) {
            return Err("its id is out of bounds");
        }
        if is_flagged(map, osd, MapFlags::NOUP, OsdState::NOUP) {
            return Err("the noup flag is set");
        }
        if map.state(osd).contains(OsdState::DESTROYED) {
            return Err("it was destroyed");
        }
        Ok(())
    }

    /// Makes sure that the map has an entry of this id and uuid.
    fn enter_osd(&mut self, now: Instant, osd: OsdId, uuid: Uuid) {
        if osd.0 >= self.osds.upcoming().max_osd() {
            self.osds.change().new_max_osd = Some(osd.0 as u32 + 1);
        }
        if !self.osds.upcoming().exists(osd) {
            self.osds.flip_state(osd, OsdState::EXISTS.with(OsdState::NEW));
            self.osds.set_weight(osd, 0);
        }
        let known = self.osds.upcoming().uuid(osd).unwrap_or_default();
        if known == uuid {
            return;
        }
        if known != Uuid::default() {
            // Its disk was replaced or its memory lost: peers must not count on what the old one had.
            let text = format!("osd.{osd} comes back without the data it had ({known} is now {uuid})");
            self.cluster_log(now, ClusterLevel::WARN, "cluster", text);
            let lost_at = self.osds.epoch();
            self.osds.change().new_lost.insert(osd, lost_at);
        }
        self.osds.change().new_uuid.insert(osd, uuid);
    }

    fn record_boot(&mut self, osd: OsdId, boot: &OsdBoot, addrs: OsdAddrs) {
        let next = self.osds.upcoming();
        let state = next.state(osd);
        let noin = is_flagged(next, osd, MapFlags::NOIN, OsdState::NOIN);
        let info = next.info(osd).copied().unwrap_or_default();
        let mut xinfo = next.xinfo(osd).copied().unwrap_or_default();
        let (mounted, clean_thru) = (boot.superblock.mounted, boot.superblock.clean_thru);
        if (mounted, clean_thru) > (info.last_clean_begin, info.last_clean_end) {
            self.osds.change().new_last_clean_interval.insert(osd, (mounted, clean_thru));
        }
        let new_in = state.contains(OsdState::NEW) && self.option_bool("mon_osd_auto_mark_new_in");
        let back_in = state.contains(OsdState::AUTOOUT) && self.option_bool("mon_osd_auto_mark_auto_out_in");
        if !noin && (new_in || back_in || self.option_bool("mon_osd_auto_mark_in")) {
            let weight = if xinfo.old_weight > 0 { xinfo.old_weight } else { IN };
            xinfo.old_weight = 0;
            self.osds.set_weight(osd, weight);
        }
        xinfo.features = boot.features;
        let change = self.osds.change();
        change.new_xinfo.insert(osd, xinfo);
        change.new_up.insert(osd, addrs);
    }

    /// Gives an OSD that CRUSH does not know its place: below its host, with its size in TiB as its weight.
    fn place_new_osd(&mut self, osd: OsdId, boot: &OsdBoot) {
        if !self.option_bool("osd_crush_update_on_start") || self.osds.upcoming().crush.item_exists(osd.0) {
            return;
        }
        let host = boot.metadata.get("hostname").map_or("localhost", String::as_str);
        let initial = self.option_number("osd_crush_initial_weight");
        let size: u64 = boot.metadata.get("osd_device_bytes").and_then(|b| b.parse().ok()).unwrap_or(0);
        let weight = if initial >= 0.0 { (initial * 65536.0) as u32 } else { weight_of_size(size) };
        let mut crush = (*self.osds.upcoming().crush).clone();
        let placed = crush.insert_item(osd.0, weight, &format!("osd.{osd}"), &default_location(host)).and_then(|()| {
            let class = boot.metadata.get("default_device_class");
            class.map_or(Ok(true), |class| crush.set_device_class(osd.0, class))
        });
        match placed {
            Ok(_) => self.osds.set_crush(&crush),
            Err(why) => self.debug_log(LogLevel::Warn, format!("osd.{osd} got no place in the CRUSH map: {why}")),
        }
    }

    /// Enters an OSD that said it was alive in `want`, and wants the map to say so.
    pub(crate) fn raise_up_thru(&mut self, osd: OsdId, want: Epoch) {
        let next = self.osds.upcoming();
        if next.is_up(osd) && next.info(osd).is_some_and(|info| info.up_thru < want) {
            self.osds.change().new_up_thru.insert(osd, want);
        }
    }
}
