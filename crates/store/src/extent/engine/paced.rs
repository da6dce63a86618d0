//! Writes of large data, of which only so much is under way at once.
//!
//! Owns the bound, and the copy that each makes as it goes, to where it lies in one piece for the device. Refuses to know
//! what they are for. What waits is bounded by whoever brings it.

use super::store::Purpose;
use crate::extent::device::{BUFFER_BYTES_MAX, Io, in_one_piece};
use crate::extent::layout::BLOCK;
use bytes::Bytes;
use std::collections::VecDeque;

/// A write that waits for its turn.
#[derive(Debug)]
struct Waiting {
    purpose: Purpose,
    first: u64,
    data: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Paced {
    waiting: VecDeque<Waiting>,
    under_way_bytes: usize,
    under_way_bytes_max: usize,
}

impl Paced {
    /// Nothing yet. A write goes while less than `under_way_bytes_max` are under way.
    pub(super) fn new(under_way_bytes_max: usize) -> Paced {
        Paced { waiting: VecDeque::new(), under_way_bytes: 0, under_way_bytes_max }
    }

    /// Lines up a write of whole blocks from `first` on.
    pub(super) fn push(&mut self, purpose: Purpose, first: u64, data: Bytes) {
        self.waiting.push_back(Waiting { purpose, first, data });
    }

    /// What is to go next, now under way; none while there is enough of that.
    pub(super) fn next(&mut self) -> Option<(Io, Purpose)> {
        if self.under_way_bytes >= self.under_way_bytes_max {
            return None;
        }
        let Waiting { purpose, first, data } = self.waiting.pop_front()?;
        self.under_way_bytes += data.len();
        // What is larger than a buffer was put together for the device.
        let data = if data.len() <= BUFFER_BYTES_MAX { in_one_piece(&data) } else { data };
        Some((Io::Write { offset: first * BLOCK, data, durable: false }, purpose))
    }

    /// A write of so many bytes is in its place.
    pub(super) fn ended(&mut self, bytes: usize) {
        self.under_way_bytes -= bytes;
    }

    /// Strikes what waits for such a purpose; how many writes that were.
    pub(super) fn strike(&mut self, is_struck: impl Fn(&Purpose) -> bool) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|write| !is_struck(&write.purpose));
        before - self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(paced: &mut Paced, group: u64, bytes: usize) {
        paced.push(Purpose::Direct { group, first: group, bytes }, group, Bytes::from(vec![7; bytes]));
    }

    fn next(paced: &mut Paced) -> Option<(u64, u64, usize)> {
        match paced.next()? {
            (Io::Write { offset, data, durable: false }, Purpose::Direct { group, .. }) => {
                Some((group, offset, data.len()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_so_much_is_under_way_at_once() {
        let mut paced = Paced::new(128 << 10);
        (1..=4).for_each(|group| write(&mut paced, group, 64 << 10));
        assert_eq!(next(&mut paced), Some((1, BLOCK, 64 << 10)));
        assert_eq!(next(&mut paced), Some((2, 2 * BLOCK, 64 << 10)));
        assert_eq!(next(&mut paced), None);
        paced.ended(64 << 10);
        assert_eq!(next(&mut paced), Some((3, 3 * BLOCK, 64 << 10)));
        assert_eq!(next(&mut paced), None);
    }

    #[test]
    fn what_is_struck_does_not_go() {
        let mut paced = Paced::new(1 << 20);
        (1..=3).for_each(|group| write(&mut paced, group, 4096));
        assert_eq!(paced.strike(|purpose| matches!(purpose, Purpose::Direct { group: 2, .. })), 1);
        assert_eq!([(); 3].map(|()| next(&mut paced).map(|(group, ..)| group)), [Some(1), Some(3), None]);
    }
}
