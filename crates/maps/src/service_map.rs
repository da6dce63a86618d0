//! Daemons that register with the cluster without a map of their own (`ServiceMap`).
//!
//! Follows Ceph v16.2 `src/mgr/ServiceMap.{h,cc}`: versions 1, 1 and 2.

use crate::record::record;
use base::{Epoch, GlobalId};
use std::collections::BTreeMap;
use wire::types::{EntityAddr, UTime};

record! {
    /// One daemon.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    ServiceDaemon("ServiceMap::Daemon", 2, 1, 2) {
        /// Its session's number.
        gid: GlobalId,
        /// Where it listens.
        addr: EntityAddr,
        /// The epoch it registered in.
        start_epoch: Epoch,
        /// When that was.
        start_stamp: UTime,
        /// What it says of itself.
        metadata: BTreeMap<String, String>,
        /// What its tasks are doing.
        task_status: BTreeMap<String, String>,
    }
}

record! {
    /// The daemons of one kind.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    Service("ServiceMap::Service", 1, 1, 1) {
        /// By name.
        daemons: BTreeMap<String, ServiceDaemon>,
        /// A summary to show instead of counting them.
        summary: String,
    }
}

record! {
    /// Registered daemons by kind.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    ServiceMap("ServiceMap", 1, 1, 1) {
        /// Which version this is.
        epoch: Epoch,
        /// When this version was made.
        modified: UTime,
        /// By kind.
        services: BTreeMap<String, Service>,
    }
}
