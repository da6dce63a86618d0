//! The OSD map's history and its next epoch in the making.
//!
//! Owns the newest map, the incrementals and full maps of the epochs kept, and the pending incremental that commands
//! and daemons' reports add to. `upcoming` is the newest map with the pending changes applied: what later changes of the
//! same epoch are judged by. `submit` turns the pending changes into an epoch and the writes that keep it.
//! Refuses to decide what changes: `osd_boot`, `osd_reports` and the commands do.
//!
//! Invariants: epochs are contiguous from `first` to the newest; the newest incremental applied to the map before it
//! gives the newest map to the byte (its checksum is in the incremental).
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`encode_pending`, `build_incremental`, `send_incremental`).

use crate::limits::{OSD_MAP_EPOCHS_KEPT, OSD_MAP_FULL_EVERY, OSD_MAP_MESSAGE_EPOCHS_MAX};
use crate::store::{BadStore, Batch, Image, decode_value, epoch_key};
use base::{Epoch, Instant, OsdId, PoolId};
use bytes::Bytes;
use core::ops::{Bound, RangeInclusive};
use crush::CrushMap;
use maps::{Incremental, OsdMap, OsdState, PgPool};
use std::collections::BTreeMap;
use wire::codec::{Decode, Encode, Malformed};
use wire::messages;
use wire::types::UTime;

/// What an OSD says about its machine and store.
pub type Metadata = BTreeMap<String, String>;

/// A weight of one, "in", as 16.16 fixed point.
pub const IN: u32 = 0x1_0000;

/// The service.
#[derive(Debug)]
pub struct OsdMapService {
    map: OsdMap,
    encoded: Bytes,
    first: Epoch,
    incrementals: BTreeMap<Epoch, Bytes>,
    /// Full maps of the multiples of [`OSD_MAP_FULL_EVERY`] and of `first`.
    fulls: BTreeMap<Epoch, Bytes>,
    pending: Option<Incremental>,
    view: Option<OsdMap>,
    metadata: BTreeMap<OsdId, Metadata>,
    batch: Batch,
}

impl OsdMapService {
    /// The writes that keep the very first map.
    pub fn create(map: &OsdMap, batch: &mut Batch) {
        assert_eq!(map.epoch, Epoch(1), "a cluster begins with epoch 1");
        batch.put("osdmap", format!("full_{}", epoch_key(map.epoch)), map.encoded().bytes);
        batch.encode("osdmap", "first", &map.epoch);
    }

    /// From the store.
    pub fn load(image: &Image) -> Result<OsdMapService, BadStore> {
        let first: Epoch = image.require("osdmap", "first")?;
        let (mut incrementals, mut fulls) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in image.prefix("osdmap") {
            let Some((kind, epoch)) = key.split_once('_') else { continue };
            let bad = || bad("osdmap", key, "its key names no epoch");
            let epoch = Epoch(epoch.parse().map_err(|_| bad())?);
            match kind {
                "inc" => incrementals.insert(epoch, value.clone()),
                "full" => fulls.insert(epoch, value.clone()),
                _ => return Err(bad()),
            };
        }
        let Some((epoch, full)) = fulls.last_key_value() else {
            return Err(BadStore::Missing("osdmap", "full_".to_owned()));
        };
        let mut map: OsdMap = decode_value("osdmap", "full_", full)?;
        for (at, inc) in incrementals.range(epoch.next()..) {
            let key = format!("inc_{}", epoch_key(*at));
            let inc: Incremental = decode_value("osdmap", &key, inc)?;
            map.apply(&inc).map_err(|_| bad("osdmap", &key, "does not follow the epoch before"))?;
        }
        let mut metadata = BTreeMap::new();
        for (key, value) in image.prefix("osd_metadata") {
            let id = key.parse().map_err(|_| bad("osd_metadata", key, "its key names no OSD"))?;
            metadata.insert(OsdId(id), decode_value("osd_metadata", key, value)?);
        }
        let encoded = map.encoded().bytes;
        let (pending, view, batch) = (None, None, Batch::default());
        Ok(OsdMapService { map, encoded, first, incrementals, fulls, pending, view, metadata, batch })
    }

