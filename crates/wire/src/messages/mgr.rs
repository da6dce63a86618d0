//! The manager's messages, as far as clients and other daemons meet them.
//!
//! Follows Ceph v16.2 `src/messages/MMgrMap.h`, `MMgrOpen.h`, `MMgrConfigure.h`, `MMgrReport.h`, `MMgrClose.h`,
//! `MServiceMap.h`. A report's counters are kept as they came: nobody here reads them yet.

use super::Payload;
use super::body::{Body, Rest, message};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use bytes::Bytes;
use std::collections::BTreeMap;

message! {
    /// Where the manager is (`maps::MgrMap`).
    MgrMap(0x704, 1, 1) {
        /// The encoded map.
        map: Rest,
    }

    /// Which services have registered (`maps::ServiceMap`).
    ServiceMap(0x707, 1, 1) {
        /// The encoded map.
        map: Rest,
    }

    /// How often a daemon should report, and what.
    MgrConfigure(0x701, 4, 1) {
        /// Seconds between reports; 0 is never.
        stats_period_s: u32,
        /// Only counters of at least this priority.
        stats_threshold: u32 = since 2,
        /// Queries for performance metrics.
        queries: Rest,
    }

    /// A daemon's counters.
    MgrReport(0x702, 9, 1) {
        /// The daemon's name.
        daemon_name: String,
        /// Counters it has not told of before.
        declared: Vec<CounterType>,
        /// The counters' values, in an order the declarations fix.
        packed: Bytes,
        /// Counters that have gone.
        undeclared: Vec<String> = since 2,
        /// The service it belongs to.
        service_name: String = since 3,
        /// Its status, if it changed.
        daemon_status: Option<BTreeMap<String, String>> = since 3,
        /// Health metrics, configuration, performance metrics.
        metrics: Rest,
    }

    /// A daemon goes.
    MgrClose(0x708, 1, 1) {
        /// The daemon's name.
        daemon_name: String,
        /// The service it belongs to.
        service_name: String,
    }
}

/// A counter that a daemon reports (`PerfCounterType`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CounterType {
    /// Its name with its section: `osd.op_w`.
    pub path: String,
    /// What it counts.
    pub description: String,
    /// A short name for columns.
    pub nick: String,
    /// `perfcounter_type_d` bits.
    pub kind: u8,
    /// How much it matters.
    pub priority: u8,
    /// 0 none, 1 bytes.
    pub unit: u8,
}

impl Encode for CounterType {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(3, 1, |e| {
            e.string(&self.path);
            e.string(&self.description);
            e.string(&self.nick);
            e.raw(&[self.kind, self.priority, self.unit]);
        });
    }
}

impl Decode for CounterType {
    const MIN_BYTES: usize = 19;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("PerfCounterType", 3, |d, version| {
            let (path, description, nick, kind) = (d.string()?, d.string()?, d.string()?, d.u8()?);
            let priority = if version >= 2 { d.u8()? } else { 0 };
            let unit = if version >= 3 { d.u8()? } else { 0 };
            Ok(CounterType { path, description, nick, kind, priority, unit })
        })
    }
}

/// A daemon or a service introduces itself to the manager.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MgrOpen {
    /// The daemon's name.
    pub daemon_name: String,
    /// The service it belongs to; empty for daemons of Ceph itself.
    pub service_name: String,
    /// A registered service's metadata and status.
    pub service: Option<ServiceDaemon>,
    /// Its configuration, encoded.
    pub config: Bytes,
    /// Its configuration's defaults, encoded.
    pub config_defaults: Bytes,
}

/// What a registered service says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceDaemon {
    /// What it is and where it runs.
    pub metadata: BTreeMap<String, String>,
    /// How it fares.
    pub status: BTreeMap<String, String>,
}

impl Body for MgrOpen {
    const KIND: u16 = 0x700;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;
    const NAME: &'static str = "MgrOpen";

    fn from_payload(payload: &Payload) -> Result<Self, Malformed> {
        Self::check_compat(payload)?;
        if payload.version < 3 {
            return Err(Malformed::new(Self::NAME, "is older than any supported peer's"));
        }
        let mut d = Decoder::shared(&payload.front);
        let message = MgrOpen {
            daemon_name: d.get()?,
            service_name: d.get()?,
            service: if d.bool()? { Some(ServiceDaemon { metadata: d.get()?, status: d.get()? }) } else { None },
            config: d.get()?,
            config_defaults: d.get()?,
        };
        Self::finish(d, payload)?;
        Ok(message)
    }

    fn into_payload(self) -> Payload {
        let mut e = Encoder::new();
        e.string(&self.daemon_name);
        e.string(&self.service_name);
        e.bool(self.service.is_some());
        if let Some(service) = &self.service {
            e.put(&service.metadata);
            e.put(&service.status);
        }
        e.put(&self.config);
        e.put(&self.config_defaults);
        Self::payload(e.finish(), Bytes::new())
    }
}
