//! A key of the metadata tree, as it lies in memory.
//!
//! Owns the order of keys, which is that of their bytes. What the bytes mean is `keys`' matter.
//!
//! Invariant: `head` is what the bytes begin with.

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

/// Bytes that lie in a key itself: the kind, a number, and what tells most objects and all entries of a group's log apart.
const HEAD: usize = 24;

/// A key. Which of two comes first is mostly decided by their beginnings, without a look at memory elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    /// The first bytes, as numbers that sort as they do; filled up with zeros.
    head: [u64; HEAD / 8],
    bytes: Box<[u8]>,
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Key {
        let mut first = [0; HEAD];
        let len = bytes.len().min(HEAD);
        first[..len].copy_from_slice(&bytes[..len]);
        let (words, _) = first.as_chunks::<8>();
        let mut head = [0; HEAD / 8];
        head.iter_mut().zip(words).for_each(|(number, word)| *number = u64::from_be_bytes(*word));
        Key { head, bytes: bytes.into() }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        bytes.to_vec().into()
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.head.cmp(&other.head).then_with(|| match self.len().max(other.len()) {
            // All of both is there; where they differ, one ends with zeros that the other does not have.
            0..=HEAD => self.len().cmp(&other.len()),
            _ => self.bytes.cmp(&other.bytes),
        })
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn keys_sort_as_their_bytes_do(same in 0usize..30, a in text(), b in text()) {
            let with = |rest: &[u8]| [&vec![0; same], rest].concat();
            let (ka, kb) = (Key::from(with(&a)), Key::from(with(&b)));
            prop_assert_eq!(ka.cmp(&kb), with(&a).cmp(&with(&b)));
            prop_assert_eq!(ka == kb, a == b);
        }
    }
}
