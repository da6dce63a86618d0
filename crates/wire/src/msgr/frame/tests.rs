//! Frames written and read back, damaged, cut and forged.

use super::super::control::{Ack, ClientIdent, Wait};
use super::super::crypto::{Side, aes_gcm};
use super::*;
use crate::types::{AddrVec, EntityAddr};
use proptest::prelude::*;

fn ident() -> ClientIdent {
    let addr = EntityAddr::msgr2("10.1.2.3:6800".parse().unwrap(), 77);
    ClientIdent {
        addrs: AddrVec::one(addr),
        target_addr: addr,
        gid: 4,
        global_seq: 5,
        supported_features: 6,
        required_features: 7,
        flags: 0,
        cookie: 8,
    }
}

fn pair(secure: bool) -> (FrameWriter, FrameReader) {
    let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
    reader.allow_messages();
    if secure {
        let secret: Vec<u8> = (1..65).collect();
        writer.secure(aes_gcm(&secret, Side::Connecting).unwrap().tx);
        reader.secure(aes_gcm(&secret, Side::Accepting).unwrap().rx);
    }
    (writer, reader)
}

fn bytes_of(queue: &mut SendQueue) -> Vec<u8> {
    queue.take().iter().flat_map(|piece| piece.to_vec()).collect()
}

/// Feeds `bytes` in pieces of `step` and collects the frames, holding `want` to its word on the way.
fn read_all(reader: &mut FrameReader, bytes: &[u8], step: usize) -> Result<Vec<Frame>, FrameError> {
    let mut buf = BytesMut::new();
    let mut frames = Vec::new();
    for piece in bytes.chunks(step) {
        buf.extend_from_slice(piece);
        while let Some(frame) = reader.next(&mut buf)? {
            frames.push(frame);
        }
        assert!(reader.want(buf.len()) >= 1);
    }
    Ok(frames)
}

fn header(seq: u64) -> MessageHeader {
    MessageHeader { seq, tid: seq + 1, kind: 42, priority: 127, version: 8, compat: 3, ack_seq: 0 }
}

proptest! {
    #[test]
    fn messages_survive_any_sizes_and_pieces(
        secure: bool,
        sizes in prop::collection::vec((0usize..300, 0usize..40, prop_oneof![0usize..100, 4000usize..20000]), 1..6),
        step in 1usize..5000,
    ) {
        let (mut writer, mut reader) = pair(secure);
        let mut out = SendQueue::default();
        let bytes = |len: usize, salt: usize| Bytes::from_iter((0..len).map(|i| (i * 7 + salt) as u8));
        let sent: Vec<[Bytes; 3]> =
            sizes.iter().map(|&(f, m, d)| [bytes(f, 1), bytes(m, 2), bytes(d, 3)]).collect();
        for (i, [front, middle, data]) in sent.iter().enumerate() {
            let lead = data.len() * (i % 3) / 5;
            let (lead, rest) = (&data[..lead], data.slice(lead..));
            let sum = (i % 2 == 0).then(|| crc32c(CRC_SEED, &rest));
            writer.message(&mut out, &header(i as u64), front, middle, Segment { lead, bytes: &rest, sum });
            writer.control(&mut out, &ident());
        }
        let wire = bytes_of(&mut out);
        let frames = read_all(&mut reader, &wire, step).unwrap();
        prop_assert_eq!(frames.len(), 2 * sent.len());
        for (i, [front, middle, data]) in sent.iter().enumerate() {
            let frame = &frames[2 * i];
            prop_assert_eq!(frame.header(), Ok(header(i as u64)));
            prop_assert_eq!((&frame.segment(1), &frame.segment(2), &frame.segment(3)), (front, middle, data));
            let found = (!secure && data.len() >= JOINED_BYTES).then(|| crc32c(CRC_SEED, data));
            prop_assert_eq!(frame.data_sums().find(&frame.segment(3)), found);
            prop_assert_eq!(frames[2 * i + 1].control(), Ok(ident()));
        }
    }

    #[test]
    fn damage_never_goes_unnoticed(secure: bool, at: prop::sample::Index, bit in 0u8..8) {
        let (mut writer, mut reader) = pair(secure);
        let mut out = SendQueue::default();
        writer.message(&mut out, &header(1), &Bytes::from_static(&[5; 99]), &Bytes::new(), (&Bytes::from_static(&[6; 50])).into());
        let mut wire = bytes_of(&mut out);
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        // A length that grew may leave the reader waiting; otherwise it complains. In crc mode the status byte's
        // upper half is unused, and so are the checksums of segments that are empty.
        match read_all(&mut reader, &wire, usize::MAX) {
            Err(_) => {}
            Ok(frames) if frames.is_empty() => {}
            Ok(frames) => {
                prop_assert!(!secure);
                prop_assert_eq!(&frames[0].segment(1)[..], &[5; 99][..]);
                prop_assert_eq!(&frames[0].segment(3)[..], &[6; 50][..]);
            }
        }
    }

    #[test]
    fn garbage_never_panics(secure: bool, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let (_, mut reader) = pair(secure);
        let _ = read_all(&mut reader, &bytes, 97);
    }
}

