//! The real clock, and the operating system's randomness: the two inputs that engines may not fetch themselves.

use base::{Duration, Instant};

/// Reads the wall clock once and advances by the steady clock from there, so that engines' time never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: std::time::Instant,
    at_start: Instant,
}

impl Clock {
    /// A clock that starts at the present wall-clock time.
    pub fn start() -> Clock {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock { started: std::time::Instant::now(), at_start: Instant::ZERO + since_epoch }
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.at_start + self.started.elapsed()
    }

    /// The steady-clock moment that an engine's deadline stands for.
    pub fn deadline(&self, at: Instant) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + at.since(self.at_start))
    }
}

/// Thirty-two bytes from the operating system: the seed of a daemon's generators.
pub fn entropy() -> [u8; 32] {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("the operating system gives random bytes");
    seed
}