    /// The newest map.
    pub fn map(&self) -> &OsdMap {
        &self.map
    }

    /// The newest map's epoch.
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// The oldest epoch kept.
    pub fn first(&self) -> Epoch {
        self.first
    }

    /// The newest map's encoding.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// The newest map with the pending changes.
    pub fn upcoming(&mut self) -> &OsdMap {
        let Some(pending) = &self.pending else { return &self.map };
        self.view.get_or_insert_with(|| {
            let mut view = self.map.clone();
            view.apply(pending).expect("changes that we collected apply to the map they were collected for");
            view
        })
    }

    /// The epoch that pending changes will have.
    pub fn next_epoch(&self) -> Epoch {
        self.map.epoch.next()
    }

    /// The pending changes, to add to.
    pub fn change(&mut self) -> &mut Incremental {
        self.view = None;
        let (fsid, epoch) = (self.map.fsid, self.map.epoch.next());
        self.pending.get_or_insert_with(|| Incremental::new(fsid, epoch, UTime::default()))
    }

    /// The pending changes, if any.
    pub fn pending(&self) -> Option<&Incremental> {
        self.pending.as_ref()
    }

    /// Whether there is something to write.
    pub fn dirty(&self) -> bool {
        self.pending.is_some() || !self.batch.is_empty()
    }

    /// What is known of an OSD's machine.
    pub fn metadata(&self, osd: OsdId) -> Option<&Metadata> {
        self.metadata.get(&osd)
    }

    /// Keeps what an OSD says about its machine.
    pub fn set_metadata(&mut self, osd: OsdId, metadata: Metadata) {
        self.batch.encode("osd_metadata", osd.0.to_string(), &metadata);
        self.metadata.insert(osd, metadata);
    }

    /// Forgets what an OSD said.
    pub fn remove_metadata(&mut self, osd: OsdId) {
        if self.metadata.remove(&osd).is_some() {
            self.batch.remove("osd_metadata", osd.0.to_string());
        }
    }

    /// Flips state bits of an OSD in the next epoch.
    pub fn flip_state(&mut self, osd: OsdId, bits: OsdState) {
        let states = &mut self.change().new_state;
        let flipped = states.get(&osd).copied().unwrap_or_default().flipped(bits);
        if flipped == OsdState::default() {
            // No bits at all would mean UP (`OSDMap::Incremental`).
            states.remove(&osd);
        } else {
            states.insert(osd, flipped);
        }
    }

    /// Marks an OSD that is up down in the next epoch.
    pub fn mark_down(&mut self, osd: OsdId) {
        if self.upcoming().is_up(osd) {
            if self.map.is_up(osd) {
                self.flip_state(osd, OsdState::UP);
            }
            self.change().new_up.remove(&osd);
        }
    }

    /// Gives an OSD an override weight in the next epoch; 0 is out, [`IN`] in.
    pub fn set_weight(&mut self, osd: OsdId, weight: u32) {
        self.change().new_weight.insert(osd, weight);
    }

    /// Changes a pool in the next epoch; false where there is none.
    pub fn edit_pool(&mut self, id: PoolId, edit: impl FnOnce(&mut PgPool)) -> bool {
        let Some(pool) = self.upcoming().pool(id) else { return false };
        let mut pool = PgPool::clone(pool);
        edit(&mut pool);
        pool.last_change = self.next_epoch();
        self.change().new_pools.insert(id, pool);
        true
    }

    /// Replaces the CRUSH map in the next epoch.
    pub fn set_crush(&mut self, crush: &CrushMap) {
        self.change().crush = crush.to_bytes();
    }

