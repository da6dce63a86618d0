//! Weight sets: `osd crush weight-set ...`.
//!
//! Follows Ceph v16.2 `CrushWrapper::create_choose_args`, `choose_args_adjust_item_weight`. A set begins with the
//! buckets' own weights, and the same sums hold in it as among those.

use super::{EditError, Result};
use crate::bucket::{Algorithm, Bucket};
use crate::choose_args::{ChooseArg, ChooseArgs};
use crate::map::{CrushMap, slot};

impl CrushMap {
    /// Makes a weight set, for a pool by its id or for all without one of their own ([`crate::choose_args::DEFAULT`]),
    /// with weights for so many positions of a result. False if there is one.
    pub fn create_weight_set(&mut self, key: i64, positions: usize) -> bool {
        if self.choose_args.contains_key(&key) {
            return false;
        }
        let mut args = ChooseArgs::default();
        for bucket in self.buckets().filter(|bucket| bucket.algorithm() == Algorithm::Straw2) {
            let weights: Vec<u32> = bucket.weighted_items().map(|(_, weight)| weight).collect();
            let arg = ChooseArg { weight_sets: vec![weights; positions], ids: Vec::new() };
            args.by_slot.insert(slot(bucket.id()).expect("a bucket has a slot") as u32, arg);
        }
        self.choose_args.insert(key, args);
        true
    }

    /// Removes a weight set. False if there is none.
    pub fn remove_weight_set(&mut self, key: i64) -> bool {
        self.choose_args.remove(&key).is_some()
    }

    /// For how many positions a weight set has weights; none if there is no such set.
    pub fn weight_set_positions(&self, key: i64) -> Option<usize> {
        self.choose_args.get(&key).map(ChooseArgs::positions)
    }

    /// Sets an item's weights (16.16), one for each position, in a weight set and mends its sums.
    pub fn reweight_in_weight_set(&mut self, key: i64, name: &str, weights: &[u32]) -> Result<()> {
        let item = self.require_item(name)?;
        self.edit(|map| {
            let mut found = false;
            for holder in map.holders(item) {
                let position = map.bucket(holder).and_then(|bucket| bucket.position(item));
                let arg = map.choose_args.get_mut(&key).and_then(|args| args.arg_mut(holder));
                let (Some(arg), Some(position)) = (arg, position) else { continue };
                arg.weight_sets.iter_mut().zip(weights).for_each(|(set, weight)| set[position] = *weight);
                map.mend_weight_sets(holder);
                found = true;
            }
            if found { Ok(()) } else { Err(EditError::NotInTree(item)) }
        })
    }

    /// Lets two buckets have each other's weights in all sets, as their items have changed places.
    pub(super) fn swap_weight_sets(&mut self, one: i32, other: i32) {
        let slots = [one, other].map(|id| slot(id).expect("a bucket has a slot") as u32);
        for args in self.choose_args.values_mut() {
            let of = slots.map(|at| args.by_slot.remove(&at));
            args.by_slot.extend([slots[1], slots[0]].into_iter().zip(of).filter_map(|(at, arg)| Some((at, arg?))));
        }
        self.fit_choose_args();
    }

    /// Makes every straw bucket a straw2 one (`osd crush set-all-straw-buckets-to-straw2`). How many there were.
    pub fn straw_to_straw2(&mut self) -> Result<usize> {
        let straws = self.buckets().filter(|bucket| bucket.algorithm() == Algorithm::Straw);
        let straws: Vec<i32> = straws.map(Bucket::id).collect();
        self.edit(|map| {
            for id in &straws {
                let old = map.bucket(*id).expect("the list is of buckets");
                let items: Vec<(i32, u32)> = old.weighted_items().collect();
                let new = Bucket::new(*id, old.kind(), Algorithm::Straw2, &items, map.tunables.straw_calc_version)?;
                *map.bucket_mut(*id).expect("it was just there") = new;
            }
            Ok(straws.len())
        })
    }
}
