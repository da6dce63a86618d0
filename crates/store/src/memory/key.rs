//! The keys of attributes and maps.
//!
//! Owns one economy: a short key lies in the tree's node. A placement group's log is a map with thousands of entries;
//! finding the place of the next one compares some twenty keys, each of which would else be a cache miss.

use bytes::Bytes;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;

/// The longest key that is kept in place: with its length it takes as much room as a pointer with a length and a tag.
const SHORT_MAX: usize = 22;

/// A key. Ordered and compared as its bytes are.
#[derive(Clone)]
pub(super) struct Key(Form);

#[derive(Clone)]
enum Form {
    Short(u8, [u8; SHORT_MAX]),
    Long(Box<[u8]>),
}

impl Key {
    /// A key of these bytes.
    pub(super) fn new(bytes: &[u8]) -> Key {
        if bytes.len() > SHORT_MAX {
            return Key(Form::Long(bytes.into()));
        }
        let mut short = [0; SHORT_MAX];
        short[..bytes.len()].copy_from_slice(bytes);
        Key(Form::Short(bytes.len() as u8, short))
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Short(len, bytes) => &bytes[..usize::from(*len)],
            Form::Long(bytes) => bytes,
        }
    }

    /// A copy of its bytes.
    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.bytes())
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_are_ordered_as_their_bytes() {
        let long = [7; 40];
        let mut bytes: Vec<&[u8]> = (0..40).map(|len| &long[..len]).chain([&[0][..], &[8], &[7, 0]]).collect();
        let mut keys: Vec<Key> = bytes.iter().map(|b| Key::new(b)).collect();
        keys.sort();
        bytes.sort();
        assert!(keys.iter().map(Key::bytes).eq(bytes));
        assert_eq!(size_of::<Key>(), 24);
    }
}
