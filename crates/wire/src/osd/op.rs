//! One operation of a request: code, flags, parameters, payload.
//!
//! Follows Ceph v16.2 `src/include/rados.h` (`struct ceph_osd_op`, 38 bytes packed) and `src/osd/osd_types.h`
//! (`OSDOp`). The parameters' 28 bytes are kept as they came, so that decoding costs one copy, a reply echoes them
//! exactly, and whoever executes the operation asks for the one reading that its code calls for (`params`).
//!
//! Invariants: encoding writes the payload's true length. Read next: `payload`, for what payloads hold.

use super::{OpCode, OpFlags};
use crate::codec::{Decoder, Encoder, Malformed};
use base::SnapId;
use bytes::Bytes;
use core::fmt;

/// The bytes of one operation in a message's front.
pub const OP_BYTES: usize = 38;
const ARGS_BYTES: usize = 28;

/// One operation. In a request `payload` is what goes in, in a reply what came out.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OsdOpItem {
    /// What to do.
    pub op: OpCode,
    /// How.
    pub flags: OpFlags,
    /// The parameters as they travel; see `params`.
    pub args: [u8; ARGS_BYTES],
    /// The operation's own slice of the message's data.
    pub payload: Bytes,
}

/// An operation's parameters, read by its code. Offsets and lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpParams {
    /// Reads, writes and what else concerns a range of the object's data.
    Extent {
        /// Where it begins.
        offset: u64,
        /// How long it is; 0 is "to the end" for reads.
        length: u64,
        /// CephFS's truncation: the size to cut to before a write ...
        truncate_size: u64,
        /// ... if this is newer than the object's.
        truncate_seq: u32,
    },
    /// An extended attribute: name and value follow each other in the payload.
    Xattr {
        /// Bytes of the name.
        name_len: u32,
        /// Bytes of the value.
        value_len: u32,
        /// How to compare (`CmpOp`).
        cmp_op: u8,
        /// Compare as text (1) or as numbers (2).
        cmp_mode: u8,
    },
    /// A call of an object class: class, method and input follow each other in the payload.
    Call {
        /// Bytes of the class's name.
        class_len: u8,
        /// Bytes of the method's name.
        method_len: u8,
        /// Unused.
        argc: u8,
        /// Bytes of input.
        input_len: u32,
    },
    /// A listing of a placement group.
    List {
        /// The most entries to return.
        count: u64,
        /// The epoch the listing began in.
        start_epoch: u32,
    },
    /// Rollback to a snapshot.
    Snap {
        /// The snapshot.
        snap: SnapId,
    },
    /// Watch, unwatch, ping.
    Watch {
        /// The client's handle.
        cookie: u64,
        /// Unused.
        version: u64,
        /// What to do (`WatchOp`).
        op: u8,
        /// Counts the client's reconnects.
        generation: u32,
        /// Seconds; 0 is the pool's default.
        timeout_s: u32,
    },
    /// Notify and its acknowledgement.
    Notify {
        /// The client's handle.
        cookie: u64,
    },
    /// The object's user version must be this one.
    AssertVer {
        /// The version.
        version: u64,
    },
    /// Copy from another object, named in the payload.
    CopyFrom {
        /// The source's snapshot.
        snap: SnapId,
        /// The source's version; 0 is any.
        version: u64,
        /// `CEPH_OSD_COPY_FROM_FLAG_*`.
        flags: u8,
        /// Access hints for the source.
        fadvise_flags: u32,
    },
    /// The most bytes of a copy-get.
    CopyGet {
        /// Bytes.
        max: u64,
    },
    /// What the object will be like.
    AllocHint {
        /// Bytes.
        object_size: u64,
        /// Bytes.
        write_size: u64,
        /// `CEPH_OSD_ALLOC_HINT_FLAG_*`.
        flags: u32,
    },
    /// Fill a range with copies of the payload.
    WriteSame {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// Bytes of the pattern.
        data_length: u64,
    },
    /// Checksum a range.
    Checksum {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// Bytes a sum covers; 0 is all.
        chunk_size: u32,
        /// `CEPH_OSD_CHECKSUM_OP_TYPE_*`.
        kind: u8,
    },
    /// The operation has none, or none that are known here.
    None,
}

