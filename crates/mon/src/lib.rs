//! The monitor engine.
#![forbid(unsafe_code)]
