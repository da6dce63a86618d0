//! The map: buckets, rules, their names, device classes, tunables and choose args.
//!
//! Owns the tables and look-ups in them. Invariants, established by decoding (`validate`) and kept by every edit:
//! bucket `id` is in slot -1 - id; every bucket that an item names exists; no bucket contains itself, however deeply;
//! nesting and the number of paths stay within `limits`; choose args fit their buckets. `mapper` relies on them to end.
//!
//! Read next: `codec` for the bytes, `mapper` for placement, `edit` for changes, `tree` and `dump` for listings.

use crate::bucket::Bucket;
use crate::choose_args::{self, ChooseArgs};
use crate::rule::Rule;
use crate::tunables::Tunables;
use std::collections::BTreeMap;

/// A slot of a result that nothing could be found for.
pub const ITEM_NONE: i32 = 0x7fff_ffff;

/// A slot that has not been decided yet; never in a result.
pub(crate) const ITEM_UNDECIDED: i32 = 0x7fff_fffe;

/// A crush map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CrushMap {
    pub(crate) buckets: Vec<Option<Bucket>>,
    pub(crate) rules: Vec<Option<Rule>>,
    pub(crate) max_devices: i32,
    pub(crate) type_names: BTreeMap<i32, String>,
    pub(crate) item_names: BTreeMap<i32, String>,
    pub(crate) rule_names: BTreeMap<i32, String>,
    pub(crate) tunables: Tunables,
    /// Device or shadow bucket -> class.
    pub(crate) item_classes: BTreeMap<i32, i32>,
    pub(crate) class_names: BTreeMap<i32, String>,
    /// Bucket -> class -> the shadow bucket that holds only the class's devices.
    pub(crate) class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    pub(crate) choose_args: BTreeMap<i64, ChooseArgs>,
}

/// The slot of a bucket id; none for devices.
#[inline]
pub(crate) fn slot(id: i32) -> Option<usize> {
    usize::try_from(-1 - i64::from(id)).ok()
}

/// The bucket id of a slot. Slots come from vectors that encode in 32 bits.
pub(crate) fn slot_id(slot: usize) -> i32 {
    i32::try_from(-1 - slot as i64).expect("a slot number fits an id")
}

