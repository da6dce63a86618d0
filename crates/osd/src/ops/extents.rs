//! Sets of ranges of an object's data.
//!
//! Owns what clones and heads are compared by: which bytes were written, which are still shared. Its counterpart in
//! Ceph is `interval_set<uint64_t>` (v16.2 `src/include/interval_set.h`).
//!
//! Invariants: ranges are in order, none is empty, none touches the next, none ends past `u64::MAX`.

use store::Extent;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// A set of bytes, as ranges from a first byte up to, without, a last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extents(Vec<(u64, u64)>);

impl Extents {
    /// `len` bytes from `offset`, as many as fit below the highest offset.
    pub fn range(offset: u64, len: u64) -> Extents {
        let mut set = Extents::default();
        set.insert(offset, len);
        set
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes are in it.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// How many ranges it is.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Its ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.0.iter().map(|(start, end)| Extent { offset: *start, len: end - start })
    }

    /// Adds `len` bytes from `offset`, as many as fit below the highest offset.
    pub fn insert(&mut self, offset: u64, len: u64) {
        let (mut start, mut end) = (offset, offset.saturating_add(len));
        if start == end {
            return;
        }
        let first = self.0.partition_point(|(_, e)| *e < start);
        let last = self.0.partition_point(|(s, _)| *s <= end);
        if first < last {
            start = start.min(self.0[first].0);
            end = end.max(self.0[last - 1].1);
        }
        self.0.splice(first..last, [(start, end)]);
    }

    /// Adds what is in `other`.
    pub fn union_with(&mut self, other: &Extents) {
        for e in other.iter() {
            self.insert(e.offset, e.len);
        }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Extents) -> Extents {
        let mut both = Vec::new();
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (start, end) = (x.0.max(y.0), x.1.min(y.1));
            if start < end {
                both.push((start, end));
            }
            if x.1 <= y.1 {
                a.next()
            } else {
                b.next()
            };
        }
        Extents(both)
    }

    /// What is in this one alone.
    pub fn difference(&self, other: &Extents) -> Extents {
        let mut rest = Vec::new();
        let mut cuts = other.0.iter().peekable();
        for &(mut start, end) in &self.0 {
            while cuts.next_if(|cut| cut.1 <= start).is_some() {}
            let mut ahead = cuts.clone();
            while let Some(cut) = ahead.next_if(|cut| cut.0 < end) {
                if start < cut.0 {
                    rest.push((start, cut.0));
                }
                start = start.max(cut.1);
            }
            if start < end {
                rest.push((start, end));
            }
        }
        Extents(rest)
    }

    /// Leaves out the shortest ranges until at most `max` are left.
    pub fn keep_longest(&mut self, max: usize) {
        if self.0.len() <= max {
            return;
        }
        let mut lengths: Vec<u64> = self.0.iter().map(|(start, end)| end - start).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let shortest_kept = lengths[max.saturating_sub(1)];
        self.0.retain(|(start, end)| end - start > shortest_kept);
    }
}

impl Encode for Extents {
    fn encode(&self, e: &mut Encoder) {
        e.len(self.0.len());
        for (start, end) in &self.0 {
            e.u64(*start);
            e.u64(end - start);
        }
    }
}

impl Decode for Extents {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = d.len(16)?;
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(count);
        for _ in 0..count {
            let (start, len) = (d.u64()?, d.u64()?);
            let after = ranges.last().is_none_or(|(_, end)| *end < start);
            match start.checked_add(len) {
                Some(end) if len > 0 && after => ranges.push((start, end)),
                _ => return Err(Malformed::new("extents", "overlap, touch, are empty or end nowhere")),
            }
        }
        Ok(Extents(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn members(set: &Extents) -> BTreeSet<u64> {
        set.iter().flat_map(|e| e.offset..e.offset + e.len).collect()
    }

    fn made(ranges: &[(u64, u64)]) -> Extents {
        let mut set = Extents::default();
        ranges.iter().for_each(|(offset, len)| set.insert(*offset, *len));
        set
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(
            a in proptest::collection::vec((0u64..60, 0u64..9), 0..12),
            b in proptest::collection::vec((0u64..60, 0u64..9), 0..12),
        ) {
            let (a, b) = (made(&a), made(&b));
            let (x, y) = (members(&a), members(&b));
            let mut union = a.clone();
            union.union_with(&b);
            prop_assert_eq!(members(&union), x.union(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(members(&a.intersection(&b)), x.intersection(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(members(&a.difference(&b)), x.difference(&y).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(a.bytes(), x.len() as u64);
            for set in [&a, &union, &a.intersection(&b), &a.difference(&b)] {
                // Decoding checks that ranges neither overlap nor touch.
                prop_assert_eq!(&Extents::from_bytes(&set.to_bytes()).expect("our own encoding"), set);
            }
        }
    }

    #[test]
    fn nonsense_is_refused_and_the_shortest_go_first() {
        for bad in [[(0u64, 2u64), (1, 1)], [(0, 2), (2, 1)], [(0, 0), (2, 1)], [(0, 1), (u64::MAX, 2)]] {
            assert!(Extents::from_bytes(&bad.to_vec().to_bytes()).is_err(), "{bad:?}");
        }
        let mut set = made(&[(0, 5), (10, 1), (20, 7), (30, 2)]);
        set.keep_longest(3);
        assert!(set.count() <= 3 && set.intersection(&made(&[(20, 7)])).bytes() == 7, "{set:?}");
    }
}
