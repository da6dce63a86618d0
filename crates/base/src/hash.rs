//! Hash maps whose order and hashes are the same in every run: determinism first, speed second.

/// A hash map with a fixed hasher. Keys that a peer chooses freely (object names) belong in a `BTreeMap` unless the
/// map is bounded: this hasher resists no attacker.
pub type FixedHashMap<K, V> = rustc_hash::FxHashMap<K, V>;

/// A hash set with the same fixed hasher.
pub type FixedHashSet<K> = rustc_hash::FxHashSet<K>;

/// Their hasher, for tables that find their keys themselves.
pub type FixedState = rustc_hash::FxBuildHasher;
