//! The client engine.
#![forbid(unsafe_code)]
