//! The msgr2.1 messenger: frames, handshakes, sessions.
//!
//! Owns everything between the bytes of a stream and the events of `crate::net`. Speaks revision 1 of msgr2 in crc
//! and secure modes; refuses msgr1, revision 0 and compression. Does no input or output: a driver (`rt` over TCP,
//! `sim` over virtual pipes) carries the bytes and the time.
//!
//! Read next: `frame` for the layout.

pub mod banner;
pub mod control;
pub mod crypto;
pub mod error;
pub mod features;
pub mod frame;
pub mod header;
pub mod limits;
pub mod send_queue;
pub mod tag;
