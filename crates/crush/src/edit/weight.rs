//! Weights, and keeping the sums above them: `osd crush reweight`, `reweight-subtree`, `reweight-all`.
//!
//! Follows Ceph v16.2 `CrushWrapper::adjust_item_weight*`, `adjust_subtree_weight`, `reweight`. A bucket's weight as an
//! item of its parents is the sum of its own items, and the same holds for each position of weight sets.

use super::{Location, Result};
use crate::bucket::Bucket;
use crate::choose_args::ChooseArg;
use crate::map::CrushMap;
use std::collections::VecDeque;

impl CrushMap {
    /// The weight (16.16) of an item where it is first found; a bucket's own sum.
    pub fn item_weight(&self, item: i32) -> Option<u32> {
        if let Some(bucket) = self.bucket(item) {
            return Some(bucket.weight);
        }
        self.buckets().find_map(|bucket| Some(bucket.item_weight(bucket.position(item)?)))
    }

    /// Sets an item's weight (16.16) wherever it is, shadow buckets and weight sets included.
    pub fn reweight_item(&mut self, name: &str, weight: u32) -> Result<()> {
        let item = self.require_item(name)?;
        self.edit(|map| {
            let holders = map.holders(item);
            if holders.is_empty() {
                return Err(super::EditError::NoSuchItem(name.to_owned()));
            }
            holders.into_iter().try_for_each(|holder| map.adjust_in_bucket(item, weight, holder, true))
        })
    }

    /// Sets the weight (16.16) of every device below a bucket. How many there are.
    pub fn reweight_subtree(&mut self, name: &str, weight: u32) -> Result<usize> {
        let root = self.require_bucket(name)?;
        self.edit(|map| {
            let mut changed = 0;
            let mut open = VecDeque::from([root]);
            while let Some(id) = open.pop_front() {
                let items = map.bucket(id).map_or(Vec::new(), |bucket| bucket.items.clone());
                for item in items {
                    if item < 0 {
                        open.push_back(item);
                    } else {
                        map.adjust_in_bucket(item, weight, id, true)?;
                        changed += 1;
                    }
                }
            }
            map.rebuild_shadows()?;
            Ok(changed)
        })
    }

    /// Recalculates every bucket's weight from its devices up.
    pub fn reweight_all(&mut self) -> Result<()> {
        self.edit(|map| {
            for root in map.nonshadow_roots() {
                for id in map.children_first(root) {
                    let bucket = map.bucket(id).expect("children_first lists buckets");
                    let weigh = |(item, weight)| (item, map.bucket(item).map_or(weight, |child| child.weight));
                    let items: Vec<(i32, u32)> = bucket.weighted_items().map(weigh).collect();
                    map.set_bucket_items(id, &items)?;
                    map.sum_weight_sets(id);
                }
            }
            map.rebuild_shadows()
        })
    }

    /// Makes a bucket's weight sets hold the sums of its children's.
    fn sum_weight_sets(&mut self, id: i32) {
        let items = self.bucket(id).map_or(Vec::new(), |bucket| bucket.items.clone());
        for args in self.choose_args.values_mut() {
            for (position, item) in items.iter().enumerate().filter(|(_, item)| **item < 0) {
                let sums: Vec<u32> = args.arg(*item).map_or(Vec::new(), position_sums);
                let Some(arg) = args.arg_mut(id) else { continue };
                for (set, sum) in arg.weight_sets.iter_mut().zip(sums) {
                    set[position] = sum;
                }
            }
        }
    }

    /// The buckets at and below `root`, each after all that it holds. Each once.
    fn children_first(&self, root: i32) -> Vec<i32> {
        let mut order = Vec::new();
        let mut path = vec![(root, 0)];
        while let Some((id, next)) = path.last_mut() {
            match self.bucket(*id).and_then(|bucket| bucket.items.get(*next)) {
                Some(item) => {
                    *next += 1;
                    if *item < 0 && !order.contains(item) {
                        path.push((*item, 0));
                    }
                }
                None => {
                    order.push(*id);
                    path.pop();
                }
            }
        }
        order
    }

