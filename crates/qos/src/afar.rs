//! One promise kept by several servers, none of which sees the whole of what is served.
//!
//! Each server has the whole promise, and its tags advance by what all serve, as dmClock's do by the `delta` and `rho` that
//! clients tell (Gulati, Merchant and Varman, OSDI 2010, section 3.2). Here servers tell one another, now and then. In
//! between each takes the others to go on as they did: with each request of its own it charges what they will have served
//! meanwhile, and when it hears the truth it corrects itself. So a limit is passed neither between two settlements, when
//! all would else serve as if alone, nor in the long run, and no part of it is lost.
//!
//! How much is charged ahead follows from each server's part of what was served of late, pulled a little towards an equal
//! part (`EQUAL_PART`), so that a server where more is wanted gets more.

use crate::limits::EQUAL_PART;

/// Of what was served before, so much counts at the next settlement.
const MEMORY: f64 = 0.8;

/// No more is charged ahead than others may have served: so many times their mean between two settlements.
const AHEAD_MAX: f64 = 2.0;

/// What was served of a promise.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Served {
    /// Requests.
    pub requests: f64,
    /// Bytes that they moved.
    pub bytes: f64,
    /// Of its reservation, in nanoseconds: 10^9 are a second's worth.
    pub reserved_ns: f64,
}

impl Served {
    fn with(self, other: Served, join: impl Fn(f64, f64) -> f64) -> Served {
        Served {
            requests: join(self.requests, other.requests),
            bytes: join(self.bytes, other.bytes),
            reserved_ns: join(self.reserved_ns, other.reserved_ns),
        }
    }
}

/// What others have served of a promise since the last settlement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Elsewhere {
    /// In all.
    pub served: Served,
    /// How many servers take part beside this one.
    pub servers: u32,
    /// Whether one of them would serve more if the limit let it.
    pub waits: bool,
}

/// What a server has to tell the others when it settles.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Settled {
    /// What it has served since the last time.
    pub served: Served,
    /// Whether it would serve more if the limit let it.
    pub waits: bool,
    /// Whether it has work queued, so that there will be more to settle.
    pub queued: bool,
}

/// One kind of service: what was served here, and what is charged for others with it.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Served here since the last settlement.
    own: f64,
    /// What is charged for others with each part of our own. An estimate, which needs no more digits, and nor does its bound.
    rate: f32,
    /// The most that is charged so until the next settlement.
    ahead_max: f32,
}

impl Account {
    /// Notes service here; gives what to charge for it.
    pub(crate) fn serve(&mut self, more: f64) -> f64 {
        let before = self.charged();
        self.own += more;
        more + self.charged() - before
    }

    /// What has been charged for others since the last settlement.
    fn charged(&self) -> f64 {
        (self.own * f64::from(self.rate)).min(f64::from(self.ahead_max))
    }
}

/// What a request changes or needs to know of a promise at one server, but for the bytes of one that counts them.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(crate) struct Afar {
    pub(crate) requests: Account,
    pub(crate) reserved_ns: Account,
}

/// What only settling asks for.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Of late, here and elsewhere.
    late: (Served, Served),
    /// What was charged too much and left to others who waited.
    left: Served,
    /// How far the clock of reservations here was behind when it was settled last.
    pub(crate) behind_seen: u64,
}

/// By how much to correct what was charged when others have served `more`, while one of them waits or not; `left` is what
/// was left to them before.
fn leave(left: &mut f64, more: f64, waits: bool) -> f64 {
    if waits && more < 0.0 {
        *left = *left * MEMORY - more / 2.0;
        return more / 2.0;
    }
    let set_off = if waits { left.min(more) } else { *left };
    *left = (*left - set_off) * MEMORY;
    more - set_off
}

impl Past {
    /// Takes in the truth: gives what was served here, and by how much more than was charged ahead others have served.
    ///
    /// Where they have served less while one of them waits, half of what was charged too much is left to them, so that each
    /// comes to its part. Most of that is chance, which goes the other way the next time: then it is set off first. Who
    /// lost it for good each time would be held below the limit by as much as chance makes of a tenth of a second.
    pub(crate) fn settle(&mut self, afar: &mut Afar, bytes: &mut Account, others: Elsewhere) -> (Served, Served) {
        let Afar { requests, reserved_ns } = afar;
        let of_each = |see: fn(&Account) -> f64| Served {
            requests: see(requests),
            bytes: see(bytes),
            reserved_ns: see(reserved_ns),
        };
        let (own, charged) = (of_each(|account| account.own), of_each(Account::charged));
        let more = others.served.with(charged, |truth, charged| truth - charged);
        let more = Served {
            requests: leave(&mut self.left.requests, more.requests, others.waits),
            bytes: leave(&mut self.left.bytes, more.bytes, others.waits),
            // Of a reservation nothing is left: it may be used up wherever it is due.
            reserved_ns: more.reserved_ns,
        };
        let fade = |late: &mut Served, now: Served| *late = late.with(now, |before, now| before * MEMORY + now);
        fade(&mut self.late.0, own);
        fade(&mut self.late.1, others.served);
        let equal = 1.0 / f64::from(others.servers + 1);
        let account = |own: f64, others: f64| {
            let part = (1.0 - EQUAL_PART) * own / (own + others) + EQUAL_PART * equal;
            let rate = if others > 0.0 { (1.0 - part) / part } else { 0.0 };
            Account { own: 0.0, rate: rate as f32, ahead_max: (others * (1.0 - MEMORY) * AHEAD_MAX) as f32 }
        };
        let (here, elsewhere) = self.late;
        *requests = account(here.requests, elsewhere.requests);
        *bytes = account(here.bytes, elsewhere.bytes);
        *reserved_ns = account(here.reserved_ns, elsewhere.reserved_ns);
        (own, more)
    }
}
