//! Putting items into the tree: `osd crush add`, `set`, `create-or-move`, `move`, `link`, `add-bucket`.
//!
//! Follows Ceph v16.2 `CrushWrapper::insert_item`, `create_or_move_item`, `update_item`, `move_bucket`, `link_bucket`
//! and `check_item_loc`.

use super::{EditError, Location, Result, check_name};
use crate::map::{CrushMap, ITEM_UNDECIDED};

impl CrushMap {
    /// Inserts an item at a location, making the buckets that the location names and the map lacks. The lowest of them
    /// that exists gets what is new. `weight` is 16.16. An item may be in several places.
    pub fn insert_item(&mut self, item: i32, weight: u32, name: &str, location: &Location) -> Result<()> {
        self.edit(|map| map.insert(item, weight, name, location, true))
    }

    /// Puts an item at a location unless it is there, keeping the weight that it has anywhere: what a booting OSD asks
    /// for. True when the map changed.
    pub fn create_or_move_item(&mut self, item: i32, weight: u32, name: &str, location: &Location) -> Result<bool> {
        check_name(name)?;
        if self.is_at(item, location) {
            return Ok(false);
        }
        self.edit(|map| {
            let mut weight = weight;
            if map.is_held(item) {
                weight = map.item_weight(item).unwrap_or(weight);
                map.remove(item, true)?;
            }
            map.insert(item, weight, name, location, true)?;
            Ok(true)
        })
    }

    /// Puts an item at a location with exactly this weight and name: `osd crush set`. True when the map changed.
    pub fn update_item(&mut self, item: i32, weight: u32, name: &str, location: &Location) -> Result<bool> {
        check_name(name)?;
        self.edit(|map| {
            if let Some(parent) = map.lowest(location).filter(|parent| map.holds(*parent, item)) {
                let mut changed = false;
                if map.weight_in(parent, item) != weight {
                    map.adjust_in_location(item, weight, location, true)?;
                    map.rebuild_shadows()?;
                    changed = true;
                }
                if map.item_name(item) != Some(name) {
                    map.set_name(item, name)?;
                    changed = true;
                }
                return Ok(changed);
            }
            if map.item_exists(item) {
                map.remove(item, true)?;
            }
            map.insert(item, weight, name, location, true)?;
            Ok(true)
        })
    }

    /// Moves a bucket or a device elsewhere with its weight: `osd crush move`. A device that is nowhere arrives with
    /// weight 0. True when the map changed.
    pub fn move_item(&mut self, name: &str, location: &Location) -> Result<bool> {
        let item = self.require_item(name)?;
        if self.is_at(item, location) {
            return Ok(false);
        }
        if item >= 0 {
            return self.create_or_move_item(item, 0, name, location);
        }
        self.edit(|map| {
            let weight = map.detach(item)?;
            map.insert(item, weight, name, location, false)?;
            Ok(true)
        })
    }

    /// Makes a bucket appear in a further place: `osd crush link`.
    pub fn link_bucket(&mut self, name: &str, location: &Location) -> Result<()> {
        let id = self.require_bucket(name)?;
        let weight = self.bucket(id).map_or(0, |bucket| bucket.weight);
        self.edit(|map| map.insert(id, weight, name, location, true))
    }

    /// Makes an empty bucket that nothing holds: `osd crush add-bucket`. Its id.
    pub fn add_named_bucket(&mut self, name: &str, type_name: &str) -> Result<i32> {
        check_name(name)?;
        if self.item_id(name).is_some() {
            return Err(EditError::NameTaken(name.to_owned()));
        }
        let kind = self.type_id(type_name).and_then(|kind| u16::try_from(kind).ok()).filter(|kind| *kind > 0);
        let kind = kind.ok_or_else(|| EditError::NoSuchType(type_name.to_owned()))?;
        self.edit(|map| {
            let id = map.add_bucket(None, map.default_algorithm(), kind, &[])?;
            map.set_name(id, name)?;
            Ok(id)
        })
    }

