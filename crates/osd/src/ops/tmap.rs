//! Ops on an object whose data is a map: a header and sorted keys with values, as objects had them before omaps.
//!
//! Owns the encoding of such a map and of the commands that change it. Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc`
//! (`do_tmapup`, `do_tmapup_slow`, `do_tmap2omap`) in what it answers to commands that can be read; where its OSDs stop
//! with an uncaught exception (contents that are no map, a header cut short) the answer here is EINVAL.

use super::data;
use super::execution::{Execution, NOTHING, Step, Stop, fail};
use crate::limits::OBJECT_BYTES_MAX;
use base::Errno;
use bytes::Bytes;
use store::{Extent, ObjectWant, Op};
use wire::osd::OsdOpItem;
use wire::osd::payload::KeyValues;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// Do nothing to an object without a map, where that is asked for (`CEPH_OSD_TMAP2OMAP_NULLOK`).
const NULL_OK: u8 = 1;

/// Commands (`CEPH_OSD_TMAP_*`).
const HEADER: u8 = b'h';
const SET: u8 = b's';
const CREATE: u8 = b'c';
const REMOVE: u8 = b'r';
const REMOVE_IF_THERE: u8 = b'R';

/// What an object has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Tmap {
    header: Bytes,
    entries: KeyValues,
}

impl Encode for Tmap {
    fn encode(&self, e: &mut Encoder) {
        e.blob(&self.header);
        e.put(&self.entries);
    }
}

impl Decode for Tmap {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Tmap { header: d.blob()?, entries: d.get()? })
    }
}

/// Adds what the ops read: the whole object.
pub(super) fn plan(want: &mut ObjectWant) {
    want.data.push(Extent { offset: 0, len: OBJECT_BYTES_MAX });
}

/// The object's data as it was before the request, as far as the request has left of it.
fn contents(x: &mut Execution) -> Bytes {
    let mut data = x.take_data();
    data.truncate(usize::try_from(x.state.size).unwrap_or(usize::MAX));
    data
}

fn invalid(_: Malformed) -> Stop {
    Errno::EINVAL.into()
}

/// tmapget: all of it, whatever it is.
pub(super) fn get(x: &mut Execution) -> Step {
    x.require_exists()?;
    let data = contents(x);
    x.result = 0;
    Ok(data)
}

/// tmapput: a whole new map; its keys are put into order.
pub(super) fn put(x: &mut Execution, item: &OsdOpItem) -> Step {
    let mut d = Decoder::shared(&item.payload);
    d.blob().map_err(invalid)?;
    let sorted = has_sorted_keys(&mut d).map_err(invalid)?;
    let data = if sorted {
        item.payload.clone()
    } else {
        let map: Tmap = Decoder::shared(&item.payload).get().map_err(invalid)?;
        map.to_bytes()
    };
    data::replace(x, data)
}

fn has_sorted_keys(d: &mut Decoder<'_>) -> Result<bool, Malformed> {
    let (count, mut last, mut sorted) = (d.len(8)?, Bytes::new(), true);
    for _ in 0..count {
        let key = d.blob()?;
        d.blob()?;
        sorted &= key >= last;
        last = key;
    }
    Ok(sorted)
}

/// tmapup: commands, in the order of their keys; other orders are taken as well, but not with every command.
pub(super) fn update(x: &mut Execution, item: &OsdOpItem) -> Step {
    let data = contents(x);
    if item.payload.is_empty() {
        x.result = 0;
        return NOTHING;
    }
    let map: Tmap = if data.is_empty() { Tmap::default() } else { Decoder::shared(&data).get().map_err(invalid)? };
    let updated = match update_in_order(map.clone(), &item.payload)? {
        Some(updated) => updated,
        None => update_in_any_order(map, &item.payload)?,
    };
    data::replace(x, updated.to_bytes())
}

/// None where the keys are not in order.
fn update_in_order(mut map: Tmap, commands: &Bytes) -> Result<Option<Tmap>, Stop> {
    let mut d = Decoder::shared(commands);
    let mut last = Bytes::new();
    if d.peek().first() == Some(&HEADER) {
        d.u8().map_err(invalid)?;
        map.header = d.blob().map_err(invalid)?;
    }
    while d.remaining() > 0 {
        let (command, key) = (d.u8().map_err(invalid)?, d.blob().map_err(invalid)?);
        if key < last {
            return Ok(None);
        }
        match command {
            SET => drop(map.entries.insert(key.clone(), d.blob().map_err(invalid)?)),
            CREATE if map.entries.contains_key(&key) => return Err(Errno::EEXIST.into()),
            CREATE => drop(map.entries.insert(key.clone(), d.blob().map_err(invalid)?)),
            REMOVE if !map.entries.contains_key(&key) => return Err(Errno::ENOENT.into()),
            REMOVE | REMOVE_IF_THERE => drop(map.entries.remove(&key)),
            _ => return Err(Errno::EINVAL.into()),
        }
        last = key;
    }
    Ok(Some(map))
}

fn update_in_any_order(mut map: Tmap, commands: &Bytes) -> Result<Tmap, Stop> {
    let mut d = Decoder::shared(commands);
    while d.remaining() > 0 {
        let (command, key) = (d.u8().map_err(invalid)?, d.blob().map_err(invalid)?);
        match command {
            SET => drop(map.entries.insert(key, d.blob().map_err(invalid)?)),
            REMOVE if !map.entries.contains_key(&key) => return Err(Errno::ENOENT.into()),
            REMOVE | REMOVE_IF_THERE => drop(map.entries.remove(&key)),
            HEADER => map.header = key,
            _ => return Err(Errno::EINVAL.into()),
        }
    }
    Ok(map)
}

/// tmap2omap: what the data says becomes the omap, and the data goes.
pub(super) fn to_omap(x: &mut Execution, item: &OsdOpItem) -> Step {
    let data = contents(x);
    if data.is_empty() {
        if item.args[0] & NULL_OK == 0 {
            return fail(Errno::ENODATA);
        }
        x.result = 0;
        return NOTHING;
    }
    let map: Tmap = Decoder::shared(&data).get().map_err(invalid)?;
    x.changes.push(Op::Truncate(0));
    x.state.size = 0;
    x.changes.push(Op::OmapHeader(map.header));
    x.changes.push(Op::OmapSet(map.entries.into_iter().collect()));
    x.result = 0;
    NOTHING
}
