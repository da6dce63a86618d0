//! Holders of a group that are no members of it any more.
//!
//! One tells the primary what it has, with each map: the primary may not know of it, because the interval in which it
//! was a member is over and done with for all others. It may have what members lack, and goes when the group is clean.
//! Nothing else is decided by its word: who has the log that all take is asked by the primary (`peering`).
//!
//! Follows Ceph v16.2 `src/osd/PeeringState.cc` (`Stray::react(const ActMap&)`, `proc_replica_info`, `purge_strays`).

use super::info::PgInfo;
use super::peering::Answer;
use super::{Pg, Role};
use crate::core::Core;
use base::{Epoch, OsdId};
use store::ObjectId;
use wire::messages::{PgNotify, PgRemove};
use wire::net::Envelope;
use wire::{Decode, Encode};

/// The peering of what nobody has asked for.
pub(super) const UNASKED: Epoch = Epoch(0);

impl Pg {
    /// Tells the primary of what is here, where this OSD is no member.
    pub(super) fn announce(&self, core: &mut Core) {
        let primary = self.sets.acting_primary;
        if !self.exists || self.sets.concerns(core.me()) || !core.map.is_up(primary) {
            return;
        }
        let message = PgNotify {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: UNASKED,
            born: core.born,
            info: Some(self.info.to_bytes()),
            missing: self.missing.len() as u64,
        };
        core.send_osd(primary, Envelope::new(message));
    }

    /// A holder that is no member has told of itself.
    pub(super) fn stray_says(&mut self, core: &mut Core, from: OsdId, message: &PgNotify) {
        let Some(Ok(info)) = message.info.as_ref().map(PgInfo::from_bytes) else { return };
        if self.sets.concerns(from) {
            return;
        }
        let answer = Answer { info: Some(info), missing: message.missing, born: message.born };
        match &mut self.role {
            Role::Peering(peering) => drop(peering.strays.insert(from, answer)),
            Role::Active(_) | Role::Peered(_) => {
                let is_new = self.recovery.answers.insert(from, answer).is_none_or(|known| known.info.is_none());
                if self.is_at_rest() {
                    self.dismiss(core, &[from]);
                } else if is_new {
                    self.seek_unfound_again(core);
                }
            }
            Role::Waiting | Role::Replica(..) => {}
        }
    }

    /// Somebody has come who may have what nobody had.
    fn seek_unfound_again(&mut self, core: &mut Core) {
        if self.recovery.giving_up.is_some() || self.recovery.unfound.is_empty() {
            return;
        }
        let again: Vec<ObjectId> = core::mem::take(&mut self.recovery.unfound).into_iter().collect();
        for head in again {
            if self.is_waited_for(&head) {
                self.hurry(core, &head);
            }
        }
        self.go_on_recovering(core);
    }

    /// Everybody who should has the PG: others may remove theirs.
    pub(super) fn dismiss(&mut self, core: &mut Core, holders: &[OsdId]) {
        for osd in holders.iter().filter(|osd| !self.sets.concerns(**osd)) {
            core.send_osd(*osd, Envelope::new(PgRemove { pg: self.id, map_epoch: core.epoch() }));
        }
    }
}
