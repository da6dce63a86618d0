//! What an entity may do with objects.
//!
//! Follows Ceph v16.2 `src/osd/OSDCap.cc`. A grant has a match (pool, namespace, object prefix, or a tag of the pool's
//! application) and a right: reading, writing, calling classes of objects, or one class by name. Judged on every op,
//! so the judgement allocates nothing but one flag a class call. Read next: `osd_grammar`.

use super::BadCap;
use super::network::Place;
use super::osd_grammar;
use crate::net::TicketCaps;
use core::net::IpAddr;
use std::collections::BTreeMap;

/// Rights over objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OsdRights(u8);

impl OsdRights {
    /// None.
    pub const NONE: OsdRights = OsdRights(0);
    /// To read.
    pub const R: OsdRights = OsdRights(1 << 1);
    /// To write.
    pub const W: OsdRights = OsdRights(1 << 2);
    /// To call methods that read.
    pub const CLASS_R: OsdRights = OsdRights(1 << 3);
    /// To call methods that write.
    pub const CLASS_W: OsdRights = OsdRights(1 << 4);
    /// To call methods.
    pub const X: OsdRights = OsdRights(Self::CLASS_R.0 | Self::CLASS_W.0);
    /// Everything.
    pub const ANY: OsdRights = OsdRights(0xFF);

    /// Both together.
    pub const fn with(self, other: OsdRights) -> OsdRights {
        OsdRights(self.0 | other.0)
    }

    /// Whether all of `needed` is in.
    pub const fn covers(self, needed: OsdRights) -> bool {
        self.0 & needed.0 == needed.0
    }
}

/// What a grant gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Spec {
    Rights(OsdRights),
    /// Any method of a class, or one; whatever the class does inside.
    Class {
        class: String,
        method: Option<String>,
    },
}

/// A pool application's tag; `*` stands for any key or value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) application: String,
    pub(super) key: String,
    pub(super) value: String,
}

impl Tag {
    fn matches(&self, applications: &Applications) -> bool {
        let Some(pairs) = applications.get(&self.application) else { return false };
        match (self.key.as_str(), self.value.as_str()) {
            ("*", "*") => true,
            ("*", value) => pairs.values().any(|v| v == value),
            (key, "*") => pairs.contains_key(key),
            (key, value) => pairs.get(key).is_some_and(|v| v == value),
        }
    }
}

/// Which objects a grant is about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Match {
    pub(super) pool: Option<String>,
    /// Ends in `*` for all that begin so; empty for the default namespace alone.
    pub(super) namespace: Option<String>,
    pub(super) object_prefix: Option<String>,
    pub(super) tag: Option<Tag>,
}

impl Match {
    fn matches(&self, request: &OsdRequest<'_>) -> bool {
        let namespace = self.namespace.as_ref().is_none_or(|ours| {
            ours == request.namespace
                || ours.strip_suffix('*').is_some_and(|prefix| request.namespace.starts_with(prefix))
        });
        namespace
            && self.pool.as_ref().is_none_or(|pool| pool == request.pool)
            && self.tag.as_ref().is_none_or(|tag| tag.matches(request.applications))
            && self.object_prefix.as_ref().is_none_or(|p| request.object.starts_with(p.as_bytes()))
    }
}

/// One grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    Direct {
        what: Match,
        spec: Spec,
        place: Place,
    },
    /// A profile, which was spelt out when it was read.
    Profile {
        grants: Vec<Grant>,
        place: Place,
    },
}

impl Grant {
    pub(super) fn anywhere(what: Match, spec: Spec) -> Grant {
        Grant::Direct { what, spec, place: Place::Anywhere }
    }

    fn allows_all(&self) -> bool {
        match self {
            Grant::Direct { what, spec, place } => {
                *what == Match::default() && *spec == Spec::Rights(OsdRights::ANY) && *place == Place::Anywhere
            }
            Grant::Profile { grants, place } => *place == Place::Anywhere && grants.iter().any(Grant::allows_all),
        }
    }

    /// Whether it gives the right to write to some objects of this pool: to all of every pool, or to any of this one.
    /// Which ones, and from where, is not asked; nor is a tag, which may or may not be this pool's.
    fn writes_within(&self, pool: &str) -> bool {
        match self {
            Grant::Profile { grants, .. } => grants.iter().any(|grant| grant.writes_within(pool)),
            Grant::Direct { spec: Spec::Class { .. }, .. } => false,
            Grant::Direct { what, spec: Spec::Rights(rights), .. } => {
                rights.covers(OsdRights::W)
                    && what.pool.as_ref().map_or(*what == Match::default(), |named| named == pool)
            }
        }
    }

