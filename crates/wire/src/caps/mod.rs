//! Capabilities: what an entity may do, as the operator wrote it, and the decision whether a request is allowed.
//!
//! Follows Ceph v16.2 `src/mon/MonCap.cc`, `src/osd/OSDCap.cc`, `src/mgr/MgrCap.cc` and `src/mds/MDSAuthCaps.cc`: the
//! same texts are accepted and refused with the same words, because operators and tools rely on both. Owns parsing
//! and the decisions of monitors (`MonCap`), managers (`MgrCap`) and OSDs (`OsdCap`); metadata servers' caps are only
//! checked. Refuses to know what a command or an op needs: its caller says.
//!
//! Invariants: a text that does not parse grants nothing; parsing goes forward only and never gives up a choice once
//! it matched, as Ceph's grammars do, so that it takes linear time and stops where Ceph's would.
//!
//! Read next: `mon`, `osd`.

mod mds;
pub mod mgr;
pub mod mon;
mod mon_profiles;
pub mod network;
pub mod osd;
mod osd_grammar;
mod scan;

#[cfg(test)]
mod tests;

pub use mgr::MgrCap;
pub use mon::{MonCap, MonRequest};
pub use network::Network;
pub use osd::{ClassCall, OsdCap, OsdRequest};

/// A capability text that is none; says where it stops making sense, in Ceph's words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadCap(pub String);

impl BadCap {
    /// `rest` is what was left when parsing stopped. Monitors and managers tell its absence, others print it empty.
    fn stopped(service: &str, rest: &str, text: &str) -> BadCap {
        if rest.is_empty() && matches!(service, "mon" | "mgr") {
            BadCap(format!("{service} capability parse failed, stopped at end of '{text}'"))
        } else {
            BadCap(format!("{service} capability parse failed, stopped at '{rest}' of '{text}'"))
        }
    }
}

/// Checks a capability of any service, as `ceph auth` does before it stores one.
pub fn validate(service: &str, text: &str) -> Result<(), BadCap> {
    match service {
        "mon" => MonCap::parse(text).map(|_| ()),
        "osd" => OsdCap::parse(text).map(|_| ()),
        "mgr" => MgrCap::parse(text).map(|_| ()),
        "mds" => mds::validate(text),
        _ => Err(BadCap(format!("unknown cap type '{service}'"))),
    }
}
