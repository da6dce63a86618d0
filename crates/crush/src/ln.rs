//! The fixed-point logarithm behind straw2: `ln(u)` is about 2^44 * log2(u + 1).
//!
//! Follows Ceph v16.2 `src/crush/mapper.c` (`crush_ln`) and `crush_ln_table.h`. The three tables are made at compile
//! time from their formulas. Two of Ceph's tables are not what their formulas say, and every client in the world
//! places data by them, so the differences are part of the protocol and listed here (read out of Debian's
//! libceph-common 16.2.15, held by a checksum over all 65,536 inputs in the tests):
//! - the last entry of the coarse table is 0xffff00000000 instead of 2^48;
//! - most entries of the fine table are 0x147700000 too large, some are right, and 23 are neither.
//!
//! Read next: `choose`, which draws with it.

/// Where the fine table is off by a constant, this is the constant.
const FINE_OFFSET: u64 = 0x1_4770_0000;

/// Entries of the fine table that are exact.
const FINE_EXACT: [usize; 21] =
    [0, 1, 203, 216, 222, 233, 237, 238, 239, 243, 244, 245, 246, 248, 249, 250, 251, 252, 253, 254, 255];

/// Entries of the fine table that follow no rule.
const FINE_ODD: [(usize, u64); 23] = [
    (56, 0x0a2_b07f_3458),
    (127, 0x16d_f6ca_19bd),
    (134, 0x182_b07f_3458),
    (181, 0x209_c06e_6212),
    (184, 0x212_b07f_3458),
    (188, 0x21d_6a73_a78f),
    (193, 0x22c_2367_9b4e),
    (198, 0x23a_2c3b_0ea4),
    (199, 0x23d_13ee_805b),
    (200, 0x240_35e9_221f),
    (207, 0x254_9264_4d65),
    (210, 0x25d_13ee_805b),
    (212, 0x262_9645_3882),
    (225, 0x287_bdbf_5255),
    (227, 0x28d_13ee_805b),
    (228, 0x290_35e9_221f),
    (229, 0x292_9645_3882),
    (231, 0x299_02a3_7aab),
    (235, 0x2a4_c760_5d61),
    (236, 0x2a7_bdbf_5255),
    (240, 0x2b2_9645_3882),
    (241, 0x2b5_d022_d80f),
    (247, 0x2c6_1a5e_8f4c),
];

/// floor(2^48 * log2(m / 2^scale)) for 1 <= m / 2^scale < 2, one bit a squaring. The mantissa keeps 63 fraction bits,
/// so that 48 squarings lose less than 2^-13 of the last place; no entry of the tables is that close to a whole number.
const fn log2_48(m: u64, scale: u32) -> u64 {
    let mut mantissa = (m as u128) << (63 - scale);
    let mut result = 0u64;
    let mut bit = 0;
    while bit < 48 {
        mantissa = (mantissa * mantissa) >> 63;
        result <<= 1;
        if mantissa >= 1 << 64 {
            mantissa >>= 1;
            result |= 1;
        }
        bit += 1;
    }
    result
}

/// 2^56 / index rounded up, and 2^48 * log2(index / 256), for index = 256 + 2k.
const COARSE: [(u64, u64); 129] = {
    let mut table = [(0, 0); 129];
    let mut k = 0;
    while k < 128 {
        let index = 256 + 2 * k as u64;
        table[k] = ((1u64 << 56).div_ceil(index), log2_48(index, 8));
        k += 1;
    }
    table[128] = ((1 << 56) / 512, 0xffff_0000_0000);
    table
};

/// 2^48 * log2(1 + k / 2^15), with Ceph's deviations.
const FINE: [u64; 256] = {
    let mut table = [0; 256];
    let mut k = 0;
    while k < 256 {
        table[k] = log2_48((1 << 15) + k as u64, 15) + FINE_OFFSET;
        k += 1;
    }
    let mut i = 0;
    while i < FINE_EXACT.len() {
        table[FINE_EXACT[i]] -= FINE_OFFSET;
        i += 1;
    }
    let mut i = 0;
    while i < FINE_ODD.len() {
        table[FINE_ODD[i].0] = FINE_ODD[i].1;
        i += 1;
    }
    table
};

static COARSE_TABLE: [(u64, u64); 129] = COARSE;
static FINE_TABLE: [u64; 256] = FINE;

/// About 2^44 * log2(u + 1), from 0 to a little under 2^48.
#[inline]
pub(crate) fn ln(u: u16) -> u64 {
    let x = u32::from(u) + 1;
    // Shift the highest bit up to bit 15 (65,536 keeps bit 16).
    let shift = x.leading_zeros().saturating_sub(16);
    let x = x << shift;
    let (reciprocal, coarse) = COARSE_TABLE[(x >> 8) as usize - 128];
    let fine = FINE_TABLE[(((u64::from(x) * reciprocal) >> 48) & 0xff) as usize];
    (u64::from(15 - shift) << 44) + ((coarse + fine) >> 4)
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn every_value_is_the_one_that_ceph_draws_with() {
        // The polynomial checksum of all values, computed from the tables in Debian's libceph-common 16.2.15.
        let sum = (0..=u16::MAX).fold(0u64, |sum, u| sum.wrapping_mul(31).wrapping_add(ln(u)));
        assert_eq!(sum, 0x6308_5079_c1bf_34b4);
        assert_eq!([0, 1, 255, 32767].map(ln), [0, 1 << 44, 8 << 44, 15 << 44]);
        assert_eq!([65534, 65535].map(ln), [0xffff_fd61_ad10, 0xffff_f000_0000]);
    }
}
