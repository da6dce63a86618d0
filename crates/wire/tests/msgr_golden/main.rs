//! Frames, streams and handshakes captured from Ceph 16.2.15, read and written again byte for byte.
//!
//! Owns the proof that the layout, the ciphers and the signatures are Ceph's. `capture` finds the secrets of a
//! captured connection with the cluster's (thrown away) keys; `replay` puts our messenger in the place of either end.

mod capture;
mod replay;

use bytes::{Bytes, BytesMut};
use capture::{CONNECTIONS, Capture, MODES, golden};
use wire::Decode;
use wire::msgr::control::*;
use wire::msgr::crypto::{Side, aes_gcm};
use wire::msgr::frame::{Frame, FrameReader, FrameWriter};
use wire::msgr::header::MessageHeader;
use wire::msgr::tag::Tag;
use wire::msgr::{SendQueue, banner};

/// Reads a control frame's payload as its type and writes it again.
fn rewrite(writer: &mut FrameWriter, out: &mut SendQueue, frame: &Frame) {
    fn typed<C: Control>(writer: &mut FrameWriter, out: &mut SendQueue, frame: &Frame) {
        let payload: C = frame.control().unwrap_or_else(|error| panic!("{}: {error}", frame.tag));
        writer.control(out, &payload);
    }
    match frame.tag {
        Tag::Hello => typed::<Hello>(writer, out, frame),
        Tag::AuthRequest => typed::<AuthRequest>(writer, out, frame),
        Tag::AuthBadMethod => typed::<AuthBadMethod>(writer, out, frame),
        Tag::AuthReplyMore => typed::<AuthReplyMore>(writer, out, frame),
        Tag::AuthRequestMore => typed::<AuthRequestMore>(writer, out, frame),
        Tag::AuthDone => typed::<AuthDone>(writer, out, frame),
        Tag::AuthSignature => typed::<AuthSignature>(writer, out, frame),
        Tag::ClientIdent => typed::<ClientIdent>(writer, out, frame),
        Tag::ServerIdent => typed::<ServerIdent>(writer, out, frame),
        Tag::IdentMissingFeatures => typed::<IdentMissingFeatures>(writer, out, frame),
        Tag::SessionReconnect => typed::<SessionReconnect>(writer, out, frame),
        Tag::SessionReset => typed::<SessionReset>(writer, out, frame),
        Tag::SessionRetry => typed::<SessionRetry>(writer, out, frame),
        Tag::SessionRetryGlobal => typed::<SessionRetryGlobal>(writer, out, frame),
        Tag::SessionReconnectOk => typed::<SessionReconnectOk>(writer, out, frame),
        Tag::Wait => typed::<Wait>(writer, out, frame),
        Tag::Keepalive2 => typed::<Keepalive2>(writer, out, frame),
        Tag::Keepalive2Ack => typed::<Keepalive2Ack>(writer, out, frame),
        Tag::Ack => typed::<Ack>(writer, out, frame),
        Tag::Message => {
            let header: MessageHeader = frame.header().expect("a message has a header");
            writer.message(out, &header, &frame.segment(1), &frame.segment(2), (&frame.segment(3)).into());
        }
    }
}

fn flatten(out: &mut SendQueue) -> Vec<u8> {
    out.take().iter().flat_map(|piece| piece.to_vec()).collect()
}

#[test]
fn every_captured_frame_is_written_as_it_was_read() {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    let folders = std::fs::read_dir(golden("handshakes")).expect("the golden handshakes");
    let mut folders: Vec<_> = folders.map(|entry| entry.expect("readable").path()).collect();
    folders.push(golden("frames"));
    for file in folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("readable")) {
        let path = file.expect("readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        let bytes = std::fs::read(&path).expect("readable");
        let mut buf = BytesMut::from(&bytes[..]);
        if name.ends_with("BANNER.bin") {
            assert_eq!(bytes, banner::ours(), "{name}");
            continue;
        }
        let frame = FrameReader::default().next(&mut buf);
        let frame = frame.unwrap_or_else(|error| panic!("{name}: {error}")).expect("a whole frame");
        assert!(buf.is_empty(), "{name} has bytes left over");
        assert!(name.contains(&frame.tag.to_string()), "{name} is a {}", frame.tag);
        let mut out = SendQueue::default();
        rewrite(&mut FrameWriter::default(), &mut out, &frame);
        assert_eq!(flatten(&mut out), bytes, "{name}");
        *seen.entry(frame.tag.to_string()).or_default() += 1;
    }
    assert!(seen.len() >= 17, "only these frames were captured: {seen:?}");
}

/// Reads a whole direction of a connection and writes it again.
fn roundtrip(capture: &Capture, side: Side) {
    let bytes = capture.bytes(side);
    let (mut reader, mut writer, mut out) = (FrameReader::default(), FrameWriter::default(), SendQueue::default());
    let mut buf = BytesMut::from(bytes);
    let first = banner::take(&mut buf).expect("a banner").expect("a whole banner");
    writer.raw(&mut out, &first);
    reader.allow_messages();
    let mut messages = 0;
    while let Some(frame) = reader.next(&mut buf).unwrap_or_else(|error| panic!("{capture:?} {side:?}: {error}")) {
        rewrite(&mut writer, &mut out, &frame);
        if frame.tag == Tag::Message {
            let header = frame.header().expect("a header");
            messages += 1;
            assert_eq!(header.seq, messages);
        }
        // The mode starts after AUTH_DONE, and on the other side after the frame that it answers.
        if matches!(frame.tag, Tag::AuthDone | Tag::AuthRequestMore) && capture.secure {
            let other = if side == Side::Connecting { Side::Accepting } else { Side::Connecting };
            writer.secure(aes_gcm(&capture.secrets.connection_secret, side).expect("64 bytes").tx);
            reader.secure(aes_gcm(&capture.secrets.connection_secret, other).expect("64 bytes").rx);
        }
    }
    assert!(buf.is_empty(), "{capture:?} {side:?}: {} bytes left over", buf.len());
    // `rados put` opens a session with the manager and says nothing.
    assert_eq!(messages > 0, capture.kind != wire::types::EntityType::MGR);
    assert_eq!(flatten(&mut out), bytes, "{capture:?} {side:?}");
}

#[test]
fn whole_connections_are_written_as_they_were_read() {
    for mode in MODES {
        for connection in CONNECTIONS {
            let capture = Capture::load(mode, connection);
            roundtrip(&capture, Side::Connecting);
            roundtrip(&capture, Side::Accepting);
        }
    }
}

#[test]
fn golden_messages_have_golden_headers() {
    let mut checked = 0;
    for entry in std::fs::read_dir(golden("messages")).expect("the golden messages") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let bytes = Bytes::from(std::fs::read(&path).expect("readable"));
            let header: &[u8; 41] = bytes[..41].try_into().expect("a header");
            let parsed = MessageHeader::from_wire(header);
            // Hints about the data's offset and reserved fields are not kept.
            let mut expected = *header;
            expected[22..28].fill(0);
            expected[39..].fill(0);
            assert_eq!(parsed.to_wire(), expected, "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 100);
    assert!(Hello::from_bytes(&Bytes::new()).is_err());
}
