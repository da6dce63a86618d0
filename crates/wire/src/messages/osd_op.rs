//! A client's request to an OSD: the message that matters most.
//!
//! Follows Ceph v16.2 `src/messages/MOSDOp.h`, version 8, which every supported client writes for a peer with
//! Pacific's features (the kernel's too: `net/ceph/osd_client.c` of Linux 6.1). Ceph decodes it in two steps, one on
//! each of two threads; here it is one.
//!
//! Invariants: each operation's payload is a slice of the message's data, and all of the data is some operation's.

use super::Payload;
use super::body::Body;
use crate::codec::{Decoder, Encoder, Malformed};
use crate::osd::op::OP_BYTES;
use crate::osd::{HObject, ObjectLocator, OsdOpItem, OsdReqId, RequestFlags, SnapContext, SpgId};
use crate::types::{EntityName, UTime};
use base::sums::Sums;
use base::{Epoch, SnapId};
use bytes::{Bytes, BytesMut};

/// A tracing context (`blkin_trace_info`): trace, span and parent span; zeros when not traced.
pub type Trace = [u64; 3];

/// Operations on one object, or on one placement group, that succeed or fail as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdOp {
    /// The placement group the client thinks is right.
    pub pgid: SpgId,
    /// The object's full placement hash.
    pub hash: u32,
    /// The client's map.
    pub map_epoch: Epoch,
    /// What the request needs and wants.
    pub flags: RequestFlags,
    /// Who asks; mostly left to be implied (`request_id`).
    pub reqid: OsdReqId,
    /// Tracing.
    pub trace: Trace,
    /// The client's incarnation.
    pub client_inc: u32,
    /// The client's time, which becomes the object's.
    pub mtime: UTime,
    /// Pool, namespace and key.
    pub locator: ObjectLocator,
    /// The object's name; empty when the request concerns a placement group.
    pub object: Bytes,
    /// What to do, in order.
    pub ops: Vec<OsdOpItem>,
    /// Which snapshot to read.
    pub snap: SnapId,
    /// Which snapshots a write must preserve.
    pub snap_context: SnapContext,
    /// How often the request has been sent before; -1 is unknown.
    pub retry_attempt: i32,
    /// The client's features.
    pub features: u64,
    /// What is known of the checksums of what the operations carry; it does not travel.
    pub sums: Sums,
}

impl OsdOp {
    /// A first attempt at `ops` on the live object `object`.
    pub fn new(pgid: SpgId, hash: u32, locator: ObjectLocator, object: Bytes, ops: Vec<OsdOpItem>) -> OsdOp {
        OsdOp {
            pgid,
            hash,
            map_epoch: Epoch(0),
            flags: RequestFlags::default(),
            reqid: OsdReqId::default(),
            trace: Trace::default(),
            client_inc: 0,
            mtime: UTime::default(),
            locator,
            object,
            ops,
            snap: SnapId::HEAD,
            snap_context: SnapContext::default(),
            retry_attempt: 0,
            features: 0,
            sums: Sums::default(),
        }
    }

    /// The object in its order. Shares the message's buffer: see `HObject::detached`.
    pub fn hobject(&self) -> HObject {
        let (nspace, key) = (self.locator.nspace.clone(), self.locator.key.clone());
        let head = HObject::head(self.pgid.pg.pool, nspace, key, self.object.clone(), self.hash);
        HObject { snap: self.snap, ..head }
    }

    /// The request's name for ever, given who sent it and its header's transaction id.
    pub fn request_id(&self, sender: EntityName, tid: u64) -> OsdReqId {
        if self.reqid.is_implied() { OsdReqId { name: sender, tid, inc: self.client_inc as i32 } } else { self.reqid }
    }
}

impl Body for OsdOp {
    const KIND: u16 = 42;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 3;
    const NAME: &'static str = "OsdOp";

