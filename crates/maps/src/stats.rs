//! Statistics that OSDs report and monitors add up.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.{h,cc}`. Owns the structures' bytes as Pacific daemons write them; messages
//! carry them sealed. Read next: [`pg`], the one that holds most.

pub mod object;
pub mod osd;
pub mod pg;
pub mod pg_state;
pub mod pool;
pub mod show;

pub use object::{ObjectStatCollection, ObjectStatSum};
pub use osd::{HeartbeatTimes, OsdStat, PerfStat, PingTimes, StoreStatfs};
pub use pg::{InvalidStats, PgShard, PgStat};
pub use pg_state::PgState;
pub use pool::{ClusterStatfs, PoolStat};
