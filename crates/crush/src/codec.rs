//! The map's bytes: what `ceph osd getcrushmap` writes and the OSD map carries.
//!
//! Follows Ceph v16.2 `src/crush/CrushWrapper.cc` (`encode`, `decode`, `decode_crush_bucket`) with the features of a
//! Pacific peer: tunables 5, device classes, choose args. Older encodings, which end earlier, are read with the
//! legacy values for what they lack. Whatever decodes has passed `validate`, so that a hostile map is refused here and
//! not met while mapping.

use crate::bucket::{Algorithm, Bucket, Weights};
use crate::choose_args::{ChooseArg, ChooseArgs};
use crate::map::{CrushMap, slot_id};
use crate::rule::Rule;
use crate::tunables::{Profile, Tunables};
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// `CRUSH_MAGIC`.
const MAGIC: u32 = 0x0001_0000;

/// A complaint about the map.
pub(crate) fn bad(why: &'static str) -> Malformed {
    Malformed::new("crush map", why)
}

impl Encode for CrushMap {
    fn encode(&self, e: &mut Encoder) {
        e.u32(MAGIC);
        e.len(self.buckets.len());
        e.len(self.rules.len());
        e.i32(self.max_devices);
        self.buckets.iter().for_each(|bucket| encode_bucket(bucket.as_ref(), e));
        for rule in &self.rules {
            e.u32(u32::from(rule.is_some()));
            if let Some(rule) = rule {
                e.put(rule);
            }
        }
        e.put(&self.type_names);
        e.put(&self.item_names);
        e.put(&self.rule_names);
        self.tunables.encode(e);
        e.put(&self.item_classes);
        e.put(&self.class_names);
        e.put(&self.class_buckets);
        e.put(&self.choose_args);
    }
}

impl Decode for CrushMap {
    const MIN_BYTES: usize = 28;
    fn decode(d: &mut Decoder<'_>) -> Result<CrushMap, Malformed> {
        if d.u32()? != MAGIC {
            return Err(bad("does not begin with the magic number"));
        }
        let (bucket_count, rule_count) = (d.u32()? as usize, d.u32()? as usize);
        // Each slot, used or not, takes four bytes.
        if bucket_count.saturating_add(rule_count).saturating_mul(4) > d.remaining() {
            return Err(bad("claims more buckets and rules than there are bytes"));
        }
        let mut map = CrushMap { max_devices: d.i32()?, ..CrushMap::default() };
        for slot in 0..bucket_count {
            map.buckets.push(decode_bucket(slot_id(slot), d)?);
        }
        for _ in 0..rule_count {
            map.rules.push(if d.u32()? != 0 { Some(d.get::<Rule>()?) } else { None });
        }
        map.type_names = decode_names(d)?;
        map.item_names = decode_names(d)?;
        map.rule_names = decode_names(d)?;
        map.tunables = Tunables::decode_tail(d)?;
        if d.remaining() > 0 {
            map.item_classes = d.get()?;
            map.class_names = d.get()?;
            map.class_buckets = d.get()?;
        }
        if d.remaining() > 0 {
            map.choose_args = d.get()?;
        }
        map.validate()?;
        Ok(map)
    }
}

impl Tunables {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.choose_local_tries);
        e.u32(self.choose_local_fallback_tries);
        e.u32(self.choose_total_tries);
        e.u32(self.chooseleaf_descend_once);
        e.u8(self.chooseleaf_vary_r);
        e.u8(self.straw_calc_version);
        e.u32(self.allowed_bucket_algs);
        e.u8(self.chooseleaf_stable);
    }

    /// Reads as many tunables as there are; the encoding grew by one field a release.
    fn decode_tail(d: &mut Decoder<'_>) -> Result<Tunables, Malformed> {
        let mut tunables = Profile::Argonaut.tunables();
        if d.remaining() > 0 {
            tunables.choose_local_tries = d.u32()?;
            tunables.choose_local_fallback_tries = d.u32()?;
            tunables.choose_total_tries = d.u32()?;
        }
        if d.remaining() > 0 {
            tunables.chooseleaf_descend_once = d.u32()?;
        }
        if d.remaining() > 0 {
            tunables.chooseleaf_vary_r = d.u8()?;
        }
        if d.remaining() > 0 {
            tunables.straw_calc_version = d.u8()?;
        }
        if d.remaining() > 0 {
            tunables.allowed_bucket_algs = d.u32()?;
        }
        if d.remaining() > 0 {
            tunables.chooseleaf_stable = d.u8()?;
        }
        Ok(tunables)
    }
}

