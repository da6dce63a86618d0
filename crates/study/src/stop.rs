//! Whether a study has been asked to stop.
//!
//! A study that is asked ends at its next step with `StudyError::Interrupted` and takes away what it has set up, as after any
//! other error. Who takes away uses a `Stop` of his own, that nobody asks and that comes by itself in the end.

use crate::error::StudyError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A request to stop, shared by who may make it and who has to heed it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Stop {
    /// One that is asked for when so much time has passed.
    pub(crate) fn after(time: Duration) -> Stop {
        Stop { end: Some(Instant::now() + time), ..Stop::default() }
    }

    /// Asks for it.
    pub fn ask(&self) {
        self.asked.store(true, Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// An error if it has been asked for.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        if self.is_asked() { Err(StudyError::Interrupted) } else { Ok(()) }
    }
}
