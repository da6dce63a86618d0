//! What the simulator demands of what clients saw, and of what is left on disks.
//!
//! Owns the record of every operation ([`history`]) and the judgement over it ([`linear`]): each object's operations
//! must fit into one order that agrees with real time. Refuses to know how the cluster works inside, but for four things:
//! OSDs hear no more than they were told ([`deliveries`]), what a placement group's log has told stays told ([`logs`]),
//! queues stay within their bounds ([`queues`]), and where everything has healed, all members of a group hold the same
//! ([`replicas`]).

pub(crate) mod deliveries;
pub(crate) mod history;
pub(crate) mod linear;
pub(crate) mod logs;
pub(crate) mod queues;
pub(crate) mod replicas;
