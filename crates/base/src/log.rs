//! How grave a log line is. Engines say lines as values; their driver writes them.

/// A log line's level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Something is wrong and somebody must look.
    Error,
    /// Something is wrong and we cope.
    Warn,
    /// Worth knowing in normal operation.
    Info,
    /// For those who look for a cause.
    Debug,
}
