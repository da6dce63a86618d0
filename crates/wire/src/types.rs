//! The small structures that most encodings are made of: names, addresses, timestamps, uuids.
//!
//! Follows Ceph v16.2 `src/msg/msg_types.h`, `src/include/utime.h` and `src/include/uuid.h`.
//! Read next: `osd` structures beside the messages that use them, and `codec`.

use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use base::{EVersion, Epoch, GlobalId, Instant, OsdId, PgId, PoolId, SnapId};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

crate::newtype_codec! {
    OsdId = OsdId as i32;
    PoolId = PoolId as i64;
    Epoch = Epoch as u32;
    GlobalId = GlobalId as u64;
    SnapId = SnapId as u64;
}

/// The kinds of peers; a bit each on the wire (`CEPH_ENTITY_TYPE_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityType(pub u8);

impl EntityType {
    /// A monitor.
    pub const MON: EntityType = EntityType(0x01);
    /// A metadata server.
    pub const MDS: EntityType = EntityType(0x02);
    /// An object storage daemon.
    pub const OSD: EntityType = EntityType(0x04);
    /// A client.
    pub const CLIENT: EntityType = EntityType(0x08);
    /// A manager.
    pub const MGR: EntityType = EntityType(0x10);
    /// The authentication service itself, as a ticket's target.
    pub const AUTH: EntityType = EntityType(0x20);

    /// The name before the dot of an entity's name.
    pub fn name(self) -> &'static str {
        match self {
            EntityType::MON => "mon",
            EntityType::MDS => "mds",
            EntityType::OSD => "osd",
            EntityType::CLIENT => "client",
            EntityType::MGR => "mgr",
            EntityType::AUTH => "auth",
            _ => "unknown",
        }
    }

    /// The type that a name before the dot stands for.
    pub fn from_name(name: &str) -> Option<EntityType> {
        [Self::MON, Self::MDS, Self::OSD, Self::CLIENT, Self::MGR, Self::AUTH].into_iter().find(|t| t.name() == name)
    }
}

impl fmt::Debug for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A peer as messages name it: its type and number (`entity_name_t`). Clients are numbered by their global id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityName {
    /// The kind of peer.
    pub kind: EntityType,
    /// Its number; -1 for a client that has none yet.
    pub num: i64,
}

impl EntityName {
    /// The name of an OSD.
    pub fn osd(id: OsdId) -> EntityName {
        EntityName { kind: EntityType::OSD, num: i64::from(id.0) }
    }

    /// The name of the monitor with this rank.
    pub fn mon(rank: i64) -> EntityName {
        EntityName { kind: EntityType::MON, num: rank }
    }

    /// The name of the client with this global id.
    pub fn client(id: GlobalId) -> EntityName {
        EntityName { kind: EntityType::CLIENT, num: id.0 as i64 }
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.num < 0 { write!(f, "{}.?", self.kind.name()) } else { write!(f, "{}.{}", self.kind.name(), self.num) }
    }
}

impl fmt::Debug for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityName {
    fn encode(&self, e: &mut Encoder) {
        e.u8(self.kind.0);
        e.i64(self.num);
    }
}

impl Decode for EntityName {
    const MIN_BYTES: usize = 9;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(EntityName { kind: EntityType(d.u8()?), num: d.i64()? })
    }
}

/// Which protocol an address speaks (`entity_addr_t::type_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum AddrKind {
    /// No address.
    #[default]
    None,
    /// msgr1.
    Legacy,
    /// msgr2.
    Msgr2,
    /// Any protocol.
    Any,
    /// A range, in blocklists; the nonce holds the prefix length.
    Cidr,
}

/// One address of a peer: protocol, socket address and the nonce that tells one life of a daemon from the next.
///
/// Ordered as Ceph orders them, by memory: the nonce's lowest byte weighs most, ports come before addresses. Encoded
/// sets and maps of addresses have this order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntityAddr {
    /// The protocol spoken there.
    pub kind: AddrKind,
    /// Tells apart the processes that have used the socket address.
    pub nonce: u32,
    /// The socket address; none for a blank address.
    pub socket: Option<SocketAddr>,
}

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

impl EntityAddr {
    /// A msgr2 address.
    pub fn msgr2(socket: SocketAddr, nonce: u32) -> EntityAddr {
        EntityAddr { kind: AddrKind::Msgr2, nonce, socket: Some(socket) }
    }
}

