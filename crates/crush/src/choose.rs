//! Drawing one item from a bucket: the five algorithms.
//!
//! Follows Ceph v16.2 `src/crush/mapper.c` (`bucket_*_choose`). Pure functions of the bucket, the seed x and the
//! replica rank r; no state between draws (Ceph caches a uniform bucket's permutation; here its beginning is followed
//! backwards, which needs no memory). Every bucket given here has items; an empty one gives no item.
//!
//! Read next: `mapper`, which calls this on the way down.

use crate::bucket::{Bucket, Weights};
use crate::choose_args::ChooseArg;
use crate::hash::{hash3, hash4, lanes3};
use crate::ln::ln;

/// 2^48: what `ln` is below, so that differences to it are logarithms of numbers below 1.
const LN_ONE: i64 = 1 << 48;

/// How many straws are hashed at a time: two vectors of baseline x86-64, one of AVX2.
const STRAWS: usize = 8;

/// Draws the item of `bucket` for seed `x` and rank `r`. `position` is the place in the result, which selects the weight
/// set where `arg` has several.
#[inline]
pub(crate) fn choose(bucket: &Bucket, arg: Option<&ChooseArg>, position: usize, x: u32, r: u32) -> Option<i32> {
    match &bucket.weights {
        Weights::Uniform { .. } => permuted(bucket, x, r),
        Weights::List { weights, sums } => listed(bucket, weights, sums, x, r),
        Weights::Tree { nodes } => descended(bucket, nodes, x, r),
        Weights::Straw { straws, .. } => longest_straw(bucket, straws, x, r),
        Weights::Straw2 { weights } => {
            let weights = arg.and_then(|arg| arg.weights(position)).unwrap_or(weights);
            let ids = arg.map(|arg| &arg.ids[..]).filter(|ids| !ids.is_empty()).unwrap_or(&bucket.items);
            let winner = longest_exponential_straw(ids, weights, x, r);
            bucket.items.get(winner).copied()
        }
    }
}

/// The item at rank `r` of the bucket's pseudo-random permutation for `x`.
///
/// The permutation is built by swapping each place p with place p + (hash of p) mod (what is left). Instead of building
/// it, the item that ends at one place is traced back through the swaps before.
pub(crate) fn permuted(bucket: &Bucket, x: u32, r: u32) -> Option<i32> {
    let size = u32::try_from(bucket.items.len()).ok().filter(|size| *size > 0)?;
    let swapped_with = |place: u32| place + hash3(x, bucket.id as u32, place) % (size - place);
    let place = r % size;
    let mut source = swapped_with(place);
    for earlier in (0..place).rev() {
        if swapped_with(earlier) == source {
            source = earlier;
        }
    }
    bucket.items.get(source as usize).copied()
}

/// Walks from the newest item to the oldest; each is taken with the chance of its share of what remains.
fn listed(bucket: &Bucket, weights: &[u32], sums: &[u32], x: u32, r: u32) -> Option<i32> {
    let draws = bucket.items.iter().zip(weights.iter().zip(sums)).rev();
    for (item, (weight, sum)) in draws {
        let draw = u64::from(hash4(x, *item as u32, r, bucket.id as u32) & 0xffff);
        if (draw * u64::from(*sum)) >> 16 < u64::from(*weight) {
            return Some(*item);
        }
    }
    bucket.items.first().copied()
}

/// Walks down a tree whose leaves are the odd nodes, left or right by weight.
fn descended(bucket: &Bucket, nodes: &[u32], x: u32, r: u32) -> Option<i32> {
    let mut node = nodes.len() >> 1;
    while node > 0 && node & 1 == 0 {
        let draw = u64::from(hash4(x, node as u32, r, bucket.id as u32)) * u64::from(nodes[node]);
        let half = 1 << (node.trailing_zeros() - 1);
        let goes_left = draw >> 32 < u64::from(nodes[node - half]);
        node = if goes_left { node - half } else { node + half };
    }
    // A tree of weights that do not add up may lead to a leaf that has no item; Ceph would read past the end.
    bucket.items.get(node >> 1).or(bucket.items.last()).copied()
}

/// The item with the longest of the hashed straws.
fn longest_straw(bucket: &Bucket, straws: &[u32], x: u32, r: u32) -> Option<i32> {
    let mut best: Option<(u64, i32)> = None;
    for (item, straw) in bucket.items.iter().zip(straws) {
        let draw = u64::from(hash3(x, *item as u32, r) & 0xffff) * u64::from(*straw);
        if best.is_none_or(|(highest, _)| draw > highest) {
            best = Some((draw, *item));
        }
    }
    best.map(|(_, item)| item)
}

/// The place of the longest straw, where a straw's length is the logarithm of a hash over the weight: exponentially
/// distributed, so that each item wins in proportion to its weight whatever the others weigh. 0 if none weighs anything.
fn longest_exponential_straw(ids: &[i32], weights: &[u32], x: u32, r: u32) -> usize {
    let mut best = Straw { place: 0, draw: i64::MIN, ln: i64::MIN, weight: 0 };
    let whole = ids.len().min(weights.len()) / STRAWS * STRAWS;
    let mut place = 0;
    for (ids, weights) in ids[..whole].chunks_exact(STRAWS).zip(weights.chunks_exact(STRAWS)) {
        let hashes = lanes3::<STRAWS>(x, core::array::from_fn(|lane| ids[lane] as u32), r);
        for (hash, weight) in hashes.into_iter().zip(weights) {
            best.challenge(place, hash, *weight);
            place += 1;
        }
    }
    for (id, weight) in ids[whole..].iter().zip(&weights[whole..]) {
        best.challenge(place, hash3(x, *id as u32, r), *weight);
        place += 1;
    }
    best.place
}

/// The longest straw so far.
struct Straw {
    place: usize,
    draw: i64,
    ln: i64,
    weight: i64,
}

impl Straw {
    #[inline(always)]
    fn challenge(&mut self, place: usize, hash: u32, weight: u32) {
        if weight == 0 {
            return;
        }
        // Ceph divides by a signed 32-bit weight.
        let weight = i64::from(weight as i32);
        let ln = ln(hash as u16) as i64 - LN_ONE;
        // A lower logarithm over no larger weight is no longer straw: most divisions are saved here.
        if weight > 0 && ln <= self.ln && weight <= self.weight {
            return;
        }
        let draw = ln / weight;
        if draw > self.draw {
            *self = Straw { place, draw, ln, weight };
        }
    }
}
