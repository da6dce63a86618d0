//! What an entity may do with the monitor.
//!
//! Follows Ceph v16.2 `src/mon/MonCap.cc`. A grant is of rights over everything, over one service (`osd`, `auth`, ...),
//! to one command under conditions, or a profile, which stands for a list of such grants. Read next: `mon_profiles`.

use super::BadCap;
use super::mon_profiles;
use super::network::Place;
use super::scan::Cursor;
use crate::cephx::AuthName;
use crate::net::TicketCaps;
use core::net::IpAddr;
use core::ops::BitOr;
use std::collections::BTreeMap;

/// Rights: read, write, execute, or everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights(u8);

impl Rights {
    /// None.
    pub const NONE: Rights = Rights(0);
    /// To read.
    pub const R: Rights = Rights(1 << 1);
    /// To change.
    pub const W: Rights = Rights(1 << 2);
    /// To run what is neither reading nor changing alone, `auth` commands above all.
    pub const X: Rights = Rights(1 << 3);
    /// All three (`MON_CAP_ALL`).
    pub const RWX: Rights = Rights(Self::R.0 | Self::W.0 | Self::X.0);
    /// Everything, `config-key` included (`MON_CAP_ANY`).
    pub const ANY: Rights = Rights(0xFF);

    /// Whether all of `needed` is in.
    pub fn covers(self, needed: Rights) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Reads `*`, `all`, or the letters r, w, x in this order, one at least.
    pub(super) fn scan(c: &mut Cursor<'_>) -> Option<Rights> {
        if c.literal("*").or_else(|| c.literal("all")).is_some() {
            return Some(Rights::ANY);
        }
        let letters = [("r", Rights::R), ("w", Rights::W), ("x", Rights::X)];
        let rights = letters.into_iter().filter_map(|(letter, right)| c.literal(letter).map(|()| right));
        Some(rights.fold(Rights::NONE, Rights::bitor)).filter(|&r| r != Rights::NONE)
    }
}

impl BitOr for Rights {
    type Output = Rights;
    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// A condition on one of a command's arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Equal(String),
    Prefix(String),
    Regex(String),
}

impl Condition {
    fn holds(&self, value: &str) -> bool {
        match self {
            Condition::Equal(expected) => value == expected,
            Condition::Prefix(prefix) => value.starts_with(prefix.as_str()),
            // The whole value has to match. A pattern that is none matches nothing.
            Condition::Regex(pattern) => {
                regex_lite::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(value))
            }
        }
    }

    /// `key=value`, `key prefix value`, `key regex value`.
    pub(super) fn scan(c: &mut Cursor<'_>, blanks_around_equals: bool) -> Option<(String, Condition)> {
        let key = c.string()?.to_owned();
        let equal = c.try_part(|c| {
            if blanks_around_equals {
                c.maybe_spaces();
            }
            c.literal("=")?;
            if blanks_around_equals {
                c.maybe_spaces();
            }
            c.string()
        });
        if let Some(value) = equal {
            return Some((key, Condition::Equal(value.to_owned())));
        }
        let mut keyword = |word: &str| {
            c.try_part(|c| {
                c.spaces()?;
                c.literal(word)?;
                c.spaces()?;
                c.string()
            })
        };
        if let Some(value) = keyword("prefix") {
            return Some((key, Condition::Prefix(value.to_owned())));
        }
        keyword("regex").map(|value| (key, Condition::Regex(value.to_owned())))
    }

    /// ` with` and one condition or more, if it follows.
    pub(super) fn scan_all(c: &mut Cursor<'_>, blanks_around_equals: bool) -> Conditions {
        let list = c.try_part(|c| {
            c.spaces()?;
            c.literal("with")?;
            c.spaces()?;
            Condition::scan_list(c, blanks_around_equals)
        });
        list.unwrap_or_default()
    }

    pub(super) fn scan_list(c: &mut Cursor<'_>, blanks_around_equals: bool) -> Option<Conditions> {
        let mut all = Conditions::from([Condition::scan(c, blanks_around_equals)?]);
        while let Some((key, condition)) =
            c.try_part(|c| c.spaces().and_then(|()| Condition::scan(c, blanks_around_equals)))
        {
            // The first of two conditions on one argument stays, as in Ceph's map.
            all.entry(key).or_insert(condition);
        }
        Some(all)
    }
}

pub(super) type Conditions = BTreeMap<String, Condition>;

/// What one grant is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    Everything(Rights),
    Service { service: String, rights: Rights },
    Command { command: String, with: Conditions },
    Profile(String),
}

