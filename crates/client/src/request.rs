//! Requests and what becomes of them.
//!
//! Read next: `objecter`, which carries them.

use base::{Duration, EVersion, Errno, PgId, PoolId, SnapId};
use bytes::Bytes;
use wire::messages::OpOutcome;
use wire::osd::payload::{KeySet, KeyValues, OmapRange};
use wire::osd::{HObject, OpCode, OpFlags, OpParams, OsdOpItem, RequestFlags, SnapContext};
use wire::{Encode, Encoder};

/// The caller's name for a request; not to be used again before it has completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(pub u64);

/// What a request is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// The pool.
    pub pool: PoolId,
    /// The namespace; empty is the default one.
    pub nspace: Bytes,
    /// The placement key; empty is the name itself.
    pub key: Bytes,
    /// The object's name; empty in a request about a placement group.
    pub object: Bytes,
    /// The placement group, in a request about one.
    pub pg: Option<PgId>,
}

impl Target {
    /// An object in a pool's default namespace.
    pub fn object(pool: PoolId, name: impl Into<Bytes>) -> Target {
        Target { pool, nspace: Bytes::new(), key: Bytes::new(), object: name.into(), pg: None }
    }

    /// A placement group.
    pub fn pg(pg: PgId, nspace: impl Into<Bytes>) -> Target {
        Target { pool: pg.pool, nspace: nspace.into(), key: Bytes::new(), object: Bytes::new(), pg: Some(pg) }
    }
}

/// Operations on one target that succeed or fail as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What it is about.
    pub target: Target,
    /// What to do, in order.
    pub ops: Vec<OsdOpItem>,
    /// Flags beyond those that follow from the operations.
    pub flags: RequestFlags,
    /// Which snapshot to read.
    pub snap: SnapId,
    /// Which snapshots a write must preserve.
    pub snap_context: SnapContext,
    /// After how long to give up; whether it was applied is then unknown.
    pub timeout: Option<Duration>,
}

impl Request {
    /// A request without operations yet.
    pub fn new(target: Target) -> Request {
        Request {
            target,
            ops: Vec::new(),
            flags: RequestFlags::default(),
            snap: SnapId::HEAD,
            snap_context: SnapContext::default(),
            timeout: None,
        }
    }

    /// Adds an operation.
    pub fn op(mut self, item: OsdOpItem) -> Request {
        self.ops.push(item);
        self
    }

    /// Adds flags to the whole request.
    pub fn with_flags(mut self, flags: RequestFlags) -> Request {
        self.flags = self.flags | flags;
        self
    }

    /// Gives up after `timeout`.
    pub fn within(mut self, timeout: Duration) -> Request {
        self.timeout = Some(timeout);
        self
    }

    /// Reads `length` bytes at `offset`; 0 is to the end.
    pub fn read(self, offset: u64, length: u64) -> Request {
        self.op(OsdOpItem::extent(OpCode::READ, offset, length))
    }

    /// Asks for size and modification time.
    pub fn stat(self) -> Request {
        self.op(OsdOpItem::new(OpCode::STAT))
    }

    /// Writes `data` at `offset`.
    pub fn write(self, offset: u64, data: Bytes) -> Request {
        let item = OsdOpItem::extent(OpCode::WRITE, offset, data.len() as u64);
        self.op(item.with_payload(data))
    }

