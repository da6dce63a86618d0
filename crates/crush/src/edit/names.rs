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
