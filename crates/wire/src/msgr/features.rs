//! The features that peers announce to each other in CLIENT_IDENT and SERVER_IDENT.
//!
//! Owns two masks. Names and bits are in Ceph v16.2 `src/include/ceph_features.h`.

/// What a 16.2.15 daemon or client supports (`CEPH_FEATURES_ALL`), as captured from its CLIENT_IDENT: announcing
/// exactly this makes newer peers encode for Pacific.
pub const SUPPORTED: u64 = 0x3f01_cfbd_fffd_ffff;

/// MSG_ADDR2, which msgr2's own frames need; kernel clients have it since they speak msgr2 (5.11).
pub const MSG_ADDR2: u64 = 1 << 59;

/// What we require of a peer.
pub const REQUIRED: u64 = MSG_ADDR2;
