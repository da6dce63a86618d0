//! Spells in which clients write to some of the objects only, while they read all of them.
//!
//! An object that is written again and again is soon the same everywhere, whatever a recovery has missed: only what is
//! left alone for a while shows it.

use base::Rng;

/// So many objects are written at the least: many writes at once to one could be done in more orders than can be judged.
const LEAST: u32 = 3;

/// Which objects are written now.
#[derive(Debug)]
pub(crate) struct Spells {
    /// A stream of its own, so that the rest is drawn as without.
    rng: Rng,
    objects: u32,
    /// How many writes a spell has; 0 if every object is written at any time.
    length: u32,
    left: u32,
    /// The first of the objects that are written, and how many are.
    written: (u32, u32),
}

impl Spells {
    /// Spells of so many writes.
    pub(crate) fn new(seed: u64, objects: u32, length: u32) -> Spells {
        let rng = Rng::new(seed ^ 0x7370_656C_6C73_2121);
        Spells { rng, objects, length, left: 0, written: (0, objects) }
    }

    /// The object to write to in place of one that was drawn from all.
    pub(crate) fn written(&mut self, drawn: u32) -> u32 {
        if self.length == 0 {
            return drawn;
        }
        if self.left == 0 {
            let (objects, least) = (u64::from(self.objects), LEAST.min(self.objects));
            // A half at the most, so that much is left alone.
            let more = (objects / 2).saturating_sub(u64::from(least)) + 1;
            self.written = (self.rng.below(objects) as u32, least + self.rng.below(more) as u32);
            self.left = self.length;
        }
        self.left -= 1;
        let (first, count) = self.written;
        (first + drawn % count) % self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_spell_leaves_half_of_the_objects_alone_and_all_have_their_turn() {
        let (mut spells, mut all) = (Spells::new(1, 12, 30), BTreeSet::new());
        for _ in 0..40 {
            let spell: BTreeSet<u32> = (0..30).map(|drawn| spells.written(drawn % 12)).collect();
            assert!((3..=6).contains(&spell.len()) && spell.iter().all(|object| *object < 12), "{spell:?}");
            all.extend(spell);
        }
        assert_eq!(all.len(), 12);
        let mut none = Spells::new(1, 12, 0);
        assert!((0..12).all(|drawn| none.written(drawn) == drawn));
        assert_eq!(Spells::new(1, 1, 5).written(0), 0);
    }
}
