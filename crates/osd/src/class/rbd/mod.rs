//! `rbd`: the metadata of block device images, in the maps of their headers and of a pool's directories.
//!
//! Follows Ceph v16.2 `src/cls/rbd/cls_rbd.cc`. One file per concern; here is the table of methods, and what they share:
//! the keys of a header, and reading and writing them. A value that is there but does not follow its format is EIO.
//!
//! Read next: `header`, `snapshots`, `parent`; `types` for what is stored.

mod bit_vector;
mod children;
mod data;
mod directory;
mod groups;
mod header;
mod metadata;
mod migration;
mod mirror;
mod object_map;
mod old_format;
mod parent;
mod pool;
mod snapshots;
mod types;

use super::{Answer, Ctx, Flags, Method, Unless, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("create", Flags::RD_WR, header::create),
    method("get_features", Flags::RD, header::features),
    method("set_features", Flags::RD_WR, header::set_features),
    method("get_size", Flags::RD, header::size),
    method("set_size", Flags::RD_WR, header::set_size),
    method("get_object_prefix", Flags::RD, header::object_prefix),
    method("get_data_pool", Flags::RD, header::data_pool),
    method("get_all_features", Flags::RD, header::all_features),
    method("get_stripe_unit_count", Flags::RD, header::striping),
    method("set_stripe_unit_count", Flags::RD_WR, header::set_striping),
    method("get_create_timestamp", Flags::RD, |ctx, _| header::time(ctx, b"create_timestamp")),
    method("get_access_timestamp", Flags::RD, |ctx, _| header::time(ctx, b"access_timestamp")),
    method("get_modify_timestamp", Flags::RD, |ctx, _| header::time(ctx, b"modify_timestamp")),
    method("set_modify_timestamp", Flags::RD_WR, |ctx, _| header::set_time(ctx, b"modify_timestamp")),
    method("set_access_timestamp", Flags::RD_WR, |ctx, _| header::set_time(ctx, b"access_timestamp")),
    method("get_flags", Flags::RD, header::flags),
    method("set_flags", Flags::RD_WR, header::set_flags),
    method("op_features_get", Flags::RD, header::op_features),
    method("op_features_set", Flags::RD_WR, header::set_op_features),
    method("get_snapcontext", Flags::RD, snapshots::context),
    method("get_snapshot_name", Flags::RD, snapshots::name),
    method("get_snapshot_timestamp", Flags::RD, snapshots::timestamp),
    method("snapshot_get", Flags::RD, snapshots::show),
    method("snapshot_add", Flags::RD_WR, snapshots::add),
    method("snapshot_remove", Flags::RD_WR, snapshots::remove),
    method("snapshot_rename", Flags::RD_WR, snapshots::rename),
    method("snapshot_trash_add", Flags::RD_WR, snapshots::move_to_trash),
    method("snapshot_get_limit", Flags::RD, snapshots::limit),
    method("snapshot_set_limit", Flags::RD_WR, snapshots::set_limit),
    method("set_protection_status", Flags::RD_WR, snapshots::set_protection),
    method("get_protection_status", Flags::RD, snapshots::protection),
    method("get_parent", Flags::RD, parent::old_show),
    method("set_parent", Flags::RD_WR, parent::old_set),
    method("remove_parent", Flags::RD_WR, parent::old_remove),
    method("parent_get", Flags::RD, parent::show),
    method("parent_overlap_get", Flags::RD, parent::overlap),
    method("parent_attach", Flags::RD_WR, parent::attach),
    method("parent_detach", Flags::RD_WR, parent::detach),
    method("child_attach", Flags::RD_WR, children::attach),
    method("child_detach", Flags::RD_WR, children::detach),
    method("children_list", Flags::RD, children::list),
    method("add_child", Flags::RD_WR, children::old_add),
    method("remove_child", Flags::RD_WR, children::old_remove),
    method("get_children", Flags::RD, children::old_list),
    method("metadata_list", Flags::RD, metadata::list),
    method("metadata_set", Flags::RD_WR, metadata::set),
    method("metadata_remove", Flags::RD_WR, metadata::remove),
    method("metadata_get", Flags::RD, metadata::show),
    method("migration_set", Flags::RD_WR, migration::set),
    method("migration_set_state", Flags::RD_WR, migration::set_state),
    method("migration_get", Flags::RD, migration::show),
    method("migration_remove", Flags::RD_WR, migration::remove),
    method("get_id", Flags::RD, directory::id),
    method("set_id", Flags::RD_WR, directory::set_id),
    method("dir_get_id", Flags::RD, directory::id_of),
    method("dir_get_name", Flags::RD, directory::name_of),
    method("dir_list", Flags::RD, directory::list),
    method("dir_add_image", Flags::RD_WR, directory::add),
    method("dir_remove_image", Flags::RD_WR, directory::remove),
    method("dir_rename_image", Flags::RD_WR, directory::rename),
    method("dir_state_assert", Flags::RD, directory::assert_state),
    method("dir_state_set", Flags::RD_WR, directory::set_state),
    method("object_map_load", Flags::RD, object_map::load),
    method("object_map_save", Flags::RD_WR, object_map::save),
    method("object_map_resize", Flags::RD_WR, object_map::resize),
    method("object_map_update", Flags::RD_WR, object_map::update),
    method("object_map_snap_add", Flags::RD_WR, object_map::add_snapshot),
    method("object_map_snap_remove", Flags::RD_WR, object_map::remove_snapshot),
    method("snap_list", Flags::RD, old_format::list),
    method("snap_add", Flags::RD_WR, old_format::add),
    method("snap_remove", Flags::RD_WR, old_format::remove),
    method("snap_rename", Flags::RD_WR, old_format::rename),
    method("mirror_uuid_get", Flags::RD, mirror::uuid),
    method("mirror_uuid_set", Flags::RD_WR, mirror::set_uuid),
    method("mirror_mode_get", Flags::RD, mirror::mode),
    method("mirror_mode_set", Flags::RD_WR, mirror::set_mode),
    method("mirror_peer_ping", Flags::RD_WR, mirror::peers::ping),
    method("mirror_peer_list", Flags::RD, mirror::peers::list),
    method("mirror_peer_add", Flags::RD_WR, mirror::peers::add),
    method("mirror_peer_remove", Flags::RD_WR, mirror::peers::remove),
    method("mirror_peer_set_client", Flags::RD_WR, mirror::peers::set_client),
    method("mirror_peer_set_cluster", Flags::RD_WR, mirror::peers::set_site),
    method("mirror_peer_set_direction", Flags::RD_WR, mirror::peers::set_direction),
    method("mirror_image_list", Flags::RD, mirror::images::list),
    method("mirror_image_get_image_id", Flags::RD, mirror::images::id_of),
    method("mirror_image_get", Flags::RD, mirror::images::show),
    method("mirror_image_set", Flags::RD_WR, mirror::images::set),
    method("mirror_image_remove", Flags::RD_WR, mirror::images::remove),
    method("mirror_image_status_set", Flags::RD_WR_PROMOTE, mirror::status::set),
    method("mirror_image_status_remove", Flags::RD_WR, mirror::status::remove),
    method("mirror_image_status_get", Flags::RD, mirror::status::show),
    method("mirror_image_status_list", Flags::RD, mirror::status::list),
    method("mirror_image_status_get_summary", Flags::RD, mirror::status::summary),
    method("mirror_image_status_remove_down", Flags::RD_WR, mirror::status::remove_down),
    method("mirror_image_instance_get", Flags::RD, mirror::instances::of_image),
    method("mirror_image_instance_list", Flags::RD, mirror::instances::of_images),
    method("mirror_instances_list", Flags::RD, mirror::instances::list),
    method("mirror_instances_add", Flags::RD_WR_PROMOTE, mirror::instances::add),
    method("mirror_instances_remove", Flags::RD_WR, mirror::instances::remove),
    method("mirror_image_map_list", Flags::RD, mirror::instances::list_map),
    method("mirror_image_map_update", Flags::WR, mirror::instances::update_map),
    method("mirror_image_map_remove", Flags::WR, mirror::instances::remove_map),
    method("mirror_image_snapshot_unlink_peer", Flags::RD_WR, mirror::snapshots::unlink_peer),
    method("mirror_image_snapshot_set_copy_progress", Flags::RD_WR, mirror::snapshots::set_progress),
    method("group_dir_list", Flags::RD, directory::list),
    method("group_dir_add", Flags::RD_WR, directory::add),
    method("group_dir_remove", Flags::RD_WR, directory::remove),
    method("group_dir_rename", Flags::RD_WR, directory::rename),
    method("group_image_remove", Flags::RD_WR, groups::remove_image),
    method("group_image_list", Flags::RD, groups::list_images),
    method("group_image_set", Flags::RD_WR, groups::set_image),
    method("image_group_add", Flags::RD_WR, groups::join),
    method("image_group_remove", Flags::RD_WR, groups::leave),
    method("image_group_get", Flags::RD, groups::of_image),
    method("group_snap_set", Flags::RD_WR, groups::set_snap),
    method("group_snap_remove", Flags::RD_WR, groups::remove_snap),
    method("group_snap_get_by_id", Flags::RD, groups::show_snap),
    method("group_snap_list", Flags::RD, groups::list_snaps),
    method("trash_add", Flags::RD_WR, pool::trash_add),
    method("trash_remove", Flags::RD_WR, pool::trash_remove),
    method("trash_list", Flags::RD, pool::trash_list),
    method("trash_get", Flags::RD, pool::trash_show),
    method("trash_state_set", Flags::RD_WR, pool::set_trash_state),
    method("namespace_add", Flags::RD_WR, pool::namespace_add),
    method("namespace_remove", Flags::RD_WR, pool::namespace_remove),
    method("namespace_list", Flags::RD, pool::namespace_list),
    method("copyup", Flags::RD_WR, data::copy_up),
    method("sparse_copyup", Flags::RD_WR, data::copy_up_sparse),
    method("assert_snapc_seq", Flags::RD_WR, data::assert_snap_seq),
    method("sparsify", Flags::RD_WR, data::sparsify),
];

