//! Large data on its way to its place with its transaction.
//!
//! Owns that way. The group that is being built has to wait for it; the record of the one before does not, which is why
//! only so much is on its way at once.
//!
//! What waits is bounded by what commits may be under way.

use super::store::{ExtentStore, Purpose};
use bytes::Bytes;

/// What is written to its place at once: the first block and the data, whole blocks.
pub(super) type DirectWrites = Vec<(u64, Bytes)>;

/// What is on its way at once.
pub(super) const UNDER_WAY_BYTES_MAX: usize = 4 << 20;

impl ExtentStore {
    /// Hands over the writes of data that belong to the group that is being built.
    pub(super) fn write_directly(&mut self, writes: DirectWrites) {
        for (first, data) in writes {
            self.counts.direct_bytes += data.len() as u64;
            let purpose = Purpose::Direct { group: self.log.add_direct(), first, bytes: data.len() };
            self.direct.push(purpose, first, data);
        }
        self.send_direct();
    }

    fn send_direct(&mut self) {
        while let Some((io, purpose)) = self.direct.next() {
            self.request(io, purpose);
        }
    }

    /// One of them is in its place.
    pub(super) fn written_directly(&mut self, group: u64, first: u64, bytes: usize) {
        self.direct.ended(bytes);
        self.send_direct();
        self.db.direct.remove(&first);
        let flush = self.log.direct_done(group);
        self.group_went_on(flush);
    }

    /// The device has failed: nothing more is written.
    pub(super) fn abandon_direct(&mut self) {
        self.direct.strike(|_| true);
    }
}
