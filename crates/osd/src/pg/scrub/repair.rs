//! Mending: copies that are found to be wrong are replaced by the right one, on the way of missing objects (`recovery`).
//!
//! A wrong copy counts as missing: on the primary in memory only (`mending`), on a member in what its primary knows of
//! it. A restart forgets that, and nothing is lost: the copy is still wrong and is found again.
//!
//! A client's read that finds the primary's copy unreadable is put aside until the object has been fetched from
//! another member, as in Ceph (v16.2 `src/osd/PrimaryLogPG.cc`, `rep_repair_primary_object`); where nobody has a good
//! copy it ends with EIO. So is a write that would keep what cannot be read (`suspects`).
//!
//! Invariant: an object is only mended while nobody writes to it, so that no write meets a missing copy.

use super::found::Findings;
use super::{Kind, Pg, Role};
use crate::cluster_log::Level as ClusterLevel;
use crate::core::Core;
use crate::ops::OpClass;
use crate::ops::state::{INFO_ATTR, ObjectState};
use crate::pg::PgRead;
use crate::pg::client_io::ClientRequest;
use crate::pg::missing::Need;
use base::{EVersion, Epoch, OsdId, SnapId};
use std::collections::{BTreeMap, BTreeSet};
use store::{AttrsWant, ObjectId, ObjectView, ObjectWant, ReadRequest, ReadWhat, StoreError};

/// What a repair does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed {
    /// Copies that are replaced.
    pub copies: u64,
    /// Whether nothing is left of what was found.
    pub all: bool,
}

impl Pg {
    /// Replaces the wrong copies that a scrub has found; none if there is nothing to be done about any of them.
    pub(super) fn repair(&mut self, core: &mut Core, findings: &Findings) -> Option<Fixed> {
        if !matches!(self.role, Role::Active(_)) {
            return None;
        }
        let mut fixed = Fixed { copies: 0, all: findings.snapshots.is_empty() };
        let mut heads: BTreeMap<ObjectId, (EVersion, BTreeSet<OsdId>)> = BTreeMap::new();
        for found in &findings.objects {
            match found.head_version {
                Some(version) if found.version.is_some() && !self.is_written(&found.object) => {
                    fixed.copies += found.bad.len() as u64;
                    let head = found.object.with_snap(SnapId::HEAD);
                    heads.entry(head).or_insert((version, BTreeSet::new())).1.extend(&found.bad);
                }
                _ => fixed.all = false,
            }
        }
        if heads.is_empty() {
            return None;
        }
        for (head, (version, bad)) in heads {
            for osd in bad {
                if osd == core.me() {
                    self.mend(core, &head, version);
                } else if let Some(member) = self.recovery.members.get_mut(&osd) {
                    member.missing.add(head.clone(), Need::whole(version, false));
                }
            }
            self.recovery.work_again(&head);
            self.mark_queue(&head);
        }
        Some(fixed)
    }

    /// Whether writes to an object are under way.
    fn is_written(&self, object: &ObjectId) -> bool {
        let queue = self.objects.get(&object.with_snap(SnapId::HEAD));
        queue.is_some_and(|queue| queue.writers > 0 || queue.exclusive)
    }

    /// This OSD's copy of an object is wrong: it counts as missing until it is replaced by one of this version.
    pub(in crate::pg) fn mend(&mut self, core: &mut Core, head: &ObjectId, version: EVersion) {
        self.missing.add(head.clone(), Need::whole(version, false));
        self.mending.insert(head.clone());
        if let Some(queue) = self.objects.get_mut(head) {
            // It may have come from the wrong copy.
            queue.state = None;
        }
        self.recovery.work_again(head);
        self.mark_queue(head);
        core.stats_changed = true;
    }

