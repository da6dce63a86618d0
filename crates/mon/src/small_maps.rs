//! The maps of daemons that there are none of: managers, metadata servers, registered services.
//!
//! They are valid and empty, but the managers' map: it names the door where this monitor is the manager (`manager_door`),
//! or nobody where there is no such door. A monitor that starts anew may have that door elsewhere: the map's epoch is
//! the number of its starts.

use crate::manager_door::MANAGER_GID;
use crate::mon::Mon;
use base::{Epoch, GlobalId};
use maps::fs_map::FsMap;
use maps::mgr_map::MgrMap;
use maps::service_map::ServiceMap;
use wire::codec::{Encode, Encoder};
use wire::messages::{self, Rest};

impl Mon {
    /// The file systems' map.
    pub(crate) fn fs_map(&self) -> FsMap {
        FsMap::default()
    }

    pub(crate) fn mgr_map_message(&self) -> messages::MgrMap {
        messages::MgrMap { map: Rest(self.mgr_map().to_bytes()) }
    }

    /// The managers' map.
    pub(crate) fn mgr_map(&self) -> MgrMap {
        let epoch = Epoch(u32::try_from(self.elections).unwrap_or(u32::MAX));
        let active_addrs = self.config.manager_addrs.clone();
        if active_addrs.0.is_empty() {
            return MgrMap { epoch, ..MgrMap::default() };
        }
        MgrMap {
            epoch,
            active_addrs,
            active_gid: GlobalId(MANAGER_GID),
            available: true,
            active_name: self.config.name.clone(),
            active_change: self.started.into(),
            active_features: crate::version::FEATURES,
            ..MgrMap::default()
        }
    }

    pub(crate) fn service_map_message(&self) -> messages::ServiceMap {
        let map = ServiceMap { epoch: Epoch(1), modified: self.started.into(), ..ServiceMap::default() };
        messages::ServiceMap { map: Rest(map.to_bytes()) }
    }

    /// What clients see of the file systems (v16.2 `src/mds/FSMapUser.cc`): epoch, the default one (none), the list.
    pub(crate) fn fs_map_user_message(&self) -> messages::FsMapUser {
        let epoch = Epoch(1);
        let mut e = Encoder::new();
        e.versioned(1, 1, |e| {
            e.put(&epoch);
            e.i32(-1);
            e.len(0);
        });
        messages::FsMapUser { epoch, map: Rest(e.finish()) }
    }

    pub(crate) fn fs_map_message(&self) -> messages::FsMap {
        let map = self.fs_map();
        messages::FsMap { epoch: map.epoch, map: Rest(map.to_bytes()) }
    }
}
