//! One node of the metadata tree, as it lies on the device.
//!
//! Owns the form (`FORMAT.md`, "Pages"): a header, a table of offsets, the entries in the order of their keys. A page
//! is checked once as it is read, and searched where it lies.
//!
//! Invariants: keys grow strictly; every offset and length of a parsed page lies inside it.

use crate::extent::device::IoBuf;
use crate::extent::layout::BLOCK;
use crate::extent::tree::key::Key;
use base::checksum::{CRC_SEED, crc32c};
use bytes::Bytes;
use wire::{Decoder, Malformed};

const MAGIC: u32 = 0x4750_584C;
const HEADER: usize = 16;

/// A page is cut in two when it would be larger, unless it has one entry only.
pub(crate) const PAGE_BYTES: usize = 8192;

/// Where a page lies, and the checksum of all of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PagePtr {
    pub(crate) block: u64,
    pub(crate) blocks: u32,
    pub(crate) crc: u32,
}

impl PagePtr {
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn to_bytes(self) -> Bytes {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.block.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[12..].copy_from_slice(&self.crc.to_le_bytes());
        Bytes::copy_from_slice(&bytes)
    }

    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<PagePtr, Malformed> {
        Ok(PagePtr { block: d.u64()?, blocks: d.u32()?, crc: d.u32()? })
    }
}

/// A page in memory.
#[derive(Debug)]
pub(crate) struct Page {
    bytes: Bytes,
    level: u8,
    count: usize,
}

impl Page {
    /// Checks a page that was read for `ptr`.
    pub(crate) fn parse(ptr: PagePtr, bytes: Bytes) -> Result<Page, Malformed> {
        if bytes.len() as u64 != u64::from(ptr.blocks) * BLOCK || crc32c(CRC_SEED, &bytes) != ptr.crc {
            return Err(Malformed::new("page", "does not match its checksum"));
        }
        let mut d = Decoder::new(&bytes);
        if d.u32()? != MAGIC {
            return Err(Malformed::new("page", "does not begin like one"));
        }
        let level = d.u8()?;
        d.skip(3)?;
        let count = d.u32()? as usize;
        let page = Page { bytes: bytes.clone(), level, count };
        page.check()?;
        Ok(page)
    }

    /// A page as it was just encoded, which needs no check.
    pub(crate) fn encoded(level: u8, count: usize, bytes: Bytes) -> Page {
        let page = Page { bytes, level, count };
        debug_assert_eq!(page.check(), Ok(()), "a page that we made");
        page
    }

    fn check(&self) -> Result<(), Malformed> {
        let bad = |why| Malformed::new("page", why);
        let table = self.count.checked_mul(4).map(|len| len + HEADER).filter(|&end| end <= self.bytes.len());
        if table.is_none() || self.count == 0 {
            return Err(bad("has an impossible number of entries"));
        }
        let mut last: Option<&[u8]> = None;
        for at in 0..self.count {
            let offset = self.u32_at(HEADER + at * 4) as usize;
            let lengths = offset.checked_add(8).filter(|&end| end <= self.bytes.len());
            let body = lengths.ok_or(bad("has an entry beyond its end"))?;
            let (key_len, value_len) = (self.u32_at(offset) as usize, self.u32_at(offset + 4) as usize);
            let end = body.checked_add(key_len).and_then(|end| end.checked_add(value_len));
            if end.is_none_or(|end| end > self.bytes.len()) {
                return Err(bad("has an entry beyond its end"));
            }
            if self.level > 0 && value_len != PagePtr::BYTES {
                return Err(bad("has a child of the wrong size"));
            }
            let key = &self.bytes[body..body + key_len];
            if last.is_some_and(|last| last >= key) {
                return Err(bad("has keys out of order"));
            }
            last = Some(key);
        }
        Ok(())
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    /// The level above the leaves, which have 0.
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// How many entries it has; at least one.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn parts(&self, at: usize) -> (usize, usize, usize) {
        let offset = self.u32_at(HEADER + at * 4) as usize;
        (offset + 8, self.u32_at(offset) as usize, self.u32_at(offset + 4) as usize)
    }

    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let (body, key_len, _) = self.parts(at);
        &self.bytes[body..body + key_len]
    }

    pub(crate) fn value(&self, at: usize) -> &[u8] {
        let (body, key_len, value_len) = self.parts(at);
        &self.bytes[body + key_len..body + key_len + value_len]
    }

    /// The value, sharing the page.
    pub(crate) fn value_bytes(&self, at: usize) -> Bytes {
        self.bytes.slice_ref(self.value(at))
    }

    /// The child at this place of an inner page.
    pub(crate) fn child(&self, at: usize) -> PagePtr {
        PagePtr::decode(&mut Decoder::new(self.value(at))).expect("the size was checked as it was read")
    }

    /// The place of the first entry whose key is not below `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The place of the child under which `key` belongs.
    pub(crate) fn child_for(&self, key: &[u8]) -> usize {
        let at = self.lower_bound(key);
        if at < self.count && self.key(at) == key { at } else { at.saturating_sub(1) }
    }
}

