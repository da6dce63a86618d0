//! The kinds of faults, and which of them a run has.

use base::{Duration, Rng};
use core::fmt;
use core::str::FromStr;

macro_rules! kinds {
    ($($kind:ident $name:literal $weight:literal $what:literal;)*) => {
        /// A kind of fault, or of what an operator does meanwhile.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Fault {
            $(#[doc = $what] $kind,)*
        }

        /// All of them, with their names and how often each strikes beside the others.
        const KINDS: &[(Fault, &str, u32)] = &[$((Fault::$kind, $name, $weight)),*];
    };
}

kinds! {
    Cut "cut" 25 "A connection breaks; what is under way is lost.";
    Apart "apart" 12 "Two nodes do not hear each other for some seconds.";
    OneWay "one-way" 10 "One node does not hear another, which hears it.";
    Slow "slow" 8 "The whole network is slow.";
    SlowLink "slow-link" 8 "What one node sends to another is slow.";
    Crash "crash" 16 "An OSD's machine loses power and comes back.";
    Power "power" 4 "The power goes for every OSD at once.";
    Monitor "monitor" 5 "The monitor's machine loses power and comes back.";
    Stall "stall" 8 "A process stands still for a while and goes on as if nothing had been.";
    SlowDisk "slow-disk" 6 "A disk takes a hundred times as long.";
    Move "move" 12 "An OSD is marked out, or in again: placement groups move.";
    Resize "resize" 6 "The pool gets another number of placement groups.";
    GiveUp "give-up" 8 "An OSD gives up its session to another, as if it did not read: what waits is lost though both live.";
    Island "island" 10 "Some nodes do not hear the rest for some seconds, and mostly are not heard either.";
    Down "down" 8 "An OSD that lives is marked down, and mostly does not hear of it at once.";
    Snapshot "snapshot" 0 "With every other fault a snapshot of the pool comes or goes.";
    Scrub "scrub" 0 "With every other fault, by chance, a scrub is asked for.";
}

/// Some time after what makes it tell: short times more often than long ones.
pub(crate) fn short_time(rng: &mut Rng, max_nanos: u64) -> Duration {
    Duration::from_nanos(rng.below(max_nanos) >> rng.below(8))
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults(u32);

impl Faults {
    /// Every kind.
    pub fn all() -> Faults {
        KINDS.iter().fold(Faults::default(), |all, (kind, ..)| all.with(*kind))
    }

    /// No fault at all.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Some kinds, by chance, as how many of them: a run without one may get where those with it do not. Where few kinds
    /// strike, what one of them did is not soon undone by another.
    pub(crate) fn draw(rng: &mut Rng) -> Faults {
        let of_four = 1 + rng.below(3);
        let drawn = Faults::all().kinds().filter(|_| rng.chance(of_four, 4)).fold(Faults::none(), Faults::with);
        if drawn.strikes() { drawn } else { Faults::all() }
    }

    /// This one, too.
    #[must_use]
    pub fn with(self, kind: Fault) -> Faults {
        Faults(self.0 | 1 << kind as u32)
    }

    /// Not this one.
    #[must_use]
    pub fn without(self, kind: Fault) -> Faults {
        Faults(self.0 & !(1 << kind as u32))
    }

    /// Whether it is one of them.
    pub fn has(self, kind: Fault) -> bool {
        self.0 & 1 << kind as u32 != 0
    }

    /// All of them.
    pub fn kinds(self) -> impl Iterator<Item = Fault> {
        KINDS.iter().map(|(kind, ..)| *kind).filter(move |kind| self.has(*kind))
    }

    /// Whether any strikes by itself.
    pub(crate) fn strikes(self) -> bool {
        self.weights().any(|(_, weight)| weight > 0)
    }

    fn weights(self) -> impl Iterator<Item = (Fault, u32)> {
        KINDS.iter().filter(move |(kind, ..)| self.has(*kind)).map(|(kind, _, weight)| (*kind, *weight))
    }

    /// The next one to strike, by chance.
    pub(crate) fn pick(self, rng: &mut Rng) -> Option<Fault> {
        let all: u32 = self.weights().map(|(_, weight)| weight).sum();
        let mut at = rng.below(u64::from(all.max(1))) as u32;
        self.weights().find_map(|(kind, weight)| {
            let here = at < weight;
            at = at.saturating_sub(weight);
            here.then_some(kind)
        })
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = KINDS.iter().filter(|(kind, ..)| self.has(*kind)).map(|(_, name, _)| *name).collect();
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
    }
}

impl FromStr for Faults {
    type Err = String;

    /// Reads `all`, `none`, or names with commas between them.
    fn from_str(text: &str) -> Result<Faults, String> {
        match text {
            "all" => return Ok(Faults::all()),
            "none" => return Ok(Faults::none()),
            _ => {}
        }
        text.split(',').try_fold(Faults::none(), |faults, name| {
            match KINDS.iter().find(|(_, known, _)| *known == name) {
                Some((kind, ..)) => Ok(faults.with(*kind)),
                None => Err(format!("there is no fault '{name}'; there are: {}", Faults::all())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_they_are_written() {
        let some = Faults::none().with(Fault::Cut).with(Fault::Scrub);
        assert_eq!(some.to_string(), "cut,scrub");
        for faults in [some, Faults::all(), Faults::none()] {
            assert_eq!(faults.to_string().parse(), Ok(faults));
        }
        assert!("cut,rain".parse::<Faults>().is_err_and(|why| why.contains("'rain'")));
    }

    #[test]
    fn what_is_picked_is_in_the_set() {
        let mut rng = Rng::new(1);
        let some = Faults::none().with(Fault::Move).with(Fault::Scrub);
        assert!((0..100).all(|_| some.pick(&mut rng) == Some(Fault::Move)));
        assert_eq!(Faults::none().with(Fault::Scrub).pick(&mut rng), None);
    }
}
