//! Objects of which no holder is left: an operator gives them up (`ceph pg PGID mark_unfound_lost revert|delete`).
//!
//! Each becomes an entry of the log: what there was of the object is void, and it is again what it was at the newest
//! version that this OSD, another member or a holder that is none any more has, or it is gone. All members log that, and
//! lack the object from then on; when all have it durably, recovery goes on: what was deleted needs no source, what was
//! reverted one who has that version (`Need::is_here`), and members get it from the primary as ever. A holder that comes
//! back with what was given up finds the entry in the others' log, and follows.
//!
//! It is refused while somebody may yet have one of the objects: while not every OSD that has been a member since the
//! group was clean has been asked or is marked lost.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_command`, `mark_all_unfound_lost`, `pick_newest_available`) and
//! `src/osd/PeeringState.cc` (`all_unfound_are_queried_or_lost`); who answered and went down since counts as not asked.
//! There a deleted head leaves its clones behind; here they go with it. There only members are asked for what is left: an
//! older version than one that was answered may come back while another holder has that.
//!
//! Invariant: nothing of what is given up is touched before all members have logged it.

use super::log::{LogEntry, Lost};
use super::missing::Need;
use super::peering::core_history;
use super::{Pg, Role};
use crate::cluster_log;
use crate::core::Core;
use admin::{Refused, refuse};
use base::{EVersion, Errno, OsdId};
use qos::GroupId;
use std::collections::BTreeSet;
use store::{ObjectId, Transaction};
use wire::messages::CommandReply;
use wire::net::{ConnId, Envelope};
use wire::osd::OsdReqId;

/// What objects become that nobody has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GiveUp {
    /// What they were, at the newest version that is left; gone where none is.
    Revert,
    /// Gone.
    Delete,
}

/// Whether an OSD has said what it has of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probed {
    /// It has.
    Done,
    /// It is not up.
    Down,
    /// Neither.
    Not,
}

impl Probed {
    /// As Ceph says it.
    pub fn text(self) -> &'static str {
        match self {
            Probed::Done => "already probed",
            Probed::Down => "osd is down",
            Probed::Not => "not queried",
        }
    }
}

/// Objects that are being given up: logged, but not yet by all members.
#[derive(Debug)]
pub(super) struct GivingUp {
    objects: BTreeSet<ObjectId>,
    /// The last entry.
    last: EVersion,
    /// Who waits for it.
    reply_to: (ConnId, u64),
}

impl GivingUp {
    /// The peering is over: what is logged may be given up or not.
    pub(super) fn interrupted(self, core: &mut Core) {
        let text = "the placement group peers anew: ask again when it is active";
        self.answer(core, CommandReply { result: Errno::EAGAIN.code(), status: text.to_owned(), ..Default::default() });
    }

    fn answer(&self, core: &mut Core, reply: CommandReply) {
        let (conn, tid) = self.reply_to;
        core.send(conn, Envelope::with_tid(tid, reply));
    }
}

impl Pg {
    /// Gives up what is unfound. True if the answer comes later; false if there is nothing.
    pub(crate) fn mark_unfound_lost(
        &mut self,
        core: &mut Core,
        how: GiveUp,
        reply_to: (ConnId, u64),
    ) -> Result<bool, Refused> {
        let count = self.recovery.unfound.len();
        if count == 0 {
            return Ok(false);
        }
        if self.might_be_found(core) {
            let text = format!("pg has {count} unfound objects but we haven't probed all sources, not marking lost");
            return refuse(Errno::EINVAL, text);
        }
        if !matches!(self.role, Role::Active(_)) || self.recovery.giving_up.is_some() {
            return refuse(Errno::EAGAIN, "the placement group is not active, or already marks objects lost");
        }
        let objects = self.recovery.unfound.clone();
        for head in &objects {
            self.log_lost(core, head, how);
        }
        self.recovery.giving_up = Some(GivingUp { objects, last: self.info.last_update, reply_to });
        Ok(true)
    }

