//! Every message, one struct each, and the enum that holds any of them.
//!
//! Owns the type numbers and the split of a message into front, middle and data. A message of a type not listed here
//! is kept as `Unknown`, so that its receiver decides what to say about it.

use crate::codec::Malformed;
use bytes::Bytes;

/// Any message.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// A type that this table does not list.
    Unknown(Box<Payload>),
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
    /// The third section: bulk data.
    pub data: Bytes,
}

impl Message {
    /// Splits the message into its sections.
    pub fn into_payload(self) -> Payload {
        match self {
            Message::Unknown(payload) => *payload,
        }
    }

    /// Reads a message from its sections; blobs share the sections' buffers.
    pub fn decode(payload: Payload) -> Result<Message, Malformed> {
        Ok(Message::Unknown(Box::new(payload)))
    }
}
