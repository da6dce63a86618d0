//! The monitor's key database: entities with their keys and caps, rotating secrets, global ids.
//!
//! Follows Ceph v16.2 `src/auth/cephx/CephxKeyServer.cc` and `src/mon/AuthMonitor.cc`. Owns what may be in the
//! database and how each record is encoded for the monitor's store; hands every change out once (`take_changes`), to
//! be persisted before anything that depends on it leaves. Refuses to judge clients: see `mon_auth`.
//!
//! Invariants: global ids are given below a persisted bound only, so that none is given twice over a restart; secrets
//! used to seal tickets were made at least one period earlier, except the very first.

use super::envelope;
use super::key::CryptoKey;
use super::name::AuthName;
use super::protocol::{AuthTicket, ServiceTicketInfo};
use super::secrets::RotatingSecrets;
use super::tickets::Grant;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::net::TicketCaps;
use crate::types::{EntityType, UTime};
use base::rng::SecretRng;
use base::{Duration, Errno, Instant};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The services that have rotating secrets.
pub const SERVICES: [EntityType; 5] =
    [EntityType::AUTH, EntityType::MON, EntityType::OSD, EntityType::MDS, EntityType::MGR];

/// The lowest global id given: Ceph's own ids start there too (`MIN_GLOBAL_ID`).
const FIRST_GLOBAL_ID: u64 = 0x1000;
/// How many global ids are set aside at a time (`mon_globalid_prealloc`).
const GLOBAL_ID_BATCH: u64 = 10_000;

/// One entity's record (`EntityAuth`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EntityAuth {
    /// Its key.
    pub key: CryptoKey,
    /// What it may do, by service (`mon`, `osd`, `mds`, `mgr`), as text.
    pub caps: BTreeMap<String, String>,
}

impl Encode for EntityAuth {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        e.u64(u64::MAX);
        e.put(&self.key);
        // Each capability is a blob that holds an encoded string.
        e.len(self.caps.len());
        for (service, caps) in &self.caps {
            e.string(service);
            e.sized(|e| e.string(caps));
        }
    }
}

impl Decode for EntityAuth {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if d.u8()? >= 2 {
            d.u64()?;
        }
        let key = d.get()?;
        let len = d.len(8)?;
        let mut caps = BTreeMap::new();
        for _ in 0..len {
            let service = d.string()?;
            let blob = d.slice()?;
            let text = if blob.is_empty() { String::new() } else { Decoder::new(blob).string()? };
            caps.insert(service, text);
        }
        Ok(EntityAuth { key, caps })
    }
}

/// The tunable parts, by Ceph's option names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyServerConfig {
    /// `auth_mon_ticket_ttl`: how long the ticket of the authentication service holds.
    pub auth_mon_ticket_ttl: Duration,
    /// `auth_service_ticket_ttl`: how long the daemons' tickets hold.
    pub auth_service_ticket_ttl: Duration,
    /// `auth_allow_insecure_global_id_reclaim`: whether old clients may come back without showing their ticket.
    pub auth_allow_insecure_global_id_reclaim: bool,
}

impl Default for KeyServerConfig {
    /// Ceph's defaults, except that insecure reclaim is refused, as it is in every new cluster.
    fn default() -> KeyServerConfig {
        KeyServerConfig {
            auth_mon_ticket_ttl: Duration::from_secs(72 * 3600),
            auth_service_ticket_ttl: Duration::from_secs(3600),
            auth_allow_insecure_global_id_reclaim: false,
        }
    }
}

/// The database.
#[derive(Debug)]
pub struct KeyServer {
    config: KeyServerConfig,
    entities: BTreeMap<AuthName, EntityAuth>,
    /// Keys from the monitor's own keyring, `mon.` above all: valid, but not in the database.
    extra: BTreeMap<AuthName, EntityAuth>,
    rotating: BTreeMap<EntityType, RotatingSecrets>,
    next_global_id: u64,
    global_id_bound: u64,
    changed: BTreeSet<String>,
}

const ENTITY_PREFIX: &str = "entity/";
const ROTATING_KEY: &str = "rotating";
const GLOBAL_ID_KEY: &str = "max_global_id";

