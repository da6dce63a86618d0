//! Two bits for each of many objects, in blocks with checksums.
//!
//! Follows Ceph v16.2 `src/common/bit_vector.hpp` (`BitVector<2>`): a header with the number of elements, the data, and
//! a footer with the header's checksum and one for each block; the footer is empty where nobody wants to check. The
//! first element of a byte is in its highest bits.

use base::checksum::crc32c;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// Bytes of the header as it is stored, its length included.
pub(super) const HEADER_BYTES: u64 = 18;
/// Bytes that one checksum covers.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Where the checksums begin in the footer: behind its length, the header's checksum, and their number.
pub(super) const CHECKSUMS_AT: u64 = 12;
const PER_BYTE: u64 = 4;

/// Two bits each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BitVector {
    len: u64,
    data: Vec<u8>,
}

/// The checksum of a block or of the header.
pub(super) fn checksum(data: &[u8]) -> u32 {
    crc32c(0, data)
}

/// The element at `at` of data that begins at a whole byte.
pub(super) fn element(data: &[u8], at: u64) -> u8 {
    data[(at / PER_BYTE) as usize] >> shift(at) & 3
}

/// Sets the element at `at`.
pub(super) fn set_element(data: &mut [u8], at: u64, value: u8) {
    let byte = &mut data[(at / PER_BYTE) as usize];
    *byte = *byte & !(3 << shift(at)) | (value & 3) << shift(at);
}

fn shift(at: u64) -> u64 {
    (PER_BYTE - 1 - at % PER_BYTE) * 2
}

/// How many bytes hold so many elements.
pub(super) fn data_bytes(len: u64) -> u64 {
    len.div_ceil(PER_BYTE)
}

/// In which byte an element is.
pub(super) fn byte_of(at: u64) -> u64 {
    at / PER_BYTE
}

/// Reads a stored header, its length included: the number of elements.
pub(super) fn header_len(header: &Bytes) -> Result<u64, Malformed> {
    len_of(&Decoder::shared(header).blob()?)
}

fn len_of(header: &Bytes) -> Result<u64, Malformed> {
    Decoder::shared(header).versioned("BitVector", 1, |d, _| d.u64())
}

impl BitVector {
    /// How many elements there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// An element.
    pub(super) fn get(&self, at: u64) -> u8 {
        element(&self.data, at)
    }

    /// Sets an element.
    pub(super) fn set(&mut self, at: u64, value: u8) {
        set_element(&mut self.data, at, value);
    }

    /// Makes it so long; new elements are 0 as far as they lie in new bytes.
    pub(super) fn resize(&mut self, len: u64) {
        self.data.resize(data_bytes(len) as usize, 0);
        self.len = len;
    }

    /// The encoding, with checksums or without.
    pub(super) fn encoded(&self, checked: bool) -> Bytes {
        let mut header = Encoder::new();
        header.versioned(1, 1, |e| e.u64(self.len));
        let header = header.finish();
        let mut e = Encoder::with_capacity(self.data.len() + self.data.len() / 1024 + 64);
        e.blob(&header);
        e.raw(&self.data);
        let mut footer = Encoder::new();
        if checked {
            footer.u32(checksum(&header));
            let sums: Vec<u32> = self.data.chunks(BLOCK_BYTES as usize).map(checksum).collect();
            footer.put(&sums);
        }
        e.blob(&footer.finish());
        e.finish()
    }
}

impl Encode for BitVector {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.encoded(true));
    }
}

impl Decode for BitVector {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let header = d.blob()?;
        let len = len_of(&header)?;
        let bytes = usize::try_from(data_bytes(len)).map_err(|_| Malformed::new("BitVector", "is too long"))?;
        let data = d.raw(bytes)?.to_vec();
        let footer = d.blob()?;
        if !footer.is_empty() {
            let mut d = Decoder::shared(&footer);
            if d.u32()? != checksum(&header) {
                return Err(Malformed::new("BitVector", "has a wrong header checksum"));
            }
            let sums: Vec<u32> = d.get()?;
            if !data.chunks(BLOCK_BYTES as usize).map(checksum).eq(sums) {
                return Err(Malformed::new("BitVector", "has a wrong block checksum"));
            }
        }
        Ok(BitVector { len, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_place_and_checksums_guard_them() {
        let mut v = BitVector::default();
        v.resize(BLOCK_BYTES * PER_BYTE + 5);
        for (at, value) in [(0, 1), (1, 2), (5, 3), (BLOCK_BYTES * PER_BYTE + 4, 2)] {
            v.set(at, value);
        }
        assert_eq!(v.data[..2], [0b0110_0000, 0b0011_0000]);
        assert_eq!([0, 1, 2, 5].map(|at| v.get(at)), [1, 2, 0, 3]);
        for checked in [true, false] {
            assert_eq!(BitVector::from_bytes(&v.encoded(checked)), Ok(v.clone()));
        }
        let mut bytes = v.to_bytes().to_vec();
        bytes[HEADER_BYTES as usize + 7] ^= 1;
        assert!(BitVector::from_bytes(&bytes.into()).is_err());
    }

    #[test]
    fn a_huge_length_is_refused() {
        let mut header = Encoder::new();
        header.versioned(1, 1, |e| e.u64(u64::MAX));
        let mut e = Encoder::new();
        e.blob(&header.finish());
        e.blob(&[]);
        assert!(BitVector::from_bytes(&e.finish()).is_err());
    }
}
