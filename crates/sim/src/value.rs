//! What the workload writes: tokens that prove where they came from and that they arrived whole.
//!
//! A token is its number, a length, a checksum, and as many bytes of a pattern that follows from the number. An object
//! holds a row of them; its attribute and its omap hold the last one's number, written in the same request.

use base::Rng;
use base::checksum::crc32c;
use bytes::{Buf, Bytes};

/// The attribute and the omap key that hold the last token's number.
pub(crate) const LAST: &[u8] = b"last";
/// The most bytes of pattern in a token. Some tokens are larger than a page, most are small.
const PATTERN_BYTES_MAX: u64 = 9000;
const HEAD_BYTES: usize = 16;

fn pattern(token: u64) -> Vec<u8> {
    let mut rng = Rng::new(token);
    let len = if rng.chance(1, 8) { rng.below(PATTERN_BYTES_MAX) } else { rng.below(64) };
    let mut bytes = vec![0; len as usize];
    rng.fill(&mut bytes);
    bytes
}

/// A token's bytes.
pub(crate) fn encode(token: u64) -> Bytes {
    let pattern = pattern(token);
    let head = [&token.to_le_bytes()[..], &(pattern.len() as u32).to_le_bytes(), &crc32c(0, &pattern).to_le_bytes()];
    [&head.concat()[..], &pattern].concat().into()
}

/// The tokens in an object's data; says what is wrong if it is not made of whole tokens.
pub(crate) fn decode(mut data: &[u8]) -> Result<Vec<u64>, String> {
    let mut tokens = Vec::new();
    while !data.is_empty() {
        if data.len() < HEAD_BYTES {
            return Err(format!("{} bytes after {} tokens are no token", data.len(), tokens.len()));
        }
        let (token, len, sum) = (data.get_u64_le(), data.get_u32_le() as usize, data.get_u32_le());
        let expect = pattern(token);
        if len != expect.len() || data.get(..len) != Some(&expect[..]) || crc32c(0, &expect) != sum {
            return Err(format!("the token {token:#x} after {} others is damaged", tokens.len()));
        }
        data.advance(len);
        tokens.push(token);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_seen() {
        let data = [encode(5), encode(6)].concat();
        assert_eq!(decode(&data), Ok(vec![5, 6]));
        assert!(decode(&data[..data.len() - 1]).is_err());
        let mut flipped = data.clone();
        flipped[20] ^= 1;
        assert!(decode(&flipped).is_err());
    }
}
