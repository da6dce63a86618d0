//! Frames of msgr2.1: bytes to segments and back, in crc and in secure mode.
//!
//! Owns the layout (Ceph v16.2 `src/msg/async/frames_v2.cc`, `FrameAssembler`, revision 1). A frame is a preamble of
//! 32 bytes (tag, number of segments, four pairs of u32 length and u16 alignment, flags, reserved, crc32c of all that
//! with seed 0), then one to four segments, of which the last is not empty unless it is the only one:
//!
//! - crc mode: the first segment and its crc32c (seed -1), unless it is empty; if there are more, those, then a
//!   status byte and three checksums.
//! - secure mode: one sealed block of the preamble and the first 48 bytes of the first segment; a second one of the
//!   rest of the first segment, if any; if there are more segments, a third of those and a block that begins with the
//!   status byte. Everything is padded to 16 bytes with zeros before it is sealed.
//!
//! Invariants: a length is checked against `limits` when the preamble is read, before more is waited for. Segments
//! are slices of the receive buffer. Payloads are not looked at: see `control` and `header`.

use super::control::Control;
use super::crypto::{BLOCK_LEN, FrameCipher, TAG_LEN, Tampered};
use super::header::{HEADER_LEN, MessageHeader};
use super::limits;
use super::send_queue::SendQueue;
use super::tag::Tag;
use crate::codec::Malformed;
use base::checksum::{CRC_SEED, JOINED_BYTES, crc32c, joined};
use base::sums::Sums;
use bytes::{BufMut, Bytes, BytesMut};

/// A frame has at most this many segments.
pub const SEGMENTS_MAX: usize = 4;

const PREAMBLE_LEN: usize = 32;
/// So much of the first segment is sealed with the preamble.
const INLINE_LEN: usize = 48;
const SECURE_HEAD_LEN: usize = PREAMBLE_LEN + INLINE_LEN + TAG_LEN;
const CRC_LEN: usize = 4;
const CRC_EPILOGUE_LEN: usize = 1 + CRC_LEN * (SEGMENTS_MAX - 1);
const SECURE_EPILOGUE_LEN: usize = BLOCK_LEN + TAG_LEN;

/// The segments' alignments as Ceph announces them: its readers allocate the data section at page boundaries.
const ALIGNMENTS: [u16; SEGMENTS_MAX] = [8, 8, 8, 4096];

const STATUS_MASK: u8 = 0x0F;
const STATUS_COMPLETE: u8 = 0x0E;
const STATUS_ABORTED: u8 = 0x01;
const FLAG_COMPRESSED: u8 = 0x01;

/// Bytes that are no frame, or one that we do not take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// A checksum does not match.
    #[error("a frame's checksum is wrong")]
    Checksum,
    /// A seal does not match.
    #[error(transparent)]
    Tampered(#[from] Tampered),
    /// The tag is unknown.
    #[error("a frame has the unknown tag {0}")]
    UnknownTag(u8),
    /// The preamble contradicts itself, or uses what was not negotiated.
    #[error("a frame's preamble is malformed")]
    Preamble,
    /// The frame is longer than its tag allows.
    #[error("a frame {tag} of {bytes} bytes is too long")]
    TooLong {
        /// What it would have been.
        tag: Tag,
        /// How long all its segments would have been.
        bytes: u64,
    },
    /// A message before the session is established.
    #[error("a message came before the session was established")]
    TooEarly,
}

/// A whole frame, checked and decrypted.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What it is.
    pub tag: Tag,
    bytes: Bytes,
    segments: [(usize, usize); SEGMENTS_MAX],
    data_sums: Sums,
}

impl Frame {
    /// A segment as a slice of the receive buffer; empty if the frame has no such segment.
    pub fn segment(&self, index: usize) -> Bytes {
        let (start, len) = self.segments[index];
        if len == 0 { Bytes::new() } else { self.bytes.slice(start..start + len) }
    }

    /// The first segment, where it is.
    pub fn first(&self) -> &[u8] {
        let (start, len) = self.segments[0];
        &self.bytes[start..start + len]
    }

    /// What the check of a message's data found, where that has a block or more and is not encrypted.
    pub fn data_sums(&self) -> &Sums {
        &self.data_sums
    }

    /// The payload of a control frame.
    pub fn control<C: Control>(&self) -> Result<C, Malformed> {
        C::from_bytes(&self.segment(0))
    }

    /// The header of a MESSAGE frame.
    pub fn header(&self) -> Result<MessageHeader, Malformed> {
        let bytes = self.first().try_into().map_err(|_| Malformed::new("message header", "has the wrong length"))?;
        Ok(MessageHeader::from_wire(bytes))
    }
}

