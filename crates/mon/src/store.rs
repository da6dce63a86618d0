//! What the monitor keeps on disk: the layout of its keys, batches of writes, and the image loaded at boot.
//!
//! Owns the names of prefixes and keys. A batch is atomic: the driver applies all of it or none, and says so through
//! `handle_persisted`. Refuses to know what is behind it (redb in production, a map in tests).
//!
//! | prefix | keys | values |
//! |---|---|---|
//! | `mon` | `fsid`, `format`, `global_id`, `elections` | text; a u64 each |
//! | `monmap` | epoch, ten digits | the encoded map |
//! | `osdmap` | `inc_` or `full_` and the epoch, ten digits; `first` | encoded maps; an epoch |
//! | `osd_metadata` | OSD id | pairs of text |
//! | `auth` | entity name | key and capabilities; `rotating` holds the service keys |
//! | `config` | `WHO[/MASK]/OPTION` | text |
//! | `config_log` | version, ten digits | the changes |
//! | `config_key` | the key | the value |
//! | `log` | sequence number, twenty digits | one line of the cluster log |
//! | `purged_snaps` | pool | the snapshots that are gone for good |
//! | `creating_pgs` | placement group | since which map and when it is being made anew |
//! | `health` | `mutes` | muted checks |
//!
//! Read next: `outbox`, which holds answers back until the batch they depend on is on disk.

use bytes::Bytes;
use std::collections::BTreeMap;
use wire::codec::{Decode, Encode, Malformed};

/// A prefix and a key.
pub type StoreKey = (String, String);

/// One atomic change: values to put, or keys to remove, in order of key.
pub type BatchWrites = Vec<(String, String, Option<Bytes>)>;

/// The store's contents as loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image(pub BTreeMap<StoreKey, Bytes>);

/// What is wrong with a store: the disk is to blame.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadStore {
    /// A key that every store has is missing.
    #[error("the monitor's store has no {0}/{1}")]
    Missing(&'static str, String),
    /// It belongs to another cluster.
    #[error("the monitor's store belongs to cluster {found}, not {asked}")]
    OtherCluster {
        /// The cluster that the configuration names.
        asked: wire::types::Uuid,
        /// The cluster the store was made for.
        found: String,
    },
    /// A value does not follow its format.
    #[error("the monitor's store has a bad value at {0}/{1}: {2}")]
    Bad(String, String, Malformed),
}

impl Image {
    /// The value of a key.
    pub fn get(&self, prefix: &str, key: &str) -> Option<&Bytes> {
        self.0.get(&(prefix.to_owned(), key.to_owned()))
    }

    /// The decoded value of a key, where it is there.
    pub fn decode<T: Decode>(&self, prefix: &str, key: &str) -> Result<Option<T>, BadStore> {
        self.get(prefix, key).map(|v| decode_value(prefix, key, v)).transpose()
    }

    /// The decoded value of a key that must be there.
    pub fn require<T: Decode>(&self, prefix: &'static str, key: &str) -> Result<T, BadStore> {
        self.decode(prefix, key)?.ok_or_else(|| BadStore::Missing(prefix, key.to_owned()))
    }

    /// The keys and values of a prefix, in order of key.
    pub fn prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
        let from = (prefix.to_owned(), String::new());
        self.0.range(from..).take_while(move |((p, _), _)| p == prefix).map(|((_, k), v)| (k.as_str(), v))
    }

    /// Applies a batch, as a disk would.
    pub fn apply(&mut self, writes: &BatchWrites) {
        for (prefix, key, value) in writes {
            let at = (prefix.clone(), key.clone());
            match value {
                Some(value) => self.0.insert(at, value.clone()),
                None => self.0.remove(&at),
            };
        }
    }
}

/// Decodes a value and says where it stood if it is bad.
pub fn decode_value<T: Decode>(prefix: &str, key: &str, value: &Bytes) -> Result<T, BadStore> {
    T::from_bytes(value).map_err(|why| BadStore::Bad(prefix.to_owned(), key.to_owned(), why))
}

/// A batch under construction; a later write of a key replaces an earlier one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    writes: BTreeMap<StoreKey, Option<Bytes>>,
}

impl Batch {
    /// Puts bytes.
    pub fn put(&mut self, prefix: &str, key: impl Into<String>, value: impl Into<Bytes>) {
        self.writes.insert((prefix.to_owned(), key.into()), Some(value.into()));
    }

    /// How many keys it touches, and the bytes of keys and values.
    pub fn size(&self) -> (u64, u64) {
        let bytes = |((prefix, key), value): (&StoreKey, &Option<Bytes>)| {
            (prefix.len() + key.len() + value.as_ref().map_or(0, Bytes::len)) as u64
        };
        (self.writes.len() as u64, self.writes.iter().map(bytes).sum())
    }

    /// Puts an encoded value.
    pub fn encode<T: Encode + ?Sized>(&mut self, prefix: &str, key: impl Into<String>, value: &T) {
        self.put(prefix, key, value.to_bytes());
    }

    /// Removes a key.
    pub fn remove(&mut self, prefix: &str, key: impl Into<String>) {
        self.writes.insert((prefix.to_owned(), key.into()), None);
    }

    /// Moves another batch's writes to this one; they replace earlier ones of the same keys.
    pub fn append(&mut self, later: &mut Batch) {
        self.writes.append(&mut later.writes);
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes in order of key.
    pub fn into_writes(self) -> BatchWrites {
        self.writes.into_iter().map(|((prefix, key), value)| (prefix, key, value)).collect()
    }
}

/// An epoch as a key that sorts by number.
pub fn epoch_key(epoch: base::Epoch) -> String {
    format!("{:010}", epoch.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_apply_and_prefixes_do_not_leak() {
        let mut batch = Batch::default();
        batch.encode("a", "2", &7u32);
        batch.put("a", "1", &b"x"[..]);
        batch.put("ab", "1", &b"y"[..]);
        batch.remove("a", "1");
        let mut image = Image::default();
        image.0.insert(("a".into(), "1".into()), Bytes::new());
        image.apply(&batch.into_writes());
        assert_eq!(image.prefix("a").map(|(k, _)| k).collect::<Vec<_>>(), ["2"]);
        assert_eq!(image.require::<u32>("a", "2"), Ok(7));
        assert!(image.require::<u64>("a", "2").is_err() && image.require::<u32>("a", "3").is_err());
    }
}
