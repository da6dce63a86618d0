//! The maps of daemons that there are none of: managers, metadata servers, registered services.
//!
//! They are valid and empty. The managers' map says that none is active, so that clients connect to none; the
//! monitor's commands tell people that the duties are taken care of.

use crate::mon::Mon;
use base::Epoch;
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
        let map = MgrMap { epoch: Epoch(1), ..MgrMap::default() };
        messages::MgrMap { map: Rest(map.to_bytes()) }
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
