//! Ceph's primitive encodings: little-endian integers, length-prefixed blobs and containers, versioned envelopes.
//!
//! Follows Ceph v16.2 `src/include/encoding.h`. Owns the bounds check of every decode: a count is believed only as
//! far as the remaining bytes can hold that many of its elements' smallest encoding.
//!
//! Read next: `types` for the structures built from these.

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that do not follow their format. The peer or the disk is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {why}")]
pub struct Malformed {
    /// The structure being decoded.
    pub what: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Malformed {
    /// A complaint about `what`.
    pub fn new(what: &'static str, why: &'static str) -> Malformed {
        Malformed { what, why }
    }
}

/// Has a byte encoding.
pub trait Encode {
    /// Appends the encoding.
    fn encode(&self, e: &mut Encoder);

    /// The encoding by itself.
    fn to_bytes(&self) -> Bytes {
        let mut e = Encoder::with_capacity(256);
        self.encode(&mut e);
        e.finish()
    }
}

/// Can be read back from bytes.
pub trait Decode: Sized {
    /// The fewest bytes an encoding of this type takes: what bounds the length of a container.
    const MIN_BYTES: usize = 1;

    /// Reads one value.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed>;

    /// Reads one value that must fill `bytes` exactly. Blobs inside share `bytes` instead of copying.
    fn from_bytes(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut d = Decoder::shared(bytes);
        let value = Self::decode(&mut d)?;
        d.finish(core::any::type_name::<Self>())?;
        Ok(value)
    }
}

/// Builds an encoding.
#[derive(Default, Debug)]
pub struct Encoder {
    buf: BytesMut,
}

macro_rules! put {
    ($($name:ident($ty:ty) = $put:ident;)*) => {
        $(#[doc = concat!("Appends a little-endian `", stringify!($ty), "`.")]
        #[inline]
        pub fn $name(&mut self, value: $ty) { self.buf.$put(value); })*
    };
}

impl Encoder {
    /// An empty encoding.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// An empty encoding with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Encoder {
        Encoder { buf: BytesMut::with_capacity(capacity) }
    }

    put! {
        u8(u8) = put_u8;
        u16(u16) = put_u16_le;
        u32(u32) = put_u32_le;
        u64(u64) = put_u64_le;
        i8(i8) = put_i8;
        i16(i16) = put_i16_le;
        i32(i32) = put_i32_le;
        i64(i64) = put_i64_le;
        f32(f32) = put_f32_le;
        f64(f64) = put_f64_le;
    }

