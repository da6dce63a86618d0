//! Who is next among those with promises: the tags of mClock, and start-time fair queueing for what is left.
//!
//! Each entrant carries, instead of a tag a request, the tags of its next request: when its reservation is due (`r`),
//! when its limits allow it (`l`, `b`, in time), and how much it has had by weight (`p`, in a time of its own). Serving
//! moves the tags on by what the service cost. A request is served because a reservation is due, else because its entrant
//! has had least for its weight; the second moves `r` not, so that what is left over is not held against a reservation.
//!
//! What is known to go wrong, and how it does not here:
//! - *Credit of the idle.* Who comes back starts at the present of every tag (`activate`), also after being held by a
//!   limit; a burst of what was not used meanwhile would pass limits and push others aside. A little of it is left to
//!   entrants that stand for many (`of_many`).
//! - *Debt of the busy.* The time of `p` is that of the least served entrant, and that of the most served when nothing is
//!   queued, so that who was alone owes nothing to who comes later.
//! - *Tags of a request computed when it came* reflect promises and service long past; here there is only one set of
//!   tags an entrant, and a change of a promise converts what is outstanding (`promise`).
//! - *Reservations that the device cannot keep* pile up and come due all at once. The clock of reservations stops at
//!   `RESERVATION_CREDIT` behind the present; and one in `OVERLOAD_TURNS` goes by weight even so.
//!
//! After Gulati, Merchant and Varman, "mClock: Handling Throughput Variability for Hypervisor IO Scheduling" (OSDI 2010),
//! and Goyal, Vin and Cheng, "Start-time Fair Queueing" (SIGCOMM 1996).
//!
//! Read next: `service` for what serving does to the tags, `rates` for what is promised beyond a weight.
//!
//! Invariants: an idle entrant is in no tree; an active one is either held or ready, and due for a reservation only when
//! ready; of no entrant more than `limit * (t + LIMIT_CREDIT)` units and one piece of work go in any time t.

mod aside;
mod entrant;
mod rates;
mod service;

pub(crate) use rates::Charge;

use crate::afar::{Afar, Past};
use crate::limits::{AFAR_CREDIT, LIMIT_CREDIT, OVERLOAD_TURNS, RESERVATION_CREDIT};
use crate::min_tree::{KEY_MAX, MinTree};
use crate::promise::Promise;
use aside::Aside;
use base::{Bug, Duration, Instant};
use entrant::{Entrant, Is, WEIGHT_SCALE};
use prefetch_index::prefetch_index;
use rates::{AFAR_RESERVATION_CREDIT_NS, ByteRates, Promised, Rates, limited_until};

/// Competitions of no more than this many entrants, as that of classes, go by deadlines.
const DEADLINES_MAX: usize = 8;

/// How far the time of weights may have gone for it to go on when nothing is queued.
const WEIGHT_TIME_MAX: u64 = u64::MAX / 2;

/// Why an entrant is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its reservation is due.
    Reservation,
    /// It has had least for its weight.
    Weight,
}

/// Who is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Entrant(u32, Phase),
    NotBefore(Instant),
    Nobody,
}

/// All entrants of one competition; with each, what its owner knows of it.
#[derive(Debug, Default)]
pub(crate) struct Tags<F> {
    entrants: Vec<Entrant<F>>,
    /// By slot, as the promises are, which are asked for seldom.
    rates: Vec<Rates>,
    promises: Vec<Promise>,
    /// Of those that are `RatedInBytes`.
    byte_rates: Aside<ByteRates>,
    /// Of those that are `Afar`.
    afars: Aside<Afar>,
    pasts: Aside<Past>,
    /// When what is below may run, of those that are `HeldBelow`.
    held_until: Aside<u64>,
    /// What was had past this competition since the last service, of those that were `ServedBesides`.
    besides: Aside<f64>,
    /// What the last service by reservation moved `r` on by, of the first entrants: so long after `r` is their deadline.
    last_reserved: [u64; DEADLINES_MAX],
    free: Vec<u32>,
    active: usize,
    /// How many have a reservation, idle ones included.
    reserving: usize,
    /// Ready entrants with a reservation, by `r`.
    reserved: MinTree,
    /// Ready entrants, by `p`.
    ready: MinTree,
    /// Active entrants that may not run yet, by when they may.
    held: MinTree,
    /// The time of weights: the `p` of whom was served last by weight.
    weight_now: u64,
    /// The greatest `p` of any that has become idle.
    weight_most: u64,
    /// How far the clock of reservations is behind the present.
    behind: u64,
    /// The clock of reservations has been stopped of late.
    overloaded: bool,
    /// Turns by reservation since the last by weight, while overloaded.
    turns: u32,
    /// How much of its limit who was idle may make up for.
    bursts: Duration,
}

