//! The client engine: what librados owns in a client.
//!
//! Owns the way of a request from submission to completion: which OSD, over which session, how often again. Its two
//! parts are [`monclient::MonClient`] (the monitor, tickets, maps) and [`objecter::Objecter`] (the OSDs). Refuses to
//! know what a caller builds from requests, and touches no sockets, clocks or threads: its driver carries out
//! [`poll_command`](Client::poll_command)s and reports what happened.
//!
//! Follows Ceph v16.2 `src/osdc/Objecter.cc` in what goes over the wire. Two differences: it keeps its map subscription
//! all the time, unless its configuration says otherwise, and requests that fall in a removed pool fail once the monitor
//! has confirmed that the pool is gone.
//!
//! Invariants: each submitted request completes exactly once, or is cancelled; requests for one object leave in the
//! order they were submitted, also when they are sent again; a request's name (its transaction id) never changes
//! between two attempts of which the first may have been applied.
//!
//! Read next: [`Client`], [`request`], [`objecter`].
#![forbid(unsafe_code)]

mod engine;
pub mod limits;
pub mod objecter;
pub mod request;
mod tell;

pub use engine::{Client, ClientConfig, CommandId, CommandReply};
pub use request::{Completion, Failure, OpId, Reply, Request, Target};