    /// Whether the item is in the bucket that the location means: its lowest type.
    pub fn is_at(&self, item: i32, location: &Location) -> bool {
        self.lowest(location).is_some_and(|parent| self.holds(parent, item))
    }

    /// The bucket that a location means, if it exists.
    fn lowest(&self, location: &Location) -> Option<i32> {
        let name = self.type_names.iter().filter(|(kind, _)| **kind != 0).find_map(|(_, kind)| location.get(kind))?;
        self.item_id(name).filter(|id| *id < 0)
    }

    fn holds(&self, bucket: i32, item: i32) -> bool {
        self.bucket(bucket).is_some_and(|bucket| bucket.position(item).is_some())
    }

    pub(super) fn weight_in(&self, bucket: i32, item: i32) -> u32 {
        let bucket = self.bucket(bucket);
        bucket.and_then(|bucket| Some(bucket.item_weight(bucket.position(item)?))).unwrap_or(0)
    }

    pub(super) fn set_name(&mut self, item: i32, name: &str) -> Result<()> {
        check_name(name)?;
        match self.item_id(name) {
            Some(other) if other != item => Err(EditError::NameTaken(name.to_owned())),
            _ => {
                self.item_names.insert(item, name.to_owned());
                Ok(())
            }
        }
    }

    /// `insert_item` without the copy. `init_weight_sets`: a device's weight sets start at its weight, not at 0.
    pub(super) fn insert(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
        init_weight_sets: bool,
    ) -> Result<()> {
        location.values().try_for_each(|bucket| check_name(bucket))?;
        if (item < 0 && self.bucket(item).is_none()) || item >= ITEM_UNDECIDED {
            return Err(EditError::NoSuchItem(name.to_owned()));
        }
        self.set_name(item, name)?;
        self.attach(item, location)?;
        if !self.adjust_in_location(item, weight, location, item >= 0 && init_weight_sets)? {
            return Err(EditError::NoPlace(name.to_owned()));
        }
        self.rebuild_shadows()
    }

    /// Hangs an item, with weight 0, into the tree at a location.
    fn attach(&mut self, item: i32, location: &Location) -> Result<()> {
        let mut below = item;
        let types: Vec<(i32, String)> = self.type_names.iter().map(|(kind, name)| (*kind, name.clone())).collect();
        for (kind, type_name) in types.into_iter().filter(|(kind, _)| *kind != 0) {
            let Some(name) = location.get(&type_name) else { continue };
            let Some(id) = self.item_id(name) else {
                let kind = u16::try_from(kind).map_err(|_| EditError::NoSuchType(type_name.clone()))?;
                let made = self.add_bucket(None, self.default_algorithm(), kind, &[(below, 0)])?;
                self.set_name(made, name)?;
                below = made;
                continue;
            };
            let Some(is) = self.item_kind(id).filter(|_| id < 0) else {
                return Err(EditError::NotABucket(name.clone()));
            };
            if self.subtree_contains(id, below) {
                return Err(EditError::AlreadyThere { item: self.label(below), bucket: name.clone() });
            }
            if is != kind {
                let is = self.type_name(is).unwrap_or_default().to_owned();
                return Err(EditError::WrongType { bucket: name.clone(), is, wanted: type_name });
            }
            if self.subtree_contains(below, id) {
                return Err(EditError::Loop(self.label(below)));
            }
            return self.bucket_add_item(id, below, 0);
        }
        Ok(())
    }

    /// Takes a bucket out of the place that it is in; gives its weight.
    fn detach(&mut self, bucket: i32) -> Result<u32> {
        let weight = self.bucket(bucket).map_or(0, |bucket| bucket.weight);
        if let Some(parent) = self.parent(bucket) {
            self.adjust_in_bucket(bucket, 0, parent, true)?;
            self.bucket_remove_item(parent, bucket)?;
        }
        Ok(weight)
    }
}
