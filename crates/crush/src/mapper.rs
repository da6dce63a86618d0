//! Placement: runs a rule for a seed and gives devices.
//!
//! Follows Ceph v16.2 `src/crush/mapper.c` (`crush_do_rule`, `crush_choose_firstn`, `crush_choose_indep`, `is_out`):
//! which hash inputs are tried in which order is the protocol, since clients compute it too. Invariants: a mapping ends
//! after [`MAPPING_DRAWS_MAX`] draws at the latest, whatever tunables and rules say; it allocates only to grow its
//! [`Scratch`]; it never panics on a map that has passed decoding, nor on any weights.
//!
//! Read next: `choose` for one draw, `tests/crushtool.rs` for what holds this against Ceph.

use crate::bucket::Bucket;
use crate::choose::{choose, permuted};
use crate::choose_args::ChooseArgs;
use crate::hash::hash2;
use crate::limits::{MAPPING_DRAWS_MAX, RESULT_MAX};
use crate::map::{CrushMap, ITEM_NONE, ITEM_UNDECIDED};
use crate::rule::{Op, Step};

/// A weight of 1 in 16.16: a device that is in.
const IN: u32 = 0x1_0000;

/// Buffers that one mapping leaves to the next, so that computing many allocates once.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    held: Vec<i32>,
    chosen: Vec<i32>,
    leaves: Vec<i32>,
}

impl CrushMap {
    /// The devices that rule `rule` gives for seed `x`: at most `result_max`, [`ITEM_NONE`] where an indep rule leaves a
    /// gap. `weights` says per OSD how much of its share it takes (16.16: 0 is out, 0x10000 in); OSDs past its end are
    /// out. `choose_args` names the set to use (a pool's id; the default set stands in), or none. Empty for a rule that
    /// is not there. `result_max` above [`RESULT_MAX`] counts as that.
    pub fn do_rule(&self, rule: i32, x: u32, result_max: usize, weights: &[u32], choose_args: Option<i64>) -> Vec<i32> {
        let mut result = Vec::new();
        let args = choose_args.and_then(|key| self.choose_args_for(key));
        self.do_rule_into(rule, x, result_max, weights, args, &mut Scratch::default(), &mut result);
        result
    }

    /// [`CrushMap::do_rule`] for many seeds: replaces what is in `result` and reuses both buffers.
    #[allow(clippy::too_many_arguments)] // The mapping's inputs and its two buffers; a struct would be built per call.
    pub fn do_rule_into(
        &self,
        rule: i32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<&ChooseArgs>,
        scratch: &mut Scratch,
        result: &mut Vec<i32>,
    ) {
        result.clear();
        let Some(rule) = self.rule(rule) else { return };
        let result_max = result_max.min(RESULT_MAX);
        let mut mapping = Mapping { map: self, x, weights, choose_args, draws_left: MAPPING_DRAWS_MAX };
        let mut tries = Tries::new(self);
        let Scratch { held, chosen, leaves } = scratch;
        held.clear();
        for step in &rule.steps {
            match step.op {
                Op::TAKE if self.can_take(step.arg1) => {
                    held.clear();
                    held.push(step.arg1);
                }
                Op::CHOOSE_FIRSTN | Op::CHOOSE_INDEP | Op::CHOOSELEAF_FIRSTN | Op::CHOOSELEAF_INDEP => {
                    if held.is_empty() {
                        continue;
                    }
                    chosen.clear();
                    chosen.resize(result_max, ITEM_NONE);
                    leaves.clear();
                    leaves.resize(result_max, ITEM_NONE);
                    let len = mapping.choose_step(step, &tries, held, chosen, leaves);
                    let to_leaf = matches!(step.op, Op::CHOOSELEAF_FIRSTN | Op::CHOOSELEAF_INDEP);
                    core::mem::swap(held, if to_leaf { leaves } else { chosen });
                    held.truncate(len);
                }
                Op::EMIT => {
                    let room = result_max - result.len();
                    result.extend(held.iter().take(room));
                    held.clear();
                }
                _ => tries.set(step),
            }
        }
    }

    fn can_take(&self, item: i32) -> bool {
        if item >= 0 { item < self.max_devices } else { self.bucket(item).is_some() }
    }
}