    fn from_payload(payload: &Payload) -> Result<Self, Malformed> {
        Self::check_compat(payload)?;
        if payload.version < 8 {
            return Err(Malformed::new(Self::NAME, "is older than any supported peer's"));
        }
        let mut d = Decoder::shared(&payload.front);
        let d = &mut d;
        let mut data = OpData::new(&payload.data);
        let message = OsdOp {
            pgid: d.get()?,
            hash: d.u32()?,
            map_epoch: d.get()?,
            flags: RequestFlags(d.u32()?),
            reqid: d.get()?,
            trace: decode_trace(d)?,
            client_inc: d.u32()?,
            mtime: d.get()?,
            locator: d.get()?,
            object: d.blob()?,
            ops: {
                let count = usize::from(d.u16()?);
                check_count(d, count)?;
                let mut ops = Vec::with_capacity(count);
                for _ in 0..count {
                    let (mut item, len) = OsdOpItem::decode_head(d)?;
                    item.payload = data.take(len)?;
                    ops.push(item);
                }
                ops
            },
            snap: d.get()?,
            snap_context: d.get()?,
            retry_attempt: d.i32()?,
            features: d.u64()?,
            sums: payload.sums.clone(),
        };
        Self::finish(d.clone(), payload)?;
        data.finish()?;
        Ok(message)
    }

    fn into_payload(mut self) -> Payload {
        let names = self.object.len() + self.locator.key.len() + self.locator.nspace.len();
        let mut e = Encoder::with_capacity(220 + names + self.ops.len() * OP_BYTES + self.snap_context.snaps.len() * 8);
        e.put(&self.pgid);
        e.u32(self.hash);
        e.put(&self.map_epoch);
        e.u32(self.flags.0);
        e.put(&self.reqid);
        self.trace.into_iter().for_each(|word| e.u64(word));
        e.u32(self.client_inc);
        e.put(&self.mtime);
        e.put(&self.locator);
        e.put(&self.object);
        e.u16(u16::try_from(self.ops.len()).expect("a request that we built has few operations"));
        self.ops.iter().for_each(|item| item.encode_head(&mut e, item.payload.len()));
        e.put(&self.snap);
        e.put(&self.snap_context);
        e.i32(self.retry_attempt);
        e.u64(self.features);
        Self::payload(e.finish(), join(&mut self.ops, |item| &mut item.payload))
    }
}

/// Refuses more operations than bytes are left for: what a count costs is bounded before it is allocated.
pub(super) fn check_count(d: &Decoder<'_>, count: usize) -> Result<(), Malformed> {
    if count.saturating_mul(OP_BYTES) > d.remaining() {
        return Err(Malformed::new("operations", "are more than there are bytes"));
    }
    Ok(())
}

pub(super) fn decode_trace(d: &mut Decoder<'_>) -> Result<Trace, Malformed> {
    Ok([d.u64()?, d.u64()?, d.u64()?])
}

/// Deals the data section out to the operations, without copying.
pub(super) struct OpData {
    rest: Bytes,
}

impl OpData {
    pub(super) fn new(data: &Bytes) -> OpData {
        OpData { rest: data.clone() }
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<Bytes, Malformed> {
        match len {
            0 => Ok(Bytes::new()),
            _ if len > self.rest.len() => Err(Malformed::new("operations", "claim more data than there is")),
            _ if len == self.rest.len() => Ok(core::mem::take(&mut self.rest)),
            _ => Ok(self.rest.split_to(len)),
        }
    }

    pub(super) fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::new("operations", "leave data unclaimed")) }
    }
}

/// One buffer of several: itself if there is only one, else a copy.
pub(super) fn join<T>(parts: &mut [T], payload: impl Fn(&mut T) -> &mut Bytes) -> Bytes {
    let mut full = parts.iter_mut().map(&payload).filter(|part| !part.is_empty());
    match (full.next(), full.next()) {
        (None, _) => Bytes::new(),
        (Some(one), None) => core::mem::take(one),
        _ => {
            let mut all = BytesMut::with_capacity(parts.iter_mut().map(|part| payload(part).len()).sum());
            parts.iter_mut().for_each(|part| all.extend_from_slice(payload(part)));
            all.freeze()
        }
    }
}