impl KeyServer {
    /// An empty database.
    pub fn new(config: KeyServerConfig) -> KeyServer {
        KeyServer {
            config,
            entities: BTreeMap::new(),
            extra: BTreeMap::new(),
            rotating: BTreeMap::new(),
            next_global_id: FIRST_GLOBAL_ID,
            global_id_bound: FIRST_GLOBAL_ID,
            changed: BTreeSet::new(),
        }
    }

    /// The database as the monitor's store has it. Keys that are not ours are refused, as is a record that does not
    /// decode: the disk is to blame.
    pub fn load<'a>(
        config: KeyServerConfig,
        records: impl IntoIterator<Item = (&'a str, &'a Bytes)>,
    ) -> Result<KeyServer, Malformed> {
        let mut server = KeyServer::new(config);
        for (key, value) in records {
            if let Some(name) = key.strip_prefix(ENTITY_PREFIX) {
                let name = AuthName::parse(name).ok_or(Malformed::new("auth record", "names no entity"))?;
                server.entities.insert(name, EntityAuth::from_bytes(value)?);
            } else if key == ROTATING_KEY {
                let kinds: BTreeMap<u8, RotatingSecrets> = BTreeMap::from_bytes(value)?;
                server.rotating = kinds.into_iter().map(|(kind, secrets)| (EntityType(kind), secrets)).collect();
            } else if key == GLOBAL_ID_KEY {
                server.global_id_bound = u64::from_bytes(value)?.max(FIRST_GLOBAL_ID);
                server.next_global_id = server.global_id_bound;
            } else {
                return Err(Malformed::new("auth record", "has an unknown key"));
            }
        }
        Ok(server)
    }

    /// The records that changed since the last call: a key and its value, or none where the record goes. They must be
    /// persisted before anything made after the change leaves the monitor.
    pub fn take_changes(&mut self) -> Vec<(String, Option<Bytes>)> {
        let changed = core::mem::take(&mut self.changed);
        changed.into_iter().map(|key| (key.clone(), self.record(&key))).collect()
    }

    fn record(&self, key: &str) -> Option<Bytes> {
        if let Some(name) = key.strip_prefix(ENTITY_PREFIX) {
            return AuthName::parse(name).and_then(|name| self.entities.get(&name)).map(Encode::to_bytes);
        }
        if key == ROTATING_KEY {
            let mut e = Encoder::new();
            e.len(self.rotating.len());
            for (kind, secrets) in &self.rotating {
                e.u8(kind.0);
                e.put(secrets);
            }
            return Some(e.finish());
        }
        Some(self.global_id_bound.to_bytes())
    }

    /// The tunables.
    pub fn config(&self) -> &KeyServerConfig {
        &self.config
    }

    /// Changes the tunables; a shorter time to live takes effect on the next tickets.
    pub fn set_config(&mut self, config: KeyServerConfig) {
        self.config = config;
    }

    /// An entity's record, or the monitor's own for a name that only its keyring has.
    pub fn entity(&self, name: &AuthName) -> Option<&EntityAuth> {
        self.entities.get(name).or_else(|| self.extra.get(name))
    }

    /// Whether the database itself has this entity.
    pub fn contains(&self, name: &AuthName) -> bool {
        self.entities.contains_key(name)
    }

    /// All entities of the database, in Ceph's order.
    pub fn entities(&self) -> impl Iterator<Item = (&AuthName, &EntityAuth)> {
        self.entities.iter()
    }

    /// Adds or replaces an entity.
    pub fn set(&mut self, name: AuthName, auth: EntityAuth) {
        self.changed.insert(format!("{ENTITY_PREFIX}{name}"));
        self.entities.insert(name, auth);
    }

    /// Removes an entity; tells whether it was there. Tickets it holds stay good until they end, as with Ceph.
    pub fn remove(&mut self, name: &AuthName) -> bool {
        let removed = self.entities.remove(name).is_some();
        if removed {
            self.changed.insert(format!("{ENTITY_PREFIX}{name}"));
        }
        removed
    }

    /// Makes a key from the monitor's keyring valid without putting it into the database.
    pub fn set_extra(&mut self, name: AuthName, auth: EntityAuth) {
        self.extra.insert(name, auth);
    }

    /// Replaces rotating secrets that have ended and makes the first ones; tells whether any changed. To be called
    /// once before the first ticket and then by `next_rotation`.
    pub fn rotate(&mut self, now: Instant, rng: &mut SecretRng) -> bool {
        let mut changed = false;
        for kind in SERVICES {
            let ttl = self.ttl(kind);
            changed |= self.rotating.entry(kind).or_default().rotate(now, ttl, rng);
        }
        if changed {
            self.changed.insert(ROTATING_KEY.to_owned());
        }
        self.reserve_global_ids();
        changed
    }

    /// When `rotate` has to be called next.
    pub fn next_rotation(&self) -> Option<Instant> {
        self.rotating.values().filter_map(RotatingSecrets::current_expires).min()
    }

    /// The secrets of a service.
    pub fn rotating(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.rotating.get(&service)
    }

    /// The rotating secrets of an entity's own kind, sealed with its key. None for an entity that is not known, has
    /// no secrets to know, or is not a daemon.
    pub fn rotating_sealed(&self, name: &AuthName) -> Option<Vec<u8>> {
        let key = &self.entities.get(name)?.key;
        let secrets = self.rotating.get(&name.kind)?;
        Some(envelope::seal(key, secrets))
    }

    /// A new global id; none when all 64 bits are used up.
    pub fn assign_global_id(&mut self) -> Option<u64> {
        self.reserve_global_ids();
        let id = self.next_global_id;
        (id < self.global_id_bound).then(|| self.next_global_id += 1).map(|()| id)
    }

    /// Sets the next lot aside while half of the last one is left, so that its bound is persisted long before it is
    /// needed.
    fn reserve_global_ids(&mut self) {
        if self.global_id_bound - self.next_global_id < GLOBAL_ID_BATCH / 2 {
            self.global_id_bound = self.global_id_bound.saturating_add(GLOBAL_ID_BATCH);
            self.changed.insert(GLOBAL_ID_KEY.to_owned());
        }
    }

    fn ttl(&self, service: EntityType) -> Duration {
        if service == EntityType::AUTH { self.config.auth_mon_ticket_ttl } else { self.config.auth_service_ticket_ttl }
    }

    /// The capabilities of an entity with a service, as a ticket carries them: empty where it has none.
    pub fn ticket_caps(&self, name: &AuthName, service: EntityType) -> TicketCaps {
        let caps = self.entity(name).and_then(|auth| auth.caps.get(service.name()));
        TicketCaps { allow_all: false, caps: caps.map(|text| text.to_bytes()).unwrap_or_default() }
    }

    /// A ticket for `service` with a fresh session key. EPERM where the service has no secrets, EINVAL where the
    /// entity is gone (v16.2 `KeyServer::build_session_auth_info`).
    pub fn grant(
        &self,
        now: Instant,
        rng: &mut SecretRng,
        name: &AuthName,
        global_id: u64,
        service: EntityType,
    ) -> Result<Grant, Errno> {
        let secrets = self.rotating.get(&service).ok_or(Errno::EPERM)?;
        let current = secrets.current(now, self.ttl(service)).ok_or(Errno::EPERM)?;
        // The monitor's caps are looked up at each session, never carried.
        let caps = match service {
            EntityType::MON | EntityType::AUTH => TicketCaps::default(),
            _ if self.entity(name).is_none() => return Err(Errno::EINVAL),
            _ => self.ticket_caps(name, service),
        };
        let ticket = AuthTicket {
            name: name.clone(),
            global_id,
            created: now.into(),
            expires: (now + current.ttl).into(),
            caps,
            flags: 0,
        };
        let session_key = CryptoKey::generate(now, rng);
        let validity = UTime::from(Instant::ZERO + current.ttl);
        let info = ServiceTicketInfo { ticket, session_key };
        Ok(Grant { service, secret_id: current.id, secret: current.key.clone(), info, validity })
    }

    /// Opens a ticket of the authentication service. None where it is not one of ours or its secret has ended.
    pub fn open_auth_ticket(&self, secret_id: u64, blob: &[u8]) -> Option<ServiceTicketInfo> {
        let key = self.rotating.get(&EntityType::AUTH)?.key(secret_id)?;
        envelope::open(key, blob).ok()
    }
}
