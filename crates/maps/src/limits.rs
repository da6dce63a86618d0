//! The bounds that keep a hostile or broken map from costing more than its bytes did.
//!
//! Counts inside an encoding are bounded by the bytes present (`wire::codec`); these are the numbers that are not.

/// OSD ids a map may span. An incremental names this as a bare number, and every OSD costs some 300 bytes. Ceph's own
/// monitors stop at 10000 (`mon_max_osd`).
pub const MAX_OSD: u32 = 1 << 16;

/// Placement groups a pool may have: what iterating a pool costs. Ceph's monitors stop at 65536
/// (`mon_max_pool_pg_num`).
pub const PG_NUM_MAX: u32 = 1 << 20;

/// Tenants that are promised something: an OSD keeps some 500 bytes of each, and the text that names them all goes to every
/// OSD when one changes.
pub const TENANTS_MAX: usize = 4096;
