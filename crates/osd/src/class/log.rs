//! `log`: entries ordered by time in the object's map, with the newest time in its header.
//!
//! Follows Ceph v16.2 `src/cls/log/cls_log.cc`, `cls_log_types.h` and `cls_log_ops.h`.

use super::time_key::{PREFIX, reaches, time_key};
use super::{Answer, Ctx, Flags, Method, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("add", Flags::RD_WR, add),
    method("list", Flags::RD, list),
    method("trim", Flags::RD_WR, trim),
    method("info", Flags::RD, info),
];

const ENTRIES_MAX: u64 = 1000;

/// `cls_log_entry`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    section: Bytes,
    name: Bytes,
    at: UTime,
    data: Bytes,
    id: Bytes,
}

impl Encode for Entry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.section);
            e.put(&self.name);
            e.put(&self.at);
            e.put(&self.data);
            e.put(&self.id);
        });
    }
}

impl Decode for Entry {
    const MIN_BYTES: usize = 26;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_log_entry", 2, |d, version| {
            Ok(Entry {
                section: d.get()?,
                name: d.get()?,
                at: d.get()?,
                data: d.get()?,
                id: if version >= 2 { d.get()? } else { Bytes::new() },
            })
        })
    }
}

/// `cls_log_header`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Header {
    max_marker: Bytes,
    max_time: UTime,
}

impl Encode for Header {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.max_marker);
            e.put(&self.max_time);
        });
    }
}

impl Decode for Header {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_log_header", 1, |d, _| Ok(Header { max_marker: d.get()?, max_time: d.get()? }))
    }
}

/// The header; one that cannot be read counts as none, as in Ceph.
fn header(ctx: &mut Ctx<'_, '_>) -> Result<Header, Stop> {
    let stored = ctx.omap_header()?;
    Ok(Decoder::shared(&stored).get().unwrap_or_default())
}

struct AddInput {
    entries: Vec<Entry>,
    monotonic: bool,
}

impl Decode for AddInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_log_add_op", 2, |d, version| {
            Ok(AddInput { entries: d.get()?, monotonic: if version >= 2 { d.bool()? } else { true } })
        })
    }
}

fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let AddInput { entries, monotonic } = input(given)?;
    let mut header = header(ctx)?;
    for mut entry in entries {
        let at = if monotonic { entry.at.max(header.max_time) } else { entry.at };
        header.max_time = header.max_time.max(at);
        if entry.id.is_empty() {
            entry.id = [time_key(at), ctx.change_name().into_bytes()].concat().into();
        }
        header.max_marker = header.max_marker.max(entry.id.clone());
        ctx.set_value(&entry.id, entry.to_bytes())?;
    }
    ctx.set_omap_header(header.to_bytes())?;
    done()
}

struct ListInput {
    from: UTime,
    marker: Bytes,
    to: UTime,
    max: i32,
}

impl Decode for ListInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_log_list_op", 1, |d, _| {
            Ok(ListInput { from: d.get()?, marker: d.get()?, to: d.get()?, max: d.i32()? })
        })
    }
}

fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let ListInput { from, marker, to, max } = input(given)?;
    let after = if marker.is_empty() { time_key(from).into() } else { marker };
    let end = (from != UTime::default() && to >= from).then(|| time_key(to));
    let max = u64::try_from(max).ok().filter(|&max| max > 0).unwrap_or(ENTRIES_MAX).min(ENTRIES_MAX);
    let page = ctx.values(&after, PREFIX, max)?;
    let (mut more, mut marker, mut found) = (page.more, Bytes::new(), Vec::new());
    for (key, value) in page.entries {
        marker = key;
        if end.as_ref().is_some_and(|end| reaches(&marker, end)) {
            more = false;
            break;
        }
        // Entries that cannot be read are left out, as in Ceph.
        found.extend(Decoder::shared(&value).get::<Entry>());
    }
    let mut e = Encoder::new();
    e.versioned(1, 1, |e| {
        e.put(&found);
        e.put(&marker);
        e.bool(more);
    });
    Ok(e.finish())
}

struct TrimInput {
    from: UTime,
    to: UTime,
    from_marker: Bytes,
    to_marker: Bytes,
}

impl Decode for TrimInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_log_trim_op", 2, |d, version| {
            let (from, to) = (d.get()?, d.get()?);
            let (from_marker, to_marker) = if version >= 2 { (d.get()?, d.get()?) } else { Default::default() };
            Ok(TrimInput { from, to, from_marker, to_marker })
        })
    }
}

fn trim(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: TrimInput = input(given)?;
    let after = if asked.from_marker.is_empty() { time_key(asked.from).into() } else { asked.from_marker };
    // The end is exclusive: the microsecond after, or the string after the marker.
    let end = if asked.to_marker.is_empty() {
        let nanos = u64::from(asked.to.nanos) + 1000;
        let secs = asked.to.secs.saturating_add((nanos / 1_000_000_000) as u32);
        time_key(UTime { secs, nanos: (nanos % 1_000_000_000) as u32 })
    } else {
        [&asked.to_marker[..], b"\0"].concat()
    };
    let first = ctx.keys(&after, 1)?.entries.into_iter().next().map(|(key, _)| key);
    let Some(first) = first.filter(|first| end[..] >= first[..]) else { return Err(Errno::ENODATA.into()) };
    ctx.remove_range(first, end.into())?;
    done()
}

fn info(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct InfoInput;
    impl Decode for InfoInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            d.versioned("cls_log_info_op", 1, |_, _| Ok(InfoInput))
        }
    }
    let InfoInput = input(given)?;
    let header = header(ctx)?;
    let mut e = Encoder::new();
    e.versioned(1, 1, |e| e.put(&header));
    Ok(e.finish())
}
