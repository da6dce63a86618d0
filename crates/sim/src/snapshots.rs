//! Snapshots of the pool come and go while clients work, and in the end all of them are gone.
//!
//! Nobody reads at a snapshot here (the OSD engine's own tests hold that against a model); what is tried is that
//! clones, whiteouts and trimming keep no promise of the rest from being kept, whatever breaks meanwhile, and that
//! every removal comes to its end.

use base::Rng;
use maps::PgPool;

/// What is done to the pool's snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    rng: Rng,
    made: u32,
    commands: u64,
}

/// Snapshots of the pool at once, beyond which one goes before another comes.
const SNAPSHOTS_MAX: usize = 3;

impl Snapshots {
    pub(crate) fn new(rng: Rng) -> Snapshots {
        Snapshots { rng, made: 0, commands: 1 }
    }

    /// The next command that takes or removes a snapshot of the pool that a client knows like this.
    pub(crate) fn next(&mut self, name: &str, pool: &PgPool) -> (u64, String) {
        let remove = pool.snaps.len() >= SNAPSHOTS_MAX || !pool.snaps.is_empty() && self.rng.chance(1, 3);
        let removal = if remove { self.removal(name, pool) } else { None };
        removal.unwrap_or_else(|| {
            self.made += 1;
            let command = format!(r#"{{"prefix":"osd pool mksnap","pool":"{name}","snap":"s{}"}}"#, self.made);
            (self.number(), command)
        })
    }

    /// The command that removes the oldest snapshot; none where there is none.
    pub(crate) fn removal(&mut self, name: &str, pool: &PgPool) -> Option<(u64, String)> {
        let snap = &pool.snaps.values().next()?.name;
        let command = format!(r#"{{"prefix":"osd pool rmsnap","pool":"{name}","snap":"{snap}"}}"#);
        Some((self.number(), command))
    }

    fn number(&mut self) -> u64 {
        self.commands += 1;
        self.commands
    }
}
