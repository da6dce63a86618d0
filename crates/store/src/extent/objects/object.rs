//! An object as the store knows it: size, attributes, where its data lies.
//!
//! Owns the value's encoding in the tree (`FORMAT.md`, "Objects"), but for the part that is `block_map`'s.
//!
//! Invariant: bytes of a mapped block beyond the object's end are zeros.

use crate::extent::objects::block_map::BlockMap;
use crate::extent::tree::keys::ObjectNumber;
use bytes::Bytes;
use wire::{Decoder, Encoder, Malformed};

/// An object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Object {
    /// Its number, by which its map's entries are found.
    pub(crate) number: ObjectNumber,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Whether its map has ever had an entry; if not, nobody looks for one.
    pub(crate) has_omap: bool,
    /// The map's header.
    pub(crate) omap_header: Bytes,
    /// Attributes, by name.
    pub(crate) attrs: Vec<(Bytes, Bytes)>,
    /// Where its data lies.
    pub(crate) blocks: BlockMap,
}

impl Object {
    /// An object with nothing in it.
    pub(crate) fn new(number: ObjectNumber) -> Object {
        Object { number, ..Object::default() }
    }

    /// Sets an attribute to copies of its name and value.
    pub(crate) fn set_attr(&mut self, name: &[u8], value: &[u8]) {
        let value = Bytes::copy_from_slice(value);
        match self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)) {
            Ok(at) => self.attrs[at].1 = value,
            Err(at) => self.attrs.insert(at, (Bytes::copy_from_slice(name), value)),
        }
    }

    /// Removes an attribute.
    pub(crate) fn remove_attr(&mut self, name: &[u8]) {
        if let Ok(at) = self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)) {
            self.attrs.remove(at);
        }
    }

    /// The attribute.
    pub(crate) fn attr(&self, name: &[u8]) -> Option<&Bytes> {
        self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok().map(|at| &self.attrs[at].1)
    }

    /// The bytes of memory it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let attrs: usize = self.attrs.iter().map(|(n, v)| n.len() + v.len() + 96).sum();
        160 + attrs + self.omap_header.len() + self.blocks.held_bytes()
    }

    /// The value in the tree.
    pub(crate) fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.u64(self.number.0);
        e.u64(self.size);
        e.bool(self.has_omap);
        e.blob(&self.omap_header);
        e.len(self.attrs.len());
        for (name, value) in &self.attrs {
            e.blob(name);
            e.blob(value);
        }
        self.blocks.encode(e);
    }

    /// Reads a value. Attributes are slices of the decoder's buffer.
    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Object, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("object", "has an unknown version"));
        }
        let (number, size) = (ObjectNumber(d.u64()?), d.u64()?);
        let (has_omap, omap_header) = (d.bool()?, d.blob()?);
        let mut object = Object { number, size, has_omap, omap_header, ..Object::default() };
        let attrs = d.len(8)?;
        object.attrs.reserve_exact(attrs);
        for _ in 0..attrs {
            object.attrs.push((d.blob()?, d.blob()?));
        }
        if !object.attrs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Malformed::new("object", "has attributes out of order"));
        }
        object.blocks = BlockMap::decode(d)?;
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::objects::block_map::Mapped;
    use base::Rng;

    fn filled(rng: &mut Rng) -> Object {
        let mut object = Object { number: ObjectNumber(7), size: rng.u64(), ..Object::default() };
        object.omap_header = Bytes::from_static(b"header");
        for _ in 0..rng.below(300) {
            let mapped = Mapped { block: 1 + rng.below(1 << 40), crc: rng.u64() as u32 };
            object.blocks.map(rng.below(1000), mapped);
        }
        object.set_attr(b"b", b"2");
        object.set_attr(b"a", b"1");
        object
    }

    #[test]
    fn values_round_trip_and_cut_ones_are_refused() {
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let object = filled(&mut rng);
            let mut e = Encoder::new();
            object.encode(&mut e);
            let bytes = e.finish();
            let mut d = Decoder::shared(&bytes);
            assert_eq!(Object::decode(&mut d).as_ref(), Ok(&object));
            assert_eq!(d.remaining(), 0);
            let cut = rng.below(bytes.len() as u64) as usize;
            assert!(Object::decode(&mut Decoder::new(&bytes[..cut])).is_err());
        }
    }
}
