//! The managers' map: who is active, what modules there are (`MgrMap`).
//!
//! Follows Ceph v16.2 `src/mon/MgrMap.h`, version 12, with its `StandbyInfo` (4), `ModuleInfo` (2) and `ModuleOption`
//! (1). Loligo's monitor does the manager's duties itself: its map names the
//! monitor's own process.

use crate::record::record;
use base::{Epoch, GlobalId};
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::{AddrVec, UTime};

record! {
    /// A module's option.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    ModuleOption("MgrMap::ModuleOption", 1, 1, 1) {
        /// Its name.
        name: String,
        /// The type of its value (`Option::type_t`).
        kind: u8,
        /// Who it is for (`Option::level_t`).
        level: u8,
        /// Flags (`Option::flag_t`).
        flags: u32,
        /// The default.
        default_value: String,
        /// The least; empty for none.
        min: String,
        /// The most; empty for none.
        max: String,
        /// The only values; empty for any.
        enum_allowed: BTreeSet<String>,
        /// A line about it.
        description: String,
        /// More about it.
        long_description: String,
        /// Keywords.
        tags: BTreeSet<String>,
        /// Other options.
        see_also: BTreeSet<String>,
    }
}

record! {
    /// A module that a manager has.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    ModuleInfo("MgrMap::ModuleInfo", 2, 1, 2) {
        /// Its name.
        name: String,
        /// Can it run there?
        can_run: bool,
        /// Why not.
        error: String,
        /// Its options by name.
        options: BTreeMap<String, ModuleOption>,
    }
}

/// A manager that waits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StandbyInfo {
    /// Its session's number.
    pub gid: GlobalId,
    /// Its name.
    pub name: String,
    /// The modules it has.
    pub available_modules: Vec<ModuleInfo>,
    /// Its features.
    pub features: u64,
}

impl Encode for StandbyInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 1, |e| {
            e.put(&self.gid);
            e.string(&self.name);
            // The modules' names once more, sorted: all that old readers know of them.
            let names: BTreeSet<&str> = self.available_modules.iter().map(|module| module.name.as_str()).collect();
            e.len(names.len());
            names.into_iter().for_each(|name| e.string(name));
            e.put(&self.available_modules);
            e.u64(self.features);
        });
    }
}

impl Decode for StandbyInfo {
    const MIN_BYTES: usize = 34;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("MgrMap::StandbyInfo", 4, |d, version| {
            if version < 4 {
                return Err(Malformed::new("MgrMap::StandbyInfo", "is older than Pacific writes"));
            }
            let (gid, name) = (d.get()?, d.string()?);
            d.get::<BTreeSet<String>>()?;
            Ok(StandbyInfo { gid, name, available_modules: d.get()?, features: d.u64()? })
        })
    }
}

record! {
    /// The managers' map.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    MgrMap("MgrMap", 12, 6, 12) {
        /// Which version this is.
        epoch: Epoch,
        /// Where the active manager listens; empty for none.
        active_addrs: AddrVec,
        /// The active manager's session; 0 for none.
        active_gid: GlobalId,
        /// Does it serve already?
        available: bool,
        /// Its name.
        active_name: String,
        /// Who waits.
        standbys: BTreeMap<GlobalId, StandbyInfo>,
        /// Modules switched on.
        modules: BTreeSet<String>,
        /// Addresses that modules serve.
        services: BTreeMap<String, String>,
        /// Modules that the active manager has.
        available_modules: Vec<ModuleInfo>,
        /// When the active manager last changed.
        active_change: UTime,
        /// Modules that are always on, by release.
        always_on_modules: BTreeMap<u32, BTreeSet<String>>,
        /// The active manager's features.
        active_features: u64,
        /// The OSD map that blocklists the last manager that failed.
        last_failure_osd_epoch: Epoch,
        /// Addresses of clients inside the active manager.
        client_addrs: Vec<AddrVec>,
        /// Their names, in the same order.
        client_names: Vec<String>,
    }
}
