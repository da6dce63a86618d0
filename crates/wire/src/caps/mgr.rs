//! The check of manager caps.
//!
//! Follows Ceph v16.2 `src/mgr/MgrCap.cc`: the monitor's grammar with modules beside services, conditions on modules
//! and profiles, and profiles that have to exist.

use super::BadCap;
use super::mon::{Condition, Conditions, Rights, allow, keyword};
use super::scan::Cursor;

/// The profiles that take no conditions on `pool` and `namespace` seriously, but exist.
const PLAIN_PROFILES: [&str; 5] = ["read-only", "read-write", "crash", "osd", "mds"];

pub(super) fn validate(text: &str) -> Result<(), BadCap> {
    let mut c = Cursor::new(text);
    let profiles = c.list(true, grant);
    let Some(profiles) = profiles.filter(|_| c.rest().is_empty()) else {
        return Err(BadCap::stopped("mgr", c.rest(), text));
    };
    for (name, conditions) in profiles.into_iter().flatten() {
        if matches!(name.as_str(), "rbd" | "rbd-read-only") {
            if let Some(key) = conditions.keys().find(|key| !matches!(key.as_str(), "pool" | "namespace")) {
                return Err(profile_fault(&format!("profile '{name}' does not recognize key '{key}'")));
            }
        } else if !PLAIN_PROFILES.contains(&name.as_str()) {
            return Err(profile_fault(&format!("unrecognized profile '{name}'")));
        }
    }
    Ok(())
}

fn profile_fault(fault: &str) -> BadCap {
    BadCap(format!("mgr capability parse failed during profile evaluation: {fault}"))
}

/// One grant; gives the profile it names, if it is one.
fn grant(c: &mut Cursor<'_>) -> Option<Option<(String, Conditions)>> {
    c.maybe_spaces();
    let rights = |c: &mut Cursor<'_>| Rights::scan(c).map(|_| None);
    let profile = |c: &mut Cursor<'_>| {
        c.try_part(allow);
        keyword(c, "profile")?;
        let name = c.string()?.to_owned();
        let conditions = c.try_part(|c| c.spaces().and_then(|()| Condition::scan_list(c, true)));
        Some(Some((name, conditions.unwrap_or_default())))
    };
    let of_something = |c: &mut Cursor<'_>, word: &str, conditions: bool| {
        allow(c)?;
        keyword(c, word)?;
        c.string()?;
        if conditions {
            Condition::scan_all(c, true);
        }
        c.spaces()?;
        rights(c)
    };
    let command = |c: &mut Cursor<'_>| {
        allow(c)?;
        keyword(c, "command")?;
        c.string()?;
        Condition::scan_all(c, true);
        Some(None)
    };
    let found = c
        .try_part(|c| allow(c).and_then(|()| rights(c)))
        .or_else(|| c.try_part(profile))
        .or_else(|| c.try_part(|c| of_something(c, "service", false)))
        .or_else(|| c.try_part(|c| of_something(c, "module", true)))
        .or_else(|| c.try_part(command))?;
    c.network(Cursor::spaces);
    c.maybe_spaces();
    Some(found)
}
