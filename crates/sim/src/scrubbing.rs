//! Scrubs: asked for now and then while faults strike, and at the end of a run, when a disk has rotted.

use crate::node::Disk;
use crate::run::{HEAL_MAX, POOL_NAME, Run, SCRUB};
use base::{Duration, Instant, OsdId, PgId, SnapId};
use store::{CollectionId, ListWant, ReadRequest, ReadResult, ReadWhat};
use wire::types::UTime;

/// How long clients work while copies are rotten.
const ROTTEN_WORK: Duration = Duration::from_secs(2);

impl Run {
    /// Asks for a scrub of everything, or of nothing, by chance.
    pub(crate) fn scrub_something(&mut self) {
        match self.world.rng.below(4) {
            0 => self.ask_to_scrub("deep-scrub"),
            1 => self.ask_to_scrub("scrub"),
            _ => {}
        }
    }

    /// As long as no disk has rotted, no scrub may find anything.
    pub(crate) fn look_for_scrub_errors(&mut self) {
        for pg in self.pgs() {
            let records = self.world.nodes.iter().filter_map(|node| Some((node, node.osd()?.scrub_record(pg)?)));
            if let Some((node, record)) = { records }.find(|(_, record)| record.errors() > 0) {
                let what = format!("{}: a scrub of pg {pg} has found errors: {record:?}", node.name);
                self.fail(what);
                return;
            }
        }
    }

    fn ask_to_scrub(&mut self, verb: &str) {
        self.marks += 1;
        let command = format!(r#"{{"prefix":"osd pool {verb}","who":["{POOL_NAME}"]}}"#);
        self.command(SCRUB | self.marks, command);
    }

    /// Lets copies on one disk rot: reads are right, no write is lost, a repair heals them, a deep scrub then finds nothing.
    /// Reads heal what they meet, so in some runs a repair comes before any.
    pub(crate) fn let_a_disk_rot(&mut self) {
        self.look_for_scrub_errors();
        let clean = self.scrub_everything("deep-scrub");
        if !clean || self.options.pool_size < 2 {
            return;
        }
        let osd = self.world.rng.below(u64::from(self.options.osds)) as u32;
        let rotten = self.rot(osd);
        let repaired_first = self.world.rng.chance(1, 2);
        if repaired_first && !self.repair(osd, rotten) {
            return;
        }
        self.work_for(ROTTEN_WORK);
        if !self.wait_for(HEAL_MAX, |run| run.work.in_flight() == 0) {
            let waiting = self.work.in_flight();
            self.fail(format!("{HEAL_MAX:?} after a disk rotted {waiting} requests wait"));
        }
        if self.read_everything() && !repaired_first {
            self.repair(osd, rotten);
        }
    }

    /// Repairs everything; false if a deep scrub, or the disk that has rotted, then shows that something is left.
    fn repair(&mut self, osd: u32, rotten: usize) -> bool {
        if !self.scrub_everything("repair") || !self.scrub_everything("deep-scrub") {
            return false;
        }
        let left = self.disk_of(osd).map_or(Vec::new(), |disk| disk.rotten());
        left.is_empty() || self.fail(format!("of {rotten} rotten objects of osd.{osd} a repair has left {left:?}"))
    }

    fn disk_of(&mut self, osd: u32) -> Option<&mut crate::disk::OsdDisk> {
        match &mut self.world.nodes[self.cluster.osd(osd).0].disk {
            Disk::Osd(disk) => Some(disk),
            Disk::Extent(_) | Disk::Mon(_) | Disk::None => None,
        }
    }

    /// Lets some of the objects that an OSD serves rot; tells how many.
    fn rot(&mut self, osd: u32) -> usize {
        let map = self.map();
        let pgs = self.pgs().into_iter();
        // What a former member has left nobody reads, and nobody heals.
        let serves = |pg: &PgId| map.is_some_and(|map| map.pg_to_up_acting(*pg).acting.contains(&OsdId(osd as i32)));
        for pg in pgs.filter(serves).collect::<Vec<_>>() {
            let collection = CollectionId::Pg(pg);
            let what = ReadWhat::List(ListWant { from: None, max: 1000, attr: None });
            let listed = self.disk_of(osd).map(|disk| disk.read(&ReadRequest { collection, what }));
            let Some(Ok(ReadResult::List { entries, .. })) = listed else { continue };
            for entry in entries.into_iter().filter(|entry| entry.id.snap() == SnapId::HEAD) {
                if self.world.rng.below(2) == 0
                    && let Some(disk) = self.disk_of(osd)
                {
                    disk.rot(collection, entry.id);
                }
            }
        }
        self.disk_of(osd).map_or(0, |disk| disk.rotten().len())
    }

    /// Scrubs every placement group and waits for it; false if that does not end, or errors are left.
    fn scrub_everything(&mut self, verb: &str) -> bool {
        let from = self.world.now;
        // Once more if who should have been asked was not to be reached.
        for _ in 0..3 {
            self.ask_to_scrub(verb);
            if self.wait_for(HEAL_MAX / 3, |run| run.unscrubbed(from).is_none()) {
                return true;
            }
        }
        let left = self.unscrubbed(from);
        self.fail(format!("{verb}: {left:?} after everything healed"))
    }

    /// A placement group that has not been scrubbed since, or has errors.
    fn unscrubbed(&self, since: Instant) -> Option<String> {
        let map = self.map()?;
        self.pgs().into_iter().find_map(|pg| {
            let OsdId(primary) = map.pg_to_up_acting(pg).acting_primary;
            let primary = u32::try_from(primary).ok().filter(|osd| *osd < self.options.osds);
            let node = primary.map(|osd| &self.world.nodes[self.cluster.osd(osd).0]);
            let record =
                node.and_then(|node| Some((node.osd()?.scrub_record(pg)?, UTime::from(node.clock.shows(since)))));
            match record {
                Some((record, since)) if record.deep_stamp > since && record.errors() == 0 => None,
                other => Some(format!("pg {pg}: {other:?}")),
            }
        })
    }
}
