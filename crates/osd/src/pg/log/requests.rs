//! Which entries of a log may have come from a request.
//!
//! Each entry has a mark, two bytes of its request's hash, and who asks for a request looks through all of them from the
//! newest on, many at once. A table of hashes takes five times as much memory, and each member of a PG would for every write
//! put an entry in and take an old one out. A mark says only that the entry may be the one: of 65,535 others one has the
//! same.

use base::hash::FixedState;
use core::hash::BuildHasher;
use std::collections::VecDeque;
use wire::osd::OsdReqId;

/// Marks that are compared before it is decided whether one of them is wanted.
const STRIDE: usize = 64;

/// The mark of an entry without a request.
const NONE: u16 = 0;

/// See the module. An entry's place is its number among those held, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(VecDeque<u16>);

impl Requests {
    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u16>()
    }

    /// Notes the request of the newest entry.
    pub(super) fn push_back(&mut self, reqid: &OsdReqId) {
        self.0.push_back(mark(reqid));
    }

    /// Forgets that of the oldest entry.
    pub(super) fn pop_front(&mut self) {
        self.0.pop_front();
    }

    /// The places of the entries that may have this request, the newest first.
    pub(super) fn may_have(&self, reqid: &OsdReqId) -> impl Iterator<Item = usize> {
        let wanted = Some(mark(reqid)).filter(|mark| *mark != NONE);
        wanted.into_iter().flat_map(|wanted| {
            let (older, newer) = self.0.as_slices();
            let newer_places = places(newer, wanted).map(|at| older.len() + at);
            newer_places.chain(places(older, wanted))
        })
    }
}

fn mark(reqid: &OsdReqId) -> u16 {
    if *reqid == OsdReqId::default() {
        return NONE;
    }
    // The upper bits of the hash are as good as any.
    ((FixedState::default().hash_one(reqid) >> 48) as u16).max(NONE + 1)
}

/// Where this mark is among these, the last place first.
fn places(marks: &[u16], wanted: u16) -> impl Iterator<Item = usize> {
    let (first, strides) = marks.as_rchunks::<STRIDE>();
    let in_strides = strides.iter().enumerate().rev().filter(move |(_, stride)| has(stride, wanted));
    let in_strides = in_strides.flat_map(move |(number, stride)| {
        let before = first.len() + number * STRIDE;
        places_one_by_one(stride, wanted).map(move |at| before + at)
    });
    in_strides.chain(places_one_by_one(first, wanted))
}

/// Looks at all of them, so that the compiler compares as many with one instruction as the processor does.
fn has(stride: &[u16; STRIDE], wanted: u16) -> bool {
    stride.iter().fold(false, |found, mark| found | (*mark == wanted))
}

fn places_one_by_one(marks: &[u16], wanted: u16) -> impl Iterator<Item = usize> {
    marks.iter().enumerate().rev().filter(move |(_, mark)| **mark == wanted).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::GlobalId;
    use wire::types::EntityName;

    fn reqid(tid: u64) -> OsdReqId {
        OsdReqId { name: EntityName::client(GlobalId(4)), tid, inc: 0 }
    }

    #[test]
    fn all_that_may_have_a_request_are_named_the_newest_first() {
        let mut requests = Requests::default();
        // Around the ring, so that it lies in two parts.
        (0..2000).for_each(|tid| requests.push_back(&reqid(tid)));
        for tid in 2000..3500 {
            requests.pop_front();
            requests.push_back(&reqid(tid));
        }
        assert!(!requests.0.as_slices().1.is_empty(), "two parts");
        requests.push_back(&reqid(1600));
        for tid in 1500..3500 {
            let named: Vec<_> = requests.may_have(&reqid(tid)).collect();
            assert!(named.contains(&(tid as usize - 1500)) && named.len() < 5, "{tid}: {named:?}");
            assert!(named.is_sorted_by(|newer, older| newer > older));
        }
        assert_eq!(requests.may_have(&reqid(1600)).next(), Some(2000), "of two the newest");
        let strangers = (10_000..20_000).filter(|tid| requests.may_have(&reqid(*tid)).next().is_some());
        assert!(strangers.count() < 1000, "of 10,000; by chance it would be some three hundred");
    }

    #[test]
    fn nothing_has_no_request() {
        let mut requests = Requests::default();
        (0..100).for_each(|_| requests.push_back(&OsdReqId::default()));
        assert_eq!(requests.may_have(&OsdReqId::default()).count(), 0);
    }
}