    /// Whether an OSD that was not asked may have what nobody has.
    fn might_be_found(&self, core: &Core) -> bool {
        let lost = |osd: OsdId| core.map.info(osd).is_some_and(|info| info.lost_at > info.up_from);
        let gone = |osd: OsdId| !core.map.exists(osd) || lost(osd);
        self.sources_of_unfound(core).into_iter().any(|(osd, probed)| probed != Probed::Done && !gone(osd))
    }

    /// Who may have what nobody has: the OSDs that were members since the group was clean, and others that answered.
    pub(crate) fn sources_of_unfound(&self, core: &Core) -> Vec<(OsdId, Probed)> {
        let recovery = &self.recovery;
        let past = core_history(core, self, self.unclean_since()).flat_map(|interval| &interval.acting);
        let all: BTreeSet<OsdId> = past.chain(recovery.answers.keys()).copied().collect();
        let probed = |osd: OsdId| {
            let has_nothing = recovery.answers.get(&osd).is_some_and(|answer| answer.info.is_none());
            let is_up = core.map.is_up(osd);
            if recovery.members.contains_key(&osd) || has_nothing || is_up && recovery.answers.contains_key(&osd) {
                Probed::Done
            } else if is_up {
                Probed::Not
            } else {
                Probed::Down
            }
        };
        all.into_iter().filter(|osd| *osd != core.me()).map(|osd| (osd, probed(osd))).collect()
    }

    fn log_lost(&mut self, core: &mut Core, head: &ObjectId, how: GiveUp) {
        let Some(need) = self.missing.get(head) else { return };
        let (prior, own) = (need.version, need.have);
        let of_others = self.recovery.older.get(head).copied().unwrap_or_default();
        let members = self.recovery.members.values().map(|member| member.has_of(head));
        let newest = members.fold(own.max(of_others), EVersion::max);
        let lost = match how {
            GiveUp::Revert if newest > EVersion::default() => Lost::Reverted(newest),
            _ => Lost::Deleted,
        };
        let entry = LogEntry {
            version: EVersion::new(core.epoch(), self.info.last_update.version + 1),
            prior,
            object: head.clone(),
            clones: Vec::new(),
            deletes: lost == Lost::Deleted,
            changes_nothing: false,
            reqid: OsdReqId::default(),
            user_version: self.info.last_user_version,
            result: 0,
            outputs: Vec::new(),
            totals: self.info.totals,
            lost: Some(lost),
        };
        // For this OSD alone: every other member lacks the object as well, and only logs what happens to it.
        let mut transaction = Transaction::new(self.collection());
        self.missing.add_and_store(head.clone(), Need::of(&entry), &mut transaction);
        self.unsettle(&mut transaction);
        if let Some(queue) = self.objects.get_mut(head) {
            queue.state = None;
        }
        self.send_write(core, GroupId::NONE, entry, transaction);
    }

    /// What the PG holds is a guess from now on, to be counted anew: nobody knows what was lost.
    pub(super) fn unsettle(&mut self, t: &mut Transaction) {
        self.info.unsettled = true;
        self.put_info(t);
    }

    /// All members have everything up to `all`: goes on with what was given up, once they all know of it.
    pub(super) fn given_up(&mut self, core: &mut Core, all: EVersion) {
        let Some(done) = self.recovery.giving_up.take_if(|giving_up| giving_up.last <= all) else { return };
        let text = format!("pg has {} objects unfound and apparently lost marking", done.objects.len());
        core.cluster_log.line(core.now, cluster_log::Level::INFO, text.clone());
        done.answer(core, CommandReply { result: 0, status: text, ..Default::default() });
        for head in &done.objects {
            self.recovery.work_again(head);
            if self.objects.get(head).is_some_and(|queue| !queue.waiting.is_empty()) {
                self.hurry(core, head);
            }
        }
        core.stats_changed = true;
        self.go_on_recovering(core);
    }
}
