//! What a decoded map must satisfy before anything walks or maps with it.
//!
//! Ceph trusts its monitor and follows whatever ids it finds; we refuse maps that would lead out of the tables, round in
//! circles or through more paths than `limits` allow. Maps that Ceph's own tools make pass unchanged, except that
//! choose args which lost their bucket are dropped and mis-sized weight sets are fitted, as Ceph does after decoding
//! (v16.2 `CrushWrapper::update_choose_args`).

use crate::bucket::{Algorithm, Weights};
use crate::codec::bad;
use crate::hash::RJENKINS1;
use crate::limits::{CLASSES_MAX, DEPTH_MAX, WALK_NODES_MAX};
use crate::map::{CrushMap, ITEM_UNDECIDED, slot};
use wire::codec::Malformed;

/// How far down a bucket reaches.
#[derive(Clone, Copy, Default)]
struct Extent {
    /// Levels of buckets at and below it.
    depth: u32,
    /// Nodes that a walk from it visits.
    nodes: u64,
}

impl CrushMap {
    /// Establishes the map's invariants, or says which one does not hold.
    pub(crate) fn validate(&mut self) -> Result<(), Malformed> {
        if self.class_names.len() > CLASSES_MAX {
            return Err(bad("has too many device classes"));
        }
        // Edits give shadows their old ids again, so these have to be ids.
        let shadows = self.class_buckets.values().flat_map(|shadows| shadows.values());
        if self.class_buckets.keys().chain(shadows).any(|id| self.bucket(*id).is_none()) {
            return Err(bad("has a device class with a bucket that is not there"));
        }
        self.check_structure()?;
        self.count_devices();
        self.fit_choose_args();
        Ok(())
    }

    /// Refuses buckets that cannot be drawn from, items that are not there, and what `measure` refuses.
    pub(crate) fn check_structure(&self) -> Result<(), Malformed> {
        for bucket in self.buckets() {
            if bucket.kind == 0 {
                return Err(bad("has a bucket of the devices' type"));
            }
            if bucket.hash != RJENKINS1 {
                return Err(bad("has a bucket with an unknown hash"));
            }
            if let Weights::Tree { nodes } = &bucket.weights {
                let leaves = if bucket.items.is_empty() { 0 } else { bucket.items.len().next_power_of_two() * 2 };
                // Trees that shrank keep their nodes, so there may be more than needed.
                if nodes.len() < leaves || (!nodes.is_empty() && !nodes.len().is_power_of_two()) {
                    return Err(bad("has a tree bucket whose nodes do not fit its items"));
                }
            }
            if bucket.items.iter().any(|item| *item < 0 && self.bucket(*item).is_none()) {
                return Err(bad("has a bucket with an item that is not there"));
            }
            if bucket.items.iter().any(|item| *item >= ITEM_UNDECIDED) {
                return Err(bad("has a bucket with an impossible device"));
            }
        }
        self.measure()
    }

    /// Makes `max_devices` one more than the highest device in any bucket or with a name. Ceph does the same after
    /// decoding (`CrushWrapper::finalize`), whatever the bytes say: an OSD has a name and a class before it is placed.
    pub(crate) fn count_devices(&mut self) {
        let placed = self.buckets().flat_map(|bucket| bucket.items.iter().copied()).max();
        let named = self.item_names.keys().next_back().copied();
        self.max_devices = placed.max(named).map_or(0, |highest| highest.saturating_add(1).max(0));
    }

    /// Refuses cycles, deep nesting and too many paths.
    fn measure(&self) -> Result<(), Malformed> {
        let mut extents: Vec<Option<Extent>> = vec![None; self.buckets.len()];
        // The path down from where the search began: slot, next item to look at, extent so far.
        let mut path: Vec<(usize, usize, Extent)> = Vec::new();
        for start in 0..self.buckets.len() {
            if self.buckets[start].is_none() || extents[start].is_some() {
                continue;
            }
            path.push((start, 0, Extent::default()));
            while let Some((at, next, extent)) = path.last_mut() {
                let items = self.buckets[*at].as_ref().map_or(&[][..], |bucket| &bucket.items);
                let Some(item) = items.get(*next) else {
                    let whole = Extent { depth: extent.depth + 1, nodes: extent.nodes.saturating_add(1) };
                    if whole.depth > DEPTH_MAX || whole.nodes > WALK_NODES_MAX {
                        return Err(bad("nests its buckets too deeply or links them too often"));
                    }
                    extents[*at] = Some(whole);
                    path.pop();
                    if let Some((_, _, parent)) = path.last_mut() {
                        parent.depth = parent.depth.max(whole.depth);
                        parent.nodes = parent.nodes.saturating_add(whole.nodes);
                    }
                    continue;
                };
                *next += 1;
                match slot(*item) {
                    None => extent.nodes = extent.nodes.saturating_add(1),
                    Some(child) => match extents[child] {
                        Some(known) => {
                            extent.depth = extent.depth.max(known.depth);
                            extent.nodes = extent.nodes.saturating_add(known.nodes);
                        }
                        // A path longer than the limit holds a cycle or is too deep; both are refused.
                        None if path.len() >= DEPTH_MAX as usize => {
                            return Err(bad("has a bucket that contains itself or is nested too deeply"));
                        }
                        None => path.push((child, 0, Extent::default())),
                    },
                }
            }
        }
        let roots = self.roots();
        let total = roots.iter().filter_map(|root| extents[slot(*root)?]).map(|extent| extent.nodes).sum::<u64>();
        if total > WALK_NODES_MAX {
            return Err(bad("links its buckets too often"));
        }
        Ok(())
    }

    /// Drops choose args without a straw2 bucket and fits the others to their buckets.
    pub(crate) fn fit_choose_args(&mut self) {
        let mut all = core::mem::take(&mut self.choose_args);
        for args in all.values_mut() {
            args.by_slot.retain(|slot, arg| {
                let bucket = self.buckets.get(*slot as usize).and_then(Option::as_ref);
                let Some(bucket) = bucket.filter(|bucket| bucket.algorithm() == Algorithm::Straw2) else {
                    return false;
                };
                arg.weight_sets.iter_mut().for_each(|set| set.resize(bucket.items.len(), 0));
                if arg.ids.len() != bucket.items.len() {
                    arg.ids.clear();
                }
                !arg.is_empty()
            });
        }
        self.choose_args = all;
    }
}