    /// A client's request could not be read. True if it waits for the object to be mended.
    pub(in crate::pg) fn mend_for(
        &mut self,
        core: &mut Core,
        mut request: Box<ClientRequest>,
        error: &StoreError,
    ) -> Result<(), Box<ClientRequest>> {
        let damaged = matches!(error, StoreError::Corrupt(_) | StoreError::Device);
        let others = self.recovery.members.keys().any(|osd| core.map.is_up(*osd));
        let plan = crate::ops::plan_at(request.message.snap, &request.message.ops, &request.circumstances.tuning);
        let head = request.object.clone();
        // A copy that reads what is being copied to would wait for that; each may be the other's source.
        let crosses = request.reads_for_copy() && self.objects.get(&head).is_some_and(|queue| queue.copying);
        let may_wait = damaged && others && !crosses && request.may_be_mended();
        let (true, Ok(plan)) = (may_wait, plan) else { return Err(request) };
        let queue = self.objects.get_mut(&head).expect("a request under way keeps its queue");
        match request.plan.class {
            OpClass::Read => queue.readers -= 1,
            OpClass::Write | OpClass::ReadModify => queue.exclusive = false,
        }
        let text = format!("{} missing primary copy of {}:{head:?}, will try copies on others", self.id, self.id.pool);
        core.cluster_log.line(core.now, ClusterLevel::ERROR, text);
        request.mended = true;
        request.begin_again(plan);
        queue.waiting.push_front(request);
        if self.mending.contains(&head) || queue.exclusive {
            // It is being mended already; or a copy is to be written, and the request tries again after it.
        } else if let Some(version) = queue.state.as_ref().filter(|state| state.is_stored()).map(|s| s.info.version) {
            self.mend(core, &head, version);
            self.hurry(core, &head);
            self.go_on_recovering(core);
        } else {
            queue.exclusive = true;
            let want = ObjectWant { attrs: AttrsWant::Named(vec![INFO_ATTR]), ..ObjectWant::default() };
            let request = ReadRequest { collection: self.collection(), what: ReadWhat::Object(head.clone(), want) };
            core.read(self.id, PgRead::Damaged(head, self.since), request);
        }
        Ok(())
    }

    /// The store has told, or cannot, what an object is whose data it cannot read.
    pub(in crate::pg) fn damaged_read(
        &mut self,
        core: &mut Core,
        head: &ObjectId,
        interval: Epoch,
        view: Option<&ObjectView>,
    ) {
        if interval != self.since || !self.is_active() {
            return;
        }
        let Some(queue) = self.objects.get_mut(head) else { return };
        queue.exclusive = false;
        let state = view.and_then(|view| ObjectState::of(view).ok()).filter(ObjectState::is_stored);
        if let Some(state) = state {
            self.mend(core, head, state.info.version);
            self.hurry(core, head);
            self.go_on_recovering(core);
        }
        self.pump(core, head);
    }

    /// Nobody has a good copy: those who wait try what there is, and are told.
    pub(in crate::pg) fn mending_failed(&mut self, core: &mut Core, head: &ObjectId) {
        self.mending.remove(head);
        self.missing.remove(head);
        // Who lacks it cannot be given it from here.
        self.recovery.stalled.insert(head.clone());
        self.scrubbing.failed_repair |= self.info.scrubs.errors() > 0 || self.scrubbing.check;
        let text = format!("{} {}:{head:?} : no good copy to repair it from", self.id, self.id.pool);
        core.cluster_log.line(core.now, ClusterLevel::ERROR, text);
        self.mark_queue(head);
        if let Some(queue) = self.objects.get_mut(head) {
            // Whoever waits has waited for nothing: it is not tried again for each of them.
            queue.waiting.iter_mut().for_each(|request| request.mended = true);
        }
        core.stats_changed = true;
    }

    /// Everything is where it should be again: what was mended is looked at once more.
    pub(in crate::pg) fn check_repair(&mut self, core: &mut Core) {
        if self.scrubbing.check {
            self.want_scrub(core, Kind { deep: true, requested: true, ..Kind::default() });
        }
    }

    /// Forgets what is being mended.
    pub(in crate::pg) fn abandon_mending(&mut self) {
        for head in core::mem::take(&mut self.mending) {
            self.missing.remove(&head);
        }
    }
}
