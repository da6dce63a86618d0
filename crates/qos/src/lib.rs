//! Schedulers for storage: who is served next, so that every class of work and every tenant gets its share.
//!
//! A server puts its work into a [`Scheduler`] with a word about whose it is and what it costs ([`Work`]), and asks what
//! is next whenever its device has room:
//!
//! ```
//! use base::Instant;
//! use qos::{Class, Cost, Dequeued, GroupId, MClock, MClockConfig, Priority, Profile, Scheduler, StreamId, Work};
//!
//! let mut now = Instant::from_secs(1);
//! // A device that does 1,000 requests a second, shared as suits clients best: half of it is reserved for them.
//! let mut queue = MClock::new(MClockConfig::profile(Profile::HighClientOps, 1000.0));
//! let work = |class, stream| Work {
//!     class,
//!     group: GroupId::NONE,
//!     stream: StreamId(stream),
//!     priority: Priority(63),
//!     cost: Cost::one(4096),
//! };
//! for n in 0..100 {
//!     queue.enqueue(now, work(Class::Recovery, 1), n).expect("there is room");
//!     queue.enqueue(now, work(Class::Client, 2), n).expect("there is room");
//! }
//! let mut clients = 0;
//! for _ in 0..100 {
//!     match queue.dequeue(now) {
//!         Dequeued::Ready(work, _item) => clients += u32::from(work.class == Class::Client),
//!         Dequeued::NotBefore(later) => now = later,
//!         Dequeued::Empty => break,
//!     }
//!     now = now + std::time::Duration::from_millis(1);
//! }
//! assert!((60..70).contains(&clients), "two thirds of the device, as weights are 2 and 1: {clients}");
//! ```
//!
//! | scheduler | decides by | charges | idles | limits |
//! |---|---|---|---|---|
//! | [`Fifo`] | arrival | nothing | no | no |
//! | [`Wpq`] | strict above a cut-off, then priority as a weight, streams alike | requests and bytes | no | no |
//! | [`MClock`] | reservations that are due, then weight, never above limits | requests and bytes | for limits | yes |
//! | [`Cfq`] | turns of streams, groups by weight | time, or requests | to keep a stream or a group its place | no |
//!
//! All are pure: time is an argument, a call never blocks, nothing is random. An operation costs O(log flows). All keep
//! the order of each stream's work. `tests/conformance.rs` holds what every implementation keeps, `tests/shares.rs` what
//! the shares come to.
//!
//! A group's promise may be kept by several servers together: each calls [`MClock::settle`] every so often with what the
//! others say they have served (`afar`, `tests/servers.rs`).
//! Promises are shares of what a device can do: [`CapacityMeter`] learns that from the device at work. How much it is to be
//! given at once, so that what waits waits in the scheduler, [`Window`] learns.
//!
//! Owns order, and nothing else: not the work, not the device, not where promises come from. Bounds are in [`limits`].
//!
//! Read next: `scheduler` for the trait, `tags` for how shares are kept, `cfq` for turns, `afar` for promises of several servers.
#![forbid(unsafe_code)]

mod afar;
mod any;
mod capacity;
mod cfq;
mod fifo;
pub mod limits;
mod lists;
mod mclock;
mod min_tree;
mod promise;
mod scheduler;
mod strict;
mod tags;
mod tree;
mod window;
mod work;
mod wpq;

pub use afar::{Elsewhere, Served, Settled};
pub use any::AnyScheduler;
pub use capacity::{CapacityMeter, Learnt};
pub use cfq::{Cfq, CfqConfig, GROUP_WEIGHT_MAX, GROUP_WEIGHT_MIN};
pub use fifo::Fifo;
pub use mclock::{Ledger, MClock, MClockConfig, Profile};
pub use promise::{BadPromise, Promise};
pub use scheduler::{Dequeued, Full, QueueState, Scheduler};
pub use window::{Load, Waits, Way, Window};
pub use work::{Class, Cost, CostModel, GroupId, Priority, StreamId, Work};
pub use wpq::{Wpq, WpqConfig};
