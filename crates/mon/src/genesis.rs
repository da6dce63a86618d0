//! The first OSD map of a new cluster.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`create_initial`): Pacific OSDs required, Ceph's default flags and
//! ratios, and a CRUSH map that holds the OSDs the cluster begins with, so that no OSD has to change it when it boots.

use crate::mon::{InitialOsd, MonConfig, NewCluster};
use base::{Epoch, Instant};
use crush::CrushMap;
use crush::edit::Location;
use maps::osd_map::MapFlags;
use maps::{Incremental, OsdMap, OsdState, Release};
use std::sync::Arc;

/// The weight of a device of this size: its size in TiB as 16.16 fixed point, but never nothing.
pub(crate) fn weight_of_size(bytes: u64) -> u32 {
    // 2^40 bytes have weight 2^16.
    u32::try_from((bytes >> 24).max(1)).unwrap_or(i32::MAX as u32)
}

/// A name that CRUSH takes, from any host's name.
pub(crate) fn sane_name(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let short = name.split('.').next().unwrap_or_default();
    if short.is_empty() { "localhost".to_owned() } else { short.chars().map(keep).collect() }
}

/// The place of an OSD of a host below the default root.
pub(crate) fn default_location(host: &str) -> Location {
    Location::from([("root".to_owned(), "default".to_owned()), ("host".to_owned(), sane_name(host))])
}

/// The map of epoch 1.
pub(crate) fn first_osd_map(now: Instant, config: &MonConfig, new: &NewCluster) -> OsdMap {
    let mut map = OsdMap::new(config.fsid);
    map.created = now.into();
    map.pool_max = new.pool_max;
    map.flags = MapFlags::SORTBITWISE
        .with(MapFlags::RECOVERY_DELETES)
        .with(MapFlags::PURGED_SNAPDIRS)
        .with(MapFlags::PGLOG_HARDLIMIT);
    map.require_osd_release = Release::PACIFIC;
    map.require_min_compat_client = Release::LUMINOUS;
    let ratio = |name: &str, default: f32| config.options.get(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    map.full_ratio = ratio("mon_osd_full_ratio", 0.95);
    map.backfillfull_ratio = ratio("mon_osd_backfillfull_ratio", 0.90);
    map.nearfull_ratio = ratio("mon_osd_nearfull_ratio", 0.85);
    map.crush = Arc::new(first_crush_map(config, &new.osds));
    let profile = [("plugin", "jerasure"), ("technique", "reed_sol_van"), ("k", "2"), ("m", "2")];
    let profile = profile.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    Arc::make_mut(&mut map.erasure_code_profiles).insert("default".to_owned(), profile);

    let mut inc = Incremental::new(config.fsid, Epoch(1), now.into());
    inc.new_max_osd = new.osds.iter().map(|o| o.id.0 as u32 + 1).max();
    for osd in &new.osds {
        inc.new_state.insert(osd.id, OsdState::EXISTS.with(OsdState::NEW));
        inc.new_uuid.insert(osd.id, osd.uuid);
    }
    map.apply(&inc).expect("a first incremental applies to an empty map");
    map
}

fn first_crush_map(config: &MonConfig, osds: &[InitialOsd]) -> CrushMap {
    let types = ["osd", "host", "chassis", "rack"];
    let chosen = config.options.get("osd_crush_chooseleaf_type").and_then(|v| v.parse::<usize>().ok());
    let failure_domain = chosen.and_then(|t| types.get(t)).copied().unwrap_or("host");
    let mut crush = CrushMap::simple(failure_domain).expect("Ceph's own types are there");
    for osd in osds {
        let (name, weight) = (format!("osd.{}", osd.id), weight_of_size(osd.size_bytes));
        let placed = crush.insert_item(osd.id.0, weight, &name, &default_location(&osd.host));
        let classed = placed.and_then(|()| crush.set_device_class(osd.id.0, &osd.device_class));
        // A class or an id that CRUSH refuses leaves the OSD to be placed when it boots.
        if classed.is_err() {
            continue;
        }
    }
    crush
}
