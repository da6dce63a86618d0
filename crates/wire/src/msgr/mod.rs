//! The msgr2.1 messenger: frames, handshakes, sessions.
//!
//! Owns everything between the bytes of a stream and the events of `crate::net`. Speaks revision 1 of msgr2 in crc
//! and secure modes; refuses msgr1, revision 0 and compression. Does no input or output: a driver (`rt` over TCP,
//! `sim` over virtual pipes) carries the bytes and the time.
//!
//! Read next: `messenger` for the interface, `frame` for the layout.

pub mod banner;
pub mod config;
pub mod control;
pub mod crypto;
mod delivery;
pub mod error;
pub mod features;
pub mod frame;
mod handshake;
pub mod header;
pub mod limits;
pub mod messenger;
pub mod send_queue;
mod session;
pub mod stream;
pub mod tag;
mod timers;

pub use config::{Door, DoorId, MessengerConfig, Timing};
pub use error::StreamError;
pub use messenger::Messenger;
pub use send_queue::SendQueue;
pub use stream::{StreamCommand, StreamFault, StreamId};
