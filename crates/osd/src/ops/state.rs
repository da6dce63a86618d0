//! What every op needs to know of its object: existence, size, versions.
//!
//! Owns the encoding of the record that travels with the object as an attribute (ours, version 1; an object that
//! is watched or has seen snapshots has more to say). Ceph's counterparts are `object_info_t` and `SnapSet` (v16.2
//! `src/osd/osd_types.h`).

use super::clones::Clones;
use crate::pg::info::Totals;
use crate::watch::{WatchName, WatchRecord, Watchers};
use base::EVersion;
use bytes::Bytes;
use std::sync::Arc;
use store::ObjectView;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// The attribute that holds an object's `ObjectInfo`. Users' attributes begin with `USER_ATTR_PREFIX`.
pub const INFO_ATTR: Bytes = Bytes::from_static(b"i");

/// What precedes the names of users' attributes in the store.
pub const USER_ATTR_PREFIX: u8 = b'u';

/// The name under which the store keeps the user's attribute `name`.
pub fn user_attr(name: &[u8]) -> Bytes {
    let mut full = Vec::with_capacity(name.len() + 1);
    full.push(USER_ATTR_PREFIX);
    full.extend_from_slice(name);
    full.into()
}

/// The record that is kept with an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectInfo {
    /// The version of its last change in the PG's log.
    pub version: EVersion,
    /// The version that clients see, assert and wait for.
    pub user_version: u64,
    /// When it was changed, as the client says.
    pub mtime: UTime,
    /// The newest of CephFS's truncations that it has seen.
    pub truncate_seq: u32,
    /// The size that one cut it to.
    pub truncate_size: u64,
    /// Who watches it; none, not an empty map, where nobody does. Clones are not watched.
    pub watchers: Option<Arc<Watchers>>,
    /// Whether the object is deleted and only its clones are left.
    pub whiteout: bool,
    /// Its past; none where it has never seen a snapshot. Clones have none: the head keeps it for all.
    pub clones: Option<Arc<Clones>>,
}

/// What an encoded record begins with: whether watchers follow. Added to that, whether the past does.
const PLAIN: u8 = 1;
const WATCHED: u8 = 2;
const WITH_PAST: u8 = 4;

impl Encode for ObjectInfo {
    fn encode(&self, e: &mut Encoder) {
        let past = if self.clones.is_some() { WITH_PAST } else { 0 };
        e.u8(past | if self.watchers.is_some() { WATCHED } else { PLAIN });
        e.put(&self.version);
        e.u64(self.user_version);
        e.put(&self.mtime);
        e.u32(self.truncate_seq);
        e.u64(self.truncate_size);
        if let Some(watchers) = &self.watchers {
            e.put(&**watchers);
        }
        if let Some(clones) = &self.clones {
            e.bool(self.whiteout);
            e.put(&**clones);
        }
    }
}

impl Decode for ObjectInfo {
    const MIN_BYTES: usize = 41;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let format = d.u8()?;
        let watched = match format & !WITH_PAST {
            PLAIN => false,
            WATCHED => true,
            _ => return Err(Malformed::new("object info", "has an unknown version")),
        };
        let mut info = ObjectInfo {
            version: d.get()?,
            user_version: d.u64()?,
            mtime: d.get()?,
            truncate_seq: d.u32()?,
            truncate_size: d.u64()?,
            ..ObjectInfo::default()
        };
        if watched {
            info.watchers = Some(Arc::new(d.get()?));
        }
        if format & WITH_PAST != 0 {
            info.whiteout = d.bool()?;
            info.clones = Some(Arc::new(d.get()?));
        }
        Ok(info)
    }
}

/// About what a watcher takes in the record.
const WATCHER_BYTES: usize = 64;

impl ObjectInfo {
    /// Puts a watcher into the record, or another in its place.
    pub fn add_watcher(&mut self, name: WatchName, record: WatchRecord) {
        Arc::make_mut(self.watchers.get_or_insert_default()).insert(name, record);
    }

    /// Takes a watcher out of the record; false if it was not there.
    pub fn remove_watcher(&mut self, name: &WatchName) -> bool {
        if !self.is_watched_by(name) {
            return false;
        }
        let watchers = Arc::make_mut(self.watchers.get_or_insert_default());
        watchers.remove(name);
        if watchers.is_empty() {
            self.watchers = None;
        }
        true
    }

    /// Whether this watcher is in the record.
    pub fn is_watched_by(&self, name: &WatchName) -> bool {
        self.watchers.as_ref().is_some_and(|watchers| watchers.contains_key(name))
    }

    /// The encoding, in one allocation of the right size for an object without a past.
    pub fn to_attr(&self) -> Bytes {
        let watched = self.watchers.as_ref().map_or(0, |watchers| 4 + watchers.len() * WATCHER_BYTES);
        let mut e = Encoder::with_capacity(Self::MIN_BYTES + watched);
        self.encode(&mut e);
        e.finish()
    }
}

/// An object as the next op finds it: what the store has, with the writes before it that are still in flight.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectState {
    /// Whether it exists; a whiteout does not.
    pub exists: bool,
    /// Its size in bytes.
    pub size: u64,
    /// Its record.
    pub info: ObjectInfo,
}

impl ObjectState {
    /// The state that a store's answer shows; the request must have asked for `INFO_ATTR`.
    ///
    /// An object without a readable record is corrupt: the store is to blame.
    pub fn of(view: &ObjectView) -> Result<ObjectState, Malformed> {
        if !view.exists {
            return Ok(ObjectState::default());
        }
        let attr = view.attr(&INFO_ATTR).ok_or(Malformed::new("object", "has no record"))?;
        let info = ObjectInfo::from_bytes(attr)?;
        Ok(ObjectState { exists: !info.whiteout, size: view.size, info })
    }

    /// Whether the store has something of it, be it only a whiteout.
    pub fn is_stored(&self) -> bool {
        self.exists || self.info.whiteout
    }

    /// What it and its clones count for.
    pub fn totals(&self) -> Totals {
        let (clones, own_bytes) = match &self.info.clones {
            Some(clones) => (clones.list.len() as u64, clones.own_bytes()),
            None => (0, 0),
        };
        Totals { objects: u64::from(self.is_stored()) + clones, clones, bytes: self.size + own_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Epoch;

    #[test]
    fn records_round_trip() {
        let info = ObjectInfo {
            version: EVersion::new(Epoch(3), 9),
            user_version: 8,
            mtime: UTime { secs: 1, nanos: 2 },
            truncate_seq: 3,
            truncate_size: 4,
            ..ObjectInfo::default()
        };
        assert_eq!(info.to_attr().len(), ObjectInfo::MIN_BYTES);
        assert_eq!(ObjectInfo::from_bytes(&info.to_attr()), Ok(info.clone()));
        let mut watched = info.clone();
        let name = WatchName { cookie: 7, entity: wire::types::EntityName::client(base::GlobalId(4)) };
        let addr = wire::types::EntityAddr::msgr2("127.0.0.1:0".parse().expect("an address"), 9);
        watched.add_watcher(name, WatchRecord { timeout_s: 30, addr });
        assert_eq!(ObjectInfo::from_bytes(&watched.to_attr()), Ok(watched.clone()));
        assert!(watched.remove_watcher(&name) && !watched.remove_watcher(&name));
        assert_eq!(watched, info, "an unwatched object's record is as it was");
        let clones = Some(Arc::new(Clones { seq: base::SnapId(3), list: Vec::new() }));
        let info = ObjectInfo { whiteout: true, clones, ..info };
        assert_eq!(ObjectInfo::from_bytes(&info.to_attr()), Ok(info));
    }
}
