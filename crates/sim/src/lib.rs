//! The simulator: a whole cluster in virtual time, on one thread, decided by one number.
//!
//! Owns time, the network, the disks, faults, and the judgement over what clients saw. Drives the engines and the
//! messenger that run in production; refuses to know anything of their insides beyond their invariants.
//!
//! Invariants: the same options give the same trace, event for event; nothing here reads a clock or draws randomness
//! but from the seed.
//!
//! What is demanded of every run: each object's operations are linearizable, a request without an answer having
//! happened at any time or never; so every acknowledged write is read back and no request is applied twice. Compound
//! requests apply whole. What a snapshot shows was there when it was taken. After the last fault every request ends, every
//! object can be read, by clients that have not followed what happened as well, and all members of every placement group
//! come to hold the same. What a group's log has told stays told. Queues stay within their bounds, and nothing is left in
//! them at the end. Every engine's invariants hold after every step.
//!
//! Read next: [`run`], then `world`.
#![forbid(unsafe_code)]

mod ailing;
mod ambush;
mod check;
mod clock;
mod cluster;
mod disk;
mod exile;
mod extent_disk;
mod faults;
mod fills;
mod last_looks;
mod lost;
mod network;
mod node;
mod options;
mod queue;
mod regroup;
mod rests;
mod rifts;
mod run;
mod rushes;
mod scrubbing;
mod sectors;
mod snapshots;
mod spells;
mod strikes;
mod themes;
mod trace;
mod value;
mod workload;
mod world;

pub use faults::{Fault, Faults};
pub use options::{Options, QUEUES, Report, STORES, shrink};
pub use run::{run, run_with_log};