    /// Appends one byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends bytes as they are, with no length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Appends a u32 length and the bytes: a `bufferlist` or `std::string`.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.raw(bytes);
    }

    /// Appends a u32 length and the text.
    pub fn string(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    /// Appends a container's length. Nothing we build comes near 4 Gi elements.
    pub fn len(&mut self, len: usize) {
        self.u32(u32::try_from(len).expect("a length that we built fits in 32 bits"));
    }

    /// Appends any encodable value.
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// Appends a versioned envelope: version, oldest version that may read it, u32 length, then what `body` appends
    /// (ENCODE_START and ENCODE_FINISH).
    pub fn versioned(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Encoder)) {
        self.u8(version);
        self.u8(compat);
        self.sized(body);
    }

    /// Appends a u32 byte length, then what `body` appends.
    pub fn sized(&mut self, body: impl FnOnce(&mut Encoder)) {
        let at = self.buf.len();
        self.u32(0);
        body(self);
        let len = u32::try_from(self.buf.len() - at - 4).expect("an envelope that we built fits in 32 bits");
        self.buf[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Overwrites four bytes at `at`, which must have been written: for checksums known last.
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        self.buf[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// How many bytes so far.
    pub fn position(&self) -> usize {
        self.buf.len()
    }

    /// What has been written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }

    /// The finished encoding.
    pub fn finish(self) -> Bytes {
        self.buf.freeze()
    }

    /// Forgets what was encoded; its room stays.
    pub fn clear(&mut self) {
        self.buf.clear();
    }

    /// Takes the finished encoding and leaves the encoder empty with its spare capacity, ready for the next.
    pub fn take(&mut self) -> Bytes {
        self.buf.split().freeze()
    }
}

/// Reads an encoding.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    owner: Option<&'a Bytes>,
}

macro_rules! take {
    ($($name:ident -> $ty:ty;)*) => {
        $(#[doc = concat!("Reads a little-endian `", stringify!($ty), "`.")]
        #[inline]
        pub fn $name(&mut self) -> Result<$ty, Malformed> { Ok(<$ty>::from_le_bytes(self.array()?)) })*
    };
}

impl<'a> Decoder<'a> {
    /// Reads from a slice; blobs are copied out.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes, owner: None }
    }

    /// Reads from a shared buffer; blobs are slices of it.
    pub fn shared(bytes: &'a Bytes) -> Decoder<'a> {
        Decoder { rest: bytes, owner: Some(bytes) }
    }

    take! { u8 -> u8; u16 -> u16; u32 -> u32; u64 -> u64; i8 -> i8; i16 -> i16; i32 -> i32; i64 -> i64; f32 -> f32; f64 -> f64; }

    /// Reads one byte; any but 0 is true.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        Ok(self.u8()? != 0)
    }

    /// Reads `len` bytes.
    #[inline]
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        if len > self.rest.len() {
            return Err(Malformed::new("encoding", "ends too early"));
        }
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(head)
    }

    /// Reads a fixed number of bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.raw(N)?);
        Ok(out)
    }

    /// Reads `len` bytes as a buffer: shared where the decoder reads from one, else copied.
    pub fn bytes(&mut self, len: usize) -> Result<Bytes, Malformed> {
        let raw = self.raw(len)?;
        Ok(match self.owner {
            Some(owner) => owner.slice_ref(raw),
            None => Bytes::copy_from_slice(raw),
        })
    }

    /// Reads a u32 length and that many bytes, without copying.
    pub fn slice(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        self.raw(len)
    }

    /// Reads a u32 length and that many bytes.
    pub fn blob(&mut self) -> Result<Bytes, Malformed> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }

    /// Reads a length-prefixed text, which must be UTF-8.
    pub fn string(&mut self) -> Result<String, Malformed> {
        let raw = self.slice()?;
        Ok(core::str::from_utf8(raw).map_err(|_| Malformed::new("string", "is not UTF-8"))?.to_owned())
    }

    /// Reads a container's length and checks that so many elements of at least `min_bytes` each can follow.
    pub fn len(&mut self, min_bytes: usize) -> Result<usize, Malformed> {
        let len = self.u32()? as usize;
        if len.saturating_mul(min_bytes.max(1)) > self.rest.len() {
            return Err(Malformed::new("container", "claims more elements than there are bytes"));
        }
        Ok(len)
    }

    /// Reads any decodable value.
    pub fn get<T: Decode>(&mut self) -> Result<T, Malformed> {
        T::decode(self)
    }

    /// Reads a versioned envelope (DECODE_START): `body` gets the envelope's bytes and its version, and may leave
    /// bytes of later versions unread. Refuses envelopes that only readers newer than `known` may read.
    pub fn versioned<T>(
        &mut self,
        what: &'static str,
        known: u8,
        body: impl FnOnce(&mut Decoder<'a>, u8) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let (version, compat) = (self.u8()?, self.u8()?);
        if compat > known {
            return Err(Malformed::new(what, "needs a newer reader"));
        }
        let len = self.u32()? as usize;
        let rest = self.raw(len).map_err(|_| Malformed::new(what, "is cut short"))?;
        body(&mut Decoder { rest, owner: self.owner }, version)
    }

    /// Skips `len` bytes.
    pub fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.raw(len).map(|_| ())
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// What is left, without taking it.
    pub fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes left over.
    pub fn finish(self, what: &'static str) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::new(what, "has trailing bytes")) }
    }
}

