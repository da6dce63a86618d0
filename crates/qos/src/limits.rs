//! The bounds of everything that grows, and the numbers that shape the schedulers: each named, with its reason.

use base::Duration;

/// The most work that a scheduler holds; beyond, it hands work back. Some 30 bytes each beside the work itself. An owner
/// that bounds its work by other means (bytes, senders) stays far below.
pub const QUEUED_MAX: usize = 1 << 20;

/// Flows (streams or groups) of one class that are told apart at once. Streams beyond share one flow: they are served,
/// but not fairly among themselves. An entry takes some 150 bytes, and 112 more where others serve it too.
pub const FLOWS_MAX: usize = 65_536;

/// Idle flows are looked through for those that may be forgotten only from this many flows on, and then whenever their
/// number has doubled: the search costs nothing that their coming did not.
pub const FLOWS_KEPT_MIN: usize = 1024;

/// The most units that one piece of work may cost: a device of one request a second would take thirty years for it.
pub const UNITS_MAX: f64 = 1e9;

/// Weights go up to this. A flow's progress is counted in units of 2^-20 requests divided by its weight, so shares are
/// true to 1% for weights up to 10,000 and to 10% up to this.
pub const WEIGHT_MAX: u32 = 100_000;

/// How much of its limit a flow that always had work may make up for when the device or a timer was late. Less, and a flow
/// could not reach its limit where others' requests take long, or the device rests for a tenth of a second now and then; a
/// flow that was idle makes up for nothing, a class for as much as this, as many send in it at once. Over any time t at most
/// `limit * (t + this)` units and one piece of work are served.
pub const LIMIT_CREDIT: Duration = Duration::from_millis(100);

/// How much unserved reservation is made up for after the device could not keep up. More would let those with
/// reservations shut out the others for as long after every stall.
pub const RESERVATION_CREDIT: Duration = Duration::from_millis(500);

/// How far a class's reservation may lag behind, so that it is there for those of its groups who have one: as much as a
/// hundred small requests of a flash device come to.
pub const UNPROMISED_PATIENCE: Duration = Duration::from_millis(2);

/// Bytes of a request that a group's reservation takes as one: about where a flash device's time for the bytes overtakes
/// that for the request. The same on all devices, as a group's promise may span several.
pub const RESERVED_BYTES_PER_UNIT: f64 = 65_536.0;

/// The same for a flow that others serve too, and of whose service news comes every so often: what was idle here may have
/// been busy elsewhere, and what is charged for that in one piece must not be lost before the next.
pub const AFAR_CREDIT: Duration = Duration::from_millis(150);

/// How far each part of a service that is spread over several servers is pulled towards an equal one. Without it, what
/// one server has of a limit would never change hands while all want more; with more, one that has little to do would hold
/// back others until the next settlement.
pub const EQUAL_PART: f64 = 0.1;

/// How far, in units at its weight, a flow may fall behind between two services for what was done for it past the queue:
/// it always has a part of 1 in so many of what its weight says.
pub const BESIDES_UNITS_MAX: f64 = 64.0;

/// While the device cannot even serve the reservations, one in so many turns goes by weight: those without a
/// reservation are slowed down, not shut out.
pub const OVERLOAD_TURNS: u32 = 16;

/// The priorities there are.
pub const PRIORITIES: usize = 256;

/// How long a device is watched before what it did counts: long enough for a mean, short enough to follow it.
pub const CAPACITY_WINDOW: Duration = Duration::from_millis(250);

/// A window without enough work in it is given up after so long: it would mix what was with what is.
pub const CAPACITY_WINDOW_MAX: Duration = Duration::from_secs(2);

/// Pieces of work that a window needs. A disk that does sixty a second has them in a window of the usual length.
pub const CAPACITY_WINDOW_WORKS_MIN: f64 = 16.0;

/// Time in a window in which something must have been asked of a device. Below, clocks and threads are measured instead of it.
/// Such time counts as time at work, also where a limit holds back all that there is.
pub const CAPACITY_ASKED_MIN: Duration = Duration::from_millis(5);

/// After so long at work, what was seen of a device counts for a third: long enough for a mean of one that works in jerks.
/// Four times that follow a device that has become five times slower to within 10%.
pub const CAPACITY_MEMORY: Duration = Duration::from_millis(1500);

/// The same for whether limits hold it back at the moment.
pub const CAPACITY_MOMENT: Duration = Duration::from_millis(500);

/// After so long at work, the shortest delay that is remembered counts as three times as long: a device that has become
/// slower has no short ones any more.
pub const CAPACITY_ALONE_MEMORY: Duration = Duration::from_secs(30);

/// In so long at work, a device that limits keep from showing what it can do is believed to do 2.7 times as much: one that
/// has become five times faster is known about ten seconds later.
pub const CAPACITY_BELIEF: Duration = Duration::from_millis(1500);

/// So long at work under a limit it is not tried again whether the device can do more, unless delays say so or with
/// as much to do it does less than is known.
pub const CAPACITY_TRIES_APART: Duration = Duration::from_secs(30);

/// For so long it is not tried again whatever there is to say for it: what a try has made wait has gone by then.
/// Where limits have held nothing back for so long, what was done under them is next to nothing of what is seen.
pub const CAPACITY_SETTLED: Duration = Duration::from_secs(4);

/// The most units that a device is ever given at once: far more than any works on.
pub const WINDOW_LOAD_MAX: f64 = 16_384.0;

/// How long a device is watched under one size of its window: many times what work takes in one with a short queue.
pub const WINDOW_SLICE: Duration = Duration::from_millis(20);

/// A slice that is not over after so long is given up: too little comes for it to say anything.
pub const WINDOW_SLICE_MAX: Duration = Duration::from_secs(5);

/// Pieces of work that a slice needs, and windows full of units: chance averages out, also for a store that commits sixteen
/// of them at a time and is slow now and then.
pub const WINDOW_SLICE_WORKS_MIN: u32 = 256;
/// See `WINDOW_SLICE_WORKS_MIN`.
pub const WINDOW_SLICE_WINDOWS: f64 = 4.0;