impl OsdOpItem {
    /// Says in a class call's parameters how long its output is, where an extent has its length, as OSDs do.
    pub fn set_output_len(&mut self) {
        self.args[8..16].copy_from_slice(&(self.payload.len() as u64).to_le_bytes());
    }

    /// An operation without parameters or payload.
    pub fn new(op: OpCode) -> OsdOpItem {
        OsdOpItem { op, ..OsdOpItem::default() }
    }

    /// The same with a payload.
    pub fn with_payload(self, payload: impl Into<Bytes>) -> OsdOpItem {
        OsdOpItem { payload: payload.into(), ..self }
    }

    /// The same with flags.
    pub fn with_flags(self, flags: OpFlags) -> OsdOpItem {
        OsdOpItem { flags, ..self }
    }

    /// An operation on a range of the object's data.
    pub fn extent(op: OpCode, offset: u64, length: u64) -> OsdOpItem {
        OsdOpItem::new(op).with_params(OpParams::Extent { offset, length, truncate_size: 0, truncate_seq: 0 })
    }

    /// An operation on the extended attribute `name`.
    pub fn xattr(op: OpCode, name: &[u8], value: &[u8]) -> OsdOpItem {
        let params = OpParams::Xattr {
            name_len: u32::try_from(name.len()).expect("a name that we built fits in 32 bits"),
            value_len: u32::try_from(value.len()).expect("a value that we built fits in 32 bits"),
            cmp_op: 0,
            cmp_mode: 0,
        };
        OsdOpItem::new(op).with_params(params).with_payload([name, value].concat())
    }

    /// The same with these parameters.
    pub fn with_params(mut self, params: OpParams) -> OsdOpItem {
        self.args = params.to_args();
        self
    }

    /// The parameters, as this operation's code reads them.
    pub fn params(&self) -> OpParams {
        OpParams::from_args(self.op, &self.args)
    }

    /// Offset and length of an operation on a range; zero for others.
    #[inline]
    pub fn range(&self) -> (u64, u64) {
        if self.op.uses_extent() { (self.word(0), self.word(8)) } else { (0, 0) }
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.args[at..at + 8].try_into().expect("eight bytes"))
    }

    /// Appends the 38 bytes that go into the front, with so many bytes to go into the data.
    pub(crate) fn encode_head(&self, e: &mut Encoder, len: usize) {
        let mut head = [0; OP_BYTES];
        head[..2].copy_from_slice(&self.op.0.to_le_bytes());
        head[2..6].copy_from_slice(&self.flags.0.to_le_bytes());
        head[6..34].copy_from_slice(&self.args);
        let len = u32::try_from(len).expect("a payload that we hold fits in 32 bits");
        head[34..].copy_from_slice(&len.to_le_bytes());
        e.raw(&head);
    }

    /// Reads the 38 bytes, and how long the payload will be.
    #[inline]
    pub(crate) fn decode_head(d: &mut Decoder<'_>) -> Result<(OsdOpItem, usize), Malformed> {
        let head: [u8; OP_BYTES] = d.array()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mut item = OsdOpItem {
            op: OpCode(u16::from_le_bytes([head[0], head[1]])),
            flags: OpFlags(word(2)),
            ..OsdOpItem::default()
        };
        item.args.copy_from_slice(&head[6..34]);
        Ok((item, word(34) as usize))
    }
}

impl fmt::Debug for OsdOpItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.op)?;
        match self.params() {
            OpParams::Extent { offset, length, .. } => write!(f, " {offset}~{length}")?,
            OpParams::None => {}
            params => write!(f, " {params:?}")?,
        }
        if self.payload.is_empty() { Ok(()) } else { write!(f, " [{}b]", self.payload.len()) }
    }
}

