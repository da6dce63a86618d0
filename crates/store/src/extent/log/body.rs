//! What is to be written to the log, before it is in one piece: text, and payloads that belong between its bytes.
//!
//! Owns the one copy of a payload on its way to the log: it stays in the buffer that it came in, until `gather` puts
//! the whole together in one buffer. It also keeps account of whole blocks of data in there, as
//! these are served from the record until they are in their place. A record's payloads of whole blocks lie behind its
//! text, at multiples of a block: from there they go to their place without being copied again.

use crate::extent::device::IoBuf;
use crate::extent::layout::BLOCK;
use base::checksum::{JOINED_BYTES, crc32c, joined};
use base::sums::Sums;
use bytes::Bytes;
use wire::Encoder;

/// Payloads from this size on are not copied into the text.
const HELD_BYTES_MIN: usize = 1 << 10;

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
    /// Payloads behind the text, if there may be any, and where they lie from the first on.
    apart: Option<Vec<Payload>>,
    apart_bytes: usize,
    lying_apart: Vec<Lying>,
}

#[derive(Debug)]
struct Payload {
    data: Bytes,
    /// Its checksum, where that is known and can be joined to what is before it.
    sum: Option<u32>,
    /// The length of the text before it.
    text: usize,
    /// Where in the body, or behind its text, it begins.
    at: usize,
}

impl Payload {
    /// Where in the body, or behind its text, a part of its data begins; none if that is no part of it.
    fn place_of(&self, part: &Bytes) -> Option<usize> {
        let offset = part.as_ptr().addr().checked_sub(self.data.as_ptr().addr())?;
        (offset + part.len() <= self.data.len()).then_some(self.at + offset)
    }

    /// The checksum of what ends with it, of which `crc` is that before it.
    fn checksum(&self, crc: u32) -> u32 {
        match self.sum {
            Some(sum) => joined(crc, sum, self.data.len() / JOINED_BYTES),
            None => crc32c(crc, &self.data),
        }
    }
}

impl Body {
    /// Nothing, for a record: payloads of whole blocks lie apart.
    pub(crate) fn of_record() -> Body {
        Body { apart: Some(Vec::new()), ..Body::default() }
    }

    /// Where text is appended.
    pub(crate) fn text(&mut self) -> &mut Encoder {
        &mut self.text
    }

    /// How long it is so far.
    pub(crate) fn len(&self) -> usize {
        if self.apart_bytes == 0 { self.text_len() } else { self.apart_start() + self.apart_bytes }
    }

    /// How long it is without what lies apart.
    pub(crate) fn text_len(&self) -> usize {
        self.text.position() + self.payload_bytes
    }

    /// Where what lies apart begins: between the text and that are zeros.
    fn apart_start(&self) -> usize {
        self.text_len().next_multiple_of(BLOCK as usize)
    }

    /// Appends a u32 length and the bytes, of whose checksums something may be known.
    pub(crate) fn blob(&mut self, data: &Bytes, sums: &Sums) {
        if data.len() < HELD_BYTES_MIN {
            return self.text.blob(data);
        }
        self.text.len(data.len());
        let sum = sums.find(data).filter(|_| data.len().is_multiple_of(JOINED_BYTES));
        self.payloads.push(Payload { data: data.clone(), sum, text: self.text.position(), at: self.text_len() });
        self.payload_bytes += data.len();
    }

    /// Has these bytes lie apart, where that is possible; says where then, in blocks from the first ones on that do.
    pub(crate) fn append_apart(&mut self, data: &Bytes, sums: &Sums) -> Option<u32> {
        let whole = !data.is_empty() && data.len().is_multiple_of(BLOCK as usize);
        let apart = self.apart.as_mut().filter(|_| whole)?;
        let at = self.apart_bytes;
        apart.push(Payload { data: data.clone(), sum: sums.find(data), text: 0, at });
        self.apart_bytes += data.len();
        Some((at / BLOCK as usize) as u32)
    }

