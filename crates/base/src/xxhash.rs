//! xxHash in its 32 and 64 bit forms, which clients may ask for as checksums of an object.
//!
//! Follows the public specification (xxHash fast digest algorithm, 0.1.1); Ceph (v16.2 `src/common/Checksummer.h`)
//! uses both with a seed that the client gives.

const P32: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
const P64: [u64; 5] =
    [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];

fn word32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("callers hand over four bytes"))
}

fn word64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("callers hand over eight bytes"))
}

fn round32(lane: u32, input: u32) -> u32 {
    lane.wrapping_add(input.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0])
}

/// The 32 bit hash of `data`.
pub fn xxh32(seed: u32, data: &[u8]) -> u32 {
    let stripes = data.chunks_exact(16);
    let mut rest = stripes.remainder();
    let mut hash = if data.len() < 16 {
        seed.wrapping_add(P32[4])
    } else {
        let start = seed.wrapping_add(P32[0]);
        let mut lanes = [start.wrapping_add(P32[1]), seed.wrapping_add(P32[1]), seed, seed.wrapping_sub(P32[0])];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = round32(*lane, word32(input));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        turned.fold(0u32, u32::wrapping_add)
    };
    hash = hash.wrapping_add(data.len() as u32);
    while rest.len() >= 4 {
        hash = hash.wrapping_add(word32(rest).wrapping_mul(P32[2])).rotate_left(17).wrapping_mul(P32[3]);
        rest = &rest[4..];
    }
    for &byte in rest {
        hash = hash.wrapping_add(u32::from(byte).wrapping_mul(P32[4])).rotate_left(11).wrapping_mul(P32[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(P32[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(P32[2]);
    hash ^ hash >> 16
}

fn round64(lane: u64, input: u64) -> u64 {
    lane.wrapping_add(input.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0])
}

/// The 64 bit hash of `data`.
pub fn xxh64(seed: u64, data: &[u8]) -> u64 {
    let stripes = data.chunks_exact(32);
    let mut rest = stripes.remainder();
    let mut hash = if data.len() < 32 {
        seed.wrapping_add(P64[4])
    } else {
        let start = seed.wrapping_add(P64[0]);
        let mut lanes = [start.wrapping_add(P64[1]), seed.wrapping_add(P64[1]), seed, seed.wrapping_sub(P64[0])];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round64(*lane, word64(input));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        let joined = turned.fold(0u64, u64::wrapping_add);
        lanes.iter().fold(joined, |hash, lane| (hash ^ round64(0, *lane)).wrapping_mul(P64[0]).wrapping_add(P64[3]))
    };
    hash = hash.wrapping_add(data.len() as u64);
    while rest.len() >= 8 {
        hash = (hash ^ round64(0, word64(rest))).rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        let input = u64::from(word32(rest)).wrapping_mul(P64[0]);
        hash = (hash ^ input).rotate_left(23).wrapping_mul(P64[1]).wrapping_add(P64[2]);
        rest = &rest[4..];
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P64[4])).rotate_left(11).wrapping_mul(P64[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P64[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(P64[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Ceph 16.2.15 answered to the checksum operation on these bytes, seed 1.
    #[test]
    fn agrees_with_ceph() {
        let text: Vec<u8> = (0..8448u32).map(|i| i as u8).chain(*b"tail!").collect();
        let cases: [(&[u8], u32, u64); 7] = [
            (&text, 0x4f61_dc38, 0xbc8b_5110_dd3a_3a6d),
            (&text[..16], 0xc65a_436e, 0xdd42_30f4_7b0d_28c1),
            (&text[7..38], 0x950a_e01a, 0x9678_4350_efae_3919),
            (&text[..4096], 0xc13e_ba8b, 0x56a5_9980_59d4_4c19),
            (&text[3..4], 0xce96_dce4, 0x610f_93f8_c898_89fe),
            (&text[..32], 0x3271_c4ab, 0xd74e_6766_ce9d_ba94),
            (&text[..33], 0xe843_b5e6, 0xa371_825f_4210_fe99),
        ];
        for (data, short, long) in cases {
            assert_eq!((xxh32(1, data), xxh64(1, data)), (short, long), "{} bytes", data.len());
        }
    }
}
