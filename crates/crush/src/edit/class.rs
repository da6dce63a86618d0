//! Device classes: which devices have which, and the shadow trees through which rules place on one class only.
//!
//! Follows Ceph v16.2 `CrushWrapper::update_device_class`, `remove_device_class`, `rebuild_roots_with_classes`,
//! `device_class_clone`. Invariant after every edit: each bucket below a root that is no shadow has, for every class that
//! a device or a rule uses, one shadow bucket with the class's devices and the shadows of its child buckets. Shadow ids
//! are kept over rebuilds, since rules name them.

use super::{EditError, Result, check_name};
use crate::bucket::Bucket;
use crate::choose_args::ChooseArg;
use crate::limits::CLASSES_MAX;
use crate::map::{CrushMap, slot};
use std::collections::{BTreeMap, BTreeSet};

/// Shadow ids by bucket and class.
type Shadows = BTreeMap<i32, BTreeMap<i32, i32>>;

/// What a rebuild of the shadow trees carries along.
struct Rebuild {
    /// The shadows before, whose ids are taken again.
    old: Shadows,
    old_ids: BTreeSet<i32>,
    /// Per choose-args key: a shadow bucket's weight at each position.
    sums: BTreeMap<(i64, i32), Vec<u32>>,
}

impl CrushMap {
    /// Puts a device into a class, making the class if it is new (`osd crush set-device-class`). True when the map
    /// changed. A device that has another class keeps it: the error says how to remove that first.
    pub fn set_device_class(&mut self, device: i32, class: &str) -> Result<bool> {
        check_name(class)?;
        if device < 0 || !self.item_exists(device) {
            return Err(EditError::NoSuchItem(format!("osd.{device}")));
        }
        match self.item_class(device) {
            Some(is) if is == class => return Ok(false),
            Some(is) => {
                let (is, wanted) = (is.to_owned(), class.to_owned());
                return Err(EditError::ClassBound { device, is, wanted });
            }
            None => {}
        }
        self.edit(|map| {
            let id = map.class_or_new(class)?;
            map.item_classes.insert(device, id);
            map.rebuild_shadows()?;
            Ok(true)
        })
    }

    /// Takes a device out of its class (`osd crush rm-device-class`). True when it had one.
    pub fn remove_device_class(&mut self, device: i32) -> Result<bool> {
        if device < 0 || !self.item_exists(device) {
            return Err(EditError::NoSuchItem(format!("osd.{device}")));
        }
        if !self.item_classes.contains_key(&device) {
            return Ok(false);
        }
        self.edit(|map| {
            map.item_classes.remove(&device);
            map.rebuild_shadows()?;
            Ok(true)
        })
    }

    /// Makes a class that no device has yet (`osd crush class create`). It goes with the next edit unless used.
    pub fn create_class(&mut self, class: &str) -> Result<i32> {
        check_name(class)?;
        match self.class_id(class) {
            Some(_) => Err(EditError::NameTaken(class.to_owned())),
            None => self.class_or_new(class),
        }
    }

    /// Removes a class from all its devices and forgets it (`osd crush class rm`). Refused while a rule uses it.
    pub fn remove_class(&mut self, class: &str) -> Result<()> {
        let id = self.class_id(class).ok_or_else(|| EditError::NoSuchClass(class.to_owned()))?;
        let rules = self.rules_of_class(id);
        if !rules.is_empty() {
            let names: Vec<String> =
                rules.iter().map(|rule| format!("'{}'", self.rule_name(*rule).unwrap_or_default())).collect();
            return Err(EditError::ClassInUse {
                class: class.to_owned(),
                by: format!("crush_rule(s): {}", names.join(",")),
            });
        }
        self.edit(|map| {
            map.item_classes.retain(|item, class| *item < 0 || *class != id);
            map.rebuild_shadows()
        })
    }

    /// Renames a class and its shadow buckets (`osd crush class rename`).
    pub fn rename_class(&mut self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let id = self.class_id(from).ok_or_else(|| EditError::NoSuchClass(from.to_owned()))?;
        if self.class_id(to).is_some() {
            return Err(EditError::NameTaken(to.to_owned()));
        }
        self.edit(|map| {
            map.class_names.insert(id, to.to_owned());
            map.rebuild_shadows()
        })
    }

    /// The rules that start from a shadow of the class.
    pub fn rules_of_class(&self, class: i32) -> BTreeSet<i32> {
        let shadows: BTreeSet<i32> =
            self.class_buckets.values().filter_map(|shadows| shadows.get(&class)).copied().collect();
        self.takes().filter(|(_, item)| shadows.contains(item)).map(|(rule, _)| rule).collect()
    }

    /// The roots of what users see.
    pub fn nonshadow_roots(&self) -> BTreeSet<i32> {
        self.roots().into_iter().filter(|root| !self.is_shadow(*root)).collect()
    }

    fn class_or_new(&mut self, class: &str) -> Result<i32> {
        if let Some(id) = self.class_id(class) {
            return Ok(id);
        }
        if self.class_names.len() >= CLASSES_MAX {
            return Err(EditError::TooLarge);
        }
        // Ids grow by one a class; past the last one, the lowest free one is as good as any.
        let after_last = self.class_names.last_key_value().map_or(Some(0), |(last, _)| last.checked_add(1));
        let id = after_last.unwrap_or_else(|| {
            (0..).find(|id| !self.class_names.contains_key(id)).expect("a map of names has fewer than 2^31 entries")
        });
        self.class_names.insert(id, class.to_owned());
        Ok(id)
    }

