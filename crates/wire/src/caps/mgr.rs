//! What an entity may do with the manager.
//!
//! Follows Ceph v16.2 `src/mgr/MgrCap.cc`: the monitor's grammar with modules beside services, conditions on modules
//! and profiles, and profiles that have to exist. A grant of one of the manager's Python modules is understood and
//! allows nothing: there are none here.
//!
//! Read next: `mon`, whose grants these are.

use super::BadCap;
use super::mon::{Condition, Conditions, Grant, MonRequest, Rights, allow, keyword};
use super::network::Place;
use super::scan::Cursor;
use crate::net::TicketCaps;

/// All that an entity may do with the manager.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrCap {
    grants: Vec<(Grant, Place)>,
}

impl MgrCap {
    /// Reads a capability text.
    pub fn parse(text: &str) -> Result<MgrCap, BadCap> {
        let mut c = Cursor::new(text);
        let Some(found) = c.list(true, grant).filter(|_| c.rest().is_empty()) else {
            return Err(BadCap::stopped("mgr", c.rest(), text));
        };
        let mut grants = Vec::new();
        for (what, place) in found {
            match what {
                Found::Grant(grant) => grants.push((grant, place)),
                Found::OfModule => {}
                Found::Profile(name, conditions) => grants.extend(profile(&name, &conditions)?.map(|g| (g, place))),
            }
        }
        Ok(MgrCap { grants })
    }

    /// What a session's caps allow; nothing where they are empty or do not parse.
    pub fn from_ticket(caps: &TicketCaps) -> MgrCap {
        if caps.allow_all {
            return MgrCap { grants: vec![(Grant::Everything(Rights::ANY), Place::Anywhere)] };
        }
        <String as crate::Decode>::from_bytes(&caps.caps).ok().and_then(|t| MgrCap::parse(&t).ok()).unwrap_or_default()
    }

    /// Whether everything is allowed from anywhere: what commands to the daemon itself need.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(|(grant, place)| *grant == Grant::Everything(Rights::ANY) && *place == Place::Anywhere)
    }

    /// Whether the request is allowed: the grants that apply add up.
    pub fn is_capable(&self, request: &MonRequest<'_>) -> bool {
        let here = self.grants.iter().filter(|(_, place)| place.admits(request.from));
        let rights = here.fold(Rights::NONE, |all, (grant, _)| all | grant.rights(request));
        rights.covers(request.needs)
    }
}

/// What a profile stands for; `osd` and `mds` exist and allow nothing, `rbd` is about a module.
fn profile(name: &str, conditions: &Conditions) -> Result<Option<Grant>, BadCap> {
    match name {
        "rbd" | "rbd-read-only" => match conditions.keys().find(|key| !matches!(key.as_str(), "pool" | "namespace")) {
            Some(key) => Err(profile_fault(&format!("profile '{name}' does not recognize key '{key}'"))),
            None => Ok(None),
        },
        "read-only" => Ok(Some(Grant::Everything(Rights::R))),
        "read-write" => Ok(Some(Grant::Everything(Rights::R | Rights::W))),
        "crash" => Ok(Some(Grant::Command { command: "crash post".to_owned(), with: Conditions::new() })),
        "osd" | "mds" => Ok(None),
        _ => Err(profile_fault(&format!("unrecognized profile '{name}'"))),
    }
}

fn profile_fault(fault: &str) -> BadCap {
    BadCap(format!("mgr capability parse failed during profile evaluation: {fault}"))
}

/// What one grant of the text is.
enum Found {
    Grant(Grant),
    OfModule,
    Profile(String, Conditions),
}

fn grant(c: &mut Cursor<'_>) -> Option<(Found, Place)> {
    c.maybe_spaces();
    let everything = |c: &mut Cursor<'_>| {
        allow(c)?;
        Rights::scan(c).map(|rights| Found::Grant(Grant::Everything(rights)))
    };
    let profile = |c: &mut Cursor<'_>| {
        c.try_part(allow);
        keyword(c, "profile")?;
        let name = c.string()?.to_owned();
        let conditions = c.try_part(|c| c.spaces().and_then(|()| Condition::scan_list(c, true)));
        Some(Found::Profile(name, conditions.unwrap_or_default()))
    };
    let service = |c: &mut Cursor<'_>| {
        allow(c)?;
        keyword(c, "service")?;
        let service = c.string()?.to_owned();
        c.spaces()?;
        Rights::scan(c).map(|rights| Found::Grant(Grant::Service { service, rights }))
    };
    let module = |c: &mut Cursor<'_>| {
        allow(c)?;
        keyword(c, "module")?;
        c.string()?;
        Condition::scan_all(c, true);
        c.spaces()?;
        Rights::scan(c).map(|_| Found::OfModule)
    };
    let command = |c: &mut Cursor<'_>| {
        allow(c)?;
        keyword(c, "command")?;
        let command = c.string()?.to_owned();
        Some(Found::Grant(Grant::Command { command, with: Condition::scan_all(c, true) }))
    };
    let found = c
        .try_part(everything)
        .or_else(|| c.try_part(profile))
        .or_else(|| c.try_part(service))
        .or_else(|| c.try_part(module))
        .or_else(|| c.try_part(command))?;
    let place = Place::new(c.network(Cursor::spaces));
    c.maybe_spaces();
    Some((found, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cephx::AuthName;
    use std::collections::BTreeMap;

    fn may(text: &str, service: &str, command: &str, needs: Rights) -> bool {
        let caps = MgrCap::parse(text).expect("a good text");
        let (entity, args) = (AuthName::parse("client.x").expect("a name"), BTreeMap::new());
        caps.is_capable(&MonRequest { entity: &entity, service, command, args: &args, needs, from: None })
    }

    #[test]
    fn grants_allow_what_they_say() {
        let (r, rw) = (Rights::R, Rights::R | Rights::W);
        assert!(may("allow *", "pg", "pg dump", rw) && MgrCap::parse("allow *").expect("good").is_allow_all());
        assert!(may("allow r", "pg", "pg dump", r) && !may("allow r", "pg", "pg repair", rw));
        assert!(may("allow service osd rw", "osd", "osd df", rw) && !may("allow service osd rw", "pg", "pg dump", r));
        assert!(may("allow command \"osd df\"", "osd", "osd df", r) && !may("allow command x", "osd", "osd df", r));
        assert!(may("profile read-only", "osd", "osd df", r) && !may("profile osd", "osd", "osd df", r));
        assert!(!may("profile rbd pool=x", "osd", "osd df", r) && !may("allow module balancer rw", "mgr", "x", r));
        assert!(may("allow r, allow service osd w", "osd", "osd df", rw));
        assert!(MgrCap::parse("profile none").is_err() && MgrCap::parse("profile rbd key=x").is_err());
        assert!(!MgrCap::parse("allow r").expect("good").is_allow_all());
    }
}