/// A preamble with a right checksum and any lengths.
fn forged(tag: u8, lens: &[u32]) -> Vec<u8> {
    let mut out = vec![0; PREAMBLE_LEN];
    out[0] = tag;
    out[1] = lens.len() as u8;
    for (desc, len) in out[2..26].chunks_exact_mut(6).zip(lens) {
        desc[..4].copy_from_slice(&len.to_le_bytes());
    }
    let crc = crc32c(0, &out[..28]);
    out[28..].copy_from_slice(&crc.to_le_bytes());
    out
}

#[test]
fn lengths_are_refused_before_the_body_is_awaited() {
    let refused = |messages: bool, tag: u8, lens: &[u32]| {
        let mut reader = FrameReader { messages, ..FrameReader::default() };
        reader.next(&mut BytesMut::from(&forged(tag, lens)[..])).map(|frame| frame.is_some())
    };
    assert_eq!(refused(true, 8, &[65537]), Err(FrameError::TooLong { tag: Tag::ClientIdent, bytes: 65537 }));
    assert_eq!(refused(true, 8, &[65536]), Ok(false));
    assert_eq!(refused(true, 20, &[8, 1]), Err(FrameError::TooLong { tag: Tag::Ack, bytes: 9 }));
    assert_eq!(refused(false, 17, &[41, 1]), Err(FrameError::TooEarly));
    assert_eq!(refused(true, 17, &[42, 1]), Err(FrameError::Preamble));
    let huge = u32::MAX;
    let bytes = 41 + 3 * u64::from(huge);
    assert_eq!(refused(true, 17, &[41, huge, huge, huge]), Err(FrameError::TooLong { tag: Tag::Message, bytes }));
    assert_eq!(refused(true, 17, &[41, 64 << 20, 16 << 20, 128 << 20]), Ok(false));
    assert_eq!(refused(true, 17, &[41, 1, 0]), Err(FrameError::Preamble));
    assert_eq!(refused(true, 21, &[1]), Err(FrameError::UnknownTag(21)));
    assert_eq!(refused(true, 16, &[]), Err(FrameError::Preamble));
}

#[test]
fn an_aborted_frame_is_skipped() {
    let (mut writer, mut reader) = pair(false);
    let mut out = SendQueue::default();
    writer.message(&mut out, &header(1), &Bytes::from_static(b"front"), &Bytes::new(), (&Bytes::new()).into());
    let mut wire = bytes_of(&mut out);
    let status = wire.len() - CRC_EPILOGUE_LEN;
    wire[status] = STATUS_ABORTED;
    writer.control(&mut out, &Ack { seq: 9 });
    wire.extend(bytes_of(&mut out));
    let frames = read_all(&mut reader, &wire, 1).unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].control(), Ok(Ack { seq: 9 }));
}

#[test]
fn large_data_is_attached_and_want_names_the_rest() {
    let (mut writer, mut reader) = pair(false);
    let mut out = SendQueue::default();
    let data = Bytes::from(vec![9; 1 << 20]);
    writer.message(&mut out, &header(1), &Bytes::new(), &Bytes::new(), (&data).into());
    let pieces = out.take();
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[1].as_ptr(), data.as_ptr());

    let mut buf = BytesMut::from(&pieces[0][..40]);
    assert_eq!(reader.want(0), PREAMBLE_LEN);
    assert!(reader.next(&mut buf).unwrap().is_none());
    assert_eq!(reader.want(buf.len()) + 40, pieces.iter().map(Bytes::len).sum::<usize>());
}

#[test]
fn transcripts_hold_what_the_other_side_read() {
    let (mut writer, mut reader) = (FrameWriter::recording(), FrameReader::recording());
    let mut out = SendQueue::default();
    writer.raw(&mut out, b"banner");
    writer.control(&mut out, &Wait {});
    writer.control(&mut out, &ident());
    let wire = bytes_of(&mut out);
    reader.record(b"banner");
    let mut buf = BytesMut::from(&wire[6..]);
    while reader.next(&mut buf).unwrap().is_some() {}
    assert_eq!(writer.take_transcript(), wire);
    assert_eq!(reader.take_transcript(), wire);
}