/// What a preamble said.
#[derive(Clone, Copy, Debug)]
struct Head {
    tag: Tag,
    count: usize,
    lens: [usize; SEGMENTS_MAX],
    /// The whole frame's length on the wire.
    total: usize,
}

impl Head {
    fn parse(preamble: &[u8; PREAMBLE_LEN], secure: bool, messages: bool) -> Result<Head, FrameError> {
        let (body, crc) = preamble.split_at(PREAMBLE_LEN - CRC_LEN);
        if crc32c(0, body).to_le_bytes() != crc {
            return Err(FrameError::Checksum);
        }
        let tag = Tag::from_wire(body[0]).ok_or(FrameError::UnknownTag(body[0]))?;
        let count = usize::from(body[1]);
        if !(1..=SEGMENTS_MAX).contains(&count) || body[26] & FLAG_COMPRESSED != 0 {
            return Err(FrameError::Preamble);
        }
        let mut lens = [0; SEGMENTS_MAX];
        for (len, desc) in lens.iter_mut().zip(body[2..26].chunks_exact(6)).take(count) {
            *len = u32::from_le_bytes([desc[0], desc[1], desc[2], desc[3]]) as usize;
        }
        if count > 1 && lens[count - 1] == 0 {
            return Err(FrameError::Preamble);
        }
        Head::check_lengths(tag, lens, messages)?;
        let mut head = Head { tag, count, lens, total: 0 };
        head.total = if secure { head.secure_len() } else { head.crc_len() };
        Ok(head)
    }

    fn check_lengths(tag: Tag, lens: [usize; SEGMENTS_MAX], messages: bool) -> Result<(), FrameError> {
        let max = if tag == Tag::Message {
            if !messages {
                return Err(FrameError::TooEarly);
            }
            if lens[0] != HEADER_LEN {
                return Err(FrameError::Preamble);
            }
            [HEADER_LEN, limits::FRONT_BYTES_MAX, limits::MIDDLE_BYTES_MAX, limits::DATA_BYTES_MAX]
        } else {
            [limits::CONTROL_BYTES_MAX, 0, 0, 0]
        };
        if lens.iter().zip(max).any(|(len, max)| *len > max) {
            return Err(FrameError::TooLong { tag, bytes: lens.iter().map(|len| *len as u64).sum() });
        }
        Ok(())
    }

    fn crc_len(&self) -> usize {
        let first = if self.lens[0] == 0 { 0 } else { self.lens[0] + CRC_LEN };
        let rest: usize = self.lens[1..].iter().sum();
        PREAMBLE_LEN + first + if self.count > 1 { rest + CRC_EPILOGUE_LEN } else { 0 }
    }

    fn secure_len(&self) -> usize {
        let rest: usize = self.lens[1..].iter().map(|len| padded(*len)).sum();
        SECURE_HEAD_LEN + sealed_rest_len(self.lens[0]) + if self.count > 1 { rest + SECURE_EPILOGUE_LEN } else { 0 }
    }
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(BLOCK_LEN)
}

/// How long the second sealed block is: what does not fit beside the preamble.
fn sealed_rest_len(first_len: usize) -> usize {
    if first_len > INLINE_LEN { padded(first_len - INLINE_LEN) + TAG_LEN } else { 0 }
}

/// Takes frames off the front of a receive buffer.
#[derive(Debug, Default)]
pub struct FrameReader {
    cipher: Option<Box<dyn FrameCipher>>,
    /// The frame whose preamble has been read (and, in secure mode, decrypted where it lies).
    head: Option<Head>,
    messages: bool,
    transcript: Option<Vec<u8>>,
}

impl FrameReader {
    /// A reader in clear that keeps a transcript of all it reads, for the handshake's signature.
    pub fn recording() -> FrameReader {
        FrameReader { transcript: Some(Vec::new()), ..FrameReader::default() }
    }

    /// From the next frame on, everything is sealed.
    pub fn secure(&mut self, cipher: Box<dyn FrameCipher>) {
        self.cipher = Some(cipher);
    }

    /// From the next frame on, messages are taken.
    pub fn allow_messages(&mut self) {
        self.messages = true;
    }

