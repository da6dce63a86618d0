//! A memory store as a sequence of records, so that a clean shutdown can be resumed without a second copy in memory.
//!
//! Owns what the records say; whoever stores them checks that they come back unchanged. A collection's record stands
//! before those of its objects, and the last record counts the objects, so that a cut-off sequence is noticed.

use super::MemoryStore;
use super::object::Object;
use crate::contract::StoreError;
use crate::id::{CollectionId, ObjectId};
use bytes::Bytes;
use wire::{Decode, Decoder, Encoder, Malformed};

const END: u8 = 0;
const COLLECTION: u8 = 1;
const OBJECT: u8 = 2;

fn malformed(why: &'static str) -> StoreError {
    Malformed::new("memory store image", why).into()
}

impl MemoryStore {
    /// Everything as records, each at most a little larger than the object in it.
    pub fn records(&self) -> impl Iterator<Item = Bytes> {
        let collections = self.collections.iter().flat_map(|(id, collection)| {
            let head = record(COLLECTION, |e| e.put(id));
            let objects = collection.iter().map(|(id, object)| {
                record(OBJECT, |e| {
                    e.put(id);
                    e.put(object);
                })
            });
            std::iter::once(head).chain(objects)
        });
        let count: u64 = self.collections.values().map(|c| c.len() as u64).sum();
        collections.chain(std::iter::once_with(move || record(END, |e| e.u64(count))))
    }

    /// The store that `records` were made of.
    pub fn from_records(records: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<MemoryStore, StoreError> {
        let mut restore = Restore::default();
        records.into_iter().try_for_each(|record| restore.record(record.as_ref()))?;
        restore.finish()
    }
}

fn record(kind: u8, body: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut e = Encoder::with_capacity(256);
    e.u8(kind);
    body(&mut e);
    e.finish()
}

/// A store that comes back record by record.
#[derive(Debug, Default)]
pub struct Restore {
    store: MemoryStore,
    collection: Option<CollectionId>,
    objects: u64,
    ended: bool,
}

impl Restore {
    /// Takes the next record.
    pub fn record(&mut self, record: &[u8]) -> Result<(), StoreError> {
        if self.ended {
            return Err(malformed("goes on after its end"));
        }
        let mut d = Decoder::new(record);
        match d.u8()? {
            COLLECTION => {
                let id = CollectionId::decode(&mut d)?;
                self.store.collections.insert(id, Default::default());
                self.collection = Some(id);
            }
            OBJECT => {
                let collection = self.collection.as_ref().and_then(|id| self.store.collections.get_mut(id));
                let collection = collection.ok_or_else(|| malformed("has an object outside of a collection"))?;
                let id = ObjectId::decode(&mut d)?;
                collection.insert(id, Object::decode(&mut d)?);
                self.objects += 1;
            }
            END if d.u64()? == self.objects => self.ended = true,
            END => return Err(malformed("has lost objects")),
            _ => return Err(malformed("has a record of an unknown kind")),
        }
        Ok(d.finish("memory store image")?)
    }

    /// The whole store. An error where the last record is missing.
    pub fn finish(self) -> Result<MemoryStore, StoreError> {
        if self.ended { Ok(self.store) } else { Err(malformed("ends too early")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::{Op, Transaction};
    use base::{PgId, PoolId, SnapId};

    fn filled() -> MemoryStore {
        let mut store = MemoryStore::new();
        for seed in 0..2 {
            let mut t = Transaction::create(CollectionId::Pg(PgId::new(PoolId(1), seed)));
            for i in 0..50u32 {
                let object = ObjectId::new(i * 77, b"", b"", format!("o{i}").as_bytes(), SnapId::HEAD);
                t.push(&object, Op::Write(u64::from(i) * 9_000, Bytes::from(vec![i as u8; 70_000])));
                t.push(&object, Op::SetAttr(Bytes::from_static(b"_a"), Bytes::from_static(b"1")));
                t.push(&object, Op::OmapSet(vec![(Bytes::from_static(b"k"), Bytes::from(vec![i as u8]))]));
                t.push(&object, Op::OmapHeader(Bytes::from_static(b"h")));
            }
            store.commit(&t).expect("it is valid");
        }
        store
    }

    #[test]
    fn records_resume_the_store() {
        let store = filled();
        let again = MemoryStore::from_records(store.records()).expect("they were just made");
        assert_eq!(again.collections, store.collections);
    }

    #[test]
    fn a_cut_or_reordered_sequence_is_refused() {
        let records: Vec<Bytes> = filled().records().collect();
        for cut in [0, 1, 7, records.len() - 1] {
            let refused = MemoryStore::from_records(&records[..cut]);
            assert!(matches!(refused, Err(StoreError::Corrupt(_))), "cut at {cut}");
        }
        let without = |gone: usize| records.iter().enumerate().filter(move |(i, _)| *i != gone).map(|(_, r)| r);
        assert!(MemoryStore::from_records(without(0)).is_err(), "objects without their collection");
        assert!(MemoryStore::from_records(without(9)).is_err(), "an object is missing");
        assert!(MemoryStore::from_records(records.iter().chain(&records[..1])).is_err(), "more after the end");
    }
}
