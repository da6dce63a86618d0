//! Each class on an object of a memory store: what calls answer, what they refuse, what they leave behind.

mod bench;
mod journal;
mod lock;
mod rbd;
mod small;
