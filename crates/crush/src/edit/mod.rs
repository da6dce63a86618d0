//! Changing a map: what the monitor's `osd crush ...` commands and an OSD's first boot do to it.
//!
//! Follows Ceph v16.2 `src/crush/CrushWrapper.cc`, so that a map edited here equals one edited by Ceph, shadow trees,
//! weight sets and bucket ids included. Every public edit works on a copy and replaces the map only when all of it has
//! succeeded: an error changes nothing. After each, the invariants of `map` hold.
//!
//! Read next: `insert` and `remove` for places in the tree, `weight` and `weight_set`, `class`, `rules`, `names`.

mod class;
mod insert;
mod names;
mod remove;
mod rules;
mod weight;
mod weight_set;

#[cfg(test)]
mod tests;

use crate::bucket::{Algorithm, Bucket, Unfit};
use crate::choose_args::ChooseArg;
use crate::map::{CrushMap, slot, slot_id};
use base::Errno;
use std::collections::BTreeMap;

pub use rules::{Mode, SimpleRule};

/// Where an item goes: type name -> bucket name, as in `host=a root=default`. The lowest type given is its parent.
pub type Location = BTreeMap<String, String>;

/// Why an edit is refused. The texts are for the user of the command line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // Each variant's text says what it means.
pub enum EditError {
    #[error("'{0}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName(String),
    #[error("location '{0}' is not of the form type=bucket")]
    InvalidLocation(String),
    #[error("weight {0} is not between 0 and 32767")]
    InvalidWeight(String),
    #[error("'{0}' does not exist")]
    NoSuchItem(String),
    #[error("rule {0} does not exist")]
    NoSuchRule(String),
    #[error("unknown type {0}")]
    NoSuchType(String),
    #[error("device class {0} does not exist")]
    NoSuchClass(String),
    #[error("root {root} has no devices with class {class}")]
    NoShadow { root: String, class: String },
    #[error("'{0}' already exists")]
    NameTaken(String),
    #[error("'{0}' is not a bucket")]
    NotABucket(String),
    #[error("'{bucket}' is of type {is}, not {wanted}")]
    WrongType { bucket: String, is: String, wanted: String },
    #[error("'{0}' is not empty")]
    NotEmpty(String),
    #[error("'{0}' is used by a rule or a device class")]
    InUse(String),
    #[error("'{item}' is already below '{bucket}'")]
    AlreadyThere { item: String, bucket: String },
    #[error("item {0} not found in crush map")]
    NotInTree(i32),
    #[error("one of '{0}' and '{1}' contains the other")]
    Nested(String, String),
    #[error("'{0}' would contain itself")]
    Loop(String),
    #[error("the location names no bucket that could hold '{0}'")]
    NoPlace(String),
    #[error(
        "osd.{device} has already bound to class '{is}', can not reset class to '{wanted}'; \
         use 'ceph osd crush rm-device-class <id>' to remove old class first"
    )]
    ClassBound { device: i32, is: String, wanted: String },
    #[error("class '{class}' is still referenced by {by}")]
    ClassInUse { class: String, by: String },
    #[error("there are too many rules or device classes")]
    TooLarge,
    #[error("the map {0}")]
    Broken(&'static str),
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl EditError {
    /// The errno that Ceph's commands answer with.
    pub fn errno(&self) -> Errno {
        use EditError::*;
        match self {
            NoSuchItem(_) | NotInTree(_) | NoSuchRule(_) => Errno::ENOENT,
            NameTaken(_) => Errno::EEXIST,
            NotABucket(_) => Errno::ENOTDIR,
            NotEmpty(_) => Errno::ENOTEMPTY,
            InUse(_) | ClassBound { .. } | ClassInUse { .. } => Errno::EBUSY,
            Loop(_) => Errno::ELOOP,
            TooLarge => Errno::E2BIG,
            Unfit(_) => Errno::ERANGE,
            InvalidName(_)
            | InvalidLocation(_)
            | InvalidWeight(_)
            | NoSuchType(_)
            | NoSuchClass(_)
            | NoShadow { .. }
            | Broken(_)
            | WrongType { .. }
            | AlreadyThere { .. }
            | Nested(..)
            | NoPlace(_) => Errno::EINVAL,
        }
    }
}

type Result<T> = core::result::Result<T, EditError>;

/// Reads `["host=a", "root=default"]`. A type given twice counts once, the last time.
pub fn parse_location<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<Location> {
    let pair = |arg: &'a str| {
        let (kind, bucket) = arg.split_once('=').filter(|(_, bucket)| !bucket.is_empty())?;
        Some((kind.to_owned(), bucket.to_owned()))
    };
    args.into_iter().map(|arg| pair(arg).ok_or_else(|| EditError::InvalidLocation(arg.to_owned()))).collect()
}

/// A weight (16.16) from what a user writes. Rounds down through a 32-bit float, as Ceph does, so that the same text
/// gives the same bits.
pub fn parse_weight(weight: f64) -> Result<u32> {
    let fixed = weight as f32 * 65536.0;
    if fixed >= 0.0 && fixed < i32::MAX as f32 {
        Ok(fixed as u32)
    } else {
        Err(EditError::InvalidWeight(weight.to_string()))
    }
}

/// Whether users may give an item this name.
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn check_name(name: &str) -> Result<()> {
    if is_valid_name(name) { Ok(()) } else { Err(EditError::InvalidName(name.to_owned())) }
}

