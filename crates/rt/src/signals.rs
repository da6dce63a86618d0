//! Signals that ask a process to stop.

use std::io;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, caught from the moment this is made: whoever is asked to stop while starting stops as cleanly.
#[derive(Debug)]
pub struct StopSignals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Begins to catch the signals. To be called before there is anything that a signal could leave behind.
    pub fn catch() -> io::Result<StopSignals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        drop(entered);
        Ok(StopSignals { runtime, interrupt, terminate })
    }

    /// Blocks the calling thread until a signal has come, or until `early` ends by itself, whose value is returned.
    pub fn wait<T>(&mut self, early: impl Future<Output = T>) -> Option<T> {
        let StopSignals { runtime, interrupt, terminate } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
                value = early => Some(value),
            }
        })
    }

    /// Whether a signal has come since the last look.
    pub fn asked(&mut self) -> bool {
        self.wait(async { tokio::time::sleep(Duration::from_millis(1)).await }).is_none()
    }
}