fn encode_bucket(bucket: Option<&Bucket>, e: &mut Encoder) {
    let Some(bucket) = bucket else { return e.u32(0) };
    let algorithm = bucket.algorithm() as u8;
    e.u32(u32::from(algorithm));
    e.i32(bucket.id);
    e.u16(bucket.kind);
    e.raw(&[algorithm, bucket.hash]);
    e.u32(bucket.weight);
    e.put(&bucket.items);
    match &bucket.weights {
        Weights::Uniform { each } => e.u32(*each),
        Weights::List { weights, sums: other } | Weights::Straw { weights, straws: other } => {
            for (weight, other) in weights.iter().zip(other) {
                e.u32(*weight);
                e.u32(*other);
            }
        }
        Weights::Tree { nodes } => {
            e.u8(u8::try_from(nodes.len()).expect("a tree bucket has at most 128 nodes"));
            nodes.iter().for_each(|node| e.u32(*node));
        }
        Weights::Straw2 { weights } => weights.iter().for_each(|weight| e.u32(*weight)),
    }
}

fn decode_bucket(id: i32, d: &mut Decoder<'_>) -> Result<Option<Bucket>, Malformed> {
    let outer_algorithm = d.u32()?;
    if outer_algorithm == 0 {
        return Ok(None);
    }
    if d.i32()? != id {
        return Err(bad("has a bucket outside its slot"));
    }
    let kind = d.u16()?;
    let [algorithm, hash] = d.array()?;
    let weight = d.u32()?;
    let items: Vec<i32> = d.get()?;
    let size = items.len();
    let algorithm = Algorithm::from_u8(algorithm)
        .filter(|algorithm| u32::from(*algorithm as u8) == outer_algorithm)
        .ok_or(bad("has a bucket of an unknown algorithm"))?;
    let weights = match algorithm {
        Algorithm::Uniform => Weights::Uniform { each: d.u32()? },
        Algorithm::List => {
            let (weights, sums) = decode_pairs(size, d)?;
            Weights::List { weights, sums }
        }
        Algorithm::Straw => {
            let (weights, straws) = decode_pairs(size, d)?;
            Weights::Straw { weights, straws }
        }
        Algorithm::Tree => {
            let count = usize::from(d.u8()?);
            Weights::Tree { nodes: decode_words(count, d)? }
        }
        Algorithm::Straw2 => Weights::Straw2 { weights: decode_words(size, d)? },
    };
    Ok(Some(Bucket { id, kind, hash, weight, items, weights }))
}

fn decode_words(count: usize, d: &mut Decoder<'_>) -> Result<Vec<u32>, Malformed> {
    if count.saturating_mul(4) > d.remaining() {
        return Err(bad("is cut short within a bucket"));
    }
    (0..count).map(|_| d.u32()).collect()
}

fn decode_pairs(count: usize, d: &mut Decoder<'_>) -> Result<(Vec<u32>, Vec<u32>), Malformed> {
    let words = decode_words(count.saturating_mul(2), d)?;
    Ok(words.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip())
}

/// Reads a map of names. A bug of long ago wrote 64-bit keys; since no name is empty, a zero length gives them away.
fn decode_names(d: &mut Decoder<'_>) -> Result<BTreeMap<i32, String>, Malformed> {
    let count = d.len(8)?;
    let mut names = BTreeMap::new();
    for _ in 0..count {
        let key = d.i32()?;
        let mut len = d.u32()?;
        if len == 0 {
            len = d.u32()?;
        }
        let name = core::str::from_utf8(d.raw(len as usize)?).map_err(|_| bad("has a name that is not UTF-8"))?;
        names.insert(key, name.to_owned());
    }
    Ok(names)
}

impl Encode for ChooseArgs {
    fn encode(&self, e: &mut Encoder) {
        e.len(self.by_slot.len());
        for (slot, arg) in &self.by_slot {
            e.u32(*slot);
            e.put(&arg.weight_sets);
            e.put(&arg.ids);
        }
    }
}

impl Decode for ChooseArgs {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<ChooseArgs, Malformed> {
        let count = d.len(12)?;
        let mut args = ChooseArgs::default();
        for _ in 0..count {
            let slot = d.u32()?;
            let arg = ChooseArg { weight_sets: d.get()?, ids: d.get()? };
            if !arg.is_empty() {
                args.by_slot.insert(slot, arg);
            }
        }
        Ok(args)
    }
}
