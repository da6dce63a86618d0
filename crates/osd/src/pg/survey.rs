//! Looking through a PG's objects once after it was split: what they count for, and the index of snapshots.
//!
//! A split moves objects without looking at them, so that what each part holds is a guess at first, and the index has
//! entries of the whole. Whoever leads the PG counts, part by part in the order of objects, while writes go on: what is
//! written behind the place that was reached changes the count, what is written before it will be seen. Clones found are
//! entered into the index; entries of clones that are elsewhere go when their snapshot is trimmed, which waits for this.
//!
//! Invariant: `counted` is what the objects before `from` count for after every write that was submitted.

use super::info::Totals;
use super::log::{log_key, log_object};
use super::snaps::{entries_of_record, index_object};
use super::{Pg, PgCommit, PgRead};
use crate::core::{CommitFor, Core};
use crate::limits::SCAN_NAMES_MAX;
use crate::ops::state::{INFO_ATTR, ObjectInfo};
use base::{Epoch, SnapId};
use store::{ListEntry, ListWant, ObjectId, Op, ReadRequest, ReadWhat};
use wire::{Decode, Encode};

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Survey {
    from: Option<ObjectId>,
    counted: Totals,
    /// Writes since the store was asked for the next part.
    since: Vec<(ObjectId, Totals, Totals)>,
}

/// What a listed head and its clones count for.
fn totals_of(entry: &ListEntry) -> Totals {
    let record = entry.attr.as_ref().and_then(|record| ObjectInfo::from_bytes(record).ok());
    let clones = record.and_then(|info| info.clones);
    let (clones, own_bytes) = clones.map_or((0, 0), |clones| (clones.list.len() as u64, clones.own_bytes()));
    Totals { objects: 1 + clones, clones, bytes: entry.size + own_bytes }
}

impl Pg {
    /// Begins, where that is to be done.
    pub(super) fn start_survey(&mut self, core: &mut Core) {
        if self.info.unsettled && self.is_active() && self.missing.is_empty() && self.survey.is_none() {
            self.survey = Some(Box::default());
            self.survey_next(core);
        }
    }

    fn survey_next(&mut self, core: &mut Core) {
        let Some(survey) = &mut self.survey else { return };
        survey.since.clear();
        let want = ListWant { from: survey.from.clone(), max: SCAN_NAMES_MAX, attr: Some(INFO_ATTR) };
        let request = ReadRequest { collection: self.collection(), what: ReadWhat::List(want) };
        core.read(self.id, PgRead::Survey(self.since), request);
    }

    /// A write changes what an object counts for.
    pub(super) fn survey_change(&mut self, object: &ObjectId, before: Totals, after: Totals) {
        let Some(survey) = &mut self.survey else { return };
        if survey.from.as_ref().is_some_and(|from| object < from) {
            survey.counted.change(before, after);
        } else {
            survey.since.push((object.clone(), before, after));
        }
    }

    /// The store has listed the next part.
    pub(super) fn survey_read(
        &mut self,
        core: &mut Core,
        interval: Epoch,
        entries: Vec<ListEntry>,
        next: Option<ObjectId>,
    ) {
        let Some(survey) = self.survey.as_mut().filter(|_| interval == self.since) else { return };
        let mut index = Vec::new();
        for entry in entries.iter().filter(|entry| entry.id.snap() == SnapId::HEAD) {
            survey.counted.change(Totals::default(), totals_of(entry));
            index.extend(entry.attr.iter().flat_map(|record| entries_of_record(&entry.id, record)));
        }
        // A head comes after its clones: where a part ends between them, the head is of the next.
        let start = |next: ObjectId| {
            Some(next.with_snap(SnapId(0))).filter(|start| survey.from.as_ref() != Some(start)).unwrap_or(next)
        };
        let next = next.map(start);
        let behind = |object: &ObjectId| next.as_ref().is_none_or(|next| object < next);
        for (_, before, after) in survey.since.drain(..).filter(|(object, ..)| behind(object)) {
            survey.counted.change(before, after);
        }
        let done = next.is_none();
        survey.from = next;
        let mut t = self.transaction();
        if !index.is_empty() {
            t.push(&index_object(), Op::OmapSet(index));
        }
        if done {
            let counted = self.survey.take().map_or_else(Totals::default, |survey| survey.counted);
            (self.info.totals, self.info.unsettled) = (counted, false);
            if let Some(newest) = self.log.set_totals(counted) {
                let entry = (log_key(newest.version), newest.to_bytes());
                t.push(&log_object(), Op::OmapSet(vec![entry]));
            }
            self.put_info(&mut t);
            core.stats_changed = true;
        }
        if !t.is_empty() {
            core.commit(CommitFor::Pg(self.id, PgCommit::Nothing), t);
        }
        if done {
            self.ask_for_trim(core);
        } else {
            self.survey_next(core);
        }
    }
}