impl CrushMap {
    /// The bucket `id`.
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(slot(id)?)?.as_ref()
    }

    pub(crate) fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        self.buckets.get_mut(slot(id)?)?.as_mut()
    }

    /// Every bucket, from id -1 down.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = &Bucket> {
        self.buckets.iter().flatten()
    }

    /// One more than the highest id that a bucket may reach: `max_buckets` in dumps.
    pub fn max_buckets(&self) -> usize {
        self.buckets.len()
    }

    /// One more than the highest device.
    pub fn max_devices(&self) -> i32 {
        self.max_devices
    }

    /// The rule `id`.
    pub fn rule(&self, id: i32) -> Option<&Rule> {
        self.rules.get(usize::try_from(id).ok()?)?.as_ref()
    }

    /// Every rule with its id, in order of ids.
    pub fn rules(&self) -> impl Iterator<Item = (i32, &Rule)> {
        (0..).zip(&self.rules).filter_map(|(id, rule)| Some((id, rule.as_ref()?)))
    }

    /// The name of rule `id`.
    pub fn rule_name(&self, id: i32) -> Option<&str> {
        self.rule_names.get(&id).map(String::as_str)
    }

    /// The rule of that name.
    pub fn rule_id(&self, name: &str) -> Option<i32> {
        find_key(&self.rule_names, name)
    }

    /// The lowest rule meant for pools of `kind` ([`crate::rule::REPLICATED`], ...): the default of new pools.
    pub fn first_rule(&self, kind: u8) -> Option<i32> {
        self.rules().find(|(_, rule)| rule.kind == kind).map(|(id, _)| id)
    }

    /// The name of a device or bucket.
    pub fn item_name(&self, id: i32) -> Option<&str> {
        self.item_names.get(&id).map(String::as_str)
    }

    /// The device or bucket of that name.
    pub fn item_id(&self, name: &str) -> Option<i32> {
        find_key(&self.item_names, name)
    }

    /// Every named item.
    pub fn item_names(&self) -> &BTreeMap<i32, String> {
        &self.item_names
    }

    /// The name of a type: 0 is the device's.
    pub fn type_name(&self, kind: i32) -> Option<&str> {
        self.type_names.get(&kind).map(String::as_str)
    }

    /// The type of that name.
    pub fn type_id(&self, name: &str) -> Option<i32> {
        find_key(&self.type_names, name)
    }

    /// Every type's number and name, from the device up.
    pub fn type_names(&self) -> &BTreeMap<i32, String> {
        &self.type_names
    }

    /// The tunables.
    pub fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    /// Sets all tunables. Existing straw buckets keep their straws until they change.
    pub fn set_tunables(&mut self, tunables: Tunables) {
        self.tunables = tunables;
    }

    /// The choose args by key: a pool's id, or [`choose_args::DEFAULT`].
    pub fn choose_args(&self) -> &BTreeMap<i64, ChooseArgs> {
        &self.choose_args
    }

    /// The choose args that apply to `key`: its own, else the default ones.
    pub fn choose_args_for(&self, key: i64) -> Option<&ChooseArgs> {
        self.choose_args.get(&key).or_else(|| self.choose_args.get(&choose_args::DEFAULT))
    }

    /// The name of an item's class: a device's, or the one that a shadow bucket is for.
    pub fn item_class(&self, id: i32) -> Option<&str> {
        self.class_name(*self.item_classes.get(&id)?)
    }

    /// The name of a class.
    pub fn class_name(&self, class: i32) -> Option<&str> {
        self.class_names.get(&class).map(String::as_str)
    }

    /// The class of that name.
    pub fn class_id(&self, name: &str) -> Option<i32> {
        find_key(&self.class_names, name)
    }

    /// Every class's number and name.
    pub fn class_names(&self) -> &BTreeMap<i32, String> {
        &self.class_names
    }

    /// The devices of a class.
    pub fn class_devices(&self, class: i32) -> impl Iterator<Item = i32> + '_ {
        self.item_classes.range(0..).filter(move |(_, other)| **other == class).map(|(device, _)| *device)
    }

    /// The shadow of `bucket` that holds only devices of `class`.
    pub fn shadow(&self, bucket: i32, class: i32) -> Option<i32> {
        self.class_buckets.get(&bucket)?.get(&class).copied()
    }

    /// Whether this is a shadow bucket. Their names, `BUCKET~CLASS`, are no valid names for users.
    pub fn is_shadow(&self, id: i32) -> bool {
        id < 0 && self.item_name(id).is_some_and(|name| name.contains('~'))
    }

    /// Whether the map knows the item: a bucket, or a named device.
    pub fn item_exists(&self, id: i32) -> bool {
        self.item_names.contains_key(&id)
    }

    /// The type's number of an item: 0 for a device; none for a bucket that is not there.
    #[inline]
    pub fn item_kind(&self, id: i32) -> Option<i32> {
        if id >= 0 { Some(0) } else { self.bucket(id).map(|bucket| i32::from(bucket.kind)) }
    }
}

/// The key of a value. Names are unique by construction and looked up rarely (commands), so no reverse index is kept.
fn find_key(names: &BTreeMap<i32, String>, name: &str) -> Option<i32> {
    names.iter().find(|(_, other)| *other == name).map(|(id, _)| *id)
}

impl CrushMap {
    /// The buckets that no bucket contains, shadow roots among them, lowest id first.
    pub fn roots(&self) -> std::collections::BTreeSet<i32> {
        let mut roots: std::collections::BTreeSet<i32> = self.buckets().map(Bucket::id).collect();
        for item in self.buckets().flat_map(|bucket| &bucket.items) {
            roots.remove(item);
        }
        roots
    }
}
