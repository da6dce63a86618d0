//! Where every PG has been: its current interval, and those before it that peering may have to ask about.
//!
//! An interval is a run of maps in which a PG's up and acting sets, its primary and its pool's sizes stay the same
//! (v16.2 `src/osd/osd_types.cc`, `PastIntervals::check_new_interval`). Every OSD follows every PG, so that one that
//! becomes primary knows whom to ask; the record is kept on disk and goes on after a restart, because maps come
//! without gaps. After a gap, what was before is unknown and says so.
//!
//! Invariants: past intervals are in order, do not overlap, and end before the current one; `known_since` is not
//! after the first of them.

use crate::limits::PAST_INTERVALS_MAX;
use base::{Bug, Epoch, OsdId, PgId};
use maps::mapping::Mapping;
use maps::pool::ancestor;
use maps::{OsdMap, PgPool, UpActing};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// A past interval in which the PG may have taken writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastInterval {
    /// Its first map.
    pub first: Epoch,
    /// Its last.
    pub last: Epoch,
    /// Who served it.
    pub acting: Vec<OsdId>,
}

impl Encode for PastInterval {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.first);
        e.put(&self.last);
        e.put(&self.acting);
    }
}

impl Decode for PastInterval {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(PastInterval { first: d.get()?, last: d.get()?, acting: d.get()? })
    }
}

/// One PG's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgHistory {
    /// Where it is now.
    pub current: UpActing,
    /// The first map of the current interval, as far as known.
    pub since: Epoch,
    /// Since when the acting primary has been the same, as far as known (Ceph's `same_primary_since`). What was sent by
    /// an older map its client has sent again since, maybe to another OSD. Not stored: who talks to this life of the
    /// OSD has a map that shows it, newer than what was stored before.
    pub led_since: Epoch,
    /// Since when those who should serve it have been the same, as far as known (Ceph's `same_up_since`). Not stored: only
    /// shown.
    pub up_since: Epoch,
    /// The first map that is accounted for: nothing is known of what was before.
    pub known_since: Epoch,
    /// Whether the PG was created in `known_since`, so that nothing was before.
    pub born_known: bool,
    /// The intervals before that may have taken writes, oldest first.
    pub past: VecDeque<PastInterval>,
}

impl PgHistory {
    /// Whether everything that happened in or after `epoch` is known.
    pub fn covers(&self, epoch: Epoch) -> bool {
        self.born_known || self.known_since <= epoch
    }

    fn forget_oldest(&mut self) {
        while self.past.len() > PAST_INTERVALS_MAX {
            let gone = self.past.pop_front().expect("it is not empty");
            self.known_since = gone.last.next();
            self.born_known = false;
        }
    }
}

/// The histories of all PGs.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    mapping: Mapping,
    histories: BTreeMap<PgId, PgHistory>,
    epoch: Epoch,
}

/// What a map has changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// PGs in a new interval, or new.
    pub moved: Vec<PgId>,
    /// PGs that no longer exist.
    pub gone: Vec<PgId>,
}

impl Placement {
    /// No PGs.
    pub fn new() -> Placement {
        Placement::default()
    }

    /// A PG's history.
    pub fn get(&self, pg: PgId) -> Option<&PgHistory> {
        self.histories.get(&pg)
    }

