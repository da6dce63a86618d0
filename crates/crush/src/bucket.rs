//! Buckets: an inner node of the tree, its items, and the weights in the form that its algorithm draws with.
//!
//! Follows Ceph v16.2 `src/crush/crush.h` (layouts) and `builder.c` (what the derived weights are). Owns the invariant
//! that derived weights (sums, nodes, straws) belong to the items: every change goes through [`Bucket::set_items`].
//! Refuses sums beyond 32 bits, uniform buckets with unequal weights, and trees of more than 64 items, whose node count
//! Ceph's encoding cannot hold.
//!
//! Read next: `choose`, which draws an item; `edit`, which moves items between buckets.

/// How a bucket picks one of its items.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Algorithm {
    /// All weights equal; picks by a pseudo-random permutation.
    Uniform = 1,
    /// A linked list of ever older items.
    List = 2,
    /// A binary tree of weights.
    Tree = 3,
    /// Longest of hashed straws, scaled by precomputed lengths.
    Straw = 4,
    /// Longest of exponentially distributed straws: what new buckets are.
    Straw2 = 5,
}

impl Algorithm {
    /// The algorithm of a number on the wire.
    pub fn from_u8(value: u8) -> Option<Algorithm> {
        use Algorithm::*;
        [Uniform, List, Tree, Straw, Straw2].into_iter().find(|algorithm| *algorithm as u8 == value)
    }

    /// The name in dumps and text maps.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Uniform => "uniform",
            Algorithm::List => "list",
            Algorithm::Tree => "tree",
            Algorithm::Straw => "straw",
            Algorithm::Straw2 => "straw2",
        }
    }
}

/// The weights of a bucket's items (16.16), in its algorithm's form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Weights {
    Uniform { each: u32 },
    List { weights: Vec<u32>, sums: Vec<u32> },
    Tree { nodes: Vec<u32> },
    Straw { weights: Vec<u32>, straws: Vec<u32> },
    Straw2 { weights: Vec<u32> },
}

/// Why items do not fit a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// The sum leaves 32 bits.
    #[error("the bucket's weights would add up to more than 65536")]
    WeightOverflow,
    /// A uniform bucket's items weigh the same.
    #[error("the items of a uniform bucket must all have the same weight")]
    UnequalWeights,
    /// A tree bucket of more than 64 items cannot be encoded.
    #[error("a tree bucket holds at most 64 items")]
    TreeTooLarge,
}

/// An inner node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    pub(crate) id: i32,
    pub(crate) kind: u16,
    pub(crate) hash: u8,
    pub(crate) weight: u32,
    pub(crate) items: Vec<i32>,
    pub(crate) weights: Weights,
}

/// The most items of a tree bucket: 2^7 nodes fit the byte that Ceph counts them with, 2^8 do not.
const TREE_ITEMS_MAX: usize = 64;

/// The node of leaf `index` in a tree bucket (`crush_calc_tree_node`).
fn leaf_node(index: usize) -> usize {
    (index << 1) | 1
}

impl Bucket {
    /// A bucket of the given items and weights.
    pub(crate) fn new(
        id: i32,
        kind: u16,
        algorithm: Algorithm,
        items: &[(i32, u32)],
        straw_calc_version: u8,
    ) -> Result<Bucket, Unfit> {
        let weights = match algorithm {
            Algorithm::Uniform => Weights::Uniform { each: 0 },
            Algorithm::List => Weights::List { weights: Vec::new(), sums: Vec::new() },
            Algorithm::Tree => Weights::Tree { nodes: Vec::new() },
            Algorithm::Straw => Weights::Straw { weights: Vec::new(), straws: Vec::new() },
            Algorithm::Straw2 => Weights::Straw2 { weights: Vec::new() },
        };
        let mut bucket = Bucket { id, kind, hash: crate::hash::RJENKINS1, weight: 0, items: Vec::new(), weights };
        bucket.set_items(items, straw_calc_version)?;
        Ok(bucket)
    }

    /// Its id, negative.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Its type's number: 1 (`host` by default) and up.
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// The hash it draws with; [`crate::hash::RJENKINS1`] in all maps of today.
    pub fn hash(&self) -> u8 {
        self.hash
    }

    /// The sum of its items' weights (16.16).
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Its items: devices (0 and up) and buckets (below 0).
    pub fn items(&self) -> &[i32] {
        &self.items
    }

    /// How it picks.
    pub fn algorithm(&self) -> Algorithm {
        match self.weights {
            Weights::Uniform { .. } => Algorithm::Uniform,
            Weights::List { .. } => Algorithm::List,
            Weights::Tree { .. } => Algorithm::Tree,
            Weights::Straw { .. } => Algorithm::Straw,
            Weights::Straw2 { .. } => Algorithm::Straw2,
        }
    }

