//! Who refers to a chunk, as exactly as there is room for: by object, by hash, by pool, or only counted.
//!
//! Follows Ceph v16.2 `src/cls/cas/cls_cas_internal.{h,cc}` (`chunk_refs_t`). The class itself keeps whole objects; what
//! a deduplication tool has coarsened is kept up as it is.

use std::collections::BTreeMap;
use wire::osd::HObject;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// The references (`chunk_refs_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum References {
    ByObject(BTreeMap<HObject, u32>),
    /// Pool and so many low bits of the hash.
    ByHash {
        bits: u32,
        counts: BTreeMap<(i64, u32), u64>,
    },
    ByPool(BTreeMap<i64, u64>),
    Count(u64),
}

impl Default for References {
    fn default() -> References {
        References::ByObject(BTreeMap::new())
    }
}

/// One fewer of `key`; false if there is none.
fn take_one<K: Ord, N: Copy + PartialEq + From<u8> + core::ops::SubAssign>(
    counts: &mut BTreeMap<K, N>,
    key: &K,
) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= N::from(1);
    if *count == N::from(0) {
        counts.remove(key);
    }
    true
}

fn masked(hash: u32, bits: u32) -> u32 {
    hash & u32::MAX.checked_shr(32 - bits.clamp(1, 32)).unwrap_or(u32::MAX)
}

impl References {
    /// One more.
    pub(super) fn add(&mut self, source: HObject) {
        match self {
            References::ByObject(counts) => *counts.entry(source).or_default() += 1,
            References::ByHash { bits, counts } => {
                *counts.entry((source.pool.0, masked(source.hash, *bits))).or_default() += 1;
            }
            References::ByPool(counts) => *counts.entry(source.pool.0).or_default() += 1,
            References::Count(count) => *count = count.saturating_add(1),
        }
    }

    /// One fewer; false if there is none to take. What has become empty is exact again.
    pub(super) fn remove(&mut self, source: &HObject) -> bool {
        let found = match self {
            References::ByObject(counts) => take_one(counts, source),
            References::ByHash { bits, counts } => take_one(counts, &(source.pool.0, masked(source.hash, *bits))),
            References::ByPool(counts) => take_one(counts, &source.pool.0),
            References::Count(count) => {
                let found = *count > 0;
                *count = count.saturating_sub(1);
                found
            }
        };
        if self.is_empty() {
            *self = References::default();
        }
        found
    }

    /// Whether nobody refers to the chunk.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            References::ByObject(counts) => counts.is_empty(),
            References::ByHash { counts, .. } => counts.is_empty(),
            References::ByPool(counts) => counts.is_empty(),
            References::Count(count) => *count == 0,
        }
    }
}

/// Seven bits a byte, the lowest first (`denc_varint`).
fn put_varint(e: &mut Encoder, mut value: u64) {
    while value >= 0x80 {
        e.u8(value as u8 | 0x80);
        value >>= 7;
    }
    e.u8(value as u8);
}

fn varint(d: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = d.u8()?;
        let bits = u64::from(byte & 0x7F);
        if shift > 63 || bits << shift >> shift != bits {
            return Err(Malformed::new("varint", "is too large"));
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
    }
}

/// The sign is the lowest bit (`denc_signed_varint`).
fn put_signed_varint(e: &mut Encoder, value: i64) {
    put_varint(e, value.unsigned_abs() << 1 | u64::from(value < 0));
}

fn signed_varint(d: &mut Decoder<'_>) -> Result<i64, Malformed> {
    let raw = varint(d)?;
    let magnitude = (raw >> 1) as i64;
    Ok(if raw & 1 != 0 { -magnitude } else { magnitude })
}

/// A count of elements that take at least two bytes each.
fn elements(d: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let count = varint(d)?;
    if count > d.remaining() as u64 / 2 {
        return Err(Malformed::new("chunk_refs_t", "claims more elements than there are bytes"));
    }
    Ok(count)
}

fn hash_bytes(bits: u32) -> usize {
    bits.div_ceil(8) as usize
}

