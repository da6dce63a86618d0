//! Checksums of an object's data.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_checksum`): the payload is the seed, the answer a count and as
//! many sums of `chunk_size` bytes each. Nothing to sum is no error: beyond the object's end there is no answer at all.

use super::execution::{Execution, NOTHING, Step, fail};
use crate::limits::OBJECT_BYTES_MAX;
use base::Errno;
use base::checksum::crc32c;
use base::xxhash::{xxh32, xxh64};
use store::{Extent, ObjectWant};
use wire::osd::{OpParams, OsdOpItem};
use wire::{Decoder, Encoder};

const XXHASH32: u8 = 0;
const XXHASH64: u8 = 1;
const CRC32C: u8 = 2;

/// A way of summing, with its seed.
enum Sum {
    Short(fn(u32, &[u8]) -> u32, u32),
    Long(fn(u64, &[u8]) -> u64, u64),
}

impl Sum {
    /// What an op asks for; none if that is unknown or its seed is missing.
    fn of(kind: u8, item: &OsdOpItem) -> Option<Sum> {
        let mut seed = Decoder::shared(&item.payload);
        match kind {
            XXHASH32 => Some(Sum::Short(xxh32, seed.u32().ok()?)),
            XXHASH64 => Some(Sum::Long(xxh64, seed.u64().ok()?)),
            CRC32C => Some(Sum::Short(crc32c, seed.u32().ok()?)),
            _ => None,
        }
    }

    fn put(&self, e: &mut Encoder, data: &[u8]) {
        match self {
            Sum::Short(sum, seed) => e.u32(sum(*seed, data)),
            Sum::Long(sum, seed) => e.u64(sum(*seed, data)),
        }
    }
}

/// Adds what a checksum has to read.
pub(super) fn plan(item: &OsdOpItem, want: &mut ObjectWant) {
    let OpParams::Checksum { offset, length, .. } = item.params() else { return };
    let whole = offset == 0 && length == 0;
    want.data.push(Extent { offset, len: if whole { OBJECT_BYTES_MAX } else { length.min(OBJECT_BYTES_MAX) } });
}

pub(super) fn checksum(x: &mut Execution, item: &OsdOpItem) -> Step {
    let mut data = x.take_data();
    let OpParams::Checksum { offset, mut length, chunk_size, kind } = item.params() else {
        return fail(Errno::EINVAL);
    };
    let chunk = u64::from(chunk_size);
    let uneven = |length: u64| chunk > 0 && !length.is_multiple_of(chunk);
    if chunk > 0 && length == 0 || uneven(length) {
        return fail(Errno::EINVAL);
    }
    x.result = 0;
    let size = x.state.size;
    if offset == 0 && length == 0 {
        length = size;
    } else if offset >= size {
        return NOTHING;
    } else if offset.saturating_add(length) > size {
        length = size - offset;
        if uneven(length) {
            return fail(Errno::EINVAL);
        }
    }
    let Some(sum) = Sum::of(kind, item) else { return fail(Errno::EINVAL) };
    if length > 0 && !x.view.exists {
        return fail(Errno::ENOENT);
    }
    data.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    if data.len() as u64 != length {
        return fail(Errno::EINVAL);
    }
    let chunk = if chunk == 0 { data.len() } else { chunk_size as usize };
    let mut e = Encoder::with_capacity(4);
    if chunk == 0 {
        e.len(0);
    } else {
        let chunks = data.chunks_exact(chunk);
        e.len(chunks.len());
        chunks.for_each(|chunk| sum.put(&mut e, chunk));
    }
    Ok(e.finish())
}
