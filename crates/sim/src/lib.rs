//! The simulator: virtual time and a virtual network, driving the same engines.
#![forbid(unsafe_code)]
