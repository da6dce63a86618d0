//! Whether a study has been asked to stop.
//!
//! A study that is asked ends at its next step with `StudyError::Interrupted` and takes away what it has set up, as after any
//! other error. Who takes away uses a `Stop` of his own, that nobody asks.

use crate::error::StudyError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A request to stop, shared by who may make it and who has to heed it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for it.
    pub fn ask(&self) {
        self.0.store(true, Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// An error if it has been asked for.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        if self.is_asked() { Err(StudyError::Interrupted) } else { Ok(()) }
    }
}
