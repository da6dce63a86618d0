//! The bytes that wait to be written to one stream.
//!
//! Owns the choice between copying and sharing: frames are written one after the other into one growing buffer, so
//! that many small ones leave in one piece; large data sections hang between two such buffers as slices of the
//! memory they are already in.
//!
//! Invariants: bytes leave in the order they were put in; `len` is their number. The buffer that is still growing is
//! offered to the driver where it is: nothing is moved or allocated to write it. A queue without bytes holds no buffer
//! once its messenger has taken that back: streams that have nothing to say share the buffers of those that do.

use super::limits;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes on their way out, in order.
#[derive(Debug, Default)]
pub struct SendQueue {
    /// Finished pieces.
    ready: VecDeque<Bytes>,
    /// How many bytes those hold.
    ready_len: usize,
    /// The piece that grows.
    tail: Vec<u8>,
    /// How many of its bytes have left.
    tail_gone: usize,
}

/// Growing pieces that no queue needs at present, for the next that does.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// Gives a buffer to a queue that has none.
    pub(super) fn lend(&mut self, queue: &mut SendQueue) {
        if queue.tail.capacity() == 0
            && let Some(buffer) = self.0.pop()
        {
            queue.tail = buffer;
        }
    }

    /// Takes the buffer of a queue that is empty; keeps it if there is room.
    pub(super) fn take_back(&mut self, queue: &mut SendQueue) {
        if queue.is_empty() {
            let buffer = core::mem::take(&mut queue.tail);
            let fits = (1..=limits::SPARE_BUFFER_BYTES_MAX).contains(&buffer.capacity());
            if fits && self.0.len() < limits::SPARE_BUFFERS_MAX {
                self.0.push(buffer);
            }
        }
    }
}

impl SendQueue {
    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.ready_len + self.tail.len() - self.tail_gone
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The growing piece, with room for `additional` bytes, to append to.
    pub(super) fn buffer(&mut self, additional: usize) -> &mut Vec<u8> {
        if self.tail.len() >= limits::COALESCE_BYTES_MAX {
            self.seal_tail();
            // What has filled one piece mostly goes on.
            self.tail.reserve(limits::COALESCE_BYTES_MAX);
        }
        self.tail.reserve(additional);
        &mut self.tail
    }

    /// Appends bytes that stay where they are.
    pub(super) fn attach(&mut self, bytes: Bytes) {
        self.seal_tail();
        self.ready_len += bytes.len();
        self.ready.push_back(bytes);
    }

    fn seal_tail(&mut self) {
        let waiting = &self.tail[self.tail_gone..];
        if waiting.is_empty() {
            return;
        }
        let piece = if waiting.len() < limits::ATTACH_BYTES_MIN {
            // The head of a large frame: the buffer stays for its end.
            let piece = Bytes::copy_from_slice(waiting);
            self.tail.clear();
            piece
        } else {
            Bytes::from(core::mem::take(&mut self.tail)).split_off(self.tail_gone)
        };
        self.tail_gone = 0;
        self.ready_len += piece.len();
        self.ready.push_back(piece);
    }

    /// The longest run of bytes that can be written at once; empty if none wait.
    pub fn chunk(&self) -> &[u8] {
        self.ready.front().map_or(&self.tail[self.tail_gone..], |first| &first[..])
    }

    /// Fills `slices` with the first pieces, for a vectored write, and returns how many it filled.
    pub fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = Some(&self.tail[self.tail_gone..]).filter(|tail| !tail.is_empty());
        let pieces = self.ready.iter().map(|piece| &piece[..]).chain(tail);
        let mut filled = 0;
        for (slot, piece) in slices.iter_mut().zip(pieces) {
            *slot = IoSlice::new(piece);
            filled += 1;
        }
        filled
    }

    /// Forgets the first `written` bytes. Panics if fewer wait.
    pub fn advance(&mut self, written: usize) {
        let mut left = written;
        while let Some(first) = self.ready.front_mut() {
            if left < first.len() {
                first.advance(left);
                self.ready_len -= left;
                return;
            }
            left -= first.len();
            self.ready_len -= first.len();
            self.ready.pop_front();
            if left == 0 {
                return;
            }
        }
        self.tail_gone += left;
        assert!(self.tail_gone <= self.tail.len(), "no more has left than was there");
        if self.tail_gone == self.tail.len() {
            self.tail.clear();
            self.tail_gone = 0;
        }
    }

    /// Takes everything as owned pieces, without copying: for drivers that pass buffers on.
    pub fn take(&mut self) -> VecDeque<Bytes> {
        self.seal_tail();
        self.ready_len = 0;
        core::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut SendQueue, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !queue.is_empty() {
            let before = queue.len();
            let mut slices = [IoSlice::new(&[]); 3];
            let filled = queue.io_slices(&mut slices);
            let seen: Vec<u8> = slices[..filled].iter().flat_map(|s| s.iter().copied()).take(step).collect();
            assert_eq!(queue.chunk().first(), seen.first());
            queue.advance(seen.len());
            assert_eq!(queue.len(), before - seen.len());
            out.extend(seen);
        }
        out
    }

    #[test]
    fn order_and_length_survive_any_step() {
        let expected: Vec<u8> = (0..200u32).map(|i| i as u8).collect();
        for step in [1, 3, 7, 64, 1000] {
            let mut queue = SendQueue::default();
            for (i, piece) in expected.chunks(13).enumerate() {
                if i % 3 == 2 {
                    queue.attach(Bytes::copy_from_slice(piece));
                } else {
                    queue.buffer(piece.len()).extend_from_slice(piece);
                }
            }
            assert_eq!(drain(&mut queue, step), expected, "step {step}");
        }
    }

    #[test]
    fn queues_share_the_buffers_that_they_do_not_need() {
        let (mut spare, mut a, mut b) = (SpareBuffers::default(), SendQueue::default(), SendQueue::default());
        spare.lend(&mut a);
        a.buffer(5000).extend_from_slice(&[1; 5000]);
        spare.take_back(&mut a);
        assert_eq!((a.len(), spare.0.len()), (5000, 0), "bytes wait in it");
        a.advance(5000);
        spare.take_back(&mut a);
        assert_eq!((a.tail.capacity(), spare.0.len()), (0, 1));
        spare.lend(&mut b);
        assert!(b.tail.capacity() >= 5000 && spare.0.is_empty() && b.is_empty());
        let mut many: Vec<SendQueue> = (0..2 * limits::SPARE_BUFFERS_MAX).map(|_| SendQueue::default()).collect();
        many.push(b);
        let mut huge = SendQueue::default();
        huge.buffer(limits::SPARE_BUFFER_BYTES_MAX + 1);
        spare.take_back(&mut huge);
        assert!(spare.0.is_empty(), "too large to keep");
        for queue in &mut many {
            queue.buffer(10);
            spare.take_back(queue);
        }
        assert_eq!(spare.0.len(), limits::SPARE_BUFFERS_MAX);
    }

    #[test]
    fn a_long_queue_is_cut_into_bounded_pieces() {
        let mut queue = SendQueue::default();
        for _ in 0..100 {
            queue.buffer(4096).extend_from_slice(&[7; 4096]);
        }
        let pieces = queue.take();
        assert!(pieces.iter().all(|piece| piece.len() <= limits::COALESCE_BYTES_MAX + 4096));
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), 100 * 4096);
        assert!(queue.is_empty());
    }
}