impl CrushMap {
    /// Applies an edit to a copy and takes the copy over if it succeeds and stays within the limits.
    fn edit<T>(&mut self, change: impl FnOnce(&mut CrushMap) -> Result<T>) -> Result<T> {
        let mut copy = self.clone();
        let value = change(&mut copy)?;
        copy.check_structure().map_err(|broken| EditError::Broken(broken.why))?;
        copy.count_devices();
        *self = copy;
        Ok(value)
    }

    /// What to call an item in a complaint.
    fn label(&self, id: i32) -> String {
        self.item_name(id).map_or_else(|| id.to_string(), str::to_owned)
    }

    fn require_item(&self, name: &str) -> Result<i32> {
        self.item_id(name).ok_or_else(|| EditError::NoSuchItem(name.to_owned()))
    }

    fn require_bucket(&self, name: &str) -> Result<i32> {
        let id = self.require_item(name)?;
        if id < 0 { Ok(id) } else { Err(EditError::NotABucket(name.to_owned())) }
    }

    /// The newest algorithm that the tunables allow for new buckets.
    fn default_algorithm(&self) -> Algorithm {
        use Algorithm::*;
        let allowed = |algorithm: &Algorithm| self.tunables.allowed_bucket_algs & 1 << *algorithm as u8 != 0;
        // A map that allows none gets what every peer of ours can draw from.
        [Straw2, Straw, Tree, List, Uniform].into_iter().find(allowed).unwrap_or(Straw2)
    }

    /// Adds a bucket; `id` none takes the first free slot. The table grows by doubling, as Ceph's does, because its
    /// length is encoded.
    fn add_bucket(&mut self, id: Option<i32>, algorithm: Algorithm, kind: u16, items: &[(i32, u32)]) -> Result<i32> {
        let at = match id {
            Some(id) => slot(id).expect("bucket ids are negative"),
            None => self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len()),
        };
        let id = slot_id(at);
        let bucket = Bucket::new(id, kind, algorithm, items, self.tunables.straw_calc_version)?;
        while self.buckets.len() <= at {
            let len = if self.buckets.is_empty() { 8 } else { self.buckets.len() * 2 };
            self.buckets.resize(len, None);
        }
        assert!(self.buckets[at].is_none(), "a new bucket goes into a free slot");
        self.buckets[at] = Some(bucket);
        if !items.is_empty() {
            let weights: Vec<u32> = items.iter().map(|(_, weight)| *weight).collect();
            for args in self.choose_args.values_mut() {
                let sets = vec![weights.clone(); args.positions()];
                args.by_slot.insert(at as u32, ChooseArg { weight_sets: sets, ids: Vec::new() });
            }
        }
        Ok(id)
    }

    /// Puts new items into a bucket, keeping what is derived from them.
    fn set_bucket_items(&mut self, id: i32, items: &[(i32, u32)]) -> Result<()> {
        let version = self.tunables.straw_calc_version;
        Ok(self.bucket_mut(id).expect("the bucket was looked up before").set_items(items, version)?)
    }

    /// Appends an item to a bucket and its choose args.
    fn bucket_add_item(&mut self, id: i32, item: i32, weight: u32) -> Result<()> {
        let bucket = self.bucket(id).expect("the bucket was looked up before");
        let mut items: Vec<_> = bucket.weighted_items().collect();
        items.push((item, weight));
        self.set_bucket_items(id, &items)?;
        for arg in self.choose_args.values_mut().filter_map(|args| args.arg_mut(id)) {
            arg.weight_sets.iter_mut().for_each(|set| set.push(weight));
            if !arg.ids.is_empty() {
                arg.ids.push(item);
            }
        }
        Ok(())
    }

    /// Takes an item out of a bucket and its choose args.
    fn bucket_remove_item(&mut self, id: i32, item: i32) -> Result<()> {
        let bucket = self.bucket(id).expect("the bucket was looked up before");
        let Some(position) = bucket.position(item) else { return Ok(()) };
        let mut items: Vec<_> = bucket.weighted_items().collect();
        items.remove(position);
        self.set_bucket_items(id, &items)?;
        for arg in self.choose_args.values_mut().filter_map(|args| args.arg_mut(id)) {
            for set in &mut arg.weight_sets {
                set.remove(position);
            }
            if !arg.ids.is_empty() {
                arg.ids.remove(position);
            }
        }
        Ok(())
    }

    /// The buckets that hold `item` directly, shadow buckets too.
    fn holders(&self, item: i32) -> Vec<i32> {
        self.buckets().filter(|bucket| bucket.position(item).is_some()).map(Bucket::id).collect()
    }

    /// Whether any bucket holds `item` directly.
    fn is_held(&self, item: i32) -> bool {
        self.buckets().any(|bucket| bucket.position(item).is_some())
    }

    /// Whether `item` is `root` or anywhere below it.
    pub fn subtree_contains(&self, root: i32, item: i32) -> bool {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if id == item {
                return true;
            }
            open.extend(self.bucket(id).into_iter().flat_map(Bucket::items));
        }
        false
    }

    /// The bucket that holds an item, the first if several do; no shadow bucket.
    pub fn parent(&self, item: i32) -> Option<i32> {
        self.buckets().find(|bucket| bucket.position(item).is_some() && !self.is_shadow(bucket.id)).map(Bucket::id)
    }

    /// Where an item is: type name -> bucket name for every bucket above it. Empty for roots and strangers.
    pub fn full_location(&self, item: i32) -> Location {
        let mut location = Location::new();
        let mut at = item;
        while let Some(parent) = self.parent(at) {
            if let (Some(kind), Some(name)) = (self.item_kind(parent), self.item_name(parent)) {
                location.insert(self.type_name(kind).unwrap_or_default().to_owned(), name.to_owned());
            }
            at = parent;
        }
        location
    }
}
