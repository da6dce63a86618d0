//! The hashes that turn an object's name into a placement seed.
//!
//! Follows Ceph v16.2 `src/common/ceph_hash.cc`. The first is Bob Jenkins' lookup hash of 1996 over little-endian
//! words, the second the Linux dentry hash. A pool says which one it uses; all pools made by today's monitors use
//! rjenkins.

use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// Which hash a pool's object names go through (`CEPH_STR_HASH_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ObjectHash {
    /// The Linux dentry hash.
    Linux,
    /// Bob Jenkins' hash.
    #[default]
    Rjenkins,
}

impl ObjectHash {
    /// The hash of `name`.
    pub fn hash(self, name: &[u8]) -> u32 {
        match self {
            ObjectHash::Linux => linux_dcache(name),
            ObjectHash::Rjenkins => rjenkins(name),
        }
    }

    /// Its name in dumps.
    pub fn name(self) -> &'static str {
        match self {
            ObjectHash::Linux => "linux",
            ObjectHash::Rjenkins => "rjenkins",
        }
    }
}

impl Encode for ObjectHash {
    fn encode(&self, e: &mut Encoder) {
        e.u8(match self {
            ObjectHash::Linux => 1,
            ObjectHash::Rjenkins => 2,
        });
    }
}

impl Decode for ObjectHash {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.u8()? {
            1 => Ok(ObjectHash::Linux),
            2 => Ok(ObjectHash::Rjenkins),
            _ => Err(Malformed::new("pg_pool_t", "has an unknown object hash")),
        }
    }
}

/// The golden ratio's bits: an arbitrary start value.
const GOLDEN: u32 = 0x9e37_79b9;

/// Stirs three words so that each bit of each changes every bit of the last.
fn mix(state: [u32; 3]) -> [u32; 3] {
    // Each round subtracts two words from the third and folds in one of them, shifted by these amounts in turn:
    // right, left, right.
    const ROUNDS: [[u32; 3]; 3] = [[13, 8, 13], [12, 16, 5], [3, 10, 15]];
    let [mut a, mut b, mut c] = state;
    for [first, second, third] in ROUNDS {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    [a, b, c]
}

/// Bob Jenkins' hash of a name (`ceph_str_hash_rjenkins`).
pub fn rjenkins(name: &[u8]) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
    let mut state = [GOLDEN, GOLDEN, 0];
    let mut blocks = name.chunks_exact(12);
    for block in &mut blocks {
        for (slot, bytes) in state.iter_mut().zip(block.chunks(4)) {
            *slot = slot.wrapping_add(word(bytes));
        }
        state = mix(state);
    }
    // The tail's last word is moved up a byte: the lowest one takes the length.
    let tail = blocks.remainder();
    let [a, b, c] =
        [tail.get(..4.min(tail.len())), tail.get(4..8.min(tail.len())), tail.get(8..)].map(|part| part.map_or(0, word));
    mix([
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c << 8).wrapping_add(name.len() as u32),
    ])[2]
}

/// The Linux dentry hash of a name (`ceph_str_hash_linux`), as 64-bit daemons compute it.
pub fn linux_dcache(name: &[u8]) -> u32 {
    name.iter()
        .map(|&byte| u64::from(byte))
        .fold(0u64, |hash, c| hash.wrapping_add(c << 4).wrapping_add(c >> 4).wrapping_mul(11)) as u32
}

/// Folds a seed into `count` groups so that growing `count` moves only what must move (`ceph_stable_mod`). `mask` is
/// the smallest 2^n - 1 that covers `count - 1`.
pub fn stable_mod(seed: u32, count: u32, mask: u32) -> u32 {
    if seed & mask < count { seed & mask } else { seed & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_mod_splits_a_group_only_into_its_children() {
        for count in 1..200u32 {
            let mask = count.next_power_of_two() - 1;
            let grown = (count + 1).next_power_of_two() - 1;
            for seed in (0..5000u32).map(|i| i.wrapping_mul(GOLDEN)) {
                let (before, after) = (stable_mod(seed, count, mask), stable_mod(seed, count + 1, grown));
                assert!(before < count);
                assert!(after == before || after == count, "{count} {seed}");
            }
        }
    }
}
