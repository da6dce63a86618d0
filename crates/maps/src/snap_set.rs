//! Sets of snapshot numbers kept as intervals (`interval_set<snapid_t>`).
//!
//! Follows Ceph v16.2 `src/include/interval_set.h`. Invariant: intervals are sorted, neither empty nor touching, and
//! none runs past the last number; an encoding that breaks this is refused.

use base::SnapId;
use core::fmt;
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// A set of snapshot numbers.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SnapSet {
    /// First number of an interval to how many numbers it holds.
    intervals: BTreeMap<SnapId, u64>,
}

impl SnapSet {
    /// The set of `count` numbers from `start`.
    pub fn interval(start: SnapId, count: u64) -> SnapSet {
        let mut set = SnapSet::default();
        set.insert_interval(start, count);
        set
    }

    /// Nothing in it?
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// How many numbers are in it.
    pub fn size(&self) -> u64 {
        self.intervals.values().fold(0, |sum, len| sum.saturating_add(*len))
    }

    /// The intervals in order: first number and count.
    pub fn intervals(&self) -> impl Iterator<Item = (SnapId, u64)> + '_ {
        self.intervals.iter().map(|(start, len)| (*start, *len))
    }

    /// Is this snapshot in it?
    pub fn contains(&self, snap: SnapId) -> bool {
        self.intervals.range(..=snap).next_back().is_some_and(|(start, len)| snap.0 - start.0 < *len)
    }

    /// Adds one snapshot.
    pub fn insert(&mut self, snap: SnapId) {
        self.insert_interval(snap, 1);
    }

    /// Adds `count` snapshots from `start`, as many as fit below the highest number.
    pub fn insert_interval(&mut self, start: SnapId, count: u64) {
        let mut begin = start.0;
        let mut end = begin.saturating_add(count);
        if begin == end {
            return;
        }
        if let Some((before, len)) = self.intervals.range(..start).next_back()
            && before.0 + len >= begin
        {
            begin = before.0;
            end = end.max(before.0 + len);
        }
        // Swallow what begins inside the new interval or right behind it.
        while let Some((next, len)) = self.intervals.range(SnapId(begin)..=SnapId(end)).next_back() {
            let next = *next;
            end = end.max(next.0 + len);
            self.intervals.remove(&next);
        }
        self.intervals.insert(SnapId(begin), end - begin);
    }

    /// Adds all of `other`.
    pub fn union_with(&mut self, other: &SnapSet) {
        for (start, count) in other.intervals() {
            self.insert_interval(start, count);
        }
    }

    /// Is every member of `other` in this set?
    pub fn contains_all(&self, other: &SnapSet) -> bool {
        other.intervals().all(|(start, count)| {
            self.intervals
                .range(..=start)
                .next_back()
                .is_some_and(|(own, len)| start.0 - own.0 < *len && len - (start.0 - own.0) >= count)
        })
    }

    /// Keeps only what is in `other`, too.
    pub fn intersect_with(&mut self, other: &SnapSet) {
        let mut outside = self.clone();
        outside.subtract(other);
        self.subtract(&outside);
    }

    /// Removes what is in `other`.
    pub fn subtract(&mut self, other: &SnapSet) {
        for (start, count) in other.intervals() {
            self.remove_interval(start.0, start.0 + count);
        }
    }

    fn remove_interval(&mut self, begin: u64, end: u64) {
        while let Some((at, len)) = self.intervals.range(..SnapId(end)).next_back() {
            let (at, stop) = (at.0, at.0 + len);
            if stop <= begin {
                break;
            }
            self.intervals.remove(&SnapId(at));
            if stop > end {
                self.intervals.insert(SnapId(end), stop - end);
            }
            if at < begin {
                self.intervals.insert(SnapId(at), begin - at);
                break;
            }
        }
    }
}

impl fmt::Display for SnapSet {
    /// As Ceph prints interval sets: `[1~2,5~1]`, in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (start, len)) in self.intervals().enumerate() {
            write!(f, "{}{:x}~{len:x}", if i == 0 { "" } else { "," }, start.0)?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for SnapSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for SnapSet {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.intervals);
    }
}

impl Decode for SnapSet {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let count = d.len(16)?;
        let mut intervals = BTreeMap::new();
        let mut free_from = 0;
        for i in 0..count {
            let (start, len) = (d.u64()?, d.u64()?);
            let end = start.checked_add(len);
            let (Some(end), true, true) = (end, len > 0, i == 0 || start > free_from) else {
                return Err(Malformed::new("interval_set", "has intervals that overlap or touch, or an empty one"));
            };
            free_from = end;
            intervals.insert(SnapId(start), len);
        }
        Ok(SnapSet { intervals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn members(set: &SnapSet) -> BTreeSet<u64> {
        set.intervals().flat_map(|(start, len)| start.0..start.0 + len).collect()
    }

    fn plain_both(plain: &BTreeSet<u64>, start: u64, count: u64, both: &SnapSet) -> Result<(), TestCaseError> {
        let wanted: BTreeSet<u64> = plain.iter().copied().filter(|s| (start..start + count).contains(s)).collect();
        prop_assert_eq!(members(both), wanted);
        Ok(())
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_set(steps in proptest::collection::vec((any::<bool>(), 0u64..80, 0u64..12), 0..60)) {
            let (mut set, mut plain) = (SnapSet::default(), BTreeSet::new());
            for (add, start, count) in steps {
                let other = SnapSet::interval(SnapId(start), count);
                prop_assert_eq!(set.contains_all(&other), (start..start + count).all(|s| plain.contains(&s)));
                if add {
                    set.union_with(&other);
                    plain.extend(start..start + count);
                } else {
                    set.subtract(&other);
                    plain.retain(|snap| !(start..start + count).contains(snap));
                }
                prop_assert_eq!(&members(&set), &plain);
                prop_assert_eq!(set.size(), plain.len() as u64);
                prop_assert!((0..100).all(|s| set.contains(SnapId(s)) == plain.contains(&s)));
                let mut both = set.clone();
                both.intersect_with(&other);
                plain_both(&plain, start, count, &both)?;
                // Decoding checks that intervals neither overlap nor touch.
                prop_assert_eq!(SnapSet::from_bytes(&set.to_bytes()), Ok(set.clone()));
            }
        }
    }

    #[test]
    fn prints_as_ceph_does_and_refuses_nonsense() {
        let mut set = SnapSet::interval(SnapId(17), 3);
        set.insert(SnapId(1));
        assert_eq!(set.to_string(), "[1~1,11~3]");
        for bad in [[(5u64, 2u64), (6, 1)], [(5, 2), (7, 1)], [(5, 0), (7, 1)], [(5, 1), (u64::MAX, 2)]] {
            let bytes = bad.to_vec().to_bytes();
            assert!(SnapSet::from_bytes(&bytes).is_err(), "{bad:?}");
        }
    }
}
