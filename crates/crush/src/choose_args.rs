//! Alternative weights and ids for placement: what the balancer writes so that weights that users see stay as they are.
//!
//! Follows Ceph v16.2 `src/crush/crush.h` (`crush_choose_arg`) and `CrushWrapper::choose_args_get_with_fallback`.
//! Invariant, held by the map: the argument of a bucket has as many weights per set (and ids, if any) as the bucket
//! has items, and only straw2 buckets have any.

use std::collections::BTreeMap;

/// The key of the set that pools without one of their own use ("compat" in Ceph's tools).
pub const DEFAULT: i64 = -1;

/// What to use instead of a bucket's own weights and ids while choosing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChooseArg {
    /// One vector of weights (16.16) per position in the result; positions past the end use the last one. Empty: the
    /// bucket's own.
    pub weight_sets: Vec<Vec<u32>>,
    /// Ids to hash instead of the items'. Empty: the bucket's own.
    pub ids: Vec<i32>,
}

impl ChooseArg {
    /// Changes nothing.
    pub fn is_empty(&self) -> bool {
        self.weight_sets.is_empty() && self.ids.is_empty()
    }

    /// The weights for a position of the result.
    #[inline]
    pub(crate) fn weights(&self, position: usize) -> Option<&[u32]> {
        let last = self.weight_sets.len().checked_sub(1)?;
        Some(&self.weight_sets[position.min(last)])
    }
}

/// One named set of arguments, by bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChooseArgs {
    /// By bucket slot (-1 - id): the order of encoding. No entry is empty.
    pub(crate) by_slot: BTreeMap<u32, ChooseArg>,
}

impl ChooseArgs {
    /// The argument of bucket `id`, if it has one.
    #[inline]
    pub fn arg(&self, id: i32) -> Option<&ChooseArg> {
        self.by_slot.get(&slot(id)?)
    }

    pub(crate) fn arg_mut(&mut self, id: i32) -> Option<&mut ChooseArg> {
        self.by_slot.get_mut(&slot(id)?)
    }

    /// Every bucket id with an argument, in the order of encoding.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &ChooseArg)> {
        self.by_slot.iter().filter_map(|(slot, arg)| Some((i32::try_from(-1 - i64::from(*slot)).ok()?, arg)))
    }

    /// How many positions the sets have: Ceph's tools give all the same number; 1 when there are none.
    pub(crate) fn positions(&self) -> usize {
        self.by_slot.values().map(|arg| arg.weight_sets.len()).find(|len| *len > 0).unwrap_or(1)
    }
}

fn slot(id: i32) -> Option<u32> {
    u32::try_from(-1 - i64::from(id)).ok()
}
