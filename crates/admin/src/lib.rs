//! What every daemon shows its operator: options, commands, counters, operations under way.
//!
//! Owns the shapes: the one table of configuration options, how a command is described, parsed and answered, how
//! counters are declared and dumped, how operations look in a history. Refuses to know what a daemon does: engines fill
//! the shapes with their own state, by implementing `Administered`, and one table then serves both doors, the admin
//! socket (`ceph daemon`) and the network (`ceph tell`).
//!
//! Named invariants: a command table is sound or its test fails; what a peer sends as a command is bounded before it is
//! parsed; counting costs an addition to an integer.
//!
//! Read next: `daemon` for what is common to all daemons, `command`, `options`, `counters`, `ops`.
#![forbid(unsafe_code)]

pub mod command;
pub mod counters;
pub mod daemon;
pub mod format;
pub mod histogram;
pub mod ops;
pub mod options;
mod options_table;
pub mod settings;
pub mod transport;

pub use command::{Answer, Call, CommandSpec, CommandTable, Refused, Reply, refuse, spec};
pub use daemon::{Administered, Common};
pub use format::{OutputFormat, Value};
pub use settings::{Layer, Settings};
pub use transport::Transport;
