//! Signals that ask a process to stop.

/// Blocks the calling thread until SIGINT or SIGTERM arrives, or until `early` ends by itself, whose value is returned.
pub fn wait_for_stop<T>(early: impl Future<Output = T>) -> std::io::Result<Option<T>> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(tokio::select! {
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
            value = early => Some(value),
        })
    })
}
