//! A daemon's or client's relation with the monitor: session, tickets, subscriptions, commands.
//!
//! Owns the search for a monitor that answers, the handshakes of its owner (as `AuthClient` and, for a service daemon,
//! as `AuthServer`), the renewal of tickets and rotating secrets before they end, and what has to be said again on
//! every new session: subscriptions, commands and version queries without an answer. A component, not an engine: the
//! engine that owns it hands it network events and time, and drains its commands and events.
//!
//! Follows Ceph v16.2 `src/mon/MonClient.cc` and `MonSub.cc`, with one monitor tried at a time. Refuses to interpret
//! maps, except the monitor map's addresses.
//!
//! Invariants: at most one monitor session is open or being opened; a message sent while there is none waits, in
//! order, up to a bound; nothing here depends on the session having begun with a handshake, because daemons in one
//! process have none.
//!
//! Read next: `MonClient`.
#![forbid(unsafe_code)]

mod auth;
mod client;
mod event;
pub mod limits;
mod subscriptions;

pub use client::{Handled, MonClient, MonClientConfig};
pub use event::MonEvent;

#[cfg(test)]
mod tests;
