//! What everybody asks of a monitor: its map, subscriptions, versions, configuration.
//!
//! Follows Ceph v16.2 `src/messages/MMonMap.h`, `MMonGetMap.h`, `MMonSubscribe.h`, `MMonSubscribeAck.h`,
//! `MMonGetVersion.h`, `MMonGetVersionReply.h`, `MConfig.h`, `MGetConfig.h`, `MKVData.h`, `MPing.h`, and for the
//! kernel's client `net/ceph/mon_client.c` of Linux 6.1.

use super::Payload;
use super::body::{Body, Rest, message};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::{EntityType, Uuid};
use bytes::Bytes;
use std::collections::BTreeMap;

message! {
    /// Asks whether somebody is there; a monitor answers with the same and a report.
    Ping(2, 1, 1) {
        /// Empty in a request; in an answer a length-prefixed JSON report.
        report: Rest,
    }

    /// The monitor map.
    MonMap(4, 1, 1) {
        /// An encoded `maps::MonMap`.
        map: Bytes,
    }

    /// Asks for the monitor map.
    MonGetMap(5, 1, 1) {}

    /// Confirms subscriptions; sent to clients that do not know stateful subscriptions.
    MonSubscribeAck(16, 1, 1) {
        /// Seconds until the subscriptions have to be renewed.
        interval_s: u32,
        /// The cluster.
        fsid: Uuid,
    }

    /// Asks for the newest and oldest version of a map.
    MonGetVersion(19, 1, 1) {
        /// Comes back in the answer.
        handle: u64,
        /// `osdmap`, `monmap`, `fsmap`, `mgrmap`.
        what: String,
    }

    /// The versions asked for.
    MonGetVersionReply(20, 2, 2) {
        /// From the request.
        handle: u64,
        /// The newest.
        version: u64,
        /// The oldest still kept.
        oldest_version: u64 = since 2,
    }

    /// The options set in the monitor's configuration database for the receiver.
    Config(62, 1, 1) {
        /// Names and values.
        options: BTreeMap<String, String>,
    }

    /// Asks for the options of an entity; used before a session's identity is known.
    GetConfig(63, 1, 1) {
        /// For whom.
        name: AuthName,
        /// On which host.
        host: String,
        /// With which device class.
        device_class: String,
    }

    /// Keys and values under a prefix of the monitor's key-value store, to subscribers.
    KvData(54, 1, 1) {
        /// The store's version.
        version: u64,
        /// The prefix.
        prefix: String,
        /// Whether only changes are listed.
        incremental: bool,
        /// Values; none is a removal.
        data: BTreeMap<String, Option<Bytes>>,
    }
}

/// An authenticated entity's name in its parts (`EntityName`): `client.admin`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AuthName {
    /// The part before the dot.
    pub kind: EntityType,
    /// The part after the dot.
    pub id: String,
}

impl Default for AuthName {
    fn default() -> AuthName {
        AuthName { kind: EntityType(0), id: String::new() }
    }
}

impl Encode for AuthName {
    fn encode(&self, e: &mut Encoder) {
        e.u32(u32::from(self.kind.0));
        e.string(&self.id);
    }
}

impl Decode for AuthName {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = u8::try_from(d.u32()?).map_err(|_| Malformed::new("EntityName", "has an unknown type"))?;
        Ok(AuthName { kind: EntityType(kind), id: d.string()? })
    }
}

/// One subscription: from which version on, and whether once (`ceph_mon_subscribe_item`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Subscription {
    /// The first version wanted; 0 is the newest whole one.
    pub start: u64,
    /// End the subscription after the first answer.
    pub onetime: bool,
}

impl Encode for Subscription {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.start);
        e.bool(self.onetime);
    }
}

impl Decode for Subscription {
    const MIN_BYTES: usize = 9;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Subscription { start: d.u64()?, onetime: d.u8()? & 1 != 0 })
    }
}

/// Subscribes to maps.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MonSubscribe {
    /// `osdmap`, `monmap`, `mgrmap`, `config`, ... and from when.
    pub what: BTreeMap<String, Subscription>,
    /// The host the sender runs on, for its configuration; version 3.
    pub hostname: String,
}

impl Body for MonSubscribe {
    const KIND: u16 = 15;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;
    const NAME: &'static str = "MonSubscribe";

    fn from_payload(payload: &Payload) -> Result<Self, Malformed> {
        Self::check_compat(payload)?;
        if payload.version < 2 {
            return Err(Malformed::new(Self::NAME, "is older than any supported peer's"));
        }
        let mut d = Decoder::shared(&payload.front);
        let what = d.get()?;
        let hostname = super::body::field!(d, payload.version, String, 3);
        Self::finish(d, payload)?;
        Ok(MonSubscribe { what, hostname })
    }

    fn into_payload(self) -> Payload {
        let mut e = Encoder::new();
        e.put(&self.what);
        e.string(&self.hostname);
        Self::payload(e.finish(), Bytes::new())
    }
}
