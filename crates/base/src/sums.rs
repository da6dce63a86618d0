//! Checksums that need not be made again.
//!
//! Owns what whoever looked at a buffer found: the checksum of all of it and those of its blocks. Who holds a part of the
//! buffer later asks by where that lies in memory. The buffer stays as it is for as long as its checksums are kept, so what
//! lies in it is what was looked at.
//!
//! So the checksum with which a client sent a block is the one that replicas get, that its log record is made from and with
//! which the block is stored: whatever changes it on the way is found at the latest when it is read.

use crate::checksum::{CRC_SEED, JOINED_BYTES, crc32c, joined};
use bytes::Bytes;
use std::sync::Arc;

/// The checksums of a buffer, from [`CRC_SEED`] each, or of none.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    data: Bytes,
    whole: u32,
    /// Of each [`JOINED_BYTES`] from the beginning on; none where the whole is no longer than one of these.
    blocks: Option<Arc<[u32]>>,
}

/// What is known of bytes does not change what they are: structures that hold it compare as if it were not there.
impl PartialEq for Sums {
    fn eq(&self, _: &Sums) -> bool {
        true
    }
}

impl Eq for Sums {}

impl Sums {
    /// Looks at a buffer, once.
    pub fn of(data: Bytes) -> Sums {
        if data.len() <= JOINED_BYTES {
            return Sums { whole: crc32c(CRC_SEED, &data), data, blocks: None };
        }
        let (blocks, rest) = data.as_chunks::<JOINED_BYTES>();
        let blocks: Arc<[u32]> = blocks.iter().map(|block| crc32c(CRC_SEED, block)).collect();
        let whole = crc32c(join(CRC_SEED, &blocks), rest);
        Sums { data, whole, blocks: Some(blocks) }
    }

    /// Of a buffer of which somebody knows the checksum.
    pub fn known(data: Bytes, whole: u32) -> Sums {
        Sums { data, whole, blocks: None }
    }

    /// That of all of the buffer.
    pub fn whole(&self) -> u32 {
        self.whole
    }

    /// The checksum of a part of the buffer, if it is all of it or whole blocks.
    pub fn find(&self, part: &[u8]) -> Option<u32> {
        let at = part.as_ptr().addr().checked_sub(self.data.as_ptr().addr())?;
        if part.is_empty() || at + part.len() > self.data.len() {
            return None;
        }
        if part.len() == self.data.len() {
            return Some(self.whole);
        }
        let is_whole = |bytes: usize| bytes.is_multiple_of(JOINED_BYTES);
        let blocks = self.blocks.as_ref().filter(|_| is_whole(at) && is_whole(part.len()))?;
        Some(join(CRC_SEED, &blocks[at / JOINED_BYTES..(at + part.len()) / JOINED_BYTES]))
    }

    /// The checksum of `part`, known or not.
    pub fn sum(&self, part: &[u8]) -> u32 {
        let known = self.find(part);
        debug_assert!(known.is_none_or(|sum| sum == crc32c(CRC_SEED, part)), "who knew it knew it wrong");
        known.unwrap_or_else(|| crc32c(CRC_SEED, part))
    }
}

/// The state after blocks of these checksums.
fn join(state: u32, blocks: &[u32]) -> u32 {
    blocks.iter().fold(state, |state, sum| joined(state, *sum, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize) -> Bytes {
        (0..len).map(|i| (i * 31 + i / 253) as u8).collect::<Vec<u8>>().into()
    }

    #[test]
    fn whole_blocks_and_the_whole_are_known_where_they_lie() {
        for len in [1, JOINED_BYTES, JOINED_BYTES + 1, 3 * JOINED_BYTES, 3 * JOINED_BYTES + 77] {
            let data = data(len);
            let sums = Sums::of(data.clone());
            assert_eq!((sums.whole(), sums.find(&data)), (crc32c(CRC_SEED, &data), Some(sums.whole())), "{len} bytes");
            for at in (0..len).step_by(JOINED_BYTES) {
                for end in (at + JOINED_BYTES..=len).step_by(JOINED_BYTES) {
                    assert_eq!(
                        sums.find(&data[at..end]),
                        Some(crc32c(CRC_SEED, &data[at..end])),
                        "{at} to {end} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_else_is_known() {
        let data = data(4 * JOINED_BYTES);
        let sums = Sums::of(data.slice(JOINED_BYTES..3 * JOINED_BYTES));
        let parts =
            [(0, 1), (0, 2), (2, 4), (3, 4), (1, 1), (3, 3)].map(|(at, end)| (at * JOINED_BYTES, end * JOINED_BYTES));
        for (at, end) in
            parts.into_iter().chain([(JOINED_BYTES, 2 * JOINED_BYTES - 1), (JOINED_BYTES + 1, 2 * JOINED_BYTES + 1)])
        {
            assert_eq!(sums.find(&data[at..end]), None, "{at} to {end}");
            assert_eq!(sums.sum(&data[at..end]), crc32c(CRC_SEED, &data[at..end]));
        }
        let copy = Bytes::copy_from_slice(&data[JOINED_BYTES..2 * JOINED_BYTES]);
        assert_eq!((sums.find(&copy), Sums::default().find(&copy), Sums::default().find(&[])), (None, None, None));
    }

    #[test]
    fn what_somebody_knows_is_taken_for_true_of_the_whole_alone() {
        let data = data(2 * JOINED_BYTES);
        let sums = Sums::known(data.clone(), 7);
        assert_eq!((sums.find(&data), sums.find(&data[..JOINED_BYTES])), (Some(7), None));
    }
}
