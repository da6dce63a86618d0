//! The key-value store that commands offer (`config-key`), for tools that keep something with the cluster.
//!
//! Follows Ceph v16.2 `src/mon/ConfigKeyService.cc`.

use crate::store::{Batch, Image};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The service.
#[derive(Debug, Default)]
pub struct ConfigKeyService {
    values: BTreeMap<String, Bytes>,
    batch: Batch,
}

impl ConfigKeyService {
    /// From the store.
    pub fn load(image: &Image) -> ConfigKeyService {
        let values = image.prefix("config_key").map(|(k, v)| (k.to_owned(), v.clone())).collect();
        ConfigKeyService { values, batch: Batch::default() }
    }

    /// A key's value.
    pub fn get(&self, key: &str) -> Option<&Bytes> {
        self.values.get(key)
    }

    /// All keys with a common beginning.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Bytes)> {
        self.values.range(prefix.to_owned()..).take_while(move |(k, _)| k.starts_with(prefix))
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: Bytes) {
        self.batch.put("config_key", key, value.clone());
        self.values.insert(key.to_owned(), value);
    }

    /// Removes a key; false where there is none.
    pub fn remove(&mut self, key: &str) -> bool {
        let there = self.values.remove(key).is_some();
        if there {
            self.batch.remove("config_key", key);
        }
        there
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