/// The bytes that an entry adds to a page.
pub(crate) fn entry_bytes(key: &[u8], value: &[u8]) -> usize {
    12 + key.len() + value.len()
}

/// Puts entries, whose keys must grow, into the form of a page.
pub(crate) fn encode(level: u8, entries: &[(Key, Bytes)]) -> IoBuf {
    let total = HEADER + entries.iter().map(|(k, v)| entry_bytes(k, v)).sum::<usize>();
    let mut buf = IoBuf::new(total);
    let out = buf.as_mut();
    let len32 = |len: usize| u32::try_from(len).expect("a transaction's size bounds keys and values").to_le_bytes();
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4] = level;
    out[8..12].copy_from_slice(&len32(entries.len()));
    out[12..16].copy_from_slice(&len32(total));
    let mut offset = HEADER + entries.len() * 4;
    for (at, (key, value)) in entries.iter().enumerate() {
        out[HEADER + at * 4..HEADER + at * 4 + 4].copy_from_slice(&len32(offset));
        out[offset..offset + 4].copy_from_slice(&len32(key.len()));
        out[offset + 4..offset + 8].copy_from_slice(&len32(value.len()));
        let body = offset + 8;
        out[body..body + key.len()].copy_from_slice(key);
        out[body + key.len()..body + key.len() + value.len()].copy_from_slice(value);
        offset = body + key.len() + value.len();
    }
    buf
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(entries: &[(&str, &str)]) -> (PagePtr, Bytes) {
        let entries: Vec<(Key, Bytes)> =
            entries.iter().map(|(k, v)| (k.as_bytes().into(), Bytes::copy_from_slice(v.as_bytes()))).collect();
        let bytes = Bytes::from_owner(encode(0, &entries));
        let blocks = (bytes.len() as u64 / BLOCK) as u32;
        (PagePtr { block: 9, blocks, crc: crc32c(CRC_SEED, &bytes) }, bytes)
    }

    #[test]
    fn entries_are_found_where_they_lie() {
        let (ptr, bytes) = page(&[("a", "1"), ("c", "333"), ("e", "")]);
        let page = Page::parse(ptr, bytes).expect("ours");
        let bounds = ["", "a", "b", "c", "d", "e", "f"].map(|key| page.lower_bound(key.as_bytes()));
        assert_eq!(bounds, [0, 0, 1, 1, 2, 2, 3]);
        let children = ["", "a", "b", "c", "d", "e", "f"].map(|key| page.child_for(key.as_bytes()));
        assert_eq!(children, [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!((page.key(1), page.value(1)), (&b"c"[..], &b"333"[..]));
    }

    #[test]
    fn flipped_bits_and_lying_pages_are_refused() {
        let (ptr, bytes) = page(&[("a", "1"), ("c", "333"), ("e", "")]);
        for at in (0..200).chain([4095]) {
            let mut bad = bytes.to_vec();
            bad[at] ^= 4;
            assert!(Page::parse(ptr, bad.clone().into()).is_err(), "byte {at}");
            // Also where the checksum is made to match: no length may lead outside.
            let ptr = PagePtr { crc: crc32c(CRC_SEED, &bad), ..ptr };
            if let Ok(page) = Page::parse(ptr, bad.into()) {
                (0..page.len()).for_each(|at| drop((page.key(at).to_vec(), page.value(at).to_vec())));
            }
        }
        let (ptr, bytes) = page(&[("c", "1"), ("a", "2")]);
        assert!(Page::parse(ptr, bytes).is_err(), "keys out of order");
    }
}
