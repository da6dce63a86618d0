//! Primary-copy replication: the primary sends every write to all replicas at once; each confirms to the primary.
//!
//! Many writes are in flight; a session keeps their order, so a confirmation covers everything before it. A write is
//! encoded once for all replicas, its payload is the client's buffer. Writes not yet confirmed by all are kept, to be
//! sent again on a session that was reset: the version tells a replica what it has already.

use super::ReplicatedWrite;
use crate::core::Core;
use base::sums::Sums;
use base::{Bug, EVersion, Epoch, OsdId, PgId};
use bytes::Bytes;
use std::collections::VecDeque;
use wire::Encoder;
use wire::messages::SubWrite;
use wire::net::Envelope;

/// Room for the encodings of about a dozen writes, so that most of them allocate nothing.
const ENCODER_BYTES: usize = 4 << 10;

/// See the module.
#[derive(Debug)]
pub struct PrimaryCopy {
    pg: PgId,
    peering: Epoch,
    members: Vec<(OsdId, EVersion)>,
    all_committed: EVersion,
    /// Each with those who only log it.
    unconfirmed: VecDeque<(SubWrite, Vec<OsdId>)>,
    encoder: Encoder,
}

impl PrimaryCopy {
    /// Begins with `members`, who all have everything up to `version`.
    pub fn new(pg: PgId, peering: Epoch, members: &[OsdId], version: EVersion) -> PrimaryCopy {
        PrimaryCopy {
            pg,
            peering,
            members: members.iter().map(|osd| (*osd, version)).collect(),
            all_committed: version,
            unconfirmed: VecDeque::new(),
            encoder: Encoder::with_capacity(ENCODER_BYTES),
        }
    }

    /// Sends a write to the replicas.
    pub fn submit(&mut self, core: &mut Core, write: &ReplicatedWrite<'_>) {
        let me = core.me();
        if self.members.len() > 1 {
            let payload = write.transaction.encode_with_payload(&mut self.encoder);
            let message = SubWrite {
                pg: self.pg,
                peering: self.peering,
                version: write.version,
                trim_to: write.trim_to,
                tenant: write.tenant.map_or(0, |tenant| tenant.0),
                logged_only: false,
                entry: write.entry.clone(),
                transaction: self.encoder.take(),
                payload,
                sums: write.transaction.sums.clone(),
            };
            for (osd, _) in self.members.iter().filter(|(osd, _)| *osd != me) {
                core.send_osd(*osd, Envelope::new(as_sent(&message, write.only_log.contains(osd))));
            }
            self.unconfirmed.push_back((message, write.only_log.to_vec()));
        }
    }

    /// Takes a member's confirmation.
    pub fn committed(&mut self, from: OsdId, version: EVersion) -> Option<EVersion> {
        let member = self.members.iter_mut().find(|(osd, _)| *osd == from)?;
        member.1 = member.1.max(version);
        let versions = self.members.iter().map(|(_, version)| *version);
        let all = if Bug::AckBeforeReplicas.is_planted() { versions.max()? } else { versions.min()? };
        if all <= self.all_committed {
            return None;
        }
        self.all_committed = all;
        while self.unconfirmed.front().is_some_and(|(write, _)| write.version <= all) {
            self.unconfirmed.pop_front();
        }
        Some(all)
    }

    /// The peering that made the members what they are.
    pub fn peering(&self) -> Epoch {
        self.peering
    }

    /// What all members have.
    pub fn all_committed(&self) -> EVersion {
        self.all_committed
    }

    /// Up to where a member has everything; none where it is no member.
    pub fn progress(&self, osd: OsdId) -> Option<EVersion> {
        self.members.iter().find(|(member, _)| *member == osd).map(|(_, version)| *version)
    }

    /// Sends again what `osd` has not confirmed.
    pub fn peer_reset(&mut self, core: &mut Core, osd: OsdId) {
        let Some((_, has)) = self.members.iter().find(|(member, _)| *member == osd) else { return };
        if Bug::UnconfirmedNotResent.is_planted() {
            return;
        }
        for (write, only_log) in self.unconfirmed.iter().filter(|(write, _)| write.version > *has) {
            core.send_osd(osd, Envelope::new(as_sent(write, only_log.contains(&osd))));
        }
    }
}

/// A write as a member gets it: whole, or only to be logged.
fn as_sent(write: &SubWrite, logged_only: bool) -> SubWrite {
    if !logged_only {
        return write.clone();
    }
    let (entry, transaction, payload) = (write.entry.clone(), Bytes::new(), Bytes::new());
    SubWrite { logged_only, entry, transaction, payload, sums: Sums::default(), ..*write }
}
