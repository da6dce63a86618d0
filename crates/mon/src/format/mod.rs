//! How answers look: tables, beside what `admin` and `maps` have for all daemons.
//!
//! Owns the shapes of text only; what is in an answer is the command handlers' business.
//! Follows the output of Ceph 16.2.15, captured from its CLI.
//!
//! Read next: `admin::format` for building an answer, `table` for the columns of plain output.

pub mod table;

pub use admin::format::{OutputFormat, Value, quantity, value};
pub use maps::address;
pub use table::{Align, Table};