impl<F: Default> Tags<F> {
    /// Whether an entrant, with what its owner knows of it, takes half a line of cache.
    pub(crate) const IS_SMALL: bool = size_of::<Entrant<F>>() == 32;

    /// Entrants that stand for many: of their limits they may have what they left of the last `LIMIT_CREDIT`. Their
    /// requests come in bursts, as many wait for the same flush, and a device is better served by all of one at once than by
    /// one after the other, each with a flush of its own.
    pub(crate) fn of_many() -> Tags<F> {
        Tags { bursts: LIMIT_CREDIT, ..Tags::default() }
    }

    /// A new entrant, idle.
    pub(crate) fn add(&mut self, promise: Promise, of: F) -> u32 {
        let slot = self.free.pop().unwrap_or(self.entrants.len() as u32);
        let (place, entrant) = (slot as usize, Entrant::new(&promise, of));
        self.reserving += usize::from(entrant.is(Is::Reserving));
        if place == self.entrants.len() {
            self.entrants.push(entrant);
            self.rates.push(Rates::default());
            self.promises.push(promise);
        } else {
            (self.entrants[place], self.rates[place], self.promises[place]) = (entrant, Rates::default(), promise);
        }
        if self.entrants[place].is(Is::RatedInBytes) {
            self.byte_rates.set(place, ByteRates::default());
        }
        if let Some(last_reserved) = self.last_reserved.get_mut(place) {
            *last_reserved = 0;
        }
        self.parts(slot).1.set_promise((0, 0), &promise);
        slot
    }

    /// Forgets an idle entrant.
    pub(crate) fn forget(&mut self, slot: u32) {
        let entrant = &mut self.entrants[slot as usize];
        assert!(!entrant.is(Is::Active), "only the idle are forgotten");
        entrant.of = F::default();
        self.reserving -= usize::from(entrant.is(Is::Reserving));
        self.free.push(slot);
    }

    /// All slots. Of those that are free the owner knows the default.
    pub(crate) fn slots(&self) -> core::ops::Range<u32> {
        0..self.entrants.len() as u32
    }

    /// What its owner knows of an entrant.
    pub(crate) fn of(&self, slot: u32) -> &F {
        &self.entrants[slot as usize].of
    }

    /// Whether forgetting it now would give it no more than two small requests that it should not have.
    pub(crate) fn is_forgettable(&self, slot: u32) -> bool {
        let entrant = &self.entrants[slot as usize];
        let is_level = entrant.p <= self.weight_present().saturating_add(2 * WEIGHT_SCALE as u64);
        is_level && ![Is::Active, Is::Limited, Is::Afar].into_iter().any(|what| entrant.is(what))
    }

    /// The promise.
    pub(crate) fn promised(&self, slot: u32) -> Promise {
        self.promises[slot as usize]
    }

    /// How many have something queued.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Gives an entrant another promise, which holds at once: what it still owes by the old one, it owes by the new.
    pub(crate) fn promise(&mut self, now: Instant, slot: u32, promise: Promise) {
        let (now, due, place) = (now.0, self.reservations_at(now.0), slot as usize);
        let present = self.weight_present();
        let entrant = &mut self.entrants[place];
        let ahead = entrant.p.saturating_sub(present) as f64 / entrant.weight_step();
        let (reserved, had_bytes) = (entrant.is(Is::Reserving), entrant.is(Is::RatedInBytes));
        entrant.set_promise(&promise);
        entrant.p = entrant.p.min(present).saturating_add((ahead * entrant.weight_step()) as u64);
        let (active, reserves) = (entrant.is(Is::Active), entrant.is(Is::Reserving));
        if entrant.is(Is::RatedInBytes) && !had_bytes {
            self.byte_rates.set(place, ByteRates::default());
        }
        if !active {
            self.weight_most = self.weight_most.max(entrant.p);
        }
        self.reserving = self.reserving + usize::from(reserves) - usize::from(reserved);
        self.promises[place] = promise;
        self.parts(slot).1.set_promise((now, due), &promise);
        if active {
            self.place(now, slot);
        }
    }