    /// Turns the pending changes into the next epoch. True if there is a new one.
    pub fn submit(&mut self, now: Instant, batch: &mut Batch) -> bool {
        batch.append(&mut self.batch);
        if self.pending.is_none() {
            return false;
        }
        self.drop_useless_temps();
        let Some(mut inc) = self.pending.take() else { return false };
        self.view = None;
        inc.modified = now.into();
        let goes = |bits: &OsdState| bits.contains(OsdState::UP) || bits.0 == 0;
        if !inc.new_up.is_empty() || inc.new_state.values().any(goes) {
            inc.new_last_up_change = inc.modified;
        }
        if inc.new_weight.iter().any(|(osd, weight)| (*weight == 0) != self.map.is_out(*osd)) {
            inc.new_last_in_change = inc.modified;
        }
        self.map.apply(&inc).expect("changes that we collected apply to the map they were collected for");
        let encoded = self.map.encoded();
        inc.full_crc = encoded.crc;
        self.encoded = encoded.bytes;
        let (epoch, bytes) = (inc.epoch, inc.to_bytes());
        batch.put("osdmap", format!("inc_{}", epoch_key(epoch)), bytes.clone());
        self.incrementals.insert(epoch, bytes);
        if epoch.0.is_multiple_of(OSD_MAP_FULL_EVERY) {
            batch.put("osdmap", format!("full_{}", epoch_key(epoch)), self.encoded.clone());
            self.fulls.insert(epoch, self.encoded.clone());
        }
        self.trim(batch);
        true
    }

    /// Ends temporary mappings that say what placement says by itself, that nobody can serve, or whose pool is gone
    /// (v16.2 `OSDMap::clean_temps`).
    fn drop_useless_temps(&mut self) {
        let next = self.upcoming();
        let useless: Vec<_> = (next.pg_temp.iter())
            .filter(|(pg, temp)| {
                !next.pg_exists(**pg) || temp.iter().all(|osd| next.is_down(*osd)) || next.pg_to_up(**pg).0 == **temp
            })
            .map(|(pg, _)| *pg)
            .collect();
        let orphans: Vec<_> = (next.primary_temp.iter())
            .filter(|(pg, primary)| !next.pg_exists(**pg) || next.is_down(**primary))
            .map(|(pg, _)| *pg)
            .collect();
        let upmaps: Vec<_> = next.pg_upmap.keys().filter(|pg| !next.pg_exists(**pg)).copied().collect();
        let items: Vec<_> = next.pg_upmap_items.keys().filter(|pg| !next.pg_exists(**pg)).copied().collect();
        let inc = self.change();
        inc.new_pg_temp.extend(useless.into_iter().map(|pg| (pg, Vec::new())));
        inc.new_primary_temp.extend(orphans.into_iter().map(|pg| (pg, OsdId::NONE)));
        inc.old_pg_upmap.extend(upmaps);
        inc.old_pg_upmap_items.extend(items);
    }

    /// Forgets epochs beyond those kept; the oldest kept always has a full map.
    fn trim(&mut self, batch: &mut Batch) {
        let wanted = Epoch(self.map.epoch.0.saturating_sub(OSD_MAP_EPOCHS_KEPT));
        let Some((&keep_from, _)) = self.fulls.range(..=wanted).next_back() else { return };
        if keep_from <= self.first {
            return;
        }
        self.first = keep_from;
        batch.encode("osdmap", "first", &self.first);
        // The incremental to the oldest epoch goes too: the full map stands in for it.
        let kept = self.incrementals.split_off(&keep_from.next());
        for epoch in core::mem::replace(&mut self.incrementals, kept).into_keys() {
            batch.remove("osdmap", format!("inc_{}", epoch_key(epoch)));
        }
        let kept = self.fulls.split_off(&keep_from);
        for epoch in core::mem::replace(&mut self.fulls, kept).into_keys() {
            batch.remove("osdmap", format!("full_{}", epoch_key(epoch)));
        }
    }

