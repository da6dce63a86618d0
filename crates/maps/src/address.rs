//! Addresses as Ceph's commands show them.
//!
//! Follows Ceph v16.2 `src/msg/msg_types.h` (`entity_addr_t::dump`, `entity_addrvec_t::dump`,
//! `entity_addr_t::get_legacy_str`).

use admin::format::Value;
use admin::object;
use wire::types::{AddrKind, AddrVec, EntityAddr};

/// One address: type, socket address and nonce apart.
pub fn addr(addr: &EntityAddr) -> Value {
    let kind = match addr.kind {
        AddrKind::None => "none",
        AddrKind::Legacy => "v1",
        AddrKind::Msgr2 => "v2",
        AddrKind::Any => "any",
        AddrKind::Cidr => "cidr",
    };
    object! { "type" => kind, "addr" => socket(addr), "nonce" => addr.nonce }
}

/// All addresses of a peer.
pub fn addr_vec(addrs: &AddrVec) -> Value {
    object! { "addrvec" => Value::array(addrs.0.iter().map(addr)) }
}

/// The form without a protocol: `127.0.0.1:6800/42`; what tools before msgr2 read.
pub fn legacy(addrs: &AddrVec) -> String {
    let legacy = addrs.0.iter().find(|a| a.kind == AddrKind::Legacy).or(addrs.0.first());
    legacy.map_or_else(|| "(unrecognized address family 0)/0".to_owned(), without_kind)
}

/// One address without its protocol.
pub fn without_kind(addr: &EntityAddr) -> String {
    format!("{}/{}", socket(addr), addr.nonce)
}

/// A network that is shut out: `cidr:10.0.0.0:0/24`.
pub fn range(range: &EntityAddr) -> String {
    format!("cidr:{}", without_kind(range))
}

fn socket(addr: &EntityAddr) -> String {
    addr.socket.map_or_else(|| "(unrecognized address family 0)".to_owned(), |s| s.to_string())
}

/// Reads `IP[:PORT][/NONCE]`, as `osd blocklist add` takes it.
pub fn parse(text: &str) -> Option<EntityAddr> {
    let (socket, nonce) = match text.rsplit_once('/') {
        Some((socket, nonce)) => (socket, nonce.parse().ok()?),
        None => (text, 0),
    };
    let socket = socket.trim_start_matches("v2:").trim_start_matches("v1:").trim_start_matches("any:");
    let socket = socket.parse().ok().or_else(|| Some(core::net::SocketAddr::new(socket.parse().ok()?, 0)))?;
    Some(EntityAddr { kind: AddrKind::Any, nonce, socket: Some(socket) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_print() {
        let one = parse("127.0.0.1:0/77").expect("an address");
        assert_eq!(without_kind(&one), "127.0.0.1:0/77");
        assert_eq!(parse("[::1]:6800/3").map(|a| without_kind(&a)).as_deref(), Some("[::1]:6800/3"));
        assert_eq!(parse("10.0.0.1").map(|a| without_kind(&a)).as_deref(), Some("10.0.0.1:0/0"));
        assert!(parse("nowhere").is_none() && parse("1.2.3.4:5/x").is_none());
        let value = addr_vec(&AddrVec::one(one)).to_json();
        assert_eq!(value, r#"{"addrvec":[{"type":"any","addr":"127.0.0.1:0","nonce":77}]}"#);
    }
}
