//! Bytes to values and back: Ceph's encodings, msgr2 frames and sessions, cephx, every message.
//!
//! Owns everything that has a byte layout between peers. Speaks one dialect: what a Pacific (16.2) peer with all its
//! significant features sends; newer peers fall back to it because those are the features we announce. Refuses to
//! touch sockets or clocks: the messenger is a state machine that its driver feeds with bytes and time.
//!
//! Invariants: a decoder never allocates more than a small multiple of the bytes it was given, never panics, and
//! refuses trailing bytes where the format has no versioned envelope to skip them by.
//!
//! Read next: `codec` (primitives), `types` (ids and addresses), `net` (what an engine sees of the network).
#![forbid(unsafe_code)]

pub mod auth;
pub mod caps;
pub mod cephx;
pub mod codec;
pub mod keyring;
pub mod messages;
pub mod msgr;
pub mod net;
pub mod osd;
pub mod types;

pub use codec::{Decode, Decoder, Encode, Encoder, Malformed};
