//! One number that stands for everything that happened: two runs with the same hash went the same way.

use base::checksum::crc32c;

/// A hash over all events so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trace {
    state: u64,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        Trace { state: 0x6C6F_6C69_676F_7369 }
    }

    /// Takes in a number.
    pub(crate) fn number(&mut self, value: u64) {
        // Multiply and rotate: enough to tell runs apart, not to resist anybody.
        self.state = (self.state ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    /// Takes in bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(u64::from(crc32c(bytes.len() as u32, bytes)));
    }

    /// The hash.
    pub(crate) fn hash(self) -> u64 {
        self.state
    }
}
