//! The OSD engine.
#![forbid(unsafe_code)]
