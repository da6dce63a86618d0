//! Placement groups that an operator has made anew, until their primary serves them.
//!
//! Owns the record: which, since which map, and when that was asked for. Who is told of it, and when, is decided in
//! `pg_create`. Follows Ceph v16.2 `src/mon/CreatingPGs.h`; pools that are made need none of this here, as every OSD
//! sees in the map what is new.

use crate::store::{BadStore, Batch, Image, decode_value};
use base::{Epoch, PgId};
use std::collections::BTreeMap;
use wire::types::UTime;

const PREFIX: &str = "creating_pgs";

/// The service.
#[derive(Debug, Default)]
pub struct CreatingPgs {
    pgs: BTreeMap<PgId, (Epoch, UTime)>,
    batch: Batch,
}

impl CreatingPgs {
    /// From the store.
    pub fn load(image: &Image) -> Result<CreatingPgs, BadStore> {
        let mut pgs = BTreeMap::new();
        for (key, value) in image.prefix(PREFIX) {
            let since = decode_value(PREFIX, key, value)?;
            // A key that names no group was not written here.
            pgs.extend(PgId::parse(key).map(|pg| (pg, since)));
        }
        Ok(CreatingPgs { pgs, batch: Batch::default() })
    }

    /// Adds one; false if it is there already.
    pub fn add(&mut self, pg: PgId, since: Epoch, at: UTime) -> bool {
        let new = self.pgs.insert(pg, (since, at)).is_none();
        self.batch.encode(PREFIX, pg.to_string(), &(since, at));
        new
    }

    /// One serves, or is gone.
    pub fn forget(&mut self, pg: PgId) {
        if self.pgs.remove(&pg).is_some() {
            self.batch.remove(PREFIX, pg.to_string());
        }
    }

    /// All, each with the map and the time since which.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, (Epoch, UTime))> + '_ {
        self.pgs.iter().map(|(pg, since)| (*pg, *since))
    }

    /// Since which map one is being made.
    pub fn since(&self, pg: PgId) -> Option<Epoch> {
        self.pgs.get(&pg).map(|(since, _)| *since)
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
