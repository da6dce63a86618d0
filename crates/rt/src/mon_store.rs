//! The monitor's store: a redb file of (prefix, key) to bytes.
//!
//! Owns durability: a batch is on disk when `commit` returns. Refuses to know what the keys mean.

use bytes::Bytes;
use redb::{Database, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::path::Path;

const TABLE: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("monitor");

/// A change to the store: what to put, or to delete where there is no value.
pub type Batch = Vec<(String, String, Option<Bytes>)>;

/// What the store holds.
pub type Contents = BTreeMap<(String, String), Bytes>;

/// A failed read or write of the store's file.
#[derive(Debug, thiserror::Error)]
#[error("monitor store: {0}")]
pub struct MonStoreError(Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for MonStoreError {
    fn from(e: E) -> Self {
        MonStoreError(Box::new(e.into()))
    }
}

/// The open store.
#[derive(Debug)]
pub struct MonStore {
    db: Database,
}

/// How much of the file redb keeps in memory. The monitor engine holds its state itself; this serves commits only.
const CACHE_BYTES: usize = 4 << 20;

impl MonStore {
    /// Opens the store, making it where there is none.
    pub fn open(path: &Path) -> Result<MonStore, MonStoreError> {
        let db = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
        Ok(MonStore { db })
    }

    /// Everything in it.
    pub fn load(&self) -> Result<Contents, MonStoreError> {
        let read = self.db.begin_read()?;
        let table = match read.open_table(TABLE) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Contents::new()),
            Err(e) => return Err(e.into()),
        };
        let mut contents = Contents::new();
        for entry in table.iter()? {
            let (key, value) = entry?;
            let (prefix, name) = key.value();
            contents.insert((prefix.to_owned(), name.to_owned()), Bytes::copy_from_slice(value.value()));
        }
        Ok(contents)
    }

    /// Makes the batches durable, in order and as one.
    pub fn commit(&mut self, batches: &[Batch]) -> Result<(), MonStoreError> {
        let write = self.db.begin_write()?;
        {
            let mut table = write.open_table(TABLE)?;
            for (prefix, key, value) in batches.iter().flatten() {
                let at = (prefix.as_str(), key.as_str());
                match value {
                    Some(value) => drop(table.insert(at, value.as_ref())?),
                    None => drop(table.remove(at)?),
                }
            }
        }
        write.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_committed_is_there_after_reopening() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store.redb");
        let entry = |k: &str, v: Option<&'static [u8]>| ("p".to_owned(), k.to_owned(), v.map(Bytes::from_static));
        {
            let mut store = MonStore::open(&path).expect("a new store");
            assert!(store.load().expect("readable").is_empty());
            store.commit(&[vec![entry("a", Some(b"1")), entry("b", Some(b"2"))]]).expect("writable");
            store.commit(&[vec![entry("a", None)], vec![entry("c", Some(b"3"))]]).expect("writable");
        }
        let contents = MonStore::open(&path).and_then(|s| s.load()).expect("readable");
        let keys: Vec<&str> = contents.keys().map(|(_, k)| k.as_str()).collect();
        assert_eq!(keys, ["b", "c"]);
    }
}
