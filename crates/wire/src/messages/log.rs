//! The cluster log: daemons tell the monitors what operators should read.
//!
//! Follows Ceph v16.2 `src/messages/MLog.h`, `MLogAck.h` and `src/common/LogEntry.cc`.

use super::body::{PaxosHead, message};
use super::mon::AuthName;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::{AddrVec, EntityName, UTime, Uuid};

message! {
    /// Lines for the cluster log.
    Log(52, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// The lines.
        entries: Vec<LogEntry>,
    }

    /// Says how far the lines of a channel are recorded.
    LogAck(53, 1, 1) {
        /// The cluster.
        fsid: Uuid,
        /// The last line's number.
        last: u64,
        /// The channel.
        channel: String,
    }
}

/// One line of the cluster log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// Who says it.
    pub name: AuthName,
    /// The same as messages name it.
    pub rank: EntityName,
    /// Where it is.
    pub addrs: AddrVec,
    /// When.
    pub stamp: UTime,
    /// Counts the sender's lines.
    pub seq: u64,
    /// How bad (`clog_type`): 0 debug, 1 info, 2 security, 3 warning, 4 error.
    pub level: u16,
    /// The line.
    pub text: String,
    /// `cluster`, `audit`.
    pub channel: String,
}

impl Encode for LogEntry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(5, 5, |e| {
            e.put(&self.name);
            e.put(&self.rank);
            e.put(&self.addrs);
            e.put(&self.stamp);
            e.u64(self.seq);
            e.u16(self.level);
            e.string(&self.text);
            e.string(&self.channel);
        });
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 40;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("LogEntry", 5, |d, version| {
            if version < 5 {
                return Err(Malformed::new("LogEntry", "is older than any supported peer's"));
            }
            Ok(LogEntry {
                name: d.get()?,
                rank: d.get()?,
                addrs: d.get()?,
                stamp: d.get()?,
                seq: d.u64()?,
                level: d.u16()?,
                text: d.string()?,
                channel: d.string()?,
            })
        })
    }
}
