//! A pool's optional settings (`pool_opts_t`): what `ceph osd pool set` stores beyond the fixed fields.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.{h,cc}`, `pool_opts_t`. Owns the settings' numbers, names and types. Settings
//! with numbers unknown here are kept and written back.

use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// What kind of value a setting has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// Text.
    Text,
    /// A whole number.
    Int,
    /// A number with a fraction.
    Double,
}

/// A setting's number (`pool_opts_t::key_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OptionKey(pub u32);

macro_rules! options {
    ($($name:ident = $number:literal, $text:literal, $kind:ident, $doc:literal;)*) => {
        impl OptionKey {
            $(#[doc = $doc] pub const $name: OptionKey = OptionKey($number);)*

            /// Every setting known, in order of number.
            pub const ALL: &'static [OptionKey] = &[$(OptionKey($number)),*];

            /// The setting's name on the command line and in dumps.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($text),)* _ => None }
            }

            /// The kind of value it takes.
            pub fn kind(self) -> Option<OptionKind> {
                match self.0 { $($number => Some(OptionKind::$kind),)* _ => None }
            }
        }
    };
}

options! {
    SCRUB_MIN_INTERVAL = 0, "scrub_min_interval", Double, "Seconds between scrubs when idle.";
    SCRUB_MAX_INTERVAL = 1, "scrub_max_interval", Double, "Seconds after which a scrub is forced.";
    DEEP_SCRUB_INTERVAL = 2, "deep_scrub_interval", Double, "Seconds between deep scrubs.";
    RECOVERY_PRIORITY = 3, "recovery_priority", Int, "Added to the priority of recovery reservations.";
    RECOVERY_OP_PRIORITY = 4, "recovery_op_priority", Int, "The priority of recovery ops.";
    SCRUB_PRIORITY = 5, "scrub_priority", Int, "The priority of scrubs.";
    COMPRESSION_MODE = 6, "compression_mode", Text, "When the store compresses.";
    COMPRESSION_ALGORITHM = 7, "compression_algorithm", Text, "How the store compresses.";
    COMPRESSION_REQUIRED_RATIO = 8, "compression_required_ratio", Double, "What compression must save.";
    COMPRESSION_MAX_BLOB_SIZE = 9, "compression_max_blob_size", Int, "Largest compressed piece, bytes.";
    COMPRESSION_MIN_BLOB_SIZE = 10, "compression_min_blob_size", Int, "Smallest compressed piece, bytes.";
    CSUM_TYPE = 11, "csum_type", Int, "The store's checksum.";
    CSUM_MAX_BLOCK = 12, "csum_max_block", Int, "Largest checksummed block, bytes.";
    CSUM_MIN_BLOCK = 13, "csum_min_block", Int, "Smallest checksummed block, bytes.";
    FINGERPRINT_ALGORITHM = 14, "fingerprint_algorithm", Text, "The hash for deduplication.";
    PG_NUM_MIN = 15, "pg_num_min", Int, "The autoscaler's lower bound of placement groups.";
    TARGET_SIZE_BYTES = 16, "target_size_bytes", Int, "Expected size, bytes.";
    TARGET_SIZE_RATIO = 17, "target_size_ratio", Double, "Expected share of the cluster.";
    PG_AUTOSCALE_BIAS = 18, "pg_autoscale_bias", Double, "Multiplies the autoscaler's number of placement groups.";
    READ_LEASE_INTERVAL = 19, "read_lease_interval", Double, "Seconds that a read lease lasts.";
    DEDUP_TIER = 20, "dedup_tier", Int, "The pool that deduplicated chunks go to.";
    DEDUP_CHUNK_ALGORITHM = 21, "dedup_chunk_algorithm", Text, "How deduplication cuts chunks.";
    DEDUP_CDC_CHUNK_SIZE = 22, "dedup_cdc_chunk_size", Int, "Deduplication's chunk size, bytes.";
    PG_NUM_MAX = 23, "pg_num_max", Int, "The autoscaler's upper bound of placement groups.";
}

impl OptionKey {
    /// The setting of that name.
    pub fn from_name(name: &str) -> Option<OptionKey> {
        Self::ALL.iter().copied().find(|key| key.name() == Some(name))
    }
}

/// A setting's value.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
}

/// The settings of a pool that differ from the defaults.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolOptions(pub BTreeMap<OptionKey, OptionValue>);

impl PoolOptions {
    /// A whole number's value, where it is set.
    pub fn int(&self, key: OptionKey) -> Option<i64> {
        match self.0.get(&key) {
            Some(OptionValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// A fraction's value, where it is set.
    pub fn double(&self, key: OptionKey) -> Option<f64> {
        match self.0.get(&key) {
            Some(OptionValue::Double(value)) => Some(*value),
            _ => None,
        }
    }

    /// A text's value, where it is set.
    pub fn text(&self, key: OptionKey) -> Option<&str> {
        match self.0.get(&key) {
            Some(OptionValue::Text(value)) => Some(value),
            _ => None,
        }
    }
}

impl Encode for PoolOptions {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.len(self.0.len());
            for (key, value) in &self.0 {
                e.u32(key.0);
                match value {
                    OptionValue::Text(text) => {
                        e.i32(0);
                        e.string(text);
                    }
                    OptionValue::Int(number) => {
                        e.i32(1);
                        e.i64(*number);
                    }
                    OptionValue::Double(number) => {
                        e.i32(2);
                        e.f64(*number);
                    }
                }
            }
        });
    }
}

impl Decode for PoolOptions {
    const MIN_BYTES: usize = 10;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("pool_opts_t", 2, |d, version| {
            let mut options = BTreeMap::new();
            for _ in 0..d.len(12)? {
                let key = OptionKey(d.u32()?);
                let value = match d.i32()? {
                    0 => OptionValue::Text(d.string()?),
                    1 if version < 2 => OptionValue::Int(i64::from(d.i32()?)),
                    1 => OptionValue::Int(d.i64()?),
                    2 => OptionValue::Double(d.f64()?),
                    _ => return Err(Malformed::new("pool_opts_t", "has a value of unknown type")),
                };
                options.insert(key, value);
            }
            Ok(PoolOptions(options))
        })
    }
}