    /// The weight (16.16) of the item at `position`; 0 past the end.
    pub fn item_weight(&self, position: usize) -> u32 {
        if position >= self.items.len() {
            return 0;
        }
        match &self.weights {
            Weights::Uniform { each } => Some(*each),
            Weights::Tree { nodes } => nodes.get(leaf_node(position)).copied(),
            Weights::List { weights, .. } | Weights::Straw { weights, .. } | Weights::Straw2 { weights } => {
                weights.get(position).copied()
            }
        }
        .unwrap_or(0)
    }

    /// Its items with their weights (16.16), in order.
    pub fn weighted_items(&self) -> impl Iterator<Item = (i32, u32)> + '_ {
        self.items.iter().enumerate().map(|(position, item)| (*item, self.item_weight(position)))
    }

    /// Where `item` stands.
    pub fn position(&self, item: i32) -> Option<usize> {
        self.items.iter().position(|other| *other == item)
    }

    /// Replaces the items and everything derived from their weights. Changes nothing when they do not fit.
    pub(crate) fn set_items(&mut self, items: &[(i32, u32)], straw_calc_version: u8) -> Result<(), Unfit> {
        let weights: Vec<u32> = items.iter().map(|(_, weight)| *weight).collect();
        let sums = sums(&weights).ok_or(Unfit::WeightOverflow)?;
        let total = sums.last().copied().unwrap_or(0);
        self.weights = match &self.weights {
            Weights::Uniform { each } => {
                let each = weights.first().copied().unwrap_or(*each);
                if weights.iter().any(|weight| *weight != each) {
                    return Err(Unfit::UnequalWeights);
                }
                Weights::Uniform { each }
            }
            Weights::List { .. } => Weights::List { weights, sums },
            Weights::Tree { .. } if items.len() > TREE_ITEMS_MAX => return Err(Unfit::TreeTooLarge),
            Weights::Tree { .. } => Weights::Tree { nodes: tree_nodes(&weights) },
            Weights::Straw { .. } => {
                let straws = straws(&weights, straw_calc_version);
                Weights::Straw { weights, straws }
            }
            Weights::Straw2 { .. } => Weights::Straw2 { weights },
        };
        self.items = items.iter().map(|(item, _)| *item).collect();
        self.weight = total;
        Ok(())
    }
}

/// Running sums; none when they leave 32 bits.
fn sums(weights: &[u32]) -> Option<Vec<u32>> {
    let mut sum = 0u32;
    weights
        .iter()
        .map(|weight| {
            sum = sum.checked_add(*weight)?;
            Some(sum)
        })
        .collect()
}

/// The weights of a binary tree whose leaves are the odd nodes; the sums of a bucket fit 32 bits, so these do.
fn tree_nodes(weights: &[u32]) -> Vec<u32> {
    if weights.is_empty() {
        return Vec::new();
    }
    let depth = weights.len().next_power_of_two().trailing_zeros() + 1;
    let mut nodes = vec![0u32; 1 << depth];
    for (index, weight) in weights.iter().enumerate() {
        let mut node = leaf_node(index);
        nodes[node] = *weight;
        for _ in 1..depth {
            let height = node.trailing_zeros();
            let on_right = node & (1 << (height + 1)) != 0;
            node = if on_right { node - (1 << height) } else { node + (1 << height) };
            nodes[node] += weight;
        }
    }
    nodes
}

/// The straws' lengths (16.16): from the lightest item up, each length makes the chance of the items so far right.
/// Version 0 miscounts items of equal and of zero weight; maps that have it keep it until a user asks otherwise.
fn straws(weights: &[u32], version: u8) -> Vec<u32> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // Stable, as Ceph's insertion sort is.
    order.sort_by_key(|index| weights[*index]);
    let mut straws = vec![0; weights.len()];
    let (mut straw, mut below, mut last) = (1.0f64, 0.0f64, 0.0f64);
    let mut left = weights.len();
    for (rank, index) in order.iter().enumerate() {
        let weight = weights[*index];
        if weight == 0 {
            if version > 0 {
                left -= 1;
            }
            continue;
        }
        straws[*index] = (straw * 65536.0) as u32;
        let Some(next) = order.get(rank + 1).map(|index| weights[*index]) else { break };
        if version == 0 {
            if next == weight {
                continue;
            }
            below += (f64::from(weight) - last) * left as f64;
            left -= order[rank + 1..].iter().take_while(|index| weights[**index] == next).count();
        } else {
            below += (f64::from(weight) - last) * left as f64;
            left -= 1;
        }
        // In 32 bits and in this order of rounding, because the lengths are in maps and have to come out the same.
        let above = f64::from((left as u32).wrapping_mul(next - weight));
        let chance_below = below / (below + above);
        straw *= (1.0 / chance_below).powf(1.0 / left as f64);
        last = f64::from(weight);
    }
    straws
}
