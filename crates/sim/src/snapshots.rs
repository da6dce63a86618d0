//! Snapshots of the pool come and go while clients work, and in the end all of them are gone.
//!
//! What is tried is that clones, whiteouts and trimming keep no promise of the rest from being kept, whatever breaks
//! meanwhile, and that every removal comes to its end. Some clients read at snapshots: what an object was then is what it
//! was at some time between the question for the snapshot and the read's answer, and is judged as a read of that time.
//! Until its removal is asked for: then nothing is promised.

use base::{Rng, SnapId};
use maps::PgPool;
use std::collections::BTreeMap;

/// What is done to the pool's snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    rng: Rng,
    made: u32,
    commands: u64,
    /// The snapshots that may be read, by name, and when each was asked for, in the order of the record.
    readable: BTreeMap<String, u64>,
    /// Chooses what is read: a stream of its own.
    reads: Rng,
}

/// One in how many reads is one at a snapshot.
const READS_ONE_IN: u64 = 4;

/// Snapshots of the pool at once, beyond which one goes before another comes.
const SNAPSHOTS_MAX: usize = 3;

impl Snapshots {
    pub(crate) fn new(rng: Rng, seed: u64) -> Snapshots {
        let reads = Rng::new(seed ^ 0x7265_6164_736E_6170);
        Snapshots { rng, made: 0, commands: 1, readable: BTreeMap::new(), reads }
    }

    /// The next command that takes or removes a snapshot of the pool that a client knows like this; `asked_at` is the time
    /// by the record's clock.
    pub(crate) fn next(&mut self, name: &str, pool: &PgPool, asked_at: u64) -> (u64, String) {
        let remove = pool.snaps.len() >= SNAPSHOTS_MAX || !pool.snaps.is_empty() && self.rng.chance(1, 3);
        let removal = if remove { self.removal(name, pool) } else { None };
        removal.unwrap_or_else(|| {
            self.made += 1;
            self.readable.insert(format!("s{}", self.made), asked_at);
            let command = format!(r#"{{"prefix":"osd pool mksnap","pool":"{name}","snap":"s{}"}}"#, self.made);
            (self.number(), command)
        })
    }

    /// The command that removes the oldest snapshot; none where there is none.
    pub(crate) fn removal(&mut self, name: &str, pool: &PgPool) -> Option<(u64, String)> {
        let snap = &pool.snaps.values().next()?.name;
        self.readable.remove(snap);
        let command = format!(r#"{{"prefix":"osd pool rmsnap","pool":"{name}","snap":"{snap}"}}"#);
        Some((self.number(), command))
    }

    /// By chance, one of the pool's snapshots to read at, with the time at which it was asked for.
    pub(crate) fn choose(&mut self, pool: &PgPool) -> Option<(SnapId, u64)> {
        let readable = self.readable(pool);
        let read = !readable.is_empty() && self.reads.chance(1, READS_ONE_IN);
        read.then(|| readable[self.reads.below(readable.len() as u64) as usize])
    }

    /// The snapshots of a pool that may be read, with the times at which they were asked for.
    pub(crate) fn readable(&self, pool: &PgPool) -> Vec<(SnapId, u64)> {
        pool.snaps.iter().filter_map(|(id, snap)| Some((*id, *self.readable.get(&snap.name)?))).collect()
    }

    fn number(&mut self) -> u64 {
        self.commands += 1;
        self.commands
    }
}
