//! What is to be written to the log, before it is in one piece: text, and payloads that belong between its bytes.
//!
//! Owns the one copy of a payload on its way to the log: it stays in the buffer that it came in, until `gather` puts
//! the whole together in one buffer. It also keeps account of whole blocks of data in there, as
//! these are served from the record until they are in their place.

use crate::extent::device::IoBuf;
use base::checksum::{JOINED_BYTES, crc32c, joined};
use base::sums::Sums;
use bytes::Bytes;
use wire::Encoder;

/// Payloads from this size on are not copied into the text.
const APART_BYTES_MIN: usize = 1 << 10;

/// The room for text that is kept for the next body.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// A whole block of data inside a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lying {
    /// Where on the device it belongs.
    pub(crate) block: u64,
    /// Where in the body it lies.
    pub(crate) at: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Body {
    text: Encoder,
    payloads: Vec<Payload>,
    payload_bytes: usize,
    lying: Vec<Lying>,
}

#[derive(Debug)]
struct Payload {
    data: Bytes,
    /// Its checksum, where that is known and can be joined to what is before it.
    sum: Option<u32>,
    /// The length of the text before it.
    text: usize,
    /// Where in the body it begins.
    at: usize,
}

impl Body {
    /// Where text is appended.
    pub(crate) fn text(&mut self) -> &mut Encoder {
        &mut self.text
    }

    /// How long it is so far.
    pub(crate) fn len(&self) -> usize {
        self.text.position() + self.payload_bytes
    }

    /// Appends a u32 length and the bytes, of whose checksums something may be known.
    pub(crate) fn blob(&mut self, data: &Bytes, sums: &Sums) {
        if data.len() < APART_BYTES_MIN {
            return self.text.blob(data);
        }
        self.text.len(data.len());
        let sum = sums.find(data).filter(|_| data.len().is_multiple_of(JOINED_BYTES));
        self.payloads.push(Payload { data: data.clone(), sum, text: self.text.position(), at: self.len() });
        self.payload_bytes += data.len();
    }

    /// Appends a u32 length, then what `write` appends.
    pub(crate) fn sized(&mut self, write: impl FnOnce(&mut Body)) {
        let at = self.text.position();
        self.text.u32(0);
        let before = self.len();
        write(self);
        let len = u32::try_from(self.len() - before).expect("a transaction has a largest size");
        self.text.patch_u32(at, len);
    }

    /// Takes note that `data`, a part of one of the last payloads, is the content of a block.
    pub(crate) fn note_block(&mut self, block: u64, data: &Bytes) {
        let address = data.as_ptr().addr();
        let inside = |payload: &Payload| {
            let offset = address.checked_sub(payload.data.as_ptr().addr())?;
            (offset + data.len() <= payload.data.len()).then_some(payload.at + offset)
        };
        if let Some(at) = self.payloads.iter().rev().find_map(inside) {
            self.lying.push(Lying { block, at });
        }
    }

    /// The blocks that were noted.
    pub(crate) fn take_lying(&mut self) -> Vec<Lying> {
        core::mem::take(&mut self.lying)
    }

    /// All of it, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let text = self.text.as_slice();
        let ends = self.payloads.iter().map(|payload| payload.text).chain([text.len()]);
        let starts = [0].into_iter().chain(self.payloads.iter().map(|payload| payload.text));
        let payloads = self.payloads.iter().map(|payload| &payload.data[..]).chain([&[][..]]);
        starts.zip(ends).zip(payloads).flat_map(move |((start, end), payload)| [&text[start..end], payload])
    }

    /// The checksum of all of it but for its first bytes of text, continuing from the state `crc`.
    pub(crate) fn checksum(&self, crc: u32, skipped: usize) -> u32 {
        let text = self.text.as_slice();
        let (mut crc, mut at) = (crc, skipped);
        for payload in &self.payloads {
            crc = crc32c(crc, &text[at..payload.text]);
            crc = match payload.sum {
                Some(sum) => joined(crc, sum, payload.data.len() / JOINED_BYTES),
                None => crc32c(crc, &payload.data),
            };
            at = payload.text;
        }
        crc32c(crc, &text[at..])
    }

    /// All of it in one buffer, filled up to whole blocks.
    pub(crate) fn gather(&self) -> IoBuf {
        let mut buf = IoBuf::passing(self.len());
        self.pieces().for_each(|piece| buf.append(piece));
        buf.fill_up();
        buf
    }

    /// Forgets what it holds; room for text stays.
    pub(crate) fn clear(&mut self) {
        if self.text.position() > TEXT_BYTES_MAX {
            self.text = Encoder::new();
        }
        self.text.clear();
        self.payloads.clear();
        self.lying.clear();
        self.payload_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::layout::BLOCK;

    #[test]
    fn a_body_is_text_and_payloads_in_order() {
        let mut body = Body::default();
        let large = Bytes::from(vec![7; 3 * BLOCK as usize]);
        let sums = Sums::of(large.clone());
        body.text().u8(1);
        body.sized(|body| {
            body.blob(&Bytes::from_static(b"small"), &Sums::default());
            body.blob(&large, &sums);
            body.blob(&large.slice(..BLOCK as usize), &Sums::default());
            body.text().u8(2);
        });
        let part = large.slice(BLOCK as usize..2 * BLOCK as usize);
        body.note_block(9, &part);
        body.note_block(10, &Bytes::copy_from_slice(&part));
        let (len, start) = (body.len(), 1 + 4 + 9 + 4);
        assert_eq!(body.take_lying(), [Lying { block: 9, at: start + BLOCK as usize }]);
        let buf = body.gather();
        let mut expected = vec![1];
        expected.extend_from_slice(&((len - 5) as u32).to_le_bytes());
        for part in [&b"small"[..], &large, &part] {
            expected.extend_from_slice(&(part.len() as u32).to_le_bytes());
            expected.extend_from_slice(part);
        }
        expected.push(2);
        assert_eq!((len, &buf.as_ref()[..len]), (expected.len(), &expected[..]));
        assert!(buf.as_ref()[len..].iter().all(|&byte| byte == 0));
        for skipped in [0, 3] {
            assert_eq!(body.checksum(9, skipped), crc32c(9, &expected[skipped..]), "partly from what is known");
        }
        body.clear();
        assert_eq!((body.len(), body.pieces().flatten().count()), (0, 0));
    }
}
