//! Names of items and types.

use super::{EditError, Result, check_name};
use crate::map::CrushMap;

impl CrushMap {
    /// Renames a bucket (`osd crush rename-bucket`). Its shadows follow.
    pub fn rename_bucket(&mut self, from: &str, to: &str) -> Result<()> {
        self.edit(|map| {
            let id = map.require_item(from)?;
            if map.item_id(to).is_some() {
                return Err(EditError::NameTaken(to.to_owned()));
            }
            check_name(to)?;
            if id >= 0 {
                return Err(EditError::NotABucket(from.to_owned()));
            }
            map.item_names.insert(id, to.to_owned());
            map.rebuild_shadows()
        })
    }

    /// Exchanges what two buckets contain, and their names: what is in one place is in the other then, under its own name
    /// (`osd crush swap-bucket`). Their places and types stay.
    pub fn swap_buckets(&mut self, one: &str, other: &str) -> Result<()> {
        let (one_id, other_id) = (self.require_bucket(one)?, self.require_bucket(other)?);
        if self.subtree_contains(one_id, other_id) || self.subtree_contains(other_id, one_id) {
            return Err(EditError::Nested(one.to_owned(), other.to_owned()));
        }
        self.edit(|map| {
            let items =
                |map: &CrushMap, id| map.bucket(id).map_or(Vec::new(), |b| b.weighted_items().collect::<Vec<_>>());
            let (of_one, of_other) = (items(map, one_id), items(map, other_id));
            map.set_bucket_items(one_id, &of_other)?;
            map.set_bucket_items(other_id, &of_one)?;
            map.item_names.insert(one_id, other.to_owned());
            map.item_names.insert(other_id, one.to_owned());
            map.swap_weight_sets(one_id, other_id);
            for id in [one_id, other_id] {
                map.carry_up(id)?;
                map.mend_weight_sets(id);
            }
            map.rebuild_shadows()
        })
    }

    /// Names a type. Names of types are few and set when a map is made.
    pub fn set_type_name(&mut self, kind: u16, name: &str) -> Result<()> {
        check_name(name)?;
        match self.type_id(name) {
            Some(other) if other != i32::from(kind) => Err(EditError::NameTaken(name.to_owned())),
            _ => {
                self.type_names.insert(i32::from(kind), name.to_owned());
                Ok(())
            }
        }
    }
}