    /// Sets an item's weight in the buckets that a location names. Whether it is in any.
    pub(super) fn adjust_in_location(
        &mut self,
        item: i32,
        weight: u32,
        location: &Location,
        weight_sets: bool,
    ) -> Result<bool> {
        let mut found = false;
        for name in location.values() {
            let Some(bucket) = self.item_id(name).and_then(|id| self.bucket(id)) else { continue };
            if bucket.position(item).is_some() {
                self.adjust_in_bucket(item, weight, bucket.id, weight_sets)?;
                found = true;
            }
        }
        Ok(found)
    }

    /// Sets an item's weight in one bucket, and in its weight sets if asked, and mends all sums above.
    pub(super) fn adjust_in_bucket(&mut self, item: i32, weight: u32, id: i32, weight_sets: bool) -> Result<()> {
        if weight_sets {
            let position = self.bucket(id).and_then(|bucket| bucket.position(item));
            for arg in self.choose_args.values_mut().filter_map(|args| args.arg_mut(id)) {
                for set in &mut arg.weight_sets {
                    set[position.expect("the caller looked the item up")] = weight;
                }
            }
        }
        self.set_weight(item, weight, id)?;
        self.carry_up(id)?;
        // A bucket that arrives brings the sums of its own sets; Ceph leaves them at 0 until the balancer runs.
        self.mend_weight_sets(if item < 0 && !weight_sets { item } else { id });
        Ok(())
    }

    /// Carries a bucket's sum up to all above it.
    pub(super) fn carry_up(&mut self, id: i32) -> Result<()> {
        let mut open = VecDeque::from([id]);
        while let Some(changed) = open.pop_front() {
            let weight = self.bucket(changed).map_or(0, Bucket::weight);
            for holder in self.holders(changed) {
                self.set_weight(changed, weight, holder)?;
                open.push_back(holder);
            }
        }
        Ok(())
    }

    /// Sets an item's weight in one bucket and nothing else. A uniform bucket's items change together.
    fn set_weight(&mut self, item: i32, weight: u32, id: i32) -> Result<()> {
        let bucket = self.bucket(id).expect("the caller looked the bucket up");
        let uniform = bucket.algorithm() == crate::bucket::Algorithm::Uniform;
        let items: Vec<(i32, u32)> = bucket
            .weighted_items()
            .map(|(other, old)| (other, if other == item || uniform { weight } else { old }))
            .collect();
        self.set_bucket_items(id, &items)
    }

    /// Carries the sums of a bucket's weight sets up. Like Ceph, gives every bucket of such a set a weight set first.
    pub(super) fn mend_weight_sets(&mut self, id: i32) {
        let keys: Vec<i64> = self.choose_args.keys().copied().collect();
        for key in keys {
            let has_sets =
                |map: &CrushMap, id| map.choose_args[&key].arg(id).is_some_and(|arg| !arg.weight_sets.is_empty());
            if !has_sets(self, id) {
                continue;
            }
            let mut open = VecDeque::from([id]);
            let lacking: Vec<i32> = self.buckets().map(Bucket::id).filter(|id| !has_sets(self, *id)).collect();
            for id in lacking {
                let bucket = self.bucket(id).expect("the list is of buckets");
                let weights: Vec<u32> = bucket.weighted_items().map(|(_, weight)| weight).collect();
                let args = self.choose_args.get_mut(&key).expect("the key is from the map");
                let sets = vec![weights; args.positions()];
                args.by_slot
                    .entry(crate::map::slot(id).expect("a bucket has a slot") as u32)
                    .or_default()
                    .weight_sets = sets;
                open.push_back(id);
            }
            while let Some(changed) = open.pop_front() {
                let sums = self.choose_args[&key].arg(changed).map_or(Vec::new(), position_sums);
                for holder in self.holders(changed) {
                    let position = self.bucket(holder).and_then(|bucket| bucket.position(changed));
                    let args = self.choose_args.get_mut(&key).expect("the key is from the map");
                    let (Some(arg), Some(position)) = (args.arg_mut(holder), position) else { continue };
                    for (set, sum) in arg.weight_sets.iter_mut().zip(&sums) {
                        set[position] = *sum;
                    }
                    open.push_back(holder);
                }
            }
        }
    }
}

/// The sum of each of a bucket's weight sets. Sums of hostile weights may leave 32 bits; they saturate.
pub(super) fn position_sums(arg: &ChooseArg) -> Vec<u32> {
    arg.weight_sets.iter().map(|set| set.iter().fold(0, |sum: u32, weight| sum.saturating_add(*weight))).collect()
}
