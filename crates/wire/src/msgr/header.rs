//! A message's header: the first segment of a MESSAGE frame.
//!
//! Follows Ceph v16.2 `src/include/msgr.h`, `struct ceph_msg_header2`; 41 bytes, little-endian, packed.

/// The length of the header, in bytes.
pub const HEADER_LEN: usize = 41;

/// What `flags` says of every message: complete, and without checksums in the footer that msgr2 does not have
/// (`CEPH_MSG_FOOTER_COMPLETE | CEPH_MSG_FOOTER_NOCRC`), as captured from 16.2.15.
pub const FLAGS: u8 = 3;

/// What travels with a message beside its sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageHeader {
    /// Counts the session's messages each way, from 1.
    pub seq: u64,
    /// The sender's transaction id.
    pub tid: u64,
    /// The message's type.
    pub kind: u16,
    /// Its priority, 63 to 255.
    pub priority: u16,
    /// The version of its encoding.
    pub version: u16,
    /// The oldest version whose readers can read it.
    pub compat: u16,
    /// Everything up to this sequence number has arrived at the sender.
    pub ack_seq: u64,
}

impl MessageHeader {
    /// The header's bytes. The padding and offset hints for the data section are 0: readers since Nautilus take
    /// them as hints for their own memory's alignment only.
    pub fn to_wire(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..8].copy_from_slice(&self.seq.to_le_bytes());
        out[8..16].copy_from_slice(&self.tid.to_le_bytes());
        out[16..18].copy_from_slice(&self.kind.to_le_bytes());
        out[18..20].copy_from_slice(&self.priority.to_le_bytes());
        out[20..22].copy_from_slice(&self.version.to_le_bytes());
        // 22..26 data_pre_padding_len, 26..28 data_off
        out[28..36].copy_from_slice(&self.ack_seq.to_le_bytes());
        out[36] = FLAGS;
        out[37..39].copy_from_slice(&self.compat.to_le_bytes());
        // 39..41 reserved
        out
    }

    /// Reads a header.
    pub fn from_wire(bytes: &[u8; HEADER_LEN]) -> MessageHeader {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        MessageHeader {
            seq: u64_at(0),
            tid: u64_at(8),
            kind: u16_at(16),
            priority: u16_at(18),
            version: u16_at(20),
            ack_seq: u64_at(28),
            compat: u16_at(37),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place() {
        let header = MessageHeader {
            seq: 0x0102_0304_0506_0708,
            tid: 0x1112_1314_1516_1718,
            kind: 0x2122,
            priority: 0x3132,
            version: 0x4142,
            compat: 0x5152,
            ack_seq: 0x6162_6364_6566_6768,
        };
        assert_eq!(MessageHeader::from_wire(&header.to_wire()), header);
    }
}