impl Ord for EntityAddr {
    fn cmp(&self, other: &EntityAddr) -> core::cmp::Ordering {
        let key = |addr: &EntityAddr| {
            let socket = addr.socket.map(|socket| match socket {
                SocketAddr::V4(v4) => (AF_INET, v4.port(), [0; 4], v4.ip().to_bits().into(), [0; 4]),
                SocketAddr::V6(v6) => {
                    (AF_INET6, v6.port(), v6.flowinfo().to_le_bytes(), v6.ip().to_bits(), v6.scope_id().to_le_bytes())
                }
            });
            (addr.kind, addr.nonce.swap_bytes(), socket)
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for EntityAddr {
    fn partial_cmp(&self, other: &EntityAddr) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Encode for EntityAddr {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.versioned(1, 1, |e| {
            e.u32(self.kind as u32);
            e.u32(self.nonce);
            match self.socket {
                // Blank, but as long as the union that C++ keeps socket addresses in.
                None => {
                    e.u32(28);
                    e.raw(&[0; 28]);
                }
                Some(SocketAddr::V4(v4)) => {
                    e.u32(16);
                    e.u16(AF_INET);
                    e.raw(&v4.port().to_be_bytes());
                    e.raw(&v4.ip().octets());
                    e.raw(&[0; 8]);
                }
                Some(SocketAddr::V6(v6)) => {
                    e.u32(28);
                    e.u16(AF_INET6);
                    e.raw(&v6.port().to_be_bytes());
                    e.u32(v6.flowinfo());
                    e.raw(&v6.ip().octets());
                    e.u32(v6.scope_id());
                }
            }
        });
    }
}

impl Decode for EntityAddr {
    const MIN_BYTES: usize = 7;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.u8()? {
            // A legacy address (v16.2 `entity_addr_t::decode_legacy_addr_after_marker`), as newer encoders write
            // none: marker u8 0 of a u32 type, nonce, sockaddr_storage of 128 bytes with a big-endian family.
            0 => {
                d.skip(3)?;
                let nonce = d.u32()?;
                let storage = d.raw(128)?;
                let family = u16::from_be_bytes([storage[0], storage[1]]);
                Ok(EntityAddr { kind: AddrKind::Legacy, nonce, socket: decode_sockaddr(family, &storage[2..])? })
            }
            1 => d.versioned("entity_addr_t", 1, |d, _| {
                let kind = match d.u32()? {
                    0 => AddrKind::None,
                    1 => AddrKind::Legacy,
                    2 => AddrKind::Msgr2,
                    3 => AddrKind::Any,
                    4 => AddrKind::Cidr,
                    _ => return Err(Malformed::new("entity_addr_t", "has an unknown type")),
                };
                let nonce = d.u32()?;
                let len = d.u32()? as usize;
                let socket = if len == 0 {
                    None
                } else if len < 2 {
                    return Err(Malformed::new("entity_addr_t", "has half a family"));
                } else {
                    let family = d.u16()?;
                    decode_sockaddr(family, d.raw(len - 2)?)?
                };
                Ok(EntityAddr { kind, nonce, socket })
            }),
            _ => Err(Malformed::new("entity_addr_t", "has an unknown marker")),
        }
    }
}

fn decode_sockaddr(family: u16, after_family: &[u8]) -> Result<Option<SocketAddr>, Malformed> {
    let mut d = Decoder::new(after_family);
    match family {
        0 => Ok(None),
        AF_INET => {
            let port = u16::from_be_bytes(d.array()?);
            Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(d.array::<4>()?)), port)))
        }
        AF_INET6 => {
            let port = u16::from_be_bytes(d.array()?);
            let flow = d.u32()?;
            let ip = Ipv6Addr::from(d.array::<16>()?);
            Ok(Some(SocketAddr::V6(core::net::SocketAddrV6::new(ip, port, flow, d.u32()?))))
        }
        _ => Err(Malformed::new("entity_addr_t", "has an unknown address family")),
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.socket) {
            (AddrKind::None, _) | (_, None) => f.write_str("-"),
            (AddrKind::Legacy, Some(s)) => write!(f, "v1:{s}/{}", self.nonce),
            (AddrKind::Msgr2, Some(s)) => write!(f, "v2:{s}/{}", self.nonce),
            (AddrKind::Any, Some(s)) => write!(f, "{s}/{}", self.nonce),
            (AddrKind::Cidr, Some(s)) => write!(f, "cidr:{}/{}", s.ip(), self.nonce),
        }
    }
}

