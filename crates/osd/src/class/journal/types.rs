//! What a journal's header says of its clients and tags.
//!
//! Follows Ceph v16.2 `src/cls/journal/cls_journal_types.{h,cc}`.

use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// How far a client has come in one of the journal's objects (`ObjectPosition`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ObjectPosition {
    pub(super) object: u64,
    pub(super) tag: u64,
    pub(super) entry: u64,
}

impl Encode for ObjectPosition {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| [self.object, self.tag, self.entry].into_iter().for_each(|n| e.u64(n)));
    }
}

impl Decode for ObjectPosition {
    const MIN_BYTES: usize = 30;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("ObjectPosition", 1, |d, _| Ok(ObjectPosition { object: d.u64()?, tag: d.u64()?, entry: d.u64()? }))
    }
}

/// How far a client has come, the newest first (`ObjectSetPosition`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Position(pub(super) Vec<ObjectPosition>);

impl Encode for Position {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| e.put(&self.0));
    }
}

impl Decode for Position {
    const MIN_BYTES: usize = 10;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("ObjectSetPosition", 1, |d, _| Ok(Position(d.get()?)))
    }
}

impl Position {
    /// The oldest tag that is still needed.
    pub(super) fn oldest_tag(&self) -> Option<u64> {
        self.0.iter().map(|position| position.tag).min()
    }
}

/// A client (`Client`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Client {
    pub(super) id: Bytes,
    pub(super) data: Bytes,
    pub(super) position: Position,
    pub(super) state: u8,
}

/// A client that nobody waits for.
pub(super) const DISCONNECTED: u8 = 1;

impl Encode for Client {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.id);
            e.put(&self.data);
            e.put(&self.position);
            e.u8(self.state);
        });
    }
}

impl Decode for Client {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("Client", 1, |d, _| Ok(Client { id: d.get()?, data: d.get()?, position: d.get()?, state: d.u8()? }))
    }
}

/// A tag: who writes from there on (`Tag`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) id: u64,
    pub(super) class: u64,
    pub(super) data: Bytes,
}

impl Encode for Tag {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u64(self.id);
            e.u64(self.class);
            e.put(&self.data);
        });
    }
}

impl Decode for Tag {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("Tag", 1, |d, _| Ok(Tag { id: d.u64()?, class: d.u64()?, data: d.get()? }))
    }
}
