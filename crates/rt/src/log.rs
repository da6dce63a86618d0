//! Engines' log lines, on their way to the process's log.

use base::log::Level;

/// Passes one line on.
pub(crate) fn line(level: Level, text: &str) {
    match level {
        Level::Error => tracing::error!("{text}"),
        Level::Warn => tracing::warn!("{text}"),
        Level::Info => tracing::info!("{text}"),
        Level::Debug => tracing::debug!("{text}"),
    }
}