impl fmt::Debug for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All addresses of one peer (`entity_addrvec_t`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrVec(pub Vec<EntityAddr>);

impl AddrVec {
    /// A peer with one address.
    pub fn one(addr: EntityAddr) -> AddrVec {
        AddrVec(vec![addr])
    }

    /// The msgr2 address, if there is one.
    pub fn msgr2(&self) -> Option<EntityAddr> {
        self.0.iter().copied().find(|a| a.kind == AddrKind::Msgr2)
    }
}

impl Encode for AddrVec {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        e.put(&self.0);
    }
}

impl Decode for AddrVec {
    const MIN_BYTES: usize = 5;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.peek().first() {
            Some(2) => {
                d.skip(1)?;
                Ok(AddrVec(d.get()?))
            }
            // One address by itself stands for a vector of one.
            _ => {
                let addr: EntityAddr = d.get()?;
                Ok(AddrVec(if addr.kind == AddrKind::None { vec![] } else { vec![addr] }))
            }
        }
    }
}

impl fmt::Display for AddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("-"),
            [one] => write!(f, "{one}"),
            many => {
                f.write_str("[")?;
                for (i, addr) in many.iter().enumerate() {
                    write!(f, "{}{addr}", if i == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
        }
    }
}

impl fmt::Debug for AddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A timestamp on the wire: seconds and nanoseconds, u32 each (`utime_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UTime {
    /// Seconds since the Unix epoch.
    pub secs: u32,
    /// Nanoseconds past the second.
    pub nanos: u32,
}

impl From<Instant> for UTime {
    fn from(at: Instant) -> UTime {
        UTime { secs: u32::try_from(at.secs()).unwrap_or(u32::MAX), nanos: at.subsec_nanos() }
    }
}

impl From<UTime> for Instant {
    fn from(at: UTime) -> Instant {
        Instant(u64::from(at.secs) * 1_000_000_000 + u64::from(at.nanos))
    }
}

impl fmt::Debug for UTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.secs, self.nanos)
    }
}

impl Encode for UTime {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.secs);
        e.u32(self.nanos);
    }
}

impl Decode for UTime {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(UTime { secs: d.u32()?, nanos: d.u32()? })
    }
}

/// Sixteen bytes that name a cluster or a daemon's disk (`uuid_d`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A version 4 uuid from random bytes.
    pub fn from_random(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = bytes[6] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Uuid(bytes)
    }

    /// Parses the usual text form.
    pub fn parse(text: &str) -> Option<Uuid> {
        let groups: Vec<&str> = text.split('-').collect();
        if groups.iter().map(|g| g.len()).ne([8, 4, 4, 4, 12]) || !text.is_ascii() {
            return None;
        }
        let hex = groups.concat();
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for Uuid {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
}

impl Decode for Uuid {
    const MIN_BYTES: usize = 16;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Uuid(d.array()?))
    }
}

/// A placement group on the wire (`pg_t`): version 1, pool, seed and a preferred OSD that is always -1.
impl Encode for PgId {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.i64(self.pool.0);
        e.u32(self.seed);
        e.i32(-1);
    }
}

impl Decode for PgId {
    const MIN_BYTES: usize = 17;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("pg_t", "has an unknown version"));
        }
        let pg = PgId::new(PoolId(d.i64()?), d.u32()?);
        d.i32()?;
        Ok(pg)
    }
}

/// A log version on the wire (`eversion_t`): the count first.
impl Encode for EVersion {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.version);
        e.put(&self.epoch);
    }
}

impl Decode for EVersion {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let version = d.u64()?;
        Ok(EVersion { epoch: d.get()?, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["127.0.0.1:6800", "[::1]:3300"] {
            let addr = EntityAddr::msgr2(text.parse().expect("a literal address"), 42);
            let vec = AddrVec(vec![addr, EntityAddr::default()]);
            assert_eq!(AddrVec::from_bytes(&vec.to_bytes()), Ok(vec));
            assert_eq!(AddrVec::from_bytes(&addr.to_bytes()), Ok(AddrVec::one(addr)));
        }
    }

    #[test]
    fn uuids_parse_and_print() {
        let text = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        assert_eq!(Uuid::parse(text).map(|u| u.to_string()).as_deref(), Some(text));
        assert_eq!(Uuid::parse("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f"), None);
    }
}