/// How many entries the first look into a map takes; Ceph takes 64, which takes more looks.
const PAGE_ENTRIES: u64 = 512;

/// A value of the map; none if it is not there.
fn stored<T: Decode>(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<Option<T>, Stop> {
    ctx.value(key)?.map(|value| parsed(&value)).transpose()
}

/// A value of the map; ENOENT if it is not there.
fn required<T: Decode>(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<T, Stop> {
    Ok(stored(ctx, key)?.ok_or(Errno::ENOENT)?)
}

/// What a stored value says; EIO if it does not follow its format.
fn parsed<T: Decode>(value: &Bytes) -> Result<T, Stop> {
    Decoder::shared(value).get().map_err(|_| Errno::EIO.into())
}

fn set<T: Encode>(ctx: &mut Ctx<'_, '_>, key: &[u8], value: &T) -> Result<(), Stop> {
    ctx.set_value(key, value.to_bytes())
}

/// Removes a value; nothing if it is not there, or the object is not.
fn unset(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<(), Stop> {
    ctx.remove_value(key).unless(Errno::ENOENT).map(|_| ())
}

/// Calls `visit` with the entries after `after` whose keys begin with `prefix` (which is cut off), until it says no.
fn visit(
    ctx: &mut Ctx<'_, '_>,
    prefix: &'static [u8],
    after: &[u8],
    visit: impl FnMut(&mut Ctx<'_, '_>, Bytes, Bytes) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    visit_some(ctx, prefix, after, u64::MAX, visit)
}

/// The same with `left` entries at the most. Each look takes twice as many as the one before: what was seen already is
/// gone through again after each, and would be as often as there are pages.
fn visit_some(
    ctx: &mut Ctx<'_, '_>,
    prefix: &'static [u8],
    after: &[u8],
    mut left: u64,
    mut visit: impl FnMut(&mut Ctx<'_, '_>, Bytes, Bytes) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    let mut after: Bytes = [prefix, after].concat().into();
    let mut entries = PAGE_ENTRIES;
    loop {
        let page = ctx.many_values(&after, prefix, entries.min(left))?;
        entries = entries.saturating_mul(2);
        left = left.saturating_sub(page.entries.len() as u64);
        let Some((last, _)) = page.entries.last() else { return Ok(()) };
        after = last.clone();
        for (key, value) in page.entries {
            if !visit(ctx, key.slice(prefix.len()..), value)? {
                return Ok(());
            }
        }
        if !page.more || left == 0 {
            return Ok(());
        }
    }
}

/// The input of the methods that list: where to begin, and how many to give.
struct ListInput {
    after: Bytes,
    max: u64,
}

impl Decode for ListInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(ListInput { after: d.get()?, max: d.u64()? })
    }
}

/// The entries that a listing asks for, each as `take` reads it.
fn listed<T>(
    ctx: &mut Ctx<'_, '_>,
    prefix: &'static [u8],
    asked: &ListInput,
    mut take: impl FnMut(&Bytes) -> Result<T, Stop>,
) -> Result<Vec<(Bytes, T)>, Stop> {
    let mut found = Vec::new();
    if asked.max == 0 {
        return Ok(found);
    }
    visit_some(ctx, prefix, &asked.after, asked.max, |_, key, value| {
        found.push((key, take(&value)?));
        Ok(true)
    })?;
    Ok(found)
}

/// Pairs as a map travels.
fn as_map<T: Encode>(found: &[(Bytes, T)]) -> Bytes {
    let mut e = Encoder::new();
    e.len(found.len());
    for (key, value) in found {
        e.put(key);
        e.put(value);
    }
    e.finish()
}

/// An image's and a group's id: letters and digits.
fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}