    /// Adds bytes that were read without this reader (the banner) to the transcript.
    pub fn record(&mut self, bytes: &[u8]) {
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(bytes);
        }
    }

    /// How long the transcript is.
    pub fn recorded(&self) -> usize {
        self.transcript.as_ref().map_or(0, Vec::len)
    }

    /// Ends the transcript and returns it.
    pub fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    /// Whether part of a frame has been read, given how many bytes `have` wait in the buffer.
    pub fn is_mid_frame(&self, have: usize) -> bool {
        self.head.is_some() || have > 0
    }

    /// How many bytes are needed beyond the `have` that wait in the buffer: to the end of the frame if its length is
    /// known, else to the end of its preamble.
    pub fn want(&self, have: usize) -> usize {
        self.head.map_or(self.head_len(), |head| head.total).saturating_sub(have).max(1)
    }

    fn head_len(&self) -> usize {
        if self.cipher.is_some() { SECURE_HEAD_LEN } else { PREAMBLE_LEN }
    }

    /// Takes the next whole frame off `buf`; `None` until one is there. The bytes left in `buf` belong to the reader
    /// until its next call: in secure mode they may be decrypted in place already.
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        loop {
            let head = match self.head {
                Some(head) => head,
                None if buf.len() < self.head_len() => return Ok(None),
                None => {
                    let head = self.read_head(buf)?;
                    *self.head.insert(head)
                }
            };
            if buf.len() < head.total {
                return Ok(None);
            }
            let mut raw = buf.split_to(head.total);
            self.head = None;
            let (bytes, (segments, status), data_sums) = match &mut self.cipher {
                Some(cipher) => {
                    let body = open_body(cipher.as_mut(), &head, &mut raw)?;
                    (raw.freeze(), body, Sums::default())
                }
                None => {
                    let bytes = raw.freeze();
                    let (body, sums) = check_body(&head, &bytes)?;
                    (bytes, body, sums)
                }
            };
            if let Some(transcript) = &mut self.transcript {
                transcript.extend_from_slice(&bytes);
            }
            match status & STATUS_MASK {
                STATUS_COMPLETE => return Ok(Some(Frame { tag: head.tag, bytes, segments, data_sums })),
                // The sender gave the frame up after it had begun to send it.
                STATUS_ABORTED => {}
                _ => return Err(FrameError::Preamble),
            }
        }
    }

    fn read_head(&mut self, buf: &mut BytesMut) -> Result<Head, FrameError> {
        if let Some(cipher) = &mut self.cipher {
            cipher.open(&mut buf[..SECURE_HEAD_LEN])?;
        }
        let preamble = buf[..PREAMBLE_LEN].try_into().expect("the length was checked");
        Head::parse(preamble, self.cipher.is_some(), self.messages)
    }
}

/// The segment with a message's data.
const DATA: usize = 3;

type Body = ([(usize, usize); SEGMENTS_MAX], u8);

/// Verifies the checksums of a crc-mode frame; returns where its segments are, its status, and the checksums of its data.
fn check_body(head: &Head, raw: &Bytes) -> Result<(Body, Sums), FrameError> {
    let mut data_sums = Sums::default();
    let mut segments = [(0, 0); SEGMENTS_MAX];
    let mut at = PREAMBLE_LEN;
    if head.lens[0] > 0 {
        let (data, rest) = raw[at..].split_at(head.lens[0]);
        if crc32c(CRC_SEED, data).to_le_bytes() != rest[..CRC_LEN] {
            return Err(FrameError::Checksum);
        }
        segments[0] = (at, head.lens[0]);
        at += head.lens[0] + CRC_LEN;
    }
    if head.count == 1 {
        return Ok(((segments, STATUS_COMPLETE), data_sums));
    }
    let (status, crcs) = raw[raw.len() - CRC_EPILOGUE_LEN..].split_at(1);
    for (i, crc) in (1..head.count).zip(crcs.chunks_exact(CRC_LEN)) {
        let data = &raw[at..at + head.lens[i]];
        let sum = if i == DATA && data.len() >= JOINED_BYTES {
            data_sums = Sums::of(raw.slice_ref(data));
            data_sums.whole()
        } else {
            crc32c(CRC_SEED, data)
        };
        // The checksum of nothing is its seed, which senders write too; some leave 0. Nothing needs no checksum.
        if !data.is_empty() && sum.to_le_bytes() != crc {
            return Err(FrameError::Checksum);
        }
        segments[i] = (at, head.lens[i]);
        at += head.lens[i];
    }
    Ok(((segments, status[0]), data_sums))
}