    /// Makes all shadow trees anew (`rebuild_roots_with_classes`). Classes that nothing uses go.
    pub(super) fn rebuild_shadows(&mut self) -> Result<()> {
        let used: BTreeSet<i32> = self.item_classes.range(0..).map(|(_, class)| *class).collect();
        let dead: Vec<i32> = self
            .class_names
            .keys()
            .copied()
            .filter(|class| !used.contains(class) && self.rules_of_class(*class).is_empty())
            .collect();
        self.class_names.retain(|class, _| !dead.contains(class));
        let shadow_roots: Vec<i32> = self.roots().into_iter().filter(|root| self.is_shadow(*root)).collect();
        shadow_roots.into_iter().for_each(|root| self.drop_tree(root));
        let old = core::mem::take(&mut self.class_buckets);
        let old_ids = old.values().flat_map(|shadows| shadows.values().copied()).collect();
        let mut rebuild = Rebuild { old, old_ids, sums: BTreeMap::new() };
        let classes: Vec<i32> = self.class_names.keys().copied().collect();
        for root in self.nonshadow_roots() {
            for class in &classes {
                self.clone_for_class(root, *class, &mut rebuild)?;
            }
        }
        Ok(())
    }

    /// Drops a shadow root and the buckets below it. Some may have gone with another root.
    fn drop_tree(&mut self, root: i32) {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let Some(bucket) = self.bucket(id) else { continue };
            open.extend(bucket.items.iter().filter(|item| **item < 0));
            self.item_names.remove(&id);
            self.drop_bucket(id);
        }
    }

    /// Makes the shadow of a bucket and of all below it for one class; gives its id. A bucket that is linked into
    /// several places has one shadow. Recurses as deep as the map, which `limits::DEPTH_MAX` bounds for maps that came
    /// in and one new level an edit adds to.
    fn clone_for_class(&mut self, original: i32, class: i32, rebuild: &mut Rebuild) -> Result<i32> {
        if let Some(made) = self.shadow(original, class) {
            return Ok(made);
        }
        // A map whose buckets pose as shadows may have lost one when the shadows went.
        let Some(bucket) = self.bucket(original) else {
            return Err(EditError::Broken("has buckets that are named like shadows"));
        };
        let (algorithm, kind) = (bucket.algorithm(), bucket.kind);
        let mut items = Vec::new();
        let mut positions = Vec::new();
        for (position, (item, weight)) in bucket.weighted_items().collect::<Vec<_>>().into_iter().enumerate() {
            if item < 0 {
                let child = self.clone_for_class(item, class, rebuild)?;
                items.push((child, self.bucket(child).map_or(0, Bucket::weight)));
            } else if self.item_classes.get(&item) == Some(&class) {
                items.push((item, weight));
            } else {
                continue;
            }
            positions.push(position);
        }
        let id = self.shadow_id(original, class, rebuild);
        // Shadows' weight sets are derived below, not from the bucket's own weights.
        let args = core::mem::take(&mut self.choose_args);
        let added = self.add_bucket(Some(id), algorithm, kind, &items);
        self.choose_args = args;
        added?;
        let name = format!("{}~{}", self.label(original), self.class_name(class).unwrap_or_default());
        self.item_names.insert(id, name);
        self.item_classes.insert(id, class);
        self.class_buckets.entry(original).or_default().insert(class, id);
        self.clone_choose_args(original, id, &items, &positions, rebuild);
        Ok(id)
    }

    /// The id that a shadow had, else the first one that neither a bucket nor a former shadow has.
    fn shadow_id(&self, original: i32, class: i32, rebuild: &Rebuild) -> i32 {
        let had = rebuild.old.get(&original).and_then(|shadows| shadows.get(&class));
        if let Some(had) = had.filter(|had| self.bucket(**had).is_none()) {
            return *had;
        }
        (i32::MIN..0)
            .rev()
            .find(|id| self.bucket(*id).is_none() && !rebuild.old_ids.contains(id))
            .expect("a map has fewer than 2^31 buckets")
    }

    /// Gives a shadow bucket weight sets from its original's. Sets of several positions get all their sums here, where
    /// 16.2 keeps the last position's only and leaves the others of nested shadows at 0.
    fn clone_choose_args(
        &mut self,
        original: i32,
        shadow: i32,
        items: &[(i32, u32)],
        positions: &[usize],
        rebuild: &mut Rebuild,
    ) {
        let at = slot(shadow).expect("bucket ids are negative") as u32;
        for (key, args) in &mut self.choose_args {
            let sets = args.arg(original).map_or(Vec::new(), |arg| arg.weight_sets.clone());
            let weight_sets: Vec<Vec<u32>> = sets
                .iter()
                .enumerate()
                .map(|(set, weights)| {
                    let weigh = |((item, _), position): (&(i32, u32), &usize)| match *item {
                        0.. => weights[*position],
                        child => rebuild.sums.get(&(*key, child)).and_then(|sums| sums.get(set)).copied().unwrap_or(0),
                    };
                    items.iter().zip(positions).map(weigh).collect()
                })
                .collect();
            let arg = ChooseArg { weight_sets, ids: Vec::new() };
            rebuild.sums.insert((*key, shadow), super::weight::position_sums(&arg));
            if !arg.is_empty() {
                args.by_slot.insert(at, arg);
            }
        }
    }
}