    /// An entrant has something to do: it takes part from now on, without credit and without debt.
    pub(crate) fn activate(&mut self, now: Instant, slot: u32) {
        let (present, due) = (self.weight_present(), self.reservations_at(now.0));
        let bursts = self.bursts;
        let entrant = &mut self.entrants[slot as usize];
        if entrant.replace(Is::Active, true) {
            return;
        }
        entrant.set(Is::Held, false);
        entrant.set(Is::HeldBelow, false);
        // Just behind whom it finds there: newcomers without end must not keep anybody waiting for ever.
        let keeps_credit = Bug::IdleKeepCredit.is_planted();
        entrant.p = if keeps_credit { entrant.p } else { entrant.p.max(present.saturating_add(1)) };
        if entrant.is_kept_together() {
            // Who has done nothing here may have been busy elsewhere.
            let (entrant, mut promised) = self.parts(slot);
            let afar = entrant.is(Is::Afar);
            if entrant.is(Is::Limited) {
                let credit = if afar { AFAR_CREDIT } else { bursts };
                promised.raise_limits(now.0.saturating_sub(credit.as_nanos() as u64));
            }
            if entrant.is(Is::Reserving) {
                let r = &mut promised.rates.r;
                *r = (*r).max(if afar { due.saturating_sub(AFAR_RESERVATION_CREDIT_NS) } else { due });
            }
        }
        self.active += 1;
        self.place(now.0, slot);
    }

    /// An entrant has nothing to do.
    pub(crate) fn deactivate(&mut self, slot: u32) {
        let entrant = &mut self.entrants[slot as usize];
        if !entrant.replace(Is::Active, false) {
            return;
        }
        self.weight_most = self.weight_most.max(entrant.p);
        self.take_out(slot);
        self.active -= 1;
        if self.active == 0 {
            self.begin_anew();
        }
    }

    /// Nothing is queued: nobody owes the others anything. The time of weights goes on behind all; only when it has gone so
    /// far that it might end is it set back.
    fn begin_anew(&mut self) {
        self.weight_now = self.weight_now.max(self.weight_most);
        if self.weight_now > WEIGHT_TIME_MAX {
            self.entrants.iter_mut().for_each(|entrant| entrant.p = 0);
            (self.weight_now, self.weight_most) = (0, 0);
        }
    }

    /// Nothing of what is below an entrant may run before `until`.
    pub(crate) fn hold(&mut self, now: Instant, slot: u32, until: Instant) {
        self.entrants[slot as usize].set(Is::HeldBelow, true);
        self.held_until.set(slot as usize, until.0);
        self.place(now.0, slot);
    }

    /// What is below an entrant may run, for all that is known.
    pub(crate) fn let_go(&mut self, now: Instant, slot: u32) {
        let due = self.reservations_at(now.0);
        let entrant = &mut self.entrants[slot as usize];
        if entrant.is(Is::Active) && entrant.replace(Is::HeldBelow, false) {
            // It was as good as idle.
            let r = &mut self.rates[slot as usize].r;
            *r = (*r).max(due);
            self.place(now.0, slot);
        }
    }

