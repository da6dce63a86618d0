//! An OSD's answer to a request.
//!
//! Follows Ceph v16.2 `src/messages/MOSDOpReply.h`, version 8. The operations come back with what came out of each.

use super::Payload;
use super::body::Body;
use super::osd_op::{OpData, OsdOp, Trace, check_count, decode_trace, join};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::osd::op::OP_BYTES;
use crate::osd::payload::Redirect;
use crate::osd::{OsdOpItem, RequestFlags};
use base::sums::Sums;
use base::{EVersion, Epoch, PgId};
use bytes::Bytes;

/// One operation's outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpOutcome {
    /// The operation, its payload replaced by what came out.
    pub item: OsdOpItem,
    /// What came out before that, where the payload is a buffer of its own that is sent from where it is. What came has
    /// none.
    pub lead: Bytes,
    /// 0 or more, or an errno negated.
    pub result: i32,
    /// The checksum of the payload, where it is known; see [`Payload::sums`].
    pub sum: Option<u32>,
}

impl OpOutcome {
    /// An operation that went well.
    pub fn of(item: OsdOpItem) -> OpOutcome {
        OpOutcome { item, lead: Bytes::new(), result: 0, sum: None }
    }

    /// How many bytes came out.
    pub fn output_len(&self) -> usize {
        self.lead.len() + self.item.payload.len()
    }

    /// Puts all that came out into the payload; copies it where it is in two pieces.
    pub fn join(&mut self) {
        if !self.lead.is_empty() {
            self.item.payload = [&self.lead[..], &self.item.payload].concat().into();
            (self.lead, self.sum) = (Bytes::new(), None);
        }
    }
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdOpReply {
    /// The object's name.
    pub object: Bytes,
    /// The placement group, as the request named it.
    pub pg: PgId,
    /// The request's flags, with what kind of acknowledgement this is.
    pub flags: u64,
    /// 0 or more, or an errno negated.
    pub result: i32,
    /// The version that a write got, for clients of long ago; zero for reads.
    pub bad_replay_version: EVersion,
    /// The OSD's map.
    pub map_epoch: Epoch,
    /// The operations' outcomes.
    pub ops: Vec<OpOutcome>,
    /// From the request.
    pub retry_attempt: i32,
    /// The version that a write got.
    pub replay_version: EVersion,
    /// The object's version as users see it.
    pub user_version: u64,
    /// The object is elsewhere.
    pub redirect: Option<Redirect>,
    /// Tracing.
    pub trace: Trace,
}

impl OsdOpReply {
    /// An answer to `request` with no outcomes of single operations: as Ceph's OSDs answer errors and plain writes,
    /// each operation with result 0 and nothing out.
    pub fn to(request: &OsdOp, result: i32, map_epoch: Epoch) -> OsdOpReply {
        let bare = |item: &OsdOpItem| OpOutcome::of(OsdOpItem { payload: Bytes::new(), ..*item });
        let kept = request.flags.without(RequestFlags::ONDISK | RequestFlags::ONNVRAM | RequestFlags::ACK);
        OsdOpReply {
            object: request.object.clone(),
            pg: request.pgid.pg,
            flags: u64::from((kept | RequestFlags::ACK).0),
            result,
            bad_replay_version: EVersion::default(),
            map_epoch,
            ops: request.ops.iter().map(bare).collect(),
            retry_attempt: request.retry_attempt,
            replay_version: EVersion::default(),
            user_version: 0,
            redirect: None,
            trace: Trace::default(),
        }
    }

    /// Marks the answer as that of a durable write.
    pub fn on_disk(mut self) -> OsdOpReply {
        self.flags = self.flags & !u64::from(RequestFlags::ACK.0) | u64::from(RequestFlags::ONDISK.0);
        self
    }

    /// Sets the versions: of the write, and as users see it.
    pub fn versions(mut self, version: EVersion, user_version: u64) -> OsdOpReply {
        (self.bad_replay_version, self.replay_version, self.user_version) = (version, version, user_version);
        self
    }
}

impl Body for OsdOpReply {
    const KIND: u16 = 43;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 2;
    const NAME: &'static str = "OsdOpReply";

    fn from_payload(payload: &Payload) -> Result<Self, Malformed> {
        Self::check_compat(payload)?;
        if payload.version < 8 {
            return Err(Malformed::new(Self::NAME, "is older than any supported peer's"));
        }
        let mut d = Decoder::shared(&payload.front);
        let d = &mut d;
        let mut data = OpData::new(&payload.data);
        let (object, pg, flags, result) = (d.blob()?, d.get()?, d.u64()?, d.i32()?);
        let (bad_replay_version, map_epoch) = (d.get()?, d.get()?);
        let count = d.u32()? as usize;
        check_count(d, count)?;
        let mut ops = Vec::with_capacity(count);
        for _ in 0..count {
            let (mut item, len) = OsdOpItem::decode_head(d)?;
            item.payload = data.take(len)?;
            ops.push(OpOutcome::of(item));
        }
        let retry_attempt = d.i32()?;
        for outcome in &mut ops {
            outcome.result = d.i32()?;
        }
        let (replay_version, user_version) = (d.get()?, d.u64()?);
        let redirect = if d.bool()? { Some(d.get()?) } else { None };
        let trace = decode_trace(d)?;
        Self::finish(d.clone(), payload)?;
        data.finish()?;
        Ok(OsdOpReply {
            object,
            pg,
            flags,
            result,
            bad_replay_version,
            map_epoch,
            ops,
            retry_attempt,
            replay_version,
            user_version,
            redirect,
            trace,
        })
    }

    fn into_payload(mut self) -> Payload {
        let mut e = Encoder::with_capacity(130 + self.object.len() + self.ops.len() * (OP_BYTES + 4));
        e.put(&self.object);
        e.put(&self.pg);
        e.u64(self.flags);
        e.i32(self.result);
        e.put(&self.bad_replay_version);
        e.put(&self.map_epoch);
        e.len(self.ops.len());
        self.ops.iter().for_each(|outcome| outcome.item.encode_head(&mut e, outcome.output_len()));
        e.i32(self.retry_attempt);
        self.ops.iter().for_each(|outcome| e.i32(outcome.result));
        e.put(&self.replay_version);
        e.u64(self.user_version);
        e.put(&self.redirect);
        self.trace.into_iter().for_each(|word| e.u64(word));
        let mut full = self.ops.iter_mut().filter(|outcome| outcome.output_len() > 0);
        let (lead, sum) = match (full.next(), full.next()) {
            (Some(alone), None) => (core::mem::take(&mut alone.lead), alone.sum),
            _ => {
                self.ops.iter_mut().for_each(OpOutcome::join);
                (Bytes::new(), None)
            }
        };
        let data = join(&mut self.ops, |outcome| &mut outcome.item.payload);
        let sums = sum.map_or_else(Sums::default, |sum| Sums::known(data.clone(), sum));
        Payload { lead, sums, ..Self::payload(e.finish(), data) }
    }
}
