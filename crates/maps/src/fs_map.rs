//! The file systems' map of a cluster that has none (`FSMap`).
//!
//! Follows Ceph v16.2 `src/mds/FSMap.{h,cc}`, version 7, and `src/include/CompatSet.h`. Clients subscribe to it whether
//! or not there are file systems. Refuses maps with file systems or metadata servers: those are outside the present
//! scope.

use base::Epoch;
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// Features by number: a bit mask and names (`CompatSet::FeatureSet`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureSet {
    /// A bit per number, the lowest clear.
    pub mask: u64,
    /// Names by number.
    pub names: BTreeMap<u64, String>,
}

impl FeatureSet {
    /// The set of these.
    pub fn of(features: &[(u64, &str)]) -> FeatureSet {
        let names: BTreeMap<u64, String> = features.iter().map(|(bit, name)| (*bit, (*name).to_owned())).collect();
        FeatureSet { mask: names.keys().filter(|bit| **bit < 64).fold(0, |mask, bit| mask | 1 << bit), names }
    }
}

impl Encode for FeatureSet {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.mask);
        e.put(&self.names);
    }
}

impl Decode for FeatureSet {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(FeatureSet { mask: d.u64()?, names: d.get()? })
    }
}

/// The file systems' map, empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsMap {
    /// Which version this is.
    pub epoch: Epoch,
    /// The number the next file system gets.
    pub next_filesystem_id: u64,
    /// The file system that clients get which name none; -1 none.
    pub legacy_client_fscid: i32,
    /// What metadata servers must know, in three degrees: to use anything, to write, to read.
    pub compat: [FeatureSet; 3],
    /// May there be several file systems?
    pub enable_multiple: bool,
    /// Was that ever allowed?
    pub ever_enabled_multiple: bool,
}

impl Default for FsMap {
    /// The first map of a Pacific cluster.
    fn default() -> FsMap {
        let incompat = FeatureSet::of(&[
            (1, "base v0.20"),
            (2, "client writeable ranges"),
            (3, "default file layouts on dirs"),
            (4, "dir inode in separate object"),
            (5, "mds uses versioned encoding"),
            (6, "dirfrag is stored in omap"),
            (8, "no anchor table"),
            (9, "file layout v2"),
            (10, "snaprealm v2"),
        ]);
        FsMap {
            epoch: Epoch(1),
            next_filesystem_id: 1,
            legacy_client_fscid: -1,
            compat: [FeatureSet::default(), FeatureSet::default(), incompat],
            enable_multiple: true,
            ever_enabled_multiple: true,
        }
    }
}

impl Encode for FsMap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(7, 6, |e| {
            e.put(&self.epoch);
            e.u64(self.next_filesystem_id);
            e.i32(self.legacy_client_fscid);
            self.compat.iter().for_each(|set| e.put(set));
            e.bool(self.enable_multiple);
            // File systems, daemons with and without a rank, epochs of the latter: none.
            (0..4).for_each(|_| e.len(0));
            e.bool(self.ever_enabled_multiple);
        });
    }
}

impl Decode for FsMap {
    const MIN_BYTES: usize = 76;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("FSMap", 7, |d, version| {
            if version < 7 {
                return Err(Malformed::new("FSMap", "is older than Pacific writes"));
            }
            let mut map = FsMap {
                epoch: d.get()?,
                next_filesystem_id: d.u64()?,
                legacy_client_fscid: d.i32()?,
                compat: [d.get()?, d.get()?, d.get()?],
                enable_multiple: d.bool()?,
                ever_enabled_multiple: false,
            };
            for _ in 0..4 {
                if d.u32()? != 0 {
                    return Err(Malformed::new(
                        "FSMap",
                        "has file systems or metadata servers, which are not supported",
                    ));
                }
            }
            map.ever_enabled_multiple = d.bool()?;
            Ok(map)
        })
    }
}