macro_rules! primitive {
    ($($ty:ident),*) => {
        $(impl Encode for $ty {
            fn encode(&self, e: &mut Encoder) { e.$ty(*self) }
        }
        impl Decode for $ty {
            const MIN_BYTES: usize = size_of::<$ty>();
            fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> { d.$ty() }
        })*
    };
}
primitive!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, bool);

impl Encode for str {
    fn encode(&self, e: &mut Encoder) {
        e.string(self);
    }
}

impl Encode for String {
    fn encode(&self, e: &mut Encoder) {
        e.string(self);
    }
}

impl Decode for String {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.string()
    }
}

impl Encode for Bytes {
    fn encode(&self, e: &mut Encoder) {
        e.blob(self);
    }
}

impl Decode for Bytes {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.blob()
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, e: &mut Encoder) {
        e.len(self.len());
        self.iter().for_each(|item| item.encode(e));
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, e: &mut Encoder) {
        self.as_slice().encode(e);
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = d.len(T::MIN_BYTES)?;
        (0..len).map(|_| T::decode(d)).collect()
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, e: &mut Encoder) {
        e.len(self.len());
        self.iter().for_each(|item| item.encode(e));
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = d.len(T::MIN_BYTES)?;
        (0..len).map(|_| T::decode(d)).collect()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, e: &mut Encoder) {
        e.len(self.len());
        for (key, value) in self {
            key.encode(e);
            value.encode(e);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = d.len(K::MIN_BYTES + V::MIN_BYTES)?;
        (0..len).map(|_| Ok((K::decode(d)?, V::decode(d)?))).collect()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, e: &mut Encoder) {
        self.0.encode(e);
        self.1.encode(e);
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    const MIN_BYTES: usize = A::MIN_BYTES + B::MIN_BYTES;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok((A::decode(d)?, B::decode(d)?))
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, e: &mut Encoder) {
        e.bool(self.is_some());
        if let Some(value) = self {
            value.encode(e);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(if d.bool()? { Some(T::decode(d)?) } else { None })
    }
}

/// Implements `Encode` and `Decode` for newtypes over an encodable inner value.
#[macro_export]
macro_rules! newtype_codec {
    ($($name:ty = $ctor:path as $inner:ty;)*) => {
        $(impl $crate::Encode for $name {
            fn encode(&self, e: &mut $crate::Encoder) { self.0.encode(e) }
        }
        impl $crate::Decode for $name {
            const MIN_BYTES: usize = <$inner as $crate::Decode>::MIN_BYTES;
            fn decode(d: &mut $crate::Decoder<'_>) -> Result<Self, $crate::Malformed> { Ok($ctor(d.get()?)) }
        })*
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_round_trip() {
        let value: BTreeMap<String, Vec<(u32, Option<u64>)>> =
            [("a".to_owned(), vec![(1, None), (2, Some(3))]), ("b".to_owned(), vec![])].into();
        assert_eq!(BTreeMap::from_bytes(&value.to_bytes()), Ok(value));
    }

    #[test]
    fn a_huge_count_is_refused_before_it_allocates() {
        let mut e = Encoder::new();
        e.u32(u32::MAX);
        assert!(Vec::<u8>::from_bytes(&e.finish()).is_err());
    }

    #[test]
    fn envelopes_skip_what_they_do_not_know_and_refuse_what_they_must_not_read() {
        let mut e = Encoder::new();
        e.versioned(3, 1, |e| (e.u32(7), e.u64(9)).0);
        e.versioned(3, 3, |e| e.u32(7));
        let bytes = e.finish();
        let mut d = Decoder::shared(&bytes);
        assert_eq!(d.versioned("x", 2, |d, v| Ok((v, d.u32()?))), Ok((3, 7)));
        assert_eq!(d.versioned("x", 2, |d, _| d.u32()), Err(Malformed::new("x", "needs a newer reader")));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        assert!(u8::from_bytes(&Bytes::from_static(&[1, 2])).is_err());
    }
}