impl OpParams {
    fn to_args(self) -> [u8; ARGS_BYTES] {
        let mut e = Encoder::with_capacity(ARGS_BYTES);
        match self {
            OpParams::Extent { offset, length, truncate_size, truncate_seq } => {
                [offset, length, truncate_size].into_iter().for_each(|v| e.u64(v));
                e.u32(truncate_seq);
            }
            OpParams::Xattr { name_len, value_len, cmp_op, cmp_mode } => {
                [name_len, value_len].into_iter().for_each(|v| e.u32(v));
                e.raw(&[cmp_op, cmp_mode]);
            }
            OpParams::Call { class_len, method_len, argc, input_len } => {
                e.raw(&[class_len, method_len, argc]);
                e.u32(input_len);
            }
            OpParams::List { count, start_epoch } => {
                e.u64(count);
                e.u32(start_epoch);
            }
            OpParams::Snap { snap } => e.put(&snap),
            OpParams::Watch { cookie, version, op, generation, timeout_s } => {
                [cookie, version].into_iter().for_each(|v| e.u64(v));
                e.u8(op);
                [generation, timeout_s].into_iter().for_each(|v| e.u32(v));
            }
            OpParams::Notify { cookie } => e.u64(cookie),
            OpParams::AssertVer { version } => {
                [0, version].into_iter().for_each(|v| e.u64(v));
            }
            OpParams::CopyFrom { snap, version, flags, fadvise_flags } => {
                [snap.0, version].into_iter().for_each(|v| e.u64(v));
                e.u8(flags);
                e.u32(fadvise_flags);
            }
            OpParams::CopyGet { max } => e.u64(max),
            OpParams::AllocHint { object_size, write_size, flags } => {
                [object_size, write_size].into_iter().for_each(|v| e.u64(v));
                e.u32(flags);
            }
            OpParams::WriteSame { offset, length, data_length } => {
                [offset, length, data_length].into_iter().for_each(|v| e.u64(v));
            }
            OpParams::Checksum { offset, length, chunk_size, kind } => {
                [offset, length].into_iter().for_each(|v| e.u64(v));
                e.u32(chunk_size);
                e.u8(kind);
            }
            OpParams::None => {}
        }
        let mut args = [0; ARGS_BYTES];
        args[..e.position()].copy_from_slice(e.as_slice());
        args
    }

    fn from_args(op: OpCode, args: &[u8; ARGS_BYTES]) -> OpParams {
        let d = &mut Decoder::new(args);
        Self::read(op, d).expect("every reading is shorter than the parameters' 28 bytes")
    }

    fn read(op: OpCode, d: &mut Decoder<'_>) -> Result<OpParams, Malformed> {
        Ok(match op {
            op if op.uses_extent() => {
                OpParams::Extent { offset: d.u64()?, length: d.u64()?, truncate_size: d.u64()?, truncate_seq: d.u32()? }
            }
            op if op.is_attr() => {
                OpParams::Xattr { name_len: d.u32()?, value_len: d.u32()?, cmp_op: d.u8()?, cmp_mode: d.u8()? }
            }
            OpCode::CALL => {
                OpParams::Call { class_len: d.u8()?, method_len: d.u8()?, argc: d.u8()?, input_len: d.u32()? }
            }
            op if op.is_pg() => OpParams::List { count: d.u64()?, start_epoch: d.u32()? },
            OpCode::ROLLBACK => OpParams::Snap { snap: d.get()? },
            OpCode::WATCH => OpParams::Watch {
                cookie: d.u64()?,
                version: d.u64()?,
                op: d.u8()?,
                generation: d.u32()?,
                timeout_s: d.u32()?,
            },
            OpCode::NOTIFY | OpCode::NOTIFY_ACK => OpParams::Notify { cookie: d.u64()? },
            OpCode::ASSERT_VER => {
                d.u64()?;
                OpParams::AssertVer { version: d.u64()? }
            }
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => {
                OpParams::CopyFrom { snap: d.get()?, version: d.u64()?, flags: d.u8()?, fadvise_flags: d.u32()? }
            }
            OpCode::COPY_GET => OpParams::CopyGet { max: d.u64()? },
            OpCode::SETALLOCHINT => {
                OpParams::AllocHint { object_size: d.u64()?, write_size: d.u64()?, flags: d.u32()? }
            }
            OpCode::WRITESAME => OpParams::WriteSame { offset: d.u64()?, length: d.u64()?, data_length: d.u64()? },
            OpCode::CHECKSUM => {
                OpParams::Checksum { offset: d.u64()?, length: d.u64()?, chunk_size: d.u32()?, kind: d.u8()? }
            }
            _ => OpParams::None,
        })
    }
}

