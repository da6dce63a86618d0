//! Placement groups made anew (`ceph osd force-create-pg`): telling their primaries, until one serves.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`send_pg_creates`, `prepare_command_impl`). A primary is told when it is
//! asked for, and again whenever it reports without serving the group.

use crate::mon::Mon;
use base::{OsdId, PgId};
use maps::stats::{PgStat, PgState};
use std::collections::BTreeMap;
use wire::Decode;
use wire::messages::{OsdPgCreate, PgStats};
use wire::osd::SpgId;

impl Mon {
    /// Tells an OSD which of the groups that it leads are to be made anew.
    pub(crate) fn send_pg_creates(&mut self, osd: OsdId) {
        let map = self.osds.map();
        let theirs = |pg: &PgId| map.pg_exists(*pg) && map.pg_to_up_acting(*pg).acting_primary == osd;
        let pgs = self.creating_pgs.iter().filter(|(pg, _)| theirs(pg));
        let pgs: BTreeMap<SpgId, _> = pgs.map(|(pg, since)| (SpgId::replicated(pg), since)).collect();
        if let (false, Some(conn)) = (pgs.is_empty(), self.session_of_osd(osd)) {
            let message = OsdPgCreate { epoch: map.epoch, pgs, history: BTreeMap::new() };
            self.send(conn, message);
        }
    }

    /// An OSD has reported: groups that it serves are made.
    pub(crate) fn follow_pg_creates(&mut self, osd: OsdId, report: &PgStats) {
        for (pg, sealed) in &report.pg_stats {
            let Some(since) = self.creating_pgs.since(*pg) else { continue };
            let serves = |stat: &PgStat| stat.state.contains(PgState::ACTIVE) || stat.state.contains(PgState::PEERED);
            if PgStat::from_bytes(&sealed.0).is_ok_and(|stat| serves(&stat) && stat.reported_epoch >= since) {
                self.creating_pgs.forget(*pg);
            }
        }
        self.send_pg_creates(osd);
    }

    /// A new map: groups may be gone with their pools.
    pub(crate) fn drop_pg_creates(&mut self) {
        let map = self.osds.map();
        let gone: Vec<PgId> = self.creating_pgs.iter().map(|(pg, _)| pg).filter(|pg| !map.pg_exists(*pg)).collect();
        gone.into_iter().for_each(|pg| self.creating_pgs.forget(pg));
    }
}
