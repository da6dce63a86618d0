//! A collection as the store knows it: under which numbers its objects are kept.
//!
//! Owns the map from ranges of hashes to numbers. A new collection has one number for everything. Splitting and merging
//! only hand ranges on: the objects stay under the number that they had, so that neither is copied nor renamed.
//!
//! Invariants: the ranges follow each other and cover all hashes; records, and objects of the first hash, are under the
//! collection's own number; no two collections have the same hash under the same number.

use crate::extent::tree::keys::CollectionNumber;
use crate::hash_range::HashRange;
use crate::id::{ObjectId, RECORD};
use bytes::Bytes;
use std::sync::Arc;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// Objects of a range of hashes, kept under a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stretch {
    pub(crate) number: CollectionNumber,
    pub(crate) range: HashRange,
}

impl Encode for Stretch {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.number.0);
        e.put(&self.range);
    }
}

impl Decode for Stretch {
    const MIN_BYTES: usize = 16;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Stretch { number: CollectionNumber(d.u64()?), range: d.get()? })
    }
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Collection {
    number: CollectionNumber,
    stretches: Arc<[Stretch]>,
}

impl Collection {
    /// One that keeps everything under its own number.
    pub(crate) fn new(number: CollectionNumber) -> Collection {
        Collection { number, stretches: Arc::new([Stretch { number, range: HashRange::ALL }]) }
    }

    /// All stretches, in order.
    pub(crate) fn stretches(&self) -> &Arc<[Stretch]> {
        &self.stretches
    }

    /// Under which number an object is kept.
    pub(crate) fn number_of(&self, id: &ObjectId) -> CollectionNumber {
        if self.stretches.len() == 1 || id.snap() == RECORD {
            return self.number;
        }
        let at = self.stretches.partition_point(|stretch| stretch.range.last() < id.reversed_hash());
        self.stretches[at].number
    }

    /// What it has of a range.
    pub(crate) fn within(&self, range: HashRange) -> Vec<Stretch> {
        let cut = |stretch: &Stretch| Some(Stretch { range: stretch.range.and(range)?, ..*stretch });
        self.stretches.iter().filter_map(cut).collect()
    }

    /// The same with `these` in place of what it has of a range, all of which they cover.
    pub(crate) fn with(&self, range: HashRange, these: &[Stretch]) -> Collection {
        let outside = self.stretches.iter().flat_map(|stretch| {
            let (number, cut) = (stretch.number, stretch.range.without(range));
            cut.into_iter().flatten().map(move |range| Stretch { number, range })
        });
        let mut all: Vec<Stretch> = outside.chain(these.iter().copied()).collect();
        all.sort_by_key(|stretch| stretch.range);
        let mut joined: Vec<Stretch> = Vec::with_capacity(all.len());
        for stretch in all {
            match joined.last_mut() {
                Some(last) if last.number == stretch.number => {
                    let whole = HashRange::new(last.range.first(), stretch.range.last());
                    last.range = whole.expect("they are in order");
                }
                _ => joined.push(stretch),
            }
        }
        Collection { number: self.number, stretches: joined.into() }
    }

    /// The value in the tree.
    pub(crate) fn value(&self) -> Bytes {
        if self.stretches.len() == 1 {
            return Bytes::copy_from_slice(&self.number.0.to_le_bytes());
        }
        let mut e = Encoder::new();
        e.u64(self.number.0);
        e.len(self.stretches.len());
        self.stretches.iter().for_each(|stretch| e.put(stretch));
        e.finish()
    }

    /// Reads a value.
    pub(crate) fn read(value: &[u8]) -> Result<Collection, Malformed> {
        let mut d = Decoder::new(value);
        let number = CollectionNumber(d.u64()?);
        if d.remaining() == 0 {
            return Ok(Collection::new(number));
        }
        let stretches: Vec<Stretch> = d.get()?;
        d.finish("collection")?;
        let follows = |pair: &[Stretch]| pair[0].range.last().checked_add(1) == Some(pair[1].range.first());
        let ends = (stretches.first(), stretches.last());
        let whole = matches!(ends, (Some(a), Some(z)) if a.range.first() == 0 && a.number == number && z.range.last() == u32::MAX);
        if !whole || !stretches.windows(2).all(follows) {
            return Err(Malformed::new("collection", "does not cover all hashes"));
        }
        Ok(Collection { number, stretches: stretches.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_split_off_and_merged_again_leaves_no_trace() {
        let parent = Collection::new(CollectionNumber(7));
        let range = HashRange::of_seed(5, 3);
        let moved = parent.within(range);
        let hole = [Stretch { number: CollectionNumber(9), range }];
        let (child, rest) = (Collection::new(CollectionNumber(8)).with(range, &moved), parent.with(range, &hole));
        for collection in [&child, &rest, &parent] {
            assert_eq!(Collection::read(&collection.value()).as_ref(), Ok(collection));
        }
        let id = |hash| ObjectId::new(hash, b"", b"", b"o", base::SnapId::HEAD);
        let numbers = |hash| (child.number_of(&id(hash)).0, rest.number_of(&id(hash)).0);
        assert_eq!((numbers(5), numbers(13), numbers(1), numbers(0)), ((7, 9), (7, 9), (8, 7), (8, 7)));
        assert_eq!(rest.with(range, &child.within(range)), parent);
        assert!(Collection::read(&child.value()[..28]).is_err());
    }

    #[test]
    fn values_with_gaps_are_refused() {
        let value = |stretches: &[(u64, u32, u32)]| {
            let mut e = Encoder::new();
            e.u64(1);
            e.len(stretches.len());
            for (number, first, last) in stretches {
                e.u64(*number);
                e.u32(*first);
                e.u32(*last);
            }
            Collection::read(&e.finish())
        };
        assert!(value(&[(1, 0, 9), (2, 10, u32::MAX)]).is_ok());
        for bad in
            [&[][..], &[(1, 0, 9)], &[(1, 0, 9), (2, 11, u32::MAX)], &[(2, 0, 9), (1, 10, u32::MAX)], &[(1, 3, 2)]]
        {
            assert!(value(bad).is_err(), "{bad:?}");
        }
    }
}
