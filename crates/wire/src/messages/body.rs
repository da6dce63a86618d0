//! How a struct becomes a message: the trait every message implements and the macro that writes most of them.
//!
//! Owns the rules of versions: a field that came with version N is absent below it and takes its default; bytes after
//! the last known field are a newer version's and skipped, but refused from a peer that claims a version we know; a
//! compat above ours is refused. We write the versions of Ceph v16.2.
//!
//! Read next: `mod`, the table of all messages.

use super::Payload;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use base::sums::Sums;
use bytes::Bytes;

/// A message of one type.
pub trait Body: Sized {
    /// Its type number.
    const KIND: u16;
    /// The version of its format that we write.
    const VERSION: u16;
    /// The oldest version whose readers can read what we write.
    const COMPAT: u16;
    /// Ceph's name for it, without the leading M.
    const NAME: &'static str;

    /// Reads it; its type number has been checked, its compat has not.
    fn from_payload(payload: &Payload) -> Result<Self, Malformed>;

    /// Splits it into its sections.
    fn into_payload(self) -> Payload;

    /// The sections of a message of this type.
    fn payload(front: Bytes, data: Bytes) -> Payload {
        let (kind, version, compat) = (Self::KIND, Self::VERSION, Self::COMPAT);
        Payload { kind, version, compat, front, middle: Bytes::new(), lead: Bytes::new(), data, sums: Sums::default() }
    }

    /// Refuses what only newer readers may read.
    fn check_compat(payload: &Payload) -> Result<(), Malformed> {
        if payload.compat > Self::VERSION { Err(Malformed::new(Self::NAME, "needs a newer reader")) } else { Ok(()) }
    }

    /// Ends the reading of the front: only a newer version may have more.
    fn finish(d: Decoder<'_>, payload: &Payload) -> Result<(), Malformed> {
        if payload.version > Self::VERSION { Ok(()) } else { d.finish(Self::NAME) }
    }
}

/// What precedes the fields of most messages to a monitor (`PaxosServiceMessage`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaxosHead {
    /// The newest version of the map in question that the sender has.
    pub version: u64,
    /// Always -1; was a session between monitors.
    pub session_mon: i16,
    /// Always 0.
    pub session_mon_tid: u64,
}

impl PaxosHead {
    /// The head of a message from somebody who has `version`.
    pub fn new(version: u64) -> PaxosHead {
        PaxosHead { version, session_mon: -1, session_mon_tid: 0 }
    }
}

impl Default for PaxosHead {
    fn default() -> PaxosHead {
        PaxosHead::new(0)
    }
}

impl Encode for PaxosHead {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.version);
        e.i16(self.session_mon);
        e.u64(self.session_mon_tid);
    }
}

impl Decode for PaxosHead {
    const MIN_BYTES: usize = 18;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(PaxosHead { version: d.u64()?, session_mon: d.i16()?, session_mon_tid: d.u64()? })
    }
}

/// A structure with a versioned envelope, kept whole for a crate above that knows what is inside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sealed(pub Bytes);

impl Encode for Sealed {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
}

impl Decode for Sealed {
    const MIN_BYTES: usize = 6;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let head = d.peek();
        let Some(&[a, b, c, e]) = head.get(2..6).and_then(|s| <&[u8; 4]>::try_from(s).ok()) else {
            return Err(Malformed::new("envelope", "ends too early"));
        };
        let len = u32::from_le_bytes([a, b, c, e]) as usize;
        Ok(Sealed(d.bytes(len.saturating_add(6))?))
    }
}

/// All bytes to the end of the front, for a crate above that knows what is inside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rest(pub Bytes);

impl Encode for Rest {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
}

impl Decode for Rest {
    const MIN_BYTES: usize = 0;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = d.remaining();
        Ok(Rest(d.bytes(len)?))
    }
}

/// Reads one field, or its default where the sender's version has none.
macro_rules! field {
    ($d:ident, $version:expr, $ty:ty) => {
        $d.get::<$ty>()?
    };
    ($d:ident, $version:expr, $ty:ty, $since:literal) => {
        if $version >= $since { $d.get::<$ty>()? } else { <$ty>::default() }
    };
}

/// Defines messages whose front is their fields in order:
/// `Name(type number, version, compat) { field: Type, newer_field: Type = since 2 }`, and `+ { data, sums }`: the data
/// section is a field too, and what is known of its checksums.
macro_rules! message {
    ($(
        $(#[$doc:meta])*
        $name:ident($kind:literal, $version:literal, $compat:literal) {
            $($(#[$fdoc:meta])* $field:ident: $ty:ty $(= since $since:literal)?,)*
        }
        $(+ { $(#[$ddoc:meta])* $data:ident $(, $(#[$sdoc:meta])* $sums:ident)? })?
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
            $($(#[$ddoc])* pub $data: bytes::Bytes, $($(#[$sdoc])* pub $sums: base::sums::Sums,)?)?
        }

        impl $crate::messages::Body for $name {
            const KIND: u16 = $kind;
            const VERSION: u16 = $version;
            const COMPAT: u16 = $compat;
            const NAME: &'static str = stringify!($name);

            #[allow(unused_mut, unused_variables)]
            fn from_payload(payload: &$crate::messages::Payload) -> Result<Self, $crate::Malformed> {
                Self::check_compat(payload)?;
                let mut d = $crate::Decoder::shared(&payload.front);
                let message = $name {
                    $($field: $crate::messages::body::field!(d, payload.version, $ty $(, $since)?),)*
                    $($data: payload.data.clone(), $($sums: payload.sums.clone(),)?)?
                };
                Self::finish(d, payload)?;
                Ok(message)
            }

            #[allow(unused_mut)]
            fn into_payload(self) -> $crate::messages::Payload {
                // Most fronts fit, that of a replicated write among them: growing to their length takes a copy a step.
                let mut e = $crate::Encoder::with_capacity(768);
                $(e.put(&self.$field);)*
                #[allow(unused_mut)]
                let mut payload = Self::payload(e.finish(), $crate::messages::body::data_section!(self $($data)?));
                $($(payload.sums = self.$sums;)?)?
                payload
            }
        }
    )*};
}

/// The data section of a message: a field, or nothing.
macro_rules! data_section {
    ($self:ident) => {
        bytes::Bytes::new()
    };
    ($self:ident $data:ident) => {
        $self.$data
    };
}

pub(crate) use {data_section, field, message};