impl Encode for References {
    fn encode(&self, e: &mut Encoder) {
        let kind = match self {
            References::ByObject(_) => 1,
            References::ByHash { .. } => 2,
            References::ByPool(_) => 4,
            References::Count(_) => 5,
        };
        e.versioned(1, 1, |e| {
            e.u8(kind);
            e.versioned(1, 1, |e| match self {
                References::ByObject(counts) => {
                    e.len(counts.values().map(|&n| n as usize).sum());
                    for (object, &count) in counts {
                        (0..count).for_each(|_| e.put(object));
                    }
                }
                References::ByHash { bits, counts } => {
                    put_varint(e, counts.values().sum());
                    put_varint(e, u64::from(*bits));
                    put_varint(e, counts.len() as u64);
                    for ((pool, hash), count) in counts {
                        put_signed_varint(e, *pool);
                        e.raw(&hash.to_le_bytes()[..hash_bytes(*bits)]);
                        put_varint(e, *count);
                    }
                }
                References::ByPool(counts) => {
                    put_varint(e, counts.values().sum());
                    put_varint(e, counts.len() as u64);
                    for (pool, count) in counts {
                        put_signed_varint(e, *pool);
                        put_varint(e, *count);
                    }
                }
                References::Count(count) => e.u64(*count),
            });
        });
    }
}

impl Decode for References {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("chunk_refs_t", 1, |d, _| {
            let kind = d.u8()?;
            d.versioned("chunk_refs_t", 1, |d, _| match kind {
                1 => {
                    let mut counts = BTreeMap::new();
                    for object in d.get::<Vec<HObject>>()? {
                        *counts.entry(object).or_default() += 1;
                    }
                    Ok(References::ByObject(counts))
                }
                2 => by_hash(d),
                4 => {
                    let _total = varint(d)?;
                    let count = elements(d)?;
                    let counts = (0..count).map(|_| Ok((signed_varint(d)?, count_of(d)?)));
                    Ok(References::ByPool(counts.collect::<Result<_, Malformed>>()?))
                }
                5 => Ok(References::Count(d.u64()?)),
                _ => Err(Malformed::new("chunk_refs_t", "has an unknown kind")),
            })
        })
    }
}

/// One place's count: so many that no sum of them overflows.
fn count_of(d: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let count = varint(d)?;
    if count == 0 || count > u64::from(u32::MAX) {
        return Err(Malformed::new("chunk_refs_t", "has an impossible count"));
    }
    Ok(count)
}

fn by_hash(d: &mut Decoder<'_>) -> Result<References, Malformed> {
    let _total = varint(d)?;
    let bits = u32::try_from(varint(d)?).ok().filter(|bits| (1..=32).contains(bits));
    let bits = bits.ok_or(Malformed::new("chunk_refs_t", "has an impossible hash"))?;
    let mut counts = BTreeMap::new();
    for _ in 0..elements(d)? {
        let pool = signed_varint(d)?;
        let mut hash = [0; 4];
        hash[..hash_bytes(bits)].copy_from_slice(d.raw(hash_bytes(bits))?);
        counts.insert((pool, u32::from_le_bytes(hash)), count_of(d)?);
    }
    Ok(References::ByHash { bits, counts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;
    use bytes::Bytes;

    fn object(pool: i64, hash: u32) -> HObject {
        HObject::head(PoolId(pool), Bytes::new(), Bytes::new(), "o".into(), hash)
    }

    #[test]
    fn each_kind_counts_and_round_trips() {
        let kinds = [
            References::default(),
            References::ByHash { bits: 9, counts: BTreeMap::new() },
            References::ByPool(BTreeMap::new()),
            References::Count(0),
        ];
        for mut references in kinds {
            references.add(object(3, 0x12345678));
            references.add(object(3, 0x12345678));
            references.add(object(-5, 7));
            assert_eq!(References::from_bytes(&references.to_bytes()), Ok(references.clone()));
            let is_count = matches!(references, References::Count(_));
            assert_eq!(references.remove(&object(9, 9)), is_count);
            if is_count {
                references.add(object(9, 9));
            }
            assert!(references.remove(&object(3, 0x12345678)) && references.remove(&object(3, 0x12345678)));
            assert!(!references.is_empty());
            assert!(references.remove(&object(-5, 7)));
            assert_eq!(references, References::default());
        }
    }
}
