//! The objects that one placement group has of another's: those whose hash ends in certain bits.
//!
//! Objects are ordered by the bits of their hash in reverse, so these are neighbours: a range. Owns its arithmetic.

use crate::id::ObjectId;
use base::SnapId;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// Hashes with their bits in reverse, from the first to the last, both of them in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HashRange {
    first: u32,
    last: u32,
}

impl HashRange {
    /// All hashes.
    pub const ALL: HashRange = HashRange { first: 0, last: u32::MAX };

    /// The hashes whose lowest `bits` bits are those of `seed`.
    pub fn of_seed(seed: u32, bits: u32) -> HashRange {
        let rest = u32::MAX.checked_shr(bits).unwrap_or(0);
        let first = seed.reverse_bits() & !rest;
        HashRange { first, last: first | rest }
    }

    /// From `first` to `last`; none where that is before it.
    pub fn new(first: u32, last: u32) -> Option<HashRange> {
        (first <= last).then_some(HashRange { first, last })
    }

    /// The first.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The last.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Whether a reversed hash is in it.
    pub fn contains(&self, reversed_hash: u32) -> bool {
        (self.first..=self.last).contains(&reversed_hash)
    }

    /// What both have.
    pub fn and(&self, other: HashRange) -> Option<HashRange> {
        HashRange::new(self.first.max(other.first), self.last.min(other.last))
    }

    /// What it has before `other`, and behind it.
    pub fn without(&self, other: HashRange) -> [Option<HashRange>; 2] {
        let before = other.first.checked_sub(1).and_then(|last| HashRange::new(self.first, last.min(self.last)));
        let behind = other.last.checked_add(1).and_then(|first| HashRange::new(first.max(self.first), self.last));
        [before, behind]
    }

    /// The place before every object of a reversed hash.
    pub fn start(reversed_hash: u32) -> ObjectId {
        ObjectId::new(reversed_hash.reverse_bits(), b"", b"", b"", SnapId(0))
    }
}

impl Encode for HashRange {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.first);
        e.u32(self.last);
    }
}

impl Decode for HashRange {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        HashRange::new(d.u32()?, d.u32()?).ok_or(Malformed::new("hash range", "ends before it begins"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_what_ends_in_its_bits() {
        for (seed, bits) in [(0, 0), (0, 3), (5, 3), (7, 3), (6, 4), (u32::MAX, 32)] {
            let range = HashRange::of_seed(seed, bits);
            for hash in (0..64).chain([u32::MAX, u32::MAX - 1, 1 << 31]) {
                let ends = bits == 0 || hash << (32 - bits) == seed << (32 - bits);
                assert_eq!(range.contains(u32::reverse_bits(hash)), ends, "{seed} {bits} {hash}");
            }
        }
        assert_eq!(HashRange::of_seed(0, 0), HashRange::ALL);
    }

    #[test]
    fn ranges_are_cut() {
        let range = |first, last| HashRange::new(first, last);
        let whole = range(10, 20).expect("in order");
        let cut = |first, last| whole.without(range(first, last).expect("in order"));
        assert_eq!(cut(12, 15), [range(10, 11), range(16, 20)]);
        assert_eq!(cut(0, 15), [None, range(16, 20)]);
        assert_eq!(cut(0, u32::MAX), [None, None]);
        assert_eq!(cut(30, 40), [Some(whole), None]);
        assert_eq!((range(5, 4), whole.and(HashRange::ALL)), (None, Some(whole)));
    }
}
