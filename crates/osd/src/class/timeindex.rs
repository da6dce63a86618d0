//! `timeindex`: values ordered by time and a name in the object's map.
//!
//! Follows Ceph v16.2 `src/cls/timeindex/cls_timeindex.cc`, `cls_timeindex_types.h` and `cls_timeindex_ops.h`.

use super::time_key::{PREFIX, passes, reaches, time_key};
use super::{Answer, Ctx, Flags, Method, done, input, method};
use base::Errno;
use bytes::Bytes;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const METHODS: &[Method] =
    &[method("add", Flags::RD_WR, add), method("list", Flags::RD, list), method("trim", Flags::RD_WR, trim)];

const ENTRIES_MAX: u64 = 1000;
/// How much of a name is given back.
const NAME_BYTES_MAX: usize = 255;

/// `cls_timeindex_entry`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Entry {
    at: UTime,
    name: Bytes,
    value: Bytes,
}

impl Encode for Entry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.at);
            e.put(&self.name);
            e.put(&self.value);
        });
    }
}

impl Decode for Entry {
    const MIN_BYTES: usize = 22;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_timeindex_entry", 1, |d, _| Ok(Entry { at: d.get()?, name: d.get()?, value: d.get()? }))
    }
}

impl Entry {
    /// What a key says, as far as it says anything: `1_SECONDS.MICROSECONDS_NAME`, the name up to a space. Ceph puts the
    /// microseconds where nanoseconds belong, and clients have grown up with that.
    fn from_key(key: &[u8], value: Bytes) -> Entry {
        let mut entry = Entry { value, ..Entry::default() };
        let Some(rest) = key.strip_prefix(PREFIX) else { return entry };
        let (secs, rest) = number(rest);
        entry.at.secs = secs;
        let Some(rest) = rest.strip_prefix(b".") else { return entry };
        let (micros, rest) = number(rest);
        entry.at.nanos = micros;
        let Some(rest) = rest.strip_prefix(b"_") else { return entry };
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        entry.name = Bytes::copy_from_slice(&rest[..end.min(NAME_BYTES_MAX)]);
        entry
    }
}

/// The digits in front, as a number; what does not fit is cut as C cuts it.
fn number(text: &[u8]) -> (u32, &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let value = text[..end].iter().fold(0u32, |n, b| n.wrapping_mul(10).wrapping_add(u32::from(b - b'0')));
    (value, &text[end..])
}

fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct AddInput(Vec<Entry>);
    impl Decode for AddInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            d.versioned("cls_timeindex_add_op", 1, |d, _| Ok(AddInput(d.get()?)))
        }
    }
    let AddInput(entries) = input(given)?;
    for entry in entries {
        let key: Bytes = [&time_key(entry.at), &entry.name[..]].concat().into();
        ctx.set_value(&key, entry.value)?;
    }
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
        d.versioned("cls_timeindex_list_op", 1, |d, _| {
            Ok(ListInput { from: d.get()?, marker: d.get()?, to: d.get()?, max: d.i32()? })
        })
    }
}

fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let ListInput { from, marker, to, max } = input(given)?;
    let after = if marker.is_empty() { time_key(from).into() } else { marker };
    let end = (to >= from).then(|| time_key(to));
    let max = u64::try_from(max).unwrap_or(ENTRIES_MAX).min(ENTRIES_MAX);
    let page = ctx.values(&after, PREFIX, max)?;
    let (mut more, mut marker, mut found) = (page.more, Bytes::new(), Vec::new());
    for (key, value) in page.entries {
        if end.as_ref().is_some_and(|end| reaches(&key, end)) {
            more = false;
            break;
        }
        found.push(Entry::from_key(&key, value));
        marker = key;
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
        d.versioned("cls_timeindex_trim_op", 1, |d, _| {
            Ok(TrimInput { from: d.get()?, to: d.get()?, from_marker: d.get()?, to_marker: d.get()? })
        })
    }
}

fn trim(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: TrimInput = input(given)?;
    let after = if asked.from_marker.is_empty() { time_key(asked.from).into() } else { asked.from_marker };
    let end: Bytes = if asked.to_marker.is_empty() { time_key(asked.to).into() } else { asked.to_marker };
    let page = ctx.values(&after, PREFIX, ENTRIES_MAX)?;
    let keys: Vec<Bytes> = page.entries.into_iter().map(|(key, _)| key).take_while(|key| !passes(key, &end)).collect();
    if keys.is_empty() {
        return Err(Errno::ENODATA.into());
    }
    for key in keys {
        ctx.remove_value(&key)?;
    }
    done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_scanf_finds_in_it() {
        let entry = |key: &[u8]| Entry::from_key(key, Bytes::new());
        let at = UTime { secs: 12, nanos: 34 };
        assert_eq!(entry(b"1_0000000012.000034_na me"), Entry { at, name: "na".into(), value: Bytes::new() });
        assert_eq!(entry(b"1_0000000012.000034_"), Entry { at, ..Entry::default() });
        assert_eq!(entry(b"1_x"), Entry::default());
    }
}