    /// Replaces the object's data.
    pub fn write_full(self, data: Bytes) -> Request {
        let item = OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64);
        self.op(item.with_payload(data))
    }

    /// Writes `data` at the object's end.
    pub fn append(self, data: Bytes) -> Request {
        let item = OsdOpItem::extent(OpCode::APPEND, 0, data.len() as u64);
        self.op(item.with_payload(data))
    }

    /// Cuts or extends the object's data to `size` bytes.
    pub fn truncate(self, size: u64) -> Request {
        self.op(OsdOpItem::extent(OpCode::TRUNCATE, size, 0))
    }

    /// Zeroes a range.
    pub fn zero(self, offset: u64, length: u64) -> Request {
        self.op(OsdOpItem::extent(OpCode::ZERO, offset, length))
    }

    /// Creates the object; `exclusive` fails with EEXIST if it is there.
    pub fn create(self, exclusive: bool) -> Request {
        let flags = if exclusive { OpFlags::EXCL } else { OpFlags::default() };
        self.op(OsdOpItem::new(OpCode::CREATE).with_flags(flags))
    }

    /// Removes the object.
    pub fn delete(self) -> Request {
        self.op(OsdOpItem::new(OpCode::DELETE))
    }

    /// Fails with ERANGE or EOVERFLOW unless the object's version, as users see it, is this.
    pub fn assert_version(self, version: u64) -> Request {
        self.op(OsdOpItem::new(OpCode::ASSERT_VER).with_params(OpParams::AssertVer { version }))
    }

    /// Sets an attribute.
    pub fn set_xattr(self, name: &[u8], value: &[u8]) -> Request {
        self.op(OsdOpItem::xattr(OpCode::SETXATTR, name, value))
    }

    /// Reads an attribute.
    pub fn xattr(self, name: &[u8]) -> Request {
        self.op(OsdOpItem::xattr(OpCode::GETXATTR, name, b""))
    }

    /// Removes an attribute.
    pub fn remove_xattr(self, name: &[u8]) -> Request {
        self.op(OsdOpItem::xattr(OpCode::RMXATTR, name, b""))
    }

    /// Reads all attributes (`KeyValues`).
    pub fn xattrs(self) -> Request {
        self.op(OsdOpItem::new(OpCode::GETXATTRS))
    }

    /// Sets keys of the omap.
    pub fn omap_set(self, pairs: &KeyValues) -> Request {
        self.op(OsdOpItem::new(OpCode::OMAPSETVALS).with_payload(pairs.to_bytes()))
    }

    /// Removes keys of the omap.
    pub fn omap_remove(self, keys: &KeySet) -> Request {
        self.op(OsdOpItem::new(OpCode::OMAPRMKEYS).with_payload(keys.to_bytes()))
    }

    /// Reads a range of the omap (`OmapPage<KeyValues>`).
    pub fn omap_values(self, range: &OmapRange) -> Request {
        self.op(OsdOpItem::new(OpCode::OMAPGETVALS).with_payload(range.to_values()))
    }

    /// Reads keys of the omap (`KeyValues`).
    pub fn omap_values_of(self, keys: &KeySet) -> Request {
        self.op(OsdOpItem::new(OpCode::OMAPGETVALSBYKEYS).with_payload(keys.to_bytes()))
    }

    /// Lists up to `count` objects of a placement group from `cursor` on (`ListReply`).
    pub fn list(self, cursor: &HObject, count: u64) -> Request {
        let params = OpParams::List { count, start_epoch: 0 };
        let item = OsdOpItem::new(OpCode::PGNLS).with_params(params).with_payload(cursor.to_bytes());
        self.with_flags(RequestFlags::PGOP).op(item)
    }

    /// Calls a method of an object class. Whether it reads or writes is the caller's to say, by flags.
    pub fn call(self, class: &str, method: &str, input: &[u8]) -> Request {
        let mut e = Encoder::with_capacity(class.len() + method.len() + input.len());
        e.raw(class.as_bytes());
        e.raw(method.as_bytes());
        e.raw(input);
        let short = |text: &str| u8::try_from(text.len()).expect("names of classes and methods are short");
        let params = OpParams::Call {
            class_len: short(class),
            method_len: short(method),
            argc: 0,
            input_len: u32::try_from(input.len()).expect("a request's input fits in 32 bits"),
        };
        self.op(OsdOpItem::new(OpCode::CALL).with_params(params).with_payload(e.finish()))
    }

    /// Whether any operation reads.
    pub fn reads(&self) -> bool {
        self.flags.has(RequestFlags::READ) || self.ops.iter().any(|item| item.op.reads())
    }

    /// Whether any operation writes.
    pub fn writes(&self) -> bool {
        self.flags.has(RequestFlags::WRITE) || self.ops.iter().any(|item| item.op.writes())
    }
}

/// A request's end.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    /// Which.
    pub id: OpId,
    /// The OSD's answer, or why there is none.
    pub result: Result<Reply, Failure>,
}

/// Why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It certainly had no effect: the pool does not exist (ENOENT).
    Refused(Errno),
    /// It was given up; whether it had or will have an effect is unknown.
    TimedOut,
}

/// An OSD's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// 0 or more, or an errno negated.
    pub result: i32,
    /// The version that a write got.
    pub version: EVersion,
    /// The object's version as users see it.
    pub user_version: u64,
    /// Each operation's outcome.
    pub ops: Vec<OpOutcome>,
}

impl Reply {
    /// The errno, if the request failed.
    pub fn errno(&self) -> Option<Errno> {
        (self.result < 0).then_some(Errno(-self.result))
    }

    /// What came out of the operation at `index`; empty if there is none.
    pub fn output(&self, index: usize) -> Bytes {
        self.ops.get(index).map(|outcome| outcome.item.payload.clone()).unwrap_or_default()
    }
}
