//! What every op needs to know of its object: existence, size, versions.
//!
//! Owns the encoding of the record that travels with the object as an attribute (ours, version 1). Ceph's
//! counterpart is `object_info_t` (v16.2 `src/osd/osd_types.h`).

use base::EVersion;
use bytes::Bytes;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
}

impl Encode for ObjectInfo {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.put(&self.version);
        e.u64(self.user_version);
        e.put(&self.mtime);
        e.u32(self.truncate_seq);
        e.u64(self.truncate_size);
    }
}

impl Decode for ObjectInfo {
    const MIN_BYTES: usize = 41;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("object info", "has an unknown version"));
        }
        Ok(ObjectInfo {
            version: d.get()?,
            user_version: d.u64()?,
            mtime: d.get()?,
            truncate_seq: d.u32()?,
            truncate_size: d.u64()?,
        })
    }
}

impl ObjectInfo {
    /// The encoding, in one allocation of the right size.
    pub fn to_attr(&self) -> Bytes {
        let mut e = Encoder::with_capacity(Self::MIN_BYTES);
        self.encode(&mut e);
        e.finish()
    }
}

/// An object as the next op finds it: what the store has, with the writes before it that are still in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectState {
    /// Whether it exists.
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
        Ok(ObjectState { exists: true, size: view.size, info: ObjectInfo::from_bytes(attr)? })
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
        };
        assert_eq!(info.to_attr().len(), ObjectInfo::MIN_BYTES);
        assert_eq!(ObjectInfo::from_bytes(&info.to_attr()), Ok(info));
    }
}
