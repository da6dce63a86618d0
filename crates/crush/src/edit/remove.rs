//! Taking items out: `osd crush rm`, `unlink`, and what `osd purge` does to the map.
//!
//! Follows Ceph v16.2 `CrushWrapper::remove_item`, `remove_item_under`, `_maybe_remove_last_instance`.

use super::{EditError, Result};
use crate::map::{CrushMap, slot};
use crate::rule::Op;

impl CrushMap {
    /// Removes an item from everywhere, with its name, class and shadows. A bucket must be empty and unused. With
    /// `unlink_only`, a bucket stays as a root of its own.
    pub fn remove_item(&mut self, name: &str, unlink_only: bool) -> Result<()> {
        let item = self.require_item(name)?;
        self.edit(|map| map.remove(item, unlink_only))
    }

    /// Removes an item from below one bucket (`osd crush rm NAME ANCESTOR`, `unlink NAME ANCESTOR`).
    pub fn remove_item_under(&mut self, name: &str, ancestor: &str, unlink_only: bool) -> Result<()> {
        let (item, ancestor) = (self.require_item(name)?, self.require_bucket(ancestor)?);
        self.edit(|map| {
            if !unlink_only {
                map.check_removable(item)?;
            }
            let holders: Vec<i32> =
                map.holders(item).into_iter().filter(|holder| map.subtree_contains(ancestor, *holder)).collect();
            if holders.is_empty() {
                return Err(EditError::NoSuchItem(name.to_owned()));
            }
            holders.into_iter().try_for_each(|holder| map.take_out(item, holder))?;
            map.forget_if_unheld(item, unlink_only)
        })
    }

    /// `remove_item` without the copy.
    pub(super) fn remove(&mut self, item: i32, unlink_only: bool) -> Result<()> {
        if item < 0 && !unlink_only {
            self.check_removable(item)?;
        }
        for holder in self.holders(item) {
            self.take_out(item, holder)?;
        }
        self.forget_if_unheld(item, unlink_only)
    }

    fn check_removable(&self, item: i32) -> Result<()> {
        let Some(bucket) = self.bucket(item) else { return Ok(()) };
        if !bucket.items.is_empty() {
            return Err(EditError::NotEmpty(self.label(item)));
        }
        if self.bucket_is_used(item) {
            return Err(EditError::InUse(self.label(item)));
        }
        Ok(())
    }

    fn take_out(&mut self, item: i32, holder: i32) -> Result<()> {
        self.adjust_in_bucket(item, 0, holder, true)?;
        self.bucket_remove_item(holder, item)
    }

    /// Drops what is known of an item that no bucket holds any more.
    fn forget_if_unheld(&mut self, item: i32, unlink_only: bool) -> Result<()> {
        if self.is_held(item) || (item < 0 && self.bucket_is_used(item)) {
            return Ok(());
        }
        if item < 0 && !unlink_only {
            self.drop_bucket(item);
        }
        if item >= 0 || !unlink_only {
            self.item_names.remove(&item);
        }
        if item >= 0 && !unlink_only {
            self.item_classes.remove(&item);
        }
        self.rebuild_shadows()
    }

    /// Empties a bucket's slot and forgets what was kept about it, except for its name.
    pub(super) fn drop_bucket(&mut self, id: i32) {
        let at = slot(id).expect("bucket ids are negative");
        // A name may be there without its bucket.
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket = None;
        }
        self.class_buckets.remove(&id);
        self.item_classes.remove(&id);
        for args in self.choose_args.values_mut() {
            args.by_slot.remove(&(at as u32));
        }
    }

    /// Whether a bucket is a shadow, or a rule starts from it or from one of its shadows.
    fn bucket_is_used(&self, id: i32) -> bool {
        let is_shadow = self.class_buckets.values().flat_map(|shadows| shadows.values()).any(|shadow| *shadow == id);
        is_shadow || self.takes().any(|(_, taken)| taken == id || self.shadow_origin(taken) == Some(id))
    }

    /// The bucket that a shadow bucket is of.
    pub fn shadow_origin(&self, shadow: i32) -> Option<i32> {
        self.class_buckets.iter().find(|(_, shadows)| shadows.values().any(|id| *id == shadow)).map(|(id, _)| *id)
    }

    /// Every rule's starting points: rule id and item.
    pub fn takes(&self) -> impl Iterator<Item = (i32, i32)> + '_ {
        self.rules().flat_map(|(id, rule)| {
            rule.steps.iter().filter(|step| step.op == Op::TAKE).map(move |step| (id, step.arg1))
        })
    }
}
