//! What was read last from the device, for whoever asked: it finds all of it however small the cache is.
//!
//! Somebody who lacks something begins anew once it is here, and has to find what it had read before that, too. So what
//! was asked for in the present round of tries, or in the one before, stays; of the rest, a little.

use super::db::Fetched;
use base::hash::FixedHashMap;

/// What is kept beyond what is asked for.
const IDLE_MAX: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    entries: FixedHashMap<u64, (Fetched, u64)>,
    round: u64,
}

impl Fresh {
    /// Those who wait are going to try again.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Takes what was read.
    pub(crate) fn keep(&mut self, block: u64, fetched: Fetched) {
        if self.entries.len() >= IDLE_MAX {
            let round = self.round;
            self.entries.retain(|_, (_, asked)| *asked + 1 >= round);
        }
        self.entries.insert(block, (fetched, self.round));
    }

    /// What was read of a block, if it is kept.
    pub(crate) fn get(&mut self, block: u64) -> Option<&Fetched> {
        let (fetched, asked) = self.entries.get_mut(&block)?;
        *asked = self.round;
        Some(fetched)
    }

    /// The block has a new content.
    pub(crate) fn forget(&mut self, block: u64) {
        self.entries.remove(&block);
    }
}
