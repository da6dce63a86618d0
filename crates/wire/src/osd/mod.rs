//! What RADOS speaks of: objects, their placement groups and versions, and the operations on them.
//!
//! Owns the object-level structures that messages, the OSD engine and the client share. Refuses to know how an
//! operation is executed (crate `osd`) or where an object lives (crate `maps`).
//!
//! Invariants: names, keys and namespaces are bytes, not text, because Ceph's are; whatever is decoded from a shared
//! buffer is a slice of it (`HObject::detached` copies it out for keeping).
//!
//! Read next: `object` (names and order), `op` (one operation of a request), `payload` (what operations carry).

pub mod copy;
pub mod flags;
pub mod object;
pub mod op;
pub mod opcode;
pub mod payload;
pub mod reqid;

pub use flags::{OpFlags, RequestFlags};
pub use object::{HObject, ObjectLocator, SnapContext, SpgId};
pub use op::{OpParams, OsdOpItem};
pub use opcode::OpCode;
pub use reqid::OsdReqId;
