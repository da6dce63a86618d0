//! A daemon's or client's relation with the monitor: session, tickets, subscriptions.
#![forbid(unsafe_code)]
