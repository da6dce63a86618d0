//! What the simulator demands of what clients saw.
//!
//! Owns the record of every operation ([`history`]) and the judgement over it ([`linear`]): each object's operations
//! must fit into one order that agrees with real time. Refuses to know how the cluster works inside.

pub(crate) mod history;
pub(crate) mod linear;