    /// Who is next; `patience` says how much longer than its reservation says an entrant can wait.
    pub(crate) fn next(&mut self, now: Instant, patience: impl Fn(u32) -> Duration) -> Next {
        while self.held.least().is_some_and(|from| from <= now.0) {
            let (from, slot) = self.held.first().expect("there is a least one");
            debug_assert_eq!(from, self.runs_from(slot));
            self.place(now.0, slot);
        }
        if let Some(r) = self.reserved.least() {
            let lag = self.reservations_at(now.0).saturating_sub(r);
            let credit = RESERVATION_CREDIT.as_nanos() as u64;
            if lag > credit {
                self.behind += lag - credit;
                self.overloaded = true;
            } else if lag < credit / 2 {
                self.overloaded = false;
            }
            let by_weight = self.overloaded && self.turns + 1 >= OVERLOAD_TURNS;
            if r <= self.reservations_at(now.0) && !by_weight && !Bug::WeightBeforeReservation.is_planted() {
                return Next::Entrant(self.most_urgent(now.0, patience), Phase::Reservation);
            }
        }
        match (self.ready.first(), self.held.least()) {
            (Some((_, slot)), _) => Next::Entrant(slot, Phase::Weight),
            (None, Some(from)) => Next::NotBefore(Instant(from)),
            (None, None) => Next::Nobody,
        }
    }

