//! Every message, one struct each, and the enum that holds any of them.
//!
//! Owns the type numbers and the split of a message into front, middle and data. A message of a type not listed here
//! is kept as `Unknown`, so that its receiver decides what to say about it. Structures of layer 2 (maps, statistics)
//! travel as `Bytes`, `Sealed` or `Rest`: crate `maps` opens them.
//!
//! Read next: `body` (how a struct becomes a message), `osd_op` (the one that matters most).

pub mod auth;
pub mod body;
pub mod boot;
pub mod command;
pub mod log;
pub mod mgr;
pub mod mon;
pub mod osd_map;
pub mod osd_op;
pub mod osd_op_reply;
pub mod pool;
pub mod replication;
pub mod stats;
pub mod watch;

pub use auth::*;
pub use body::{Body, PaxosHead, Rest, Sealed};
pub use boot::*;
pub use command::*;
pub use log::*;
pub use mgr::*;
pub use mon::*;
pub use osd_map::*;
pub use osd_op::*;
pub use osd_op_reply::*;
pub use pool::*;
pub use replication::*;
pub use stats::*;
pub use watch::*;

use crate::codec::Malformed;
use base::sums::Sums;
use bytes::Bytes;

macro_rules! table {
    ($($name:ident,)*) => {
        /// Any message.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Message {
            $(#[allow(missing_docs, reason = "the struct says what it is")] $name(Box<$name>),)*
            /// A type that this table does not list.
            Unknown(Box<Payload>),
        }

        $(impl From<$name> for Message {
            fn from(message: $name) -> Message {
                Message::$name(Box::new(message))
            }
        })*

        impl Message {
            /// The message's type number.
            pub fn kind(&self) -> u16 {
                match self {
                    $(Message::$name(_) => $name::KIND,)*
                    Message::Unknown(payload) => payload.kind,
                }
            }

            /// Ceph's name for the message, without the leading M.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Message::$name(_) => $name::NAME,)*
                    Message::Unknown(_) => "Unknown",
                }
            }

            /// Splits the message into its sections.
            pub fn into_payload(self) -> Payload {
                match self {
                    $(Message::$name(message) => message.into_payload(),)*
                    Message::Unknown(payload) => *payload,
                }
            }

            /// Reads a message from its sections; blobs share the sections' buffers.
            pub fn decode(payload: Payload) -> Result<Message, Malformed> {
                match payload.kind {
                    $($name::KIND => $name::from_payload(&payload).map(Message::from),)*
                    _ => Ok(Message::Unknown(Box::new(payload))),
                }
            }
        }
    };
}

table! {
    OsdOp,
    OsdOpReply,
    OsdMap,
    Ping,
    MonMap,
    MonGetMap,
    MonSubscribe,
    MonSubscribeAck,
    MonGetVersion,
    MonGetVersionReply,
    Config,
    GetConfig,
    KvData,
    Auth,
    AuthReply,
    MonCommand,
    MonCommandAck,
    Command,
    CommandReply,
    Log,
    LogAck,
    StatFs,
    StatFsReply,
    PoolOp,
    PoolOpReply,
    GetPoolStats,
    GetPoolStatsReply,
    PgStats,
    PgStatsAck,
    WatchNotify,
    Backoff,
    OsdBoot,
    OsdFailure,
    OsdAlive,
    OsdMarkMeDown,
    OsdMarkMeDead,
    OsdFull,
    OsdPgTemp,
    OsdPgReadyToMerge,
    OsdBeacon,
    OsdPgCreated,
    OsdPgCreate,
    OsdScrub,
    OsdForceRecovery,
    MonGetPurgedSnaps,
    MonGetPurgedSnapsReply,
    MgrMap,
    MgrOpen,
    MgrConfigure,
    MgrReport,
    MgrClose,
    MgrCommand,
    MgrCommandReply,
    ServiceMap,
    FsMap,
    FsMapUser,
    MdsMap,
    SubWrite,
    SubCommit,
    PgQuery,
    PgNotify,
    PgLogQuery,
    PgLog,
    PgActivate,
    PgActivated,
    PgPull,
    PgHurry,
    PgPush,
    PgBackfill,
    PgBackfilled,
    PgRecover,
    PgRecovered,
    PgReserve,
    PgReserved,
    PgScrub,
    PgScrubbed,
    PgScrubEnd,
    PgRemove,
    PgCommittedQuery,
    PgCommitted,
    OsdRoom,
    OsdTenants,
    OsdPing,
}

/// A message's three sections as they travel, with what the header says about their format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    /// The message's type number (`CEPH_MSG_*`, `MSG_*`).
    pub kind: u16,
    /// The format's version.
    pub version: u16,
    /// The oldest version whose readers can read it.
    pub compat: u16,
    /// The first section: fixed fields.
    pub front: Bytes,
    /// The second section; almost always empty.
    pub middle: Bytes,
    /// The first bytes of the third section, where what follows is a buffer of its own that is sent from where it is. What
    /// came has none.
    pub lead: Bytes,
    /// The third section, or the rest of it: bulk data.
    pub data: Bytes,
    /// What is known of the data's checksum without looking at it (again). Where it is sent, that travels with the data as
    /// it is: what changed the data since will be found by the receiver. Where it came, this is what was found as it was
    /// checked.
    pub sums: Sums,
}
