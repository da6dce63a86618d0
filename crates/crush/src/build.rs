//! New maps: what a cluster starts with.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc` (`_build_crush_types`, `build_simple_crush_map`, `build_simple_crush_rules`).

use crate::edit::{EditError, SimpleRule};
use crate::map::CrushMap;

/// The types of a new map, from the device up.
const TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];

/// The root of a new map.
pub const DEFAULT_ROOT: &str = "default";

/// The rule of a new map.
pub const DEFAULT_RULE: &str = "replicated_rule";

impl CrushMap {
    /// A map with Ceph's types, the default tunables, an empty root `default` and the rule `replicated_rule`, which
    /// puts replicas into different buckets of type `failure_domain` (`host`, or `osd` for clusters on one machine).
    /// OSDs add themselves when they boot ([`CrushMap::create_or_move_item`]).
    ///
    /// Fails only for a type that is not there.
    pub fn simple(failure_domain: &str) -> Result<CrushMap, EditError> {
        let mut map = CrushMap::default();
        for (kind, name) in (0..).zip(TYPES) {
            map.set_type_name(kind, name)?;
        }
        map.add_named_bucket(DEFAULT_ROOT, "root")?;
        map.add_simple_rule(&SimpleRule::replicated(DEFAULT_RULE, DEFAULT_ROOT, failure_domain))?;
        Ok(map)
    }
}
