//! The messenger over virtual pipes: handshakes, delivery, faults, races, hostile peers.
//!
//! Owns the tests of `wire::msgr::Messenger` as its driver and its engine see it. `world` carries bytes between
//! messengers in virtual time, with seeded delays, fragments, cuts and damage; `no_auth` stands in for keys.

mod no_auth;
mod world;

mod cephx;
mod faults;
mod handshake;
mod hostile;
mod races;