/// Decrypts what follows the preamble of a secure-mode frame; returns where its segments are, and its status.
fn open_body(cipher: &mut dyn FrameCipher, head: &Head, raw: &mut [u8]) -> Result<Body, FrameError> {
    let mut segments = [(0, 0); SEGMENTS_MAX];
    let mut at = SECURE_HEAD_LEN;
    let first_len = head.lens[0];
    segments[0] = (PREAMBLE_LEN, first_len);
    if first_len > INLINE_LEN {
        let len = sealed_rest_len(first_len);
        cipher.open(&mut raw[at..at + len])?;
        // Close the gap that the first block's seal leaves inside the segment.
        raw.copy_within(PREAMBLE_LEN..PREAMBLE_LEN + INLINE_LEN, PREAMBLE_LEN + TAG_LEN);
        segments[0] = (PREAMBLE_LEN + TAG_LEN, first_len);
        at += len;
    }
    if head.count == 1 {
        return Ok((segments, STATUS_COMPLETE));
    }
    cipher.open(&mut raw[at..])?;
    let status = raw[raw.len() - SECURE_EPILOGUE_LEN];
    for (segment, len) in segments.iter_mut().zip(head.lens).take(head.count).skip(1) {
        *segment = (at, len);
        at += padded(len);
    }
    Ok((segments, status))
}

/// Writes frames into a send queue.
#[derive(Debug, Default)]
pub struct FrameWriter {
    cipher: Option<Box<dyn FrameCipher>>,
    transcript: Option<Vec<u8>>,
}

impl FrameWriter {
    /// A writer in clear that keeps a transcript of all it writes, for the handshake's signature.
    pub fn recording() -> FrameWriter {
        FrameWriter { transcript: Some(Vec::new()), ..FrameWriter::default() }
    }

    /// From the next frame on, everything is sealed.
    pub fn secure(&mut self, cipher: Box<dyn FrameCipher>) {
        self.cipher = Some(cipher);
    }

    /// How long the transcript is.
    pub fn recorded(&self) -> usize {
        self.transcript.as_ref().map_or(0, Vec::len)
    }

    /// Ends the transcript and returns it.
    pub fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    /// Writes bytes that are no frame: the banner.
    pub fn raw(&mut self, out: &mut SendQueue, bytes: &[u8]) {
        out.buffer(bytes.len()).extend_from_slice(bytes);
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(bytes);
        }
    }

    /// Writes a control frame.
    pub fn control<C: Control>(&mut self, out: &mut SendQueue, payload: &C) {
        let (payload, nothing) = (payload.to_bytes(), Bytes::new());
        let rest = [Segment::from(&nothing); 3];
        if self.transcript.is_none() {
            return self.frame(out, C::TAG, &payload, rest);
        }
        let mut alone = SendQueue::default();
        self.frame(&mut alone, C::TAG, &payload, rest);
        alone.take().iter().for_each(|piece| self.raw(out, piece));
    }

    /// Writes a message. What is known of the data's checksum goes out with it.
    pub fn message(
        &mut self,
        out: &mut SendQueue,
        header: &MessageHeader,
        front: &Bytes,
        middle: &Bytes,
        data: Segment<'_>,
    ) {
        self.frame(out, Tag::Message, &header.to_wire(), [front.into(), middle.into(), data]);
    }

    fn frame(&mut self, out: &mut SendQueue, tag: Tag, first: &[u8], rest: [Segment<'_>; 3]) {
        let count = rest.iter().rposition(|segment| segment.len() > 0).map_or(1, |last| last + 2);
        let mut lens = [first.len(), 0, 0, 0];
        for (len, segment) in lens[1..].iter_mut().zip(rest) {
            *len = segment.len();
        }
        let preamble = preamble(tag, count, lens);
        match &mut self.cipher {
            Some(cipher) => write_secure(cipher.as_mut(), out, &preamble, first, &rest[..count - 1]),
            None => write_crc(out, &preamble, first, &rest[..count - 1]),
        }
    }
}

/// A segment to be written: a few bytes first, then a buffer that is not copied where it is large.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The first bytes; mostly none.
    pub lead: &'a [u8],
    /// The others.
    pub bytes: &'a Bytes,
    /// The checksum of these, from [`CRC_SEED`], where it is known.
    pub sum: Option<u32>,
}

impl<'a> From<&'a Bytes> for Segment<'a> {
    fn from(bytes: &'a Bytes) -> Segment<'a> {
        Segment { lead: &[], bytes, sum: None }
    }
}