/// What a watch operation does (`CEPH_OSD_WATCH_OP_*`).
pub mod watch_op {
    /// Ends the watch.
    pub const UNWATCH: u8 = 0;
    /// A watch of clients before 2014.
    pub const LEGACY_WATCH: u8 = 1;
    /// Begins a watch.
    pub const WATCH: u8 = 3;
    /// Renews a watch after a reconnection.
    pub const RECONNECT: u8 = 5;
    /// Says that the watcher lives.
    pub const PING: u8 = 7;
}

/// How two attribute values or omap values are compared (`CEPH_OSD_CMPXATTR_OP_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmpOp {
    /// Equal.
    Eq = 1,
    /// Different.
    Ne = 2,
    /// The stored value is less than the given one reversed: given > stored.
    Gt = 3,
    /// given >= stored.
    Gte = 4,
    /// given < stored.
    Lt = 5,
    /// given <= stored.
    Lte = 6,
}

impl CmpOp {
    /// The comparison that a number on the wire stands for.
    pub fn from_wire(op: u8) -> Option<CmpOp> {
        [CmpOp::Eq, CmpOp::Ne, CmpOp::Gt, CmpOp::Gte, CmpOp::Lt, CmpOp::Lte].into_iter().find(|o| *o as u8 == op)
    }

    /// Whether `given OP stored` holds, as Ceph's OSD reads it.
    pub fn holds<T: Ord>(self, given: T, stored: T) -> bool {
        match self {
            CmpOp::Eq => given == stored,
            CmpOp::Ne => given != stored,
            CmpOp::Gt => given > stored,
            CmpOp::Gte => given >= stored,
            CmpOp::Lt => given < stored,
            CmpOp::Lte => given <= stored,
        }
    }
}

/// Compare attribute values as bytes (`CEPH_OSD_CMPXATTR_MODE_STRING`).
pub const CMP_MODE_STRING: u8 = 1;
/// Compare attribute values as decimal numbers (`CEPH_OSD_CMPXATTR_MODE_U64`).
pub const CMP_MODE_U64: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_round_trip_and_have_ceph_s_layout() {
        let write = OsdOpItem::extent(OpCode::WRITE, 4096, 512);
        assert_eq!(write.range(), (4096, 512));
        assert_eq!(&write.args[..16], &[0, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
        let cases = [
            (OpCode::WATCH, OpParams::Watch { cookie: 1, version: 2, op: 3, generation: 4, timeout_s: 5 }),
            (OpCode::CALL, OpParams::Call { class_len: 3, method_len: 4, argc: 0, input_len: 9 }),
            (OpCode::PGNLS, OpParams::List { count: 9, start_epoch: 3 }),
            (OpCode::ASSERT_VER, OpParams::AssertVer { version: 7 }),
            (OpCode::CHECKSUM, OpParams::Checksum { offset: 1, length: 2, chunk_size: 3, kind: 1 }),
            (OpCode::COPY_FROM2, OpParams::CopyFrom { snap: SnapId(1), version: 2, flags: 3, fadvise_flags: 4 }),
            (OpCode::CREATE, OpParams::None),
        ];
        for (op, params) in cases {
            assert_eq!(OsdOpItem::new(op).with_params(params).params(), params);
        }
    }

    #[test]
    fn every_code_reads_any_parameters() {
        for &op in OpCode::ALL {
            OsdOpItem { op, args: [0xFF; ARGS_BYTES], ..OsdOpItem::default() }.params();
        }
    }
}