    /// The map of an epoch that is kept.
    pub fn map_at(&self, epoch: Epoch) -> Option<OsdMap> {
        if epoch == self.map.epoch {
            return Some(self.map.clone());
        }
        if epoch < self.first || epoch > self.map.epoch {
            return None;
        }
        let (from, full) = self.fulls.range(..=epoch).next_back()?;
        let mut map = OsdMap::from_bytes(full).ok()?;
        // Exclusive at the start: the whole map of that very epoch may be kept, and needs no step.
        for (_, inc) in self.incrementals.range((Bound::Excluded(*from), Bound::Included(epoch))) {
            map.apply(&Incremental::from_bytes(inc).ok()?).ok()?;
        }
        Some(map)
    }

    /// A message with the newest map whole.
    pub fn full_message(&self) -> messages::OsdMap {
        let full = BTreeMap::from([(self.map.epoch, self.encoded.clone())]);
        messages::OsdMap { full, ..self.empty_message() }
    }

    /// Messages that bring somebody who has everything before `start` up to date, of at most `each` epochs; not all the
    /// way if it is long and wanted only `once`.
    pub fn messages_from(&self, start: Epoch, each: u32, once: bool) -> Vec<messages::OsdMap> {
        let mut messages = Vec::new();
        let mut at = start;
        if at <= self.first {
            at = self.first;
            let Some(full) = self.fulls.get(&at) else { return vec![self.full_message()] };
            let full = BTreeMap::from([(at, full.clone())]);
            messages.push(messages::OsdMap { full, ..self.empty_message() });
            at = at.next();
        }
        let end = if once { at.0.saturating_add(OSD_MAP_MESSAGE_EPOCHS_MAX - 1) } else { u32::MAX };
        let end = self.map.epoch.min(Epoch(end));
        while at <= end {
            let last = end.min(Epoch(at.0.saturating_add(each - 1)));
            messages.push(self.incremental_message(at..=last));
            at = last.next();
        }
        messages
    }

    fn incremental_message(&self, epochs: RangeInclusive<Epoch>) -> messages::OsdMap {
        let incremental = self.incrementals.range(epochs).map(|(epoch, bytes)| (*epoch, bytes.clone())).collect();
        messages::OsdMap { incremental, ..self.empty_message() }
    }

    fn empty_message(&self) -> messages::OsdMap {
        let (fsid, oldest, newest) = (self.map.fsid, self.first, self.map.epoch);
        messages::OsdMap { fsid, oldest, newest, ..messages::OsdMap::default() }
    }

    /// Whether the history is as it should be.
    pub fn check_invariants(&self) {
        let (oldest, newest) = (self.incrementals.first_key_value(), self.incrementals.last_key_value());
        let within = |at: Epoch| self.first < at && at <= self.map.epoch;
        assert!(
            oldest.is_none_or(|(at, _)| within(*at)) && newest.is_none_or(|(at, _)| within(*at)),
            "none is too many"
        );
        assert_eq!(self.incrementals.len(), (self.map.epoch.0 - self.first.0) as usize, "incrementals are contiguous");
        assert!(self.fulls.contains_key(&self.first), "the oldest epoch has a full map");
        if let Some(pending) = &self.pending {
            assert_eq!(pending.epoch, self.map.epoch.next(), "pending changes are for the next epoch");
        }
    }

    /// Whether the newest map is as it should be. Costs a map's encoding.
    pub fn check_newest(&self) {
        let encoded = self.map.encoded();
        assert_eq!(encoded.bytes, self.encoded, "the newest map is what it is sent as");
        if let Some((_, newest)) = self.incrementals.last_key_value() {
            let inc = Incremental::from_bytes(newest).expect("our own incremental decodes");
            assert_eq!(inc.full_crc, encoded.crc, "the newest map is what its incremental says");
        }
    }
}

fn bad(prefix: &str, key: &str, why: &'static str) -> BadStore {
    BadStore::Bad(prefix.to_owned(), key.to_owned(), Malformed::new("monitor store", why))
}