impl Segment<'_> {
    fn len(&self) -> usize {
        self.lead.len() + self.bytes.len()
    }

    fn crc(&self) -> u32 {
        let lead = crc32c(CRC_SEED, self.lead);
        let (blocks, rest) = (self.bytes.len() / JOINED_BYTES, self.bytes.len() % JOINED_BYTES);
        let known = match self.sum {
            Some(sum) if self.lead.is_empty() => Some(sum),
            Some(sum) if rest == 0 => Some(joined(lead, sum, blocks)),
            _ => None,
        };
        debug_assert!(known.is_none_or(|sum| sum == crc32c(lead, self.bytes)), "who knew it knew it wrong");
        known.unwrap_or_else(|| crc32c(lead, self.bytes))
    }
}

fn preamble(tag: Tag, count: usize, lens: [usize; SEGMENTS_MAX]) -> [u8; PREAMBLE_LEN] {
    let mut out = [0; PREAMBLE_LEN];
    out[0] = tag as u8;
    out[1] = count as u8;
    for (i, desc) in out[2..26].chunks_exact_mut(6).enumerate().take(count) {
        let len = u32::try_from(lens[i]).expect("a segment that we built is shorter than 4 GiB");
        desc[..4].copy_from_slice(&len.to_le_bytes());
        desc[4..].copy_from_slice(&ALIGNMENTS[i].to_le_bytes());
    }
    let crc = crc32c(0, &out[..PREAMBLE_LEN - CRC_LEN]);
    out[PREAMBLE_LEN - CRC_LEN..].copy_from_slice(&crc.to_le_bytes());
    out
}

fn write_crc(out: &mut SendQueue, preamble: &[u8], first: &[u8], rest: &[Segment<'_>]) {
    let copied = |segment: &Segment<'_>| segment.bytes.len() < limits::ATTACH_BYTES_MIN;
    let copy = |segment| if copied(segment) { segment.len() } else { segment.lead.len() };
    let copy: usize = rest.iter().map(copy).sum();
    let mut buf = out.buffer(PREAMBLE_LEN + first.len() + CRC_LEN + copy + CRC_EPILOGUE_LEN);
    buf.put_slice(preamble);
    if !first.is_empty() {
        buf.put_slice(first);
        buf.put_u32_le(crc32c(CRC_SEED, first));
    }
    if rest.is_empty() {
        return;
    }
    let mut epilogue = [0; CRC_EPILOGUE_LEN];
    epilogue[0] = STATUS_COMPLETE;
    for (segment, crc) in rest.iter().zip(epilogue[1..].chunks_exact_mut(CRC_LEN)) {
        crc.copy_from_slice(&segment.crc().to_le_bytes());
        buf.put_slice(segment.lead);
        if copied(segment) {
            buf.put_slice(segment.bytes);
        } else {
            out.attach(segment.bytes.clone());
            buf = out.buffer(CRC_EPILOGUE_LEN);
        }
    }
    buf.put_slice(&epilogue);
}

fn write_secure(
    cipher: &mut dyn FrameCipher,
    out: &mut SendQueue,
    preamble: &[u8],
    first: &[u8],
    rest: &[Segment<'_>],
) {
    let body: usize = rest.iter().map(|segment| padded(segment.len())).sum();
    let tail_len = if rest.is_empty() { 0 } else { body + SECURE_EPILOGUE_LEN };
    let buf = out.buffer(SECURE_HEAD_LEN + sealed_rest_len(first.len()) + tail_len);

    let start = buf.len();
    let (inline, beyond) = first.split_at(first.len().min(INLINE_LEN));
    buf.put_slice(preamble);
    buf.put_slice(inline);
    buf.put_bytes(0, INLINE_LEN - inline.len());
    seal_from(cipher, buf, start);

    if !beyond.is_empty() {
        let start = buf.len();
        put_padded(buf, beyond);
        seal_from(cipher, buf, start);
    }
    if !rest.is_empty() {
        let start = buf.len();
        for segment in rest {
            buf.put_slice(segment.lead);
            buf.put_slice(segment.bytes);
            put_padding(buf, segment.len());
        }
        put_padded(buf, &[STATUS_COMPLETE]);
        seal_from(cipher, buf, start);
    }
}

fn put_padded(buf: &mut Vec<u8>, bytes: &[u8]) {
    buf.put_slice(bytes);
    put_padding(buf, bytes.len());
}

fn put_padding(buf: &mut Vec<u8>, len: usize) {
    buf.put_bytes(0, padded(len) - len);
}

fn seal_from(cipher: &mut dyn FrameCipher, buf: &mut Vec<u8>, start: usize) {
    let seal = cipher.seal(&mut buf[start..]);
    buf.put_slice(&seal);
}

#[cfg(test)]
mod tests;