/// How often and how to try: the tunables as the rule's steps so far have changed them.
struct Tries {
    total: u32,
    /// 0: not set by the rule.
    leaf: u32,
    local: u32,
    local_fallback: u32,
    vary_r: u32,
    stable: bool,
    descend_once: bool,
}

impl Tries {
    fn new(map: &CrushMap) -> Tries {
        let tunables = &map.tunables;
        Tries {
            // The tunable counts retries.
            total: tunables.choose_total_tries.wrapping_add(1),
            leaf: 0,
            local: tunables.choose_local_tries,
            local_fallback: tunables.choose_local_fallback_tries,
            vary_r: u32::from(tunables.chooseleaf_vary_r),
            stable: tunables.chooseleaf_stable != 0,
            descend_once: tunables.chooseleaf_descend_once != 0,
        }
    }

    fn set(&mut self, step: &Step) {
        let Ok(value) = u32::try_from(step.arg1) else { return };
        match step.op {
            Op::SET_CHOOSE_TRIES if value > 0 => self.total = value,
            Op::SET_CHOOSELEAF_TRIES if value > 0 => self.leaf = value,
            Op::SET_CHOOSE_LOCAL_TRIES => self.local = value,
            Op::SET_CHOOSE_LOCAL_FALLBACK_TRIES => self.local_fallback = value,
            Op::SET_CHOOSELEAF_VARY_R => self.vary_r = value,
            Op::SET_CHOOSELEAF_STABLE => self.stable = value != 0,
            _ => {}
        }
    }

    /// Tries of firstn's inner descent.
    fn firstn_leaf(&self) -> u32 {
        match self.leaf {
            0 if self.descend_once => 1,
            0 => self.total,
            leaf => leaf,
        }
    }
}

/// What one draw on the way down came to.
enum Found {
    /// An item of the wanted type.
    Item(i32),
    /// The bucket to draw from next.
    Down,
    /// An empty bucket: try again.
    Empty,
    /// A device where a bucket was wanted, or no draws left: this slot cannot be filled.
    Hopeless,
}

/// One run of a rule.
struct Mapping<'a> {
    map: &'a CrushMap,
    x: u32,
    weights: &'a [u32],
    choose_args: Option<&'a ChooseArgs>,
    draws_left: u64,
}

/// One call of firstn: how many, of which type, from where and how hard.
#[derive(Clone, Copy)]
struct Firstn<'a> {
    top: &'a Bucket,
    /// One more than the last rank to try.
    ranks: u32,
    kind: i32,
    tries: u32,
    /// The rank that the outer descent had.
    parent_r: u32,
}

/// One call of indep.
#[derive(Clone, Copy)]
struct Indep<'a> {
    top: &'a Bucket,
    /// The first place to fill.
    begin: usize,
    /// How many places to fill.
    count: usize,
    /// How many the rule asked for: the stride of ranks between tries.
    ranks: u32,
    kind: i32,
    tries: u32,
    parent_r: u32,
}

impl<'a> Mapping<'a> {
    /// Runs one choosing step below each of `held`; returns how many places of the output it used.
    fn choose_step(
        &mut self,
        step: &Step,
        tries: &Tries,
        held: &[i32],
        chosen: &mut [i32],
        leaves: &mut [i32],
    ) -> usize {
        let map = self.map;
        let to_leaf = matches!(step.op, Op::CHOOSELEAF_FIRSTN | Op::CHOOSELEAF_INDEP);
        let firstn = matches!(step.op, Op::CHOOSE_FIRSTN | Op::CHOOSELEAF_FIRSTN);
        // None or fewer: relative to what the pool wants.
        let ranks = if step.arg1 > 0 { i64::from(step.arg1) } else { i64::from(step.arg1) + chosen.len() as i64 };
        let Some(ranks) = u32::try_from(ranks).ok().filter(|ranks| *ranks > 0) else { return 0 };
        let mut used = 0;
        for item in held {
            // A device or a gap has nothing below it.
            let Some(top) = map.bucket(*item) else { continue };
            let (chosen, leaves) = (&mut chosen[used..], &mut leaves[used..]);
            let leaves = to_leaf.then_some(leaves);
            if firstn {
                let call = Firstn { top, ranks, kind: step.arg2, tries: tries.total, parent_r: 0 };
                used += self.firstn(call, tries, chosen, 0, leaves);
            } else {
                let count = chosen.len().min(ranks as usize);
                let call = Indep { top, begin: 0, count, ranks, kind: step.arg2, tries: tries.total, parent_r: 0 };
                self.indep(call, if tries.leaf > 0 { tries.leaf } else { 1 }, chosen, leaves);
                used += count;
            }
        }
        used
    }

