//! The bounds of what a store accepts; an OSD's own limits are far below them.

/// The largest object: offsets beyond it are a misuse. Far above `osd_max_object_size` (128 MiB), far below overflow.
pub const OBJECT_BYTES_MAX: u64 = 1 << 40;

/// The largest transaction, in bytes as they would be logged, without what goes to its place directly. Far above what
/// an OSD submits: a PG's whole log is a few megabytes.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// The most objects one listing returns, whatever it asks for: one answer stays well under a megabyte.
pub const LIST_OBJECTS_MAX: usize = 10_000;
