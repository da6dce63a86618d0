//! What a crush map may ask of us: every bound of this crate, with its reason.

/// The deepest nesting of buckets. Ceph's default has 11 levels of types; each level costs a stack frame in tree walks.
pub const DEPTH_MAX: u32 = 64;

/// The most nodes that a walk down from every root may visit. Buckets may be linked into several parents, so that a
/// small map of doubled links could describe 2^64 paths. 4 Mi is ten times a cluster of 10,000 OSDs with 16 classes and
/// several roots.
pub const WALK_NODES_MAX: u64 = 4 << 20;

/// The longest result of one mapping. Pools of Ceph stay far below (10 replicas, 255 shards by encoding).
pub const RESULT_MAX: usize = 4096;

/// How many items one mapping may look at before it gives up on the slots that it has not filled. Tunables and rules
/// can ask for 2^32 tries of 2^32 tries; this is some 0.2 s of work. The worst sensible case, 10 replicas of 51 tries
/// each in vain on a root of 10,000 items, needs a third of it.
pub const MAPPING_DRAWS_MAX: u64 = 1 << 24;

/// The most device classes of a map: each edit rebuilds one shadow tree per class and root. Clusters have three to six.
pub const CLASSES_MAX: usize = 256;
