//! Following the cluster's map: full maps and incrementals in, one map after the other out.
//!
//! Owns the newest blobs, for clients that are behind. Refuses maps of other clusters, maps that do not apply and maps
//! whose checksum does not match; a gap is bridged by a full map or asked for.

use crate::limits::{INCREMENTALS_KEPT_MAX, MAPS_TOLD_MAX};
use base::{Epoch, PoolId};
use bytes::Bytes;
use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::Decode;
use wire::messages::OsdMap as OsdMapMessage;
use wire::types::Uuid;

/// A map that follows.
#[derive(Debug)]
pub struct NextMap {
    /// The map.
    pub map: Arc<OsdMap>,
    /// Whether no epoch lies between it and the one before.
    pub contiguous: bool,
}

/// The newest maps as blobs.
#[derive(Debug, Default)]
pub struct MapBlobs {
    incrementals: BTreeMap<Epoch, Bytes>,
    full: Bytes,
    full_epoch: Epoch,
}

impl MapBlobs {
    /// The newest map, whole.
    pub fn full(&self) -> &Bytes {
        &self.full
    }

    /// How many maps are held, and their bytes.
    pub fn held(&self) -> (usize, usize) {
        let bytes = self.incrementals.values().map(Bytes::len).sum::<usize>() + self.full.len();
        (self.incrementals.len() + 1, bytes)
    }

    /// The oldest epoch that others can be told of.
    pub fn oldest(&self) -> Epoch {
        self.incrementals.first_key_value().map_or(self.full_epoch, |(first, _)| *first)
    }

    /// Notes the newest map.
    pub fn set_full(&mut self, epoch: Epoch, blob: Bytes) {
        self.full_epoch = epoch;
        self.full = blob;
    }

    fn keep(&mut self, epoch: Epoch, blob: &Bytes) {
        // A copy: a slice would keep its whole message alive.
        self.incrementals.insert(epoch, Bytes::copy_from_slice(blob));
        while self.incrementals.len() > INCREMENTALS_KEPT_MAX {
            self.incrementals.pop_first();
        }
    }

    /// What brings a client that has `epoch` up to date: every epoch in a message of its own, as of several in one librados
    /// 16.2 looks at the first alone for a command that another OSD is to answer; or the newest map where it lacks many.
    pub fn since(&self, fsid: Uuid, epoch: Epoch) -> Vec<OsdMapMessage> {
        let empty = OsdMapMessage { fsid, newest: self.full_epoch, oldest: self.oldest(), ..OsdMapMessage::default() };
        let missing = self.full_epoch.0.saturating_sub(epoch.0) as usize;
        let kept = self.incrementals.range(epoch.next()..=self.full_epoch);
        if epoch.0 > 0 && missing <= MAPS_TOLD_MAX && kept.clone().count() == missing {
            let one = |(at, blob): (&Epoch, &Bytes)| [(*at, blob.clone())].into();
            kept.map(|next| OsdMapMessage { incremental: one(next), ..empty.clone() }).collect()
        } else {
            vec![OsdMapMessage { full: [(self.full_epoch, self.full.clone())].into(), ..empty }]
        }
    }
}

/// What a message of maps led to.
#[derive(Debug, Default)]
pub struct Followed {
    /// The maps, in order.
    pub maps: Vec<NextMap>,
    /// Why no more of the message was used, if that was not its end.
    pub trouble: Option<String>,
}

/// Applies a message to the newest map.
pub fn follow(blobs: &mut MapBlobs, newest: &Arc<OsdMap>, fsid: Uuid, message: &OsdMapMessage) -> Followed {
    let mut out = Followed::default();
    if message.fsid != fsid {
        out.trouble = Some(format!("maps of cluster {}", message.fsid));
        return out;
    }
    let mut current = Arc::clone(newest);
    loop {
        let next = current.epoch.next();
        let step = if let Some(blob) = message.incremental.get(&next).filter(|_| current.epoch.0 > 0 || next.0 == 1) {
            apply(&current, blob).map(|map| (map, true)).inspect(|_| blobs.keep(next, blob))
        } else if let Some((epoch, blob)) = message.full.range(next..).next() {
            let contiguous = *epoch == next;
            OsdMap::from_bytes(blob).map(|map| (map, contiguous)).map_err(|error| error.to_string())
        } else {
            return out;
        };
        match step {
            Ok((map, contiguous)) if map.epoch > current.epoch => {
                if !contiguous {
                    blobs.incrementals.clear();
                }
                current = Arc::new(map);
                out.maps.push(NextMap { map: Arc::clone(&current), contiguous });
            }
            Ok((map, _)) => {
                out.trouble = Some(format!("a map of epoch {} under another number", map.epoch));
                return out;
            }
            Err(why) => {
                out.trouble = Some(why);
                return out;
            }
        }
    }
}

fn apply(current: &Arc<OsdMap>, blob: &Bytes) -> Result<OsdMap, String> {
    let inc = Incremental::from_bytes(blob).map_err(|error| error.to_string())?;
    let mut map = OsdMap::clone(current);
    map.apply(&inc).map_err(|error| error.to_string())?;
    Ok(map)
}

/// Whether a pool of the map may be worked with at all; erasure-coded ones may not.
pub fn is_served(map: &OsdMap, pool: PoolId) -> bool {
    map.pool(pool).is_some_and(|pool| pool.kind == maps::pool::PoolKind::Replicated)
}