impl Grant {
    /// The rights it gives for this request, which may be part of what is needed.
    pub(super) fn rights(&self, request: &MonRequest<'_>) -> Rights {
        match self {
            // config-key holds secrets: blanket rights short of `*` do not reach it.
            Grant::Everything(_) if request.service == "config-key" => Rights::NONE,
            Grant::Everything(rights) => *rights,
            Grant::Service { service, rights } if service == request.service => *rights,
            Grant::Command { command, with } if command == request.command => {
                let holds = |(key, condition): (&String, &Condition)| {
                    request.args.get(key).is_some_and(|value| condition.holds(value))
                };
                if with.iter().all(holds) { Rights::RWX } else { Rights::NONE }
            }
            Grant::Service { .. } | Grant::Command { .. } => Rights::NONE,
            Grant::Profile(name) => mon_profiles::grants(name, request.entity)
                .iter()
                .fold(Rights::NONE, |all, grant| all | grant.rights(request)),
        }
    }
}

/// A request to be judged.
#[derive(Clone, Copy, Debug)]
pub struct MonRequest<'a> {
    /// Who asks; profiles of daemons reach their own keys only.
    pub entity: &'a AuthName,
    /// The command's module (`osd`, `auth`, `mon`, ...) or the service that a message is about.
    pub service: &'a str,
    /// The command's prefix; empty for messages.
    pub command: &'a str,
    /// The command's arguments.
    pub args: &'a BTreeMap<String, String>,
    /// What the request needs.
    pub needs: Rights,
    /// Where it comes from.
    pub from: Option<IpAddr>,
}

/// All that an entity may do with the monitor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonCap {
    grants: Vec<(Grant, Place)>,
}

impl MonCap {
    /// Everything.
    pub fn allow_all() -> MonCap {
        MonCap { grants: vec![(Grant::Everything(Rights::ANY), Place::Anywhere)] }
    }

    /// Reads a capability text.
    pub fn parse(text: &str) -> Result<MonCap, BadCap> {
        let mut c = Cursor::new(text);
        match c.list(true, grant) {
            Some(grants) if c.rest().is_empty() => Ok(MonCap { grants }),
            _ => Err(BadCap::stopped("mon", c.rest(), text)),
        }
    }

    /// What a session's caps allow; nothing where they are empty or do not parse.
    pub fn from_ticket(caps: &TicketCaps) -> MonCap {
        if caps.allow_all {
            return MonCap::allow_all();
        }
        <String as crate::Decode>::from_bytes(&caps.caps).ok().and_then(|t| MonCap::parse(&t).ok()).unwrap_or_default()
    }

    /// Whether everything is allowed from anywhere.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(|(grant, place)| *grant == Grant::Everything(Rights::ANY) && *place == Place::Anywhere)
    }

    /// Whether the request is allowed: the grants that apply add up.
    pub fn is_capable(&self, request: &MonRequest<'_>) -> bool {
        let mut rights = Rights::NONE;
        for (grant, _) in self.grants.iter().filter(|(_, place)| place.admits(request.from)) {
            if *grant == Grant::Everything(Rights::ANY) {
                return true;
            }
            rights = rights | grant.rights(request);
            if rights.covers(request.needs) {
                return true;
            }
        }
        false
    }
}

/// `keyword` and what separates it from its value.
pub(super) fn keyword(c: &mut Cursor<'_>, word: &str) -> Option<()> {
    c.literal(word)?;
    c.equals_or(Cursor::spaces)
}

/// `allow` and spaces.
pub(super) fn allow(c: &mut Cursor<'_>) -> Option<()> {
    c.literal("allow")?;
    c.spaces()
}

fn grant(c: &mut Cursor<'_>) -> Option<(Grant, Place)> {
    c.maybe_spaces();
    let everything = |c: &mut Cursor<'_>| {
        allow(c)?;
        Rights::scan(c).map(Grant::Everything)
    };
    let profile = |c: &mut Cursor<'_>| {
        c.try_part(allow);
        keyword(c, "profile")?;
        c.string().map(|name| Grant::Profile(name.to_owned()))
    };
    let service = |c: &mut Cursor<'_>| {
        allow(c)?;
        keyword(c, "service")?;
        let service = c.string()?.to_owned();
        c.spaces()?;
        Rights::scan(c).map(|rights| Grant::Service { service, rights })
    };
    let command = |c: &mut Cursor<'_>| {
        allow(c)?;
        keyword(c, "command")?;
        let command = c.string()?.to_owned();
        Some(Grant::Command { command, with: Condition::scan_all(c, false) })
    };
    let what = c
        .try_part(everything)
        .or_else(|| c.try_part(profile))
        .or_else(|| c.try_part(service))
        .or_else(|| c.try_part(command))?;
    let place = Place::new(c.network(Cursor::spaces));
    c.maybe_spaces();
    Some((what, place))
}