    /// Fills `out` from place `filled` with distinct items; gives the number of places filled in the end. Failures leave
    /// no gap.
    fn firstn(
        &mut self,
        call: Firstn<'a>,
        tries: &Tries,
        out: &mut [i32],
        mut filled: usize,
        mut leaves: Option<&mut [i32]>,
    ) -> usize {
        let first = if tries.stable { 0 } else { filled as u32 };
        for rank in first..call.ranks {
            if filled == out.len() || self.draws_left == 0 {
                break;
            }
            if let Some(item) = self.firstn_slot(call, tries, rank, &out[..filled], leaves.as_deref_mut()) {
                out[filled] = item;
                filled += 1;
            }
        }
        filled
    }

    /// Finds the item for one rank of firstn: distinct from those `before` it, not out, with a leaf where one is wanted.
    fn firstn_slot(
        &mut self,
        call: Firstn<'a>,
        tries: &Tries,
        rank: u32,
        before: &[i32],
        mut leaves: Option<&mut [i32]>,
    ) -> Option<i32> {
        let mut failures = 0u32;
        'descent: loop {
            let mut bucket = call.top;
            let mut failures_here = 0u32;
            loop {
                let r = rank.wrapping_add(call.parent_r).wrapping_add(failures);
                let size = bucket.items.len() as u32;
                let permute =
                    tries.local_fallback > 0 && failures_here >= size >> 1 && failures_here > tries.local_fallback;
                let collided = match self.draw(&mut bucket, call.kind, before.len(), r, permute) {
                    Found::Hopeless => return None,
                    Found::Down => continue,
                    Found::Empty => false,
                    Found::Item(item) => {
                        let collided = before.contains(&item);
                        let mut leaf = |this: &mut Self| match leaves.as_deref_mut() {
                            Some(leaves) => this.firstn_leaf(item, r, tries, before.len(), leaves),
                            None => true,
                        };
                        if !collided && leaf(self) && !(item >= 0 && self.is_out(item)) {
                            return Some(item);
                        }
                        collided
                    }
                };
                failures = failures.wrapping_add(1);
                failures_here += 1;
                let size = bucket.items.len() as u32;
                let again_here = (collided && failures_here <= tries.local)
                    || (tries.local_fallback > 0 && failures_here <= size.saturating_add(tries.local_fallback));
                if again_here {
                    continue;
                }
                if failures < call.tries {
                    continue 'descent;
                }
                return None;
            }
        }
    }

    /// Finds a device below `item` for place `place` and puts it into `leaves`.
    fn firstn_leaf(&mut self, item: i32, r: u32, tries: &Tries, place: usize, leaves: &mut [i32]) -> bool {
        let Some(top) = self.map.bucket(item) else {
            leaves[place] = item;
            return true;
        };
        let parent_r = match tries.vary_r {
            0 => 0,
            vary => r.checked_shr(vary - 1).unwrap_or(0),
        };
        let ranks = if tries.stable { 1 } else { place as u32 + 1 };
        let call = Firstn { top, ranks, kind: 0, tries: tries.firstn_leaf(), parent_r };
        self.firstn(call, tries, leaves, place, None) > place
    }

    /// Fills `count` places of `out` from `begin`, each on its own, in rounds: an item that fails for one place leaves
    /// the others where they are.
    fn indep(&mut self, call: Indep<'a>, leaf_tries: u32, out: &mut [i32], mut leaves: Option<&mut [i32]>) {
        let places = call.begin..call.begin + call.count;
        out[places.clone()].fill(ITEM_UNDECIDED);
        if let Some(leaves) = leaves.as_deref_mut() {
            leaves[places.clone()].fill(ITEM_UNDECIDED);
        }
        let mut left = call.count;
        let mut round = 0;
        while left > 0 && round < call.tries && self.draws_left > 0 {
            for place in places.clone() {
                if out[place] != ITEM_UNDECIDED {
                    continue;
                }
                if let Some(item) = self.indep_slot(call, leaf_tries, round, place, out, leaves.as_deref_mut()) {
                    out[place] = item;
                    left -= 1;
                }
            }
            round += 1;
        }
        let settle = |out: &mut [i32]| {
            out.iter_mut().filter(|item| **item == ITEM_UNDECIDED).for_each(|item| *item = ITEM_NONE);
        };
        settle(&mut out[places.clone()]);
        if let Some(leaves) = leaves {
            settle(&mut leaves[places]);
        }
    }

    /// One try for one place of indep: an item, [`ITEM_NONE`] if there can be none, or nothing yet.
    fn indep_slot(
        &mut self,
        call: Indep<'a>,
        leaf_tries: u32,
        round: u32,
        place: usize,
        out: &[i32],
        mut leaves: Option<&mut [i32]>,
    ) -> Option<i32> {
        let mut bucket = call.top;
        loop {
            // The stride avoids trying the same items of a uniform bucket whose size the ranks divide.
            let divides = matches!(bucket.weights, crate::bucket::Weights::Uniform { .. })
                && (bucket.items.len() as u32).is_multiple_of(call.ranks);
            let stride = if divides { call.ranks.wrapping_add(1) } else { call.ranks };
            let r = (place as u32).wrapping_add(call.parent_r).wrapping_add(stride.wrapping_mul(round));
            let item = match self.draw(&mut bucket, call.kind, call.begin, r, false) {
                Found::Down => continue,
                Found::Empty => return None,
                Found::Hopeless => {
                    if let Some(leaves) = leaves.as_deref_mut() {
                        leaves[place] = ITEM_NONE;
                    }
                    return Some(ITEM_NONE);
                }
                Found::Item(item) => item,
            };
            if out[call.begin..call.begin + call.count].contains(&item) {
                return None;
            }
            if let Some(leaves) = leaves.as_deref_mut() {
                match self.map.bucket(item) {
                    Some(top) => {
                        let inner =
                            Indep { top, begin: place, count: 1, kind: 0, tries: leaf_tries, parent_r: r, ..call };
                        self.indep(inner, 0, leaves, None);
                        if leaves[place] == ITEM_NONE {
                            return None;
                        }
                    }
                    None => leaves[place] = item,
                }
            }
            return if item >= 0 && self.is_out(item) { None } else { Some(item) };
        }
    }

    /// Draws from `bucket`; where that gives a bucket of another type, moves `bucket` there.
    #[inline]
    fn draw(&mut self, bucket: &mut &'a Bucket, kind: i32, position: usize, r: u32, permute: bool) -> Found {
        // An empty bucket costs a draw too, so that every loop ends.
        self.draws_left = self.draws_left.saturating_sub(bucket.items.len().max(1) as u64);
        if self.draws_left == 0 {
            return Found::Hopeless;
        }
        let arg = self.choose_args.and_then(|args| args.arg(bucket.id));
        let item = if permute { permuted(bucket, self.x, r) } else { choose(bucket, arg, position, self.x, r) };
        let Some(item) = item else { return Found::Empty };
        if item >= 0 {
            return if kind == 0 { Found::Item(item) } else { Found::Hopeless };
        }
        match self.map.bucket(item) {
            Some(next) if i32::from(next.kind) != kind => {
                *bucket = next;
                Found::Down
            }
            Some(_) => Found::Item(item),
            None => Found::Hopeless,
        }
    }

    /// Whether a device takes none of this seed: out, or reweighted and unlucky.
    fn is_out(&self, device: i32) -> bool {
        match self.weights.get(device as usize) {
            None | Some(0) => true,
            Some(weight) if *weight >= IN => false,
            Some(weight) => hash2(self.x, device as u32) & 0xffff >= *weight,
        }
    }
}