    /// Whether this grant, with the class calls that earlier ones allowed, allows the request.
    fn allows(&self, request: &OsdRequest<'_>, classes_allowed: &mut [bool]) -> bool {
        let (what, spec) = match self {
            Grant::Profile { grants, place } => {
                return place.admits(request.from) && grants.iter().any(|g| g.allows(request, classes_allowed));
            }
            Grant::Direct { place, .. } if !place.admits(request.from) => return false,
            Grant::Direct { what, spec, .. } => (what, spec),
        };
        if !what.matches(request) {
            return false;
        }
        let rights = match spec {
            Spec::Rights(rights) => *rights,
            Spec::Class { .. } => OsdRights::NONE,
        };
        if request.reads && !rights.covers(OsdRights::R) || request.writes && !rights.covers(OsdRights::W) {
            return false;
        }
        if rights == OsdRights::ANY {
            return true;
        }
        for (call, allowed) in request.classes.iter().zip(classes_allowed.iter_mut()) {
            *allowed |= match spec {
                Spec::Class { class, method } => {
                    class == call.class && method.as_ref().is_none_or(|m| m == call.method)
                }
                Spec::Rights(rights) => {
                    call.listed
                        && (!call.reads || rights.covers(OsdRights::CLASS_R))
                        && (!call.writes || rights.covers(OsdRights::CLASS_W))
                }
            };
        }
        classes_allowed.iter().all(|&allowed| allowed)
    }
}

/// A call of an object class's method in an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassCall<'a> {
    /// The class: `rbd`, `lock`.
    pub class: &'a str,
    /// The method.
    pub method: &'a str,
    /// Whether the method reads.
    pub reads: bool,
    /// Whether the method writes.
    pub writes: bool,
    /// Whether the class is on the list of those that `x` reaches (`osd_class_default_list`).
    pub listed: bool,
}

/// The tags of a pool's applications: application, then key and value.
pub type Applications = BTreeMap<String, BTreeMap<String, String>>;

/// An op to be judged.
#[derive(Clone, Copy, Debug)]
pub struct OsdRequest<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The object's namespace.
    pub namespace: &'a str,
    /// The pool's applications.
    pub applications: &'a Applications,
    /// The object's name; for listings, which have none, empty.
    pub object: &'a [u8],
    /// Whether the op reads, class calls aside.
    pub reads: bool,
    /// Whether the op writes, class calls aside.
    pub writes: bool,
    /// The class calls in it.
    pub classes: &'a [ClassCall<'a>],
    /// Where it comes from.
    pub from: Option<IpAddr>,
}

/// All that an entity may do with objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdCap {
    grants: Vec<Grant>,
}

impl OsdCap {
    /// Everything.
    pub fn allow_all() -> OsdCap {
        OsdCap { grants: vec![Grant::anywhere(Match::default(), Spec::Rights(OsdRights::ANY))] }
    }

    /// Reads a capability text.
    pub fn parse(text: &str) -> Result<OsdCap, BadCap> {
        osd_grammar::parse(text).map(|grants| OsdCap { grants })
    }

    /// What a ticket's caps allow; nothing where they are empty or do not parse.
    pub fn from_ticket(caps: &TicketCaps) -> OsdCap {
        if caps.allow_all {
            return OsdCap::allow_all();
        }
        <String as crate::Decode>::from_bytes(&caps.caps).ok().and_then(|t| OsdCap::parse(&t).ok()).unwrap_or_default()
    }

    /// Whether everything is allowed: ops of such a session need no judgement.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(Grant::allows_all)
    }

    /// Whether anything in the pool may be written to, perhaps within one namespace only: then the pool's snapshots may
    /// be numbered (v16.2 `src/mon/OSDMonitor.cc`, `is_unmanaged_snap_op_permitted`).
    pub fn may_write_within(&self, pool: &str) -> bool {
        self.is_allow_all() || self.grants.iter().any(|grant| grant.writes_within(pool))
    }

    /// Whether the op is allowed. Reading and writing have to come from one grant; class calls may add up.
    pub fn is_capable(&self, request: &OsdRequest<'_>) -> bool {
        let mut classes_allowed = vec![false; request.classes.len()];
        self.grants.iter().any(|grant| grant.allows(request, &mut classes_allowed))
    }
}
