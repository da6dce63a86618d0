//! Models of storage devices: how long a flash drive, a disk or an array takes for what it is asked.
//!
//! Owns one description of a device (`DeviceModel`), with figures that a data sheet or a measurement gives, and the
//! machine that behaves like it (`Device`): requests in, the times of their ends out. The simulator's disks, the shaper
//! that slows a fast disk down, and a scheduler's estimate of costs all come from here.
//!
//! Refuses to know what the bytes are, and to read a clock: time is an argument, noise comes from a seed.
//!
//! Invariants: the same requests at the same times with the same seed end at the same times; nothing ends before its
//! device could have done it; no request waits for ever.
//!
//! Read next: `model` for the figures (`figures` reads them from text), `device` for the queue, `flash` and `platter` for
//! the two kinds of service, `controller` for what stands before an array's disks, `shaper` for what makes another
//! device out of a real one.
#![forbid(unsafe_code)]

mod controller;
mod device;
mod figures;
mod flash;
mod model;
mod platter;
mod shaper;

pub use controller::Controller;
pub use device::{Device, Io, IoId, IoKind};
pub use figures::BadFigures;
pub use flash::Flash;
pub use model::{BadModel, DeviceModel, Media};
pub use platter::Platters;
pub use shaper::Shaper;
