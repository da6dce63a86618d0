//! The key database in the monitor's store.
//!
//! Owns the writes of what `wire::cephx` decides: entities, rotating secrets, global ids. Refuses to know about
//! tickets. Changes are taken over at once (`collect`), so that whatever depends on them waits for the disk.

use crate::store::{BadStore, Batch, Image};
use base::Instant;
use base::rng::SecretRng;
use wire::auth::ConMode;
use wire::cephx::{EntityAuth, KeyServer, KeyServerConfig, MonAuth};
use wire::codec::Encode;

/// The service.
#[derive(Debug)]
pub struct AuthService {
    /// The judgement of clients, with the database.
    pub mon: MonAuth,
    batch: Batch,
}

/// The monitors' own key in the store.
const MON_KEY: (&str, &str) = ("mon", "key");

impl AuthService {
    /// The writes of a new database: the monitors' key and the first entities.
    pub fn create(
        now: Instant,
        mon: &EntityAuth,
        entities: &[(wire::cephx::AuthName, EntityAuth)],
        rng: &mut SecretRng,
        batch: &mut Batch,
    ) {
        batch.put(MON_KEY.0, MON_KEY.1, mon.to_bytes());
        let mut keys = KeyServer::new(KeyServerConfig::default());
        for (name, auth) in entities {
            keys.set(name.clone(), auth.clone());
        }
        keys.rotate(now, rng);
        for (key, value) in keys.take_changes() {
            if let Some(value) = value {
                batch.put("auth", key, value);
            }
        }
    }

    /// From the store.
    pub fn load(
        image: &Image,
        config: KeyServerConfig,
        modes: Vec<ConMode>,
        rng: SecretRng,
    ) -> Result<AuthService, BadStore> {
        let bad = |why| BadStore::Bad("auth".to_owned(), "*".to_owned(), why);
        let mut keys = KeyServer::load(config, image.prefix("auth")).map_err(bad)?;
        let mon: EntityAuth = image.require(MON_KEY.0, MON_KEY.1)?;
        keys.set_extra(wire::cephx::AuthName::new(wire::types::EntityType::MON, ""), mon);
        Ok(AuthService { mon: MonAuth::new(keys, modes, rng), batch: Batch::default() })
    }

    /// Takes over what has changed in the database.
    pub fn collect(&mut self) {
        for (key, value) in self.mon.keys.take_changes() {
            match value {
                Some(value) => self.batch.put("auth", key, value),
                None => self.batch.remove("auth", key),
            }
        }
    }

    /// Moves the unwritten changes to `batch`.
    pub fn flush(&mut self, batch: &mut Batch) {
        batch.append(&mut self.batch);
    }

    /// Whether there are unwritten changes.
    pub fn dirty(&self) -> bool {
        !self.batch.is_empty()
    }
}
