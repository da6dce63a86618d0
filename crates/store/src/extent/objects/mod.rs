//! Objects: what the tree says of one, what transactions do to them, how questions about them are answered.
//!
//! Owns the meaning of transactions and reads over the state in memory; refuses to know when anything becomes durable.
//!
//! Read next: `object` (one object's record), `block_map` (where its data lies), `execute` (transactions), `place` (their data), `view` (reads).

pub(crate) mod block_map;
pub(crate) mod execute;
pub(crate) mod object;
pub(crate) mod place;
pub(crate) mod view;