    /// Who may be next: because of a reservation, and by weight.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = u32> {
        [&self.reserved, &self.ready].into_iter().filter_map(MinTree::first).map(|(_, slot)| slot)
    }

    /// Has the cache fetch what serving an entrant will ask for, while there is something else to do: among thousands, who
    /// is next is seldom in it.
    pub(crate) fn look_ahead(&self, slot: u32) {
        prefetch_index(&self.entrants, slot as usize);
        self.ready.look_ahead(slot);
        if self.reserving > 0 {
            prefetch_index(&self.rates, slot as usize);
            self.afars.look_ahead(slot as usize);
            self.reserved.look_ahead(slot);
            self.held.look_ahead(slot);
        }
    }

    /// Whether some entrants have reservations, and whether one is due.
    pub(crate) fn reservations(&self, now: Instant) -> (bool, bool) {
        (self.reserving > 0, self.reserved.least().is_some_and(|r| r <= self.reservations_at(now.0)))
    }

    /// Whether an entrant's reservation is due and its limits let it run.
    pub(crate) fn is_due(&self, now: Instant, slot: u32) -> bool {
        let (entrant, rates) = (&self.entrants[slot as usize], &self.rates[slot as usize]);
        let due = self.reservations_at(now.0);
        entrant.is(Is::Active) && entrant.is(Is::Reserving) && rates.r <= due && self.runs_from(slot) <= now.0
    }

    /// Of those whose reservations are due, who has to be served soonest lest it falls behind. What is large and rare may
    /// wait for what is small and frequent, which must not wait for it (Bennett and Zhang, "WF2Q: Worst-case Fair Weighted
    /// Fair Queueing", INFOCOM 1996). Among many, the one that has been due for longest is as good.
    fn most_urgent(&self, now: u64, patience: impl Fn(u32) -> Duration) -> u32 {
        let due = self.reservations_at(now);
        let few = if self.entrants.len() > DEADLINES_MAX { &[] } else { self.entrants.as_slice() };
        let all = few.iter().zip(&self.rates).zip(&self.last_reserved).zip(0..);
        let is_due = |entrant: &Entrant<F>, r| {
            entrant.is(Is::Active) && !entrant.is(Is::Held) && entrant.is(Is::Reserving) && r <= due
        };
        let soonest = all.filter(|(((entrant, rates), _), _)| is_due(entrant, rates.r)).min_by_key(
            |(((_, rates), last_reserved), slot)| {
                rates.r.saturating_add(**last_reserved + patience(*slot).as_nanos() as u64)
            },
        );
        soonest.map_or_else(|| self.reserved.first().expect("one is due").1, |(_, slot)| slot)
    }

    /// When an entrant may run, if it may not now.
    pub(crate) fn not_before(&self, now: Instant, slot: u32) -> Option<Instant> {
        let from = self.runs_from(slot);
        (from > now.0).then_some(Instant(from))
    }

    /// Whether an entrant has work and its own limits do not let it run.
    pub(crate) fn is_limited(&self, now: Instant, slot: u32) -> bool {
        let place = slot as usize;
        let entrant = &self.entrants[place];
        let bytes = || entrant.is(Is::RatedInBytes).then(|| self.byte_rates.get(place));
        entrant.is(Is::Active) && entrant.is(Is::Limited) && limited_until(&self.rates[place], bytes()) > now.0
    }

    /// An entrant, and what it is promised beyond a weight.
    fn parts(&mut self, slot: u32) -> (&mut Entrant<F>, Promised<'_>) {
        let place = slot as usize;
        let entrant = &mut self.entrants[place];
        let bytes = entrant.is(Is::RatedInBytes).then(|| self.byte_rates.get_mut(place));
        let afar = entrant.is(Is::Afar).then(|| self.afars.get_mut(place));
        (entrant, Promised { rates: &mut self.rates[place], bytes, afar })
    }

    /// When its limits, and what is below it, let an entrant run.
    fn runs_from(&self, slot: u32) -> u64 {
        let place = slot as usize;
        let entrant = &self.entrants[place];
        let below = if entrant.is(Is::HeldBelow) { *self.held_until.get(place) } else { 0 };
        if !entrant.is(Is::Limited) {
            return below.min(KEY_MAX);
        }
        let bytes = entrant.is(Is::RatedInBytes).then(|| self.byte_rates.get(place));
        limited_until(&self.rates[place], bytes).max(below).min(KEY_MAX)
    }

    /// The clock of reservations.
    fn reservations_at(&self, now: u64) -> u64 {
        now.saturating_sub(self.behind)
    }

    /// Where a newcomer starts in the time of weights: with whom has had least.
    fn weight_present(&self) -> u64 {
        self.ready.least().map_or(self.weight_now, |least| least.max(self.weight_now))
    }

    fn take_out(&mut self, slot: u32) {
        let entrant = &self.entrants[slot as usize];
        if entrant.is(Is::Held) {
            self.held.remove(slot);
        } else {
            self.ready.remove(slot);
            if entrant.is(Is::Reserving) {
                self.reserved.remove(slot);
            }
        }
    }

    /// Puts an active entrant where its tags belong.
    fn place(&mut self, now: u64, slot: u32) {
        let from = self.runs_from(slot);
        let entrant = &mut self.entrants[slot as usize];
        let was_held = entrant.replace(Is::Held, from > now);
        if from > now {
            if !was_held {
                self.ready.remove(slot);
                self.reserved.remove(slot);
            }
            return self.held.set(slot, from);
        }
        if was_held {
            self.held.remove(slot);
            let (present, due) = (self.weight_present(), self.reservations_at(now));
            let (entrant, rates) = (&mut self.entrants[slot as usize], &mut self.rates[slot as usize]);
            // What it was not allowed to have meanwhile is no credit, but for the moment that the device needed for
            // others when its turn came.
            let idle_below = entrant.replace(Is::HeldBelow, false);
            entrant.p = entrant.p.max(present.saturating_sub(entrant.last_step()));
            let credit = if idle_below { 0 } else { RESERVATION_CREDIT.as_nanos() as u64 };
            rates.r = rates.r.max(due.saturating_sub(credit));
        }
        let entrant = &self.entrants[slot as usize];
        self.ready.set(slot, entrant.p);
        if entrant.is(Is::Reserving) {
            self.reserved.set(slot, self.rates[slot as usize].r);
        } else {
            self.reserved.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who had much in a time that is over owes nothing for it, at the end of what can be counted as before.
    #[test]
    fn the_time_of_weights_has_no_end() {
        let now = Instant::from_secs(1);
        for begin in [0, WEIGHT_TIME_MAX - (1 << 30), WEIGHT_TIME_MAX + (1 << 40)] {
            let mut tags = Tags { weight_now: begin, ..Tags::default() };
            let busy = tags.add(Promise::weight(1), ());
            tags.activate(now, busy);
            (1..10_000).for_each(|_| tags.charge(now, busy, Phase::Weight, Charge::alike(1.0, 0), true));
            tags.charge(now, busy, Phase::Weight, Charge::alike(1.0, 0), false);
            let quiet = tags.add(Promise::weight(1), ());
            [quiet, busy].into_iter().for_each(|slot| tags.activate(now, slot));
            let turns = (0..100).filter(|_| {
                let Next::Entrant(slot, phase) = tags.next(now, |_| Duration::ZERO) else {
                    unreachable!("both have work")
                };
                tags.charge(now, slot, phase, Charge::alike(1.0, 0), true);
                slot == busy
            });
            assert_eq!(turns.count(), 50, "from {begin}");
        }
    }
}
