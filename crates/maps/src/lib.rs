//! The cluster's maps: OSD map and incrementals, monitor map, manager, file system and service maps, statistics, and
//! the placement of objects on OSDs; and the tenants that the cluster promises a share of service to.
//!
//! Owns the maps' bytes as a Pacific (16.2) monitor writes them and what they mean: which OSDs a placement group is
//! mapped to, which pools and flags there are. Refuses to decide anything (the monitor makes incrementals, the OSD
//! peers) and to dump JSON or text tables (the monitor's commands do, from the accessors here).
//!
//! Invariants: a map that decodes re-encodes to the same bytes if it came from a Pacific monitor; applying an
//! incremental either succeeds whole or leaves the map as it was; no map makes placement panic, loop or allocate
//! beyond [`limits`].
//!
//! Read next: [`osd_map`], then [`placement`].
#![forbid(unsafe_code)]

pub mod address;
pub mod fs_map;
pub mod hash;
pub mod incremental;
pub mod limits;
pub mod mapping;
pub mod mgr_map;
pub mod mon_map;
pub mod osd_map;
pub mod osd_state;
pub mod placement;
pub mod pool;
pub mod pool_options;
mod record;
pub mod release;
pub mod service_map;
pub mod snap_set;
pub mod stats;
pub mod tenants;

pub use fs_map::FsMap;
pub use incremental::{ApplyError, Incremental};
pub use mgr_map::MgrMap;
pub use mon_map::MonMap;
pub use osd_map::{EncodedMap, OsdMap};
pub use osd_state::{OsdAddrs, OsdInfo, OsdState, OsdXInfo};
pub use placement::{ObjectLocator, UpActing};
pub use pool::PgPool;
pub use release::Release;
pub use service_map::ServiceMap;
pub use snap_set::SnapSet;
pub use stats::{ObjectStatSum, OsdStat, PgStat, PgState, PoolStat};
