//! Options that bound requests and what their ops do.
//!
//! Owns the numbers as ops compare with them; names and defaults are Ceph's (v16.2 `src/common/options.cc`). What no
//! option may exceed, because buffers and messages are made for it, are the constants of `limits`.

use crate::limits::{
    ATTR_NAME_BYTES_MAX, NAMESPACE_BYTES_MAX, NOTIFICATION_TIMEOUT_S, OBJECT_BYTES_MAX, OBJECT_NAME_BYTES_MAX,
    OMAP_BYTES_MAX, OMAP_ENTRIES_MAX, WRITE_BYTES_MAX,
};
use admin::Settings;

/// Options that requests and ops obey. Small numbers: each request has them as they were when it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The longest object name and locator key, in bytes (`osd_max_object_name_len`).
    pub object_name_bytes_max: u32,
    /// The longest namespace, in bytes (`osd_max_object_namespace_len`).
    pub namespace_bytes_max: u32,
    /// The largest object, in bytes (`osd_max_object_size`).
    pub object_bytes_max: u32,
    /// The most payload of a request that writes, in bytes (`osd_max_write_size`, which is in MiB).
    pub write_bytes_max: u32,
    /// The longest name of an attribute, in bytes (`osd_max_attr_name_len`).
    pub attr_name_bytes_max: u32,
    /// The longest value of an attribute, in bytes (`osd_max_attr_size`); 0 is no limit.
    pub attr_bytes_max: u32,
    /// The most entries that a read of an object's map gives (`osd_max_omap_entries_per_request`).
    pub omap_entries_max: u32,
    /// About the most bytes that it gives (`osd_max_omap_bytes_per_request`).
    pub omap_bytes_max: u32,
    /// Seconds to wait for answers to a notification, where its client does not say (`osd_default_notify_timeout`).
    pub notification_timeout_s: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            object_name_bytes_max: OBJECT_NAME_BYTES_MAX as u32,
            namespace_bytes_max: NAMESPACE_BYTES_MAX as u32,
            object_bytes_max: OBJECT_BYTES_MAX as u32,
            write_bytes_max: WRITE_BYTES_MAX as u32,
            attr_name_bytes_max: ATTR_NAME_BYTES_MAX as u32,
            attr_bytes_max: 0,
            omap_entries_max: OMAP_ENTRIES_MAX as u32,
            omap_bytes_max: OMAP_BYTES_MAX as u32,
            notification_timeout_s: NOTIFICATION_TIMEOUT_S,
        }
    }
}

impl Tuning {
    /// What the options say.
    pub(crate) fn of(settings: &Settings) -> Tuning {
        let within = |name: &str, max: f64| settings.number(name).clamp(0.0, max) as u32;
        Tuning {
            object_name_bytes_max: within("osd_max_object_name_len", OBJECT_NAME_BYTES_MAX as f64),
            namespace_bytes_max: within("osd_max_object_namespace_len", NAMESPACE_BYTES_MAX as f64),
            object_bytes_max: within("osd_max_object_size", OBJECT_BYTES_MAX as f64),
            write_bytes_max: within("osd_max_write_size", (WRITE_BYTES_MAX >> 20) as f64) << 20,
            attr_name_bytes_max: within("osd_max_attr_name_len", ATTR_NAME_BYTES_MAX as f64),
            attr_bytes_max: within("osd_max_attr_size", f64::from(u32::MAX)),
            omap_entries_max: within("osd_max_omap_entries_per_request", f64::from(u32::MAX)).max(1),
            omap_bytes_max: within("osd_max_omap_bytes_per_request", f64::from(u32::MAX)).max(1),
            notification_timeout_s: within("osd_default_notify_timeout", 86_400.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_defaults_are_the_limits() {
        assert_eq!(Tuning::of(&Settings::default()), Tuning::default());
    }
}
