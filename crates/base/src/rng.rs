//! Seeded randomness: the same seed gives the same numbers, everywhere and forever.
//!
//! `Rng` is xoshiro256++ seeded through splitmix64 (Blackman and Vigna, 2018): fast, and predictable to whoever has
//! seen its output. Keys, challenges and nonces come from `SecretRng` (ChaCha20), which is not; `rt` seeds it from the
//! operating system, the simulator from its own seed.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A deterministic generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator that `seed` names.
    pub fn new(seed: u64) -> Rng {
        let mut mix = seed;
        let state = core::array::from_fn(|_| {
            mix = mix.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (mix ^ (mix >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Rng { state }
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a bound of 0 leaves nothing to draw");
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `numerator` times in `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// A new generator whose stream is independent of what this one draws next.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.u64())
    }
}

/// A deterministic generator fit for secrets.
#[derive(Clone)]
pub struct SecretRng(ChaCha20Rng);

impl SecretRng {
    /// The generator that 32 bytes of entropy name.
    pub fn from_entropy(entropy: [u8; 32]) -> SecretRng {
        SecretRng(ChaCha20Rng::from_seed(entropy))
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// Random bytes as an array.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl core::fmt::Debug for SecretRng {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SecretRng")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream_and_bounds_hold() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for bound in 1..2000 {
            let x = a.below(bound);
            assert!(x < bound);
            assert_eq!(x, b.below(bound));
        }
        assert_ne!(Rng::new(7).u64(), Rng::new(8).u64());
    }
}