    /// Appends a u32 length, then what `write` appends.
    pub(crate) fn sized(&mut self, write: impl FnOnce(&mut Body)) {
        let at = self.text.position();
        self.text.u32(0);
        let before = self.text_len();
        write(self);
        let len = u32::try_from(self.text_len() - before).expect("a transaction has a largest size");
        self.text.patch_u32(at, len);
    }

    /// Takes note that `data`, a part of one of the last payloads, is the content of a block.
    pub(crate) fn note_block(&mut self, block: u64, data: &Bytes) {
        let find = |payloads: &[Payload]| payloads.iter().rev().find_map(|payload| payload.place_of(data));
        if let Some(at) = self.apart.as_deref().and_then(find) {
            self.lying_apart.push(Lying { block, at });
        } else if let Some(at) = find(&self.payloads) {
            self.lying.push(Lying { block, at });
        }
    }

    /// The blocks that were noted. Nothing may be appended from here on.
    pub(crate) fn take_lying(&mut self) -> Vec<Lying> {
        let (mut lying, start) = (core::mem::take(&mut self.lying), self.apart_start());
        lying.extend(self.lying_apart.drain(..).map(|Lying { block, at }| Lying { block, at: start + at }));
        lying
    }

    /// All of it but for what lies apart, in order.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
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
            crc = payload.checksum(crc32c(crc, &text[at..payload.text]));
            at = payload.text;
        }
        crc = crc32c(crc, &text[at..]);
        if self.apart_bytes > 0 {
            crc = crc32c(crc, &[0; BLOCK as usize][..self.apart_start() - self.text_len()]);
        }
        self.apart.iter().flatten().fold(crc, |crc, payload| payload.checksum(crc))
    }

    /// All of it in one buffer, filled up to whole blocks.
    pub(crate) fn gather(&self) -> IoBuf {
        let mut buf = IoBuf::passing(self.len());
        self.pieces().for_each(|piece| buf.append(piece));
        buf.fill_up();
        self.apart.iter().flatten().for_each(|payload| buf.append(&payload.data));
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
        self.apart.iter_mut().for_each(Vec::clear);
        self.lying_apart.clear();
        self.apart_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn whole_blocks_lie_apart_behind_the_text() {
        const WHOLE: usize = BLOCK as usize;
        let mut body = Body::of_record();
        let (two, one) = (Bytes::from(vec![7; 2 * WHOLE]), Bytes::from(vec![8; WHOLE]));
        let sums = Sums::of(two.clone());
        assert_eq!(Body::default().append_apart(&one, &Sums::default()), None, "not where nothing may");
        for no_block in [0, 100, WHOLE + 1] {
            assert_eq!(body.append_apart(&Bytes::from(vec![0; no_block]), &Sums::default()), None, "{no_block} bytes");
        }
        body.sized(|body| {
            assert_eq!(body.append_apart(&two, &sums), Some(0));
            body.text().u8(1);
        });
        body.blob(&one, &Sums::default());
        assert_eq!(body.append_apart(&one, &Sums::default()), Some(2));
        body.text().u8(2);
        body.note_block(30, &two.slice(WHOLE..));
        let mut expected = vec![1, 0, 0, 0, 1];
        expected.extend_from_slice(&(WHOLE as u32).to_le_bytes());
        expected.extend_from_slice(&one);
        expected.push(2);
        assert_eq!(body.text_len(), expected.len());
        expected.resize(2 * WHOLE, 0);
        expected.extend_from_slice(&two);
        expected.extend_from_slice(&one);
        assert_eq!((body.len(), body.take_lying()), (expected.len(), vec![Lying { block: 30, at: 3 * WHOLE }]));
        assert_eq!(body.gather().as_ref(), expected);
        assert_eq!(body.checksum(9, 3), crc32c(9, &expected[3..]), "partly from what is known");
        body.clear();
        assert_eq!((body.len(), body.append_apart(&one, &Sums::default())), (0, Some(0)));
    }
}
