//! The monitors' map: one monitor, this one.
//!
//! Owns the map in the store. The address follows the configuration: a cluster that resumes on another port says so by
//! a new epoch.

use crate::mon::MonConfig;
use crate::store::{BadStore, Batch, Image, decode_value, epoch_key};
use base::{Epoch, Instant};
use maps::MonMap;
use wire::codec::Encode;
use wire::messages;

/// The service.
#[derive(Debug)]
pub struct MonMapService {
    map: MonMap,
    batch: Batch,
}

impl MonMapService {
    /// The writes that keep the first map.
    pub fn create(now: Instant, config: &MonConfig, batch: &mut Batch) {
        let map = MonMap::single(config.fsid, now.into(), &config.name, config.addrs.clone());
        batch.encode("monmap", epoch_key(map.epoch), &map);
    }

    /// From the store, brought up to the present address.
    pub fn load(now: Instant, image: &Image, config: &MonConfig) -> Result<MonMapService, BadStore> {
        let newest = image.prefix("monmap").last();
        let Some((key, value)) = newest else { return Err(BadStore::Missing("monmap", "newest".to_owned())) };
        let mut map: MonMap = decode_value("monmap", key, value)?;
        let mut batch = Batch::default();
        let wanted = MonMap::single(config.fsid, map.created, &config.name, config.addrs.clone());
        if wanted.monitors != map.monitors {
            map.monitors = wanted.monitors;
            map.ranks = wanted.ranks;
            map.epoch = map.epoch.next();
            map.last_changed = now.into();
            batch.remove("monmap", key);
            batch.encode("monmap", epoch_key(map.epoch), &map);
        }
        Ok(MonMapService { map, batch })
    }

    /// The map.
    pub fn map(&self) -> &MonMap {
        &self.map
    }

    /// Its epoch.
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// The message that carries it.
    pub fn message(&self) -> messages::MonMap {
        messages::MonMap { map: self.map.to_bytes() }
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