    /// All PGs in order.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, &PgHistory)> {
        self.histories.iter().map(|(pg, history)| (*pg, history))
    }

    /// Follows from `before` (none for the first map ever) to `map`. `contiguous` says that no map lies between.
    pub fn follow(&mut self, before: Option<&OsdMap>, map: &Arc<OsdMap>, contiguous: bool) -> Moved {
        if let Some(before) = before {
            self.split_histories(before, map);
        }
        let mut candidates = self.mapping.update(map);
        candidates.extend(self.histories.keys().filter(|pg| !map.pg_exists(**pg)));
        if let Some(before) = before {
            candidates.extend(self.resized(before, map));
        } else {
            // The first map since a restart: the mapping names every PG, the histories know which have moved.
        }
        candidates.sort_unstable();
        candidates.dedup();
        let mut out = Moved::default();
        for pg in candidates {
            match self.mapping.get(pg).cloned() {
                None => {
                    if self.histories.remove(&pg).is_some() {
                        out.gone.push(pg);
                    }
                }
                Some(now) => {
                    if self.follow_one(pg, now, before, map, contiguous) {
                        out.moved.push(pg);
                    }
                }
            }
        }
        self.epoch = map.epoch;
        out
    }

    /// A PG that comes of a split has been where the PG was of which it was a part.
    fn split_histories(&mut self, before: &OsdMap, map: &OsdMap) {
        for (id, pool) in &map.pools {
            let Some(old) = before.pool(*id).filter(|old| old.pg_num < pool.pg_num) else { continue };
            for pg in (old.pg_num..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
                if let Some(history) = self.histories.get(&ancestor(pg, old.pg_num)).cloned() {
                    // Whatever named this PG before was sent to one of the same number that is gone.
                    self.histories.entry(pg).or_insert(PgHistory { led_since: map.epoch, ..history });
                }
            }
        }
    }

    /// PGs whose pool changed its sizes or its number of PGs: an interval ends although nobody moved.
    fn resized(&self, before: &OsdMap, map: &OsdMap) -> Vec<PgId> {
        let sizes = |p: &PgPool| (p.size, p.min_size, p.pg_num, p.pg_num_pending);
        let changed = map.pools.iter().filter(|(id, pool)| {
            before.pools.get(id).is_some_and(|old| !Arc::ptr_eq(old, pool) && sizes(old) != sizes(pool))
        });
        changed.flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed))).collect()
    }

    /// Ends a PG's interval if it has to; whether a new one begins.
    fn follow_one(&mut self, pg: PgId, now: UpActing, before: Option<&OsdMap>, map: &OsdMap, contiguous: bool) -> bool {
        let epoch = map.epoch;
        let Some(history) = self.histories.get_mut(&pg) else {
            // A pool that was not in the map just before is new in this one.
            let new_pool = before.map_or(epoch.0 <= 1, |b| b.pool(pg.pool).is_none());
            let born_known = contiguous && new_pool;
            let history = PgHistory {
                current: now,
                since: epoch,
                led_since: epoch,
                up_since: epoch,
                known_since: epoch,
                born_known,
                past: VecDeque::new(),
            };
            self.histories.insert(pg, history);
            return true;
        };
        let same_sizes = before.is_none_or(|before| is_same_for(pg, before, map));
        if contiguous && history.current == now && same_sizes {
            return false;
        }
        if contiguous {
            if before.is_some_and(|b| may_have_written(history, pg, b)) {
                let acting = core::mem::take(&mut history.current.acting);
                let last = Epoch(epoch.0 - 1);
                history.past.push_back(PastInterval { first: history.since, last, acting });
                history.forget_oldest();
            }
        } else {
            history.past.clear();
            history.known_since = epoch;
            history.born_known = false;
        }
        if !contiguous || history.current.acting_primary != now.acting_primary {
            history.led_since = epoch;
        }
        if !contiguous || (history.current.up_primary, &history.current.up) != (now.up_primary, &now.up) {
            history.up_since = epoch;
        }
        history.current = now;
        history.since = epoch;
        true
    }

    /// The histories as they are kept on disk.
    pub fn to_bytes(&self) -> bytes::Bytes {
        let mut e = Encoder::with_capacity(self.histories.len() * 64);
        e.u8(1);
        e.put(&self.epoch);
        e.len(self.histories.len());
        for (pg, h) in &self.histories {
            e.put(pg);
            e.put(&h.current.up);
            e.put(&h.current.up_primary);
            e.put(&h.current.acting);
            e.put(&h.current.acting_primary);
            e.put(&h.since);
            e.put(&h.known_since);
            e.bool(h.born_known);
            e.len(h.past.len());
            h.past.iter().for_each(|p| e.put(p));
        }
        e.finish()
    }

    /// Reads what `to_bytes` wrote. `map` is the map of that moment.
    pub fn from_bytes(bytes: &bytes::Bytes, map: &Arc<OsdMap>) -> Result<Placement, Malformed> {
        let mut d = Decoder::shared(bytes);
        if d.u8()? != 1 {
            return Err(Malformed::new("placement history", "has an unknown version"));
        }
        let epoch: Epoch = d.get()?;
        if epoch != map.epoch {
            return Err(Malformed::new("placement history", "is of another map"));
        }
        let mut histories = BTreeMap::new();
        for _ in 0..d.len(42)? {
            let pg: PgId = d.get()?;
            let current = UpActing { up: d.get()?, up_primary: d.get()?, acting: d.get()?, acting_primary: d.get()? };
            let (since, known_since, born_known) = (d.get()?, d.get()?, d.bool()?);
            let mut past: VecDeque<PastInterval> = d.get::<Vec<PastInterval>>()?.into();
            if Bug::PastNotKept.is_planted() {
                past.clear();
            }
            let (led_since, up_since) = (since, since);
            histories.insert(pg, PgHistory { current, since, led_since, up_since, known_since, born_known, past });
        }
        d.finish("placement history")?;
        let mut mapping = Mapping::new();
        mapping.update(map);
        Ok(Placement { mapping, histories, epoch })
    }
}

/// Whether a PG's pool asks the same of it in both maps: its sizes, and no part in a split or merge.
fn is_same_for(pg: PgId, before: &OsdMap, map: &OsdMap) -> bool {
    let (Some(old), Some(new)) = (before.pools.get(&pg.pool), map.pools.get(&pg.pool)) else { return false };
    (old.size, old.min_size, old.is_premerge(pg)) == (new.size, new.min_size, new.is_premerge(pg))
        && !old.is_resized_to(new.pg_num, pg)
}

/// Whether writes may have been acknowledged in the interval that ends with the map `last`: it had enough members,
/// and its primary had told the monitor that it lived in it.
fn may_have_written(history: &PgHistory, pg: PgId, last: &OsdMap) -> bool {
    let Some(pool) = last.pools.get(&pg.pool) else { return false };
    let primary = history.current.acting_primary;
    history.current.acting.len() >= usize::from(pool.min_size)
        && last.info(primary).is_some_and(|info| info.up_thru >= history.since && info.up_from <= history.since)
}
