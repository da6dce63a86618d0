//! The object store's contract and its implementations.
#![forbid(unsafe_code)]
