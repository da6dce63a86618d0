//! The first bytes of a stream: who speaks which revision of msgr2.
//!
//! Owns the banner's format (Ceph v16.2 `ProtocolV2::_banner_exchange`, `src/include/msgr.h`): the text
//! `ceph v2\n`, a u16 length, then the supported and the required features of the protocol, u64 each. We support
//! revision 1 (msgr2.1) and nothing else: no compression, and a peer without revision 1 is refused. We announce no
//! requirement, as Ceph does not, so that a handshake of ours is Ceph's byte for byte. msgr1 is told apart from
//! garbage, so that a log can say what is wrong with an old client.

use super::error::StreamError;
use super::limits;
use bytes::{Buf, BytesMut};

const PREFIX: &[u8; 8] = b"ceph v2\n";
const MSGR1_PREFIX: &[u8; 8] = b"ceph v02";
const HEAD_LEN: usize = PREFIX.len() + 2;

/// Revision 1 of the frame format (`CEPH_MSGR2_FEATURE_REVISION_1`).
pub const REVISION_1: u64 = 1;

/// The banner we send.
pub fn ours() -> [u8; 26] {
    let mut out = [0; 26];
    out[..8].copy_from_slice(PREFIX);
    out[8..10].copy_from_slice(&16u16.to_le_bytes());
    out[10..18].copy_from_slice(&REVISION_1.to_le_bytes());
    out
}

/// How many bytes a peer's banner takes in all, as far as `have` tells: the head's length until that is there.
pub fn want(have: &[u8]) -> usize {
    match have.get(8..HEAD_LEN) {
        Some(len) => HEAD_LEN + usize::from(u16::from_le_bytes([len[0], len[1]])),
        None => HEAD_LEN,
    }
}

/// Takes the peer's banner from the front of `buf` and returns its bytes; `None` until it is whole.
pub fn take(buf: &mut BytesMut) -> Result<Option<BytesMut>, StreamError> {
    let seen = buf.len().min(PREFIX.len());
    if buf[..seen] != PREFIX[..seen] {
        let legacy = seen == PREFIX.len() && buf[..seen] == MSGR1_PREFIX[..];
        let may_be_legacy = seen < PREFIX.len() && buf[..seen] == MSGR1_PREFIX[..seen];
        return match (legacy, may_be_legacy) {
            (true, _) => Err(StreamError::PeerSpeaksMsgr1),
            (_, true) => Ok(None),
            _ => Err(StreamError::NotMsgr2),
        };
    }
    if buf.len() < HEAD_LEN {
        return Ok(None);
    }
    let total = want(buf);
    if !(HEAD_LEN + 16..=HEAD_LEN + limits::BANNER_BYTES_MAX).contains(&total) {
        return Err(StreamError::NotMsgr2);
    }
    if buf.len() < total {
        return Ok(None);
    }
    let banner = buf.split_to(total);
    let mut words = &banner[HEAD_LEN..];
    let (supported, required) = (words.get_u64_le(), words.get_u64_le());
    if supported & REVISION_1 == 0 || required & !REVISION_1 != 0 {
        return Err(StreamError::Revision { supported, required });
    }
    Ok(Some(banner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
        take(&mut BytesMut::from(bytes)).map(|banner| banner.map(|b| b.len()))
    }

    #[test]
    fn ours_is_taken_in_any_pieces() {
        for cut in 0..26 {
            assert_eq!(fed(&ours()[..cut]), Ok(None));
        }
        assert_eq!(fed(&ours()), Ok(Some(26)));
    }

    #[test]
    fn msgr1_garbage_and_revision_0_are_told_apart() {
        assert_eq!(fed(b"ceph v0"), Ok(None));
        assert_eq!(fed(b"ceph v027"), Err(StreamError::PeerSpeaksMsgr1));
        assert_eq!(fed(b"GET / HTTP/1.1\r\n"), Err(StreamError::NotMsgr2));
        assert_eq!(fed(b"ceph v2\n\xFF\xFF"), Err(StreamError::NotMsgr2));
        let mut old = ours();
        old[10] = 0;
        assert_eq!(fed(&old), Err(StreamError::Revision { supported: 0, required: 0 }));
        let mut needy = ours();
        needy[18] = 3;
        assert_eq!(fed(&needy), Err(StreamError::Revision { supported: 1, required: 3 }));
    }
}
