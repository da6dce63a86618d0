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
//! - *Debt of the busy.* The time of `p` is that of the least served entrant, and begins anew when nothing is queued, so
//!   that who was alone owes nothing to who comes later.
//! - *Tags of a request computed when it came* reflect promises and service long past; here there is only one set of
//!   tags an entrant, and a change of a promise converts what is outstanding (`promise`).
//! - *Reservations that the device cannot keep* pile up and come due all at once. The clock of reservations stops at
//!   `RESERVATION_CREDIT` behind the present; and one in `OVERLOAD_TURNS` goes by weight even so.
//!
//! After Gulati, Merchant and Varman, "mClock: Handling Throughput Variability for Hypervisor IO Scheduling" (OSDI 2010),
//! and Goyal, Vin and Cheng, "Start-time Fair Queueing" (SIGCOMM 1996).
//!
//! Invariants: an idle entrant is in no tree; an active one is either held or ready, and due for a reservation only when
//! ready; of no entrant more than `limit * (t + LIMIT_CREDIT)` units and one piece of work go in any time t.

mod entrant;
mod rates;

pub(crate) use rates::Charge;

use crate::afar::{Afar, Elsewhere, Settled};
use crate::limits::{AFAR_CREDIT, BESIDES_UNITS_MAX, LIMIT_CREDIT, OVERLOAD_TURNS, RESERVATION_CREDIT};
use crate::min_tree::{KEY_MAX, MinTree};
use crate::promise::Promise;
use base::{Bug, Duration, Instant};
use entrant::{Entrant, WEIGHT_SCALE};
use prefetch_index::prefetch_index;
use rates::{AFAR_RESERVATION_CREDIT_NS, Rates};

/// Competitions of no more than this many entrants, as that of classes, go by deadlines.
const DEADLINES_MAX: usize = 8;

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

/// What the deadline of an entrant takes beside its tags.
#[derive(Clone, Copy, Debug, Default)]
struct Deadline {
    /// What its last service by reservation moved `r` on by.
    last_reserved: u64,
    /// How much longer than its reservation says it can wait.
    patience_ns: u64,
}

/// All entrants of one competition; with each, what its owner knows of it.
#[derive(Debug, Default)]
pub(crate) struct Tags<F> {
    entrants: Vec<Entrant<F>>,
    /// By slot, as the promises are. What is settled with others is there as far as there are entrants that they serve too.
    rates: Vec<Rates>,
    afars: Vec<Afar>,
    /// Asked for seldom.
    promises: Vec<Promise>,
    /// Of the first.
    deadlines: [Deadline; DEADLINES_MAX],
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
    /// Counts the times that nothing was queued.
    period: u64,
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
    /// Whether an entrant, with what its owner knows of it, takes one line of cache.
    pub(crate) const IS_SMALL: bool = size_of::<Entrant<F>>() == 64;

    /// Entrants that stand for many: of their limits they may have what they left of the last `LIMIT_CREDIT`. Their
    /// requests come in bursts, as many wait for the same flush, and a device is better served by all of one at once than by
    /// one after the other, each with a flush of its own.
    pub(crate) fn of_many() -> Tags<F> {
        Tags { bursts: LIMIT_CREDIT, ..Tags::default() }
    }

    /// A new entrant, idle.
    pub(crate) fn add(&mut self, promise: Promise, of: F) -> u32 {
        let (entrant, rates) = (Entrant::new(&promise, of), Rates::new(&promise));
        self.reserving += usize::from(entrant.reserves);
        let Some(slot) = self.free.pop() else {
            self.entrants.push(entrant);
            self.rates.push(rates);
            self.promises.push(promise);
            return (self.entrants.len() - 1) as u32;
        };
        let place = slot as usize;
        (self.entrants[place], self.rates[place], self.promises[place]) = (entrant, rates, promise);
        if let Some(deadline) = self.deadlines.get_mut(place) {
            deadline.last_reserved = 0;
        }
        slot
    }

    /// Forgets an idle entrant.
    pub(crate) fn forget(&mut self, slot: u32) {
        let entrant = &mut self.entrants[slot as usize];
        assert!(!entrant.active, "only the idle are forgotten");
        entrant.of = F::default();
        self.reserving -= usize::from(entrant.reserves);
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

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, slot: u32) -> &mut F {
        &mut self.entrants[slot as usize].of
    }

    /// Whether forgetting it now would give it no more than two small requests that it should not have.
    pub(crate) fn is_forgettable(&self, slot: u32) -> bool {
        let entrant = &self.entrants[slot as usize];
        !entrant.active
            && !entrant.limited
            && !entrant.afar
            && (entrant.period != self.period
                || entrant.p <= self.weight_present().saturating_add(2 * WEIGHT_SCALE as u64))
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
        let (now, due) = (now.0, self.reservations_at(now.0));
        let present = self.weight_present();
        let (entrant, rates, _) = self.parts(slot);
        let owed = |tag: u64, from: u64, old_ns: f64, new_ns: f64| {
            let units = if old_ns > 0.0 { tag.saturating_sub(from) as f64 / old_ns } else { 0.0 };
            from.saturating_add((units * new_ns) as u64)
        };
        let (old, new) = (rates.limit_ns, promise.limit_ns());
        (rates.l, rates.b) = (owed(rates.l, now, old.0, new.0), owed(rates.b, now, old.1, new.1));
        let (old, new) = (rates.reservation_ns, promise.reservation_ns());
        rates.r = if new.0 > 0.0 { owed(rates.r, due, old.0, new.0) } else { due };
        rates.set_promise(&promise);
        let ahead = entrant.p.saturating_sub(present) as f64 / entrant.weight_step();
        let reserved = entrant.reserves;
        entrant.set_promise(&promise);
        entrant.p = entrant.p.min(present).saturating_add((ahead * entrant.weight_step()) as u64);
        let (active, reserves) = (entrant.active, entrant.reserves);
        self.reserving = self.reserving + usize::from(reserves) - usize::from(reserved);
        self.promises[slot as usize] = promise;
        if active {
            self.place(now, slot);
        }
    }

    /// An entrant has something to do: it takes part from now on, without credit and without debt.
    pub(crate) fn activate(&mut self, now: Instant, slot: u32) {
        let (period, present, due) = (self.period, self.weight_present(), self.reservations_at(now.0));
        let bursts = self.bursts;
        let (entrant, rates, _) = self.parts(slot);
        if entrant.active {
            return;
        }
        if entrant.period != period {
            (entrant.period, entrant.p) = (period, 0);
        }
        // Just behind whom it finds there: newcomers without end must not keep anybody waiting for ever.
        let keeps_credit = Bug::IdleKeepCredit.is_planted();
        entrant.p = if keeps_credit { entrant.p } else { entrant.p.max(present.saturating_add(1)) };
        // Who has done nothing here may have been busy elsewhere.
        let afar = entrant.is_kept_together() && entrant.afar;
        if entrant.limited {
            let credit = if afar { AFAR_CREDIT } else { bursts };
            let floor = now.0.saturating_sub(credit.as_nanos() as u64);
            (rates.l, rates.b) = (rates.l.max(floor), rates.b.max(floor));
        }
        if entrant.reserves {
            rates.r = rates.r.max(if afar { due.saturating_sub(AFAR_RESERVATION_CREDIT_NS) } else { due });
        }
        (entrant.active, entrant.held, entrant.held_below) = (true, false, false);
        self.active += 1;
        self.place(now.0, slot);
    }

    /// An entrant has nothing to do.
    pub(crate) fn deactivate(&mut self, slot: u32) {
        let entrant = &mut self.entrants[slot as usize];
        if !core::mem::replace(&mut entrant.active, false) {
            return;
        }
        self.take_out(slot);
        self.active -= 1;
        if self.active == 0 {
            self.period += 1;
            self.weight_now = 0;
        }
    }

    /// Nothing of what is below an entrant may run before `until`.
    pub(crate) fn hold(&mut self, now: Instant, slot: u32, until: Instant) {
        let (entrant, rates, _) = self.parts(slot);
        (entrant.held_below, rates.held_until) = (true, until.0);
        self.place(now.0, slot);
    }

    /// What is below an entrant may run, for all that is known.
    pub(crate) fn let_go(&mut self, now: Instant, slot: u32) {
        let due = self.reservations_at(now.0);
        let (entrant, rates, _) = self.parts(slot);
        if entrant.active && core::mem::take(&mut entrant.held_below) {
            // It was as good as idle.
            rates.r = rates.r.max(due);
            self.place(now.0, slot);
        }
    }

    /// Who is next.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
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
                return Next::Entrant(self.most_urgent(now.0), Phase::Reservation);
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

    /// Has the cache fetch what will be asked of the candidates, while there is something else to do: among thousands, who is
    /// next is seldom in it.
    pub(crate) fn look_ahead(&self) {
        for slot in self.candidates() {
            prefetch_index(&self.entrants, slot as usize);
            self.ready.look_ahead(slot);
            if self.reserving > 0 {
                prefetch_index(&self.rates, slot as usize);
                prefetch_index(&self.afars, slot as usize);
                self.reserved.look_ahead(slot);
                self.held.look_ahead(slot);
            }
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
        entrant.active && entrant.reserves && rates.r <= due && self.runs_from(slot) <= now.0
    }

    /// What waits below an entrant can wait so much longer than its reservation says; heard where deadlines are.
    pub(crate) fn set_patience(&mut self, slot: u32, patience: Duration) {
        if let Some(deadline) = self.deadlines.get_mut(slot as usize) {
            deadline.patience_ns = patience.as_nanos() as u64;
        }
    }

    /// Of those whose reservations are due, who has to be served soonest lest it falls behind. What is large and rare may
    /// wait for what is small and frequent, which must not wait for it (Bennett and Zhang, "WF2Q: Worst-case Fair Weighted
    /// Fair Queueing", INFOCOM 1996). Among many, the one that has been due for longest is as good.
    fn most_urgent(&self, now: u64) -> u32 {
        let due = self.reservations_at(now);
        let few = if self.entrants.len() > DEADLINES_MAX { &[] } else { self.entrants.as_slice() };
        let all = few.iter().zip(&self.rates).zip(&self.deadlines).zip(0..);
        let is_due = |entrant: &Entrant<F>, r| entrant.active && !entrant.held && entrant.reserves && r <= due;
        let soonest = all.filter(|(((entrant, rates), _), _)| is_due(entrant, rates.r)).min_by_key(
            |(((_, rates), deadline), _)| rates.r.saturating_add(deadline.last_reserved + deadline.patience_ns),
        );
        soonest.map_or_else(|| self.reserved.first().expect("one is due").1, |(_, slot)| slot)
    }

    /// An entrant has been served; `stays` while it has more to do.
    pub(crate) fn charge(&mut self, now: Instant, slot: u32, phase: Phase, charge: Charge, stays: bool) {
        let uses_reservation = phase == Phase::Reservation || Bug::WeightUsesReservation.is_planted();
        if uses_reservation {
            self.charge_reservation(slot, charge);
        }
        let (entrant, rates, afar) = self.parts(slot);
        let before = entrant.p;
        entrant.charge_weight(charge.units);
        entrant.besides = 0.0;
        if entrant.is_kept_together() {
            rates.charge_limits(now.0, charge, afar);
        }
        let p = entrant.p;
        match phase {
            Phase::Reservation => self.turns += u32::from(self.overloaded),
            Phase::Weight => {
                self.weight_now = self.weight_now.max(before);
                self.turns = 0;
            }
        }
        if !stays {
            self.deactivate(slot);
        } else if uses_reservation || self.runs_from(slot) > now.0 {
            self.place(now.0, slot);
        } else {
            // It stays ready, and its reservation is due when it was.
            self.ready.set(slot, p);
        }
    }

    /// An entrant has been served by somebody else who keeps the same promises: `charge` in all, of which `reserved` units
    /// because its reservation was due.
    pub(crate) fn charge_elsewhere(&mut self, now: Instant, slot: u32, charge: Charge, reserved: f64) {
        self.charge_reservation(slot, Charge::alike(reserved, 0));
        let (entrant, rates, afar) = self.parts(slot);
        if entrant.is_kept_together() {
            rates.charge_limits(now.0, charge, afar);
        }
        if entrant.active {
            entrant.charge_weight(charge.units);
            self.place(now.0, slot);
        }
    }

    /// Settles with others who keep the same promise: takes in what they have served since the last time, and gives what was
    /// served here.
    pub(crate) fn settle(&mut self, now: Instant, slot: u32, others: Elsewhere) -> Settled {
        let behind = self.behind;
        let place = slot as usize;
        let entrant = &mut self.entrants[place];
        if !core::mem::replace(&mut entrant.afar, true) {
            self.afars.resize_with(self.afars.len().max(place + 1), Afar::default);
            self.afars[place] = Afar::default();
        }
        let active = entrant.active;
        let own = self.rates[place].settle((now.0, behind), active, &mut self.afars[place], others);
        if active {
            self.place(now.0, slot);
        }
        own
    }

    /// An entrant had something past this competition. It falls back behind the others for that, but between two services
    /// here by no more than `BESIDES_UNITS_MAX`: what nobody regulates cannot shut it out.
    pub(crate) fn charge_besides(&mut self, now: Instant, slot: u32, units: f64) {
        let entrant = &mut self.entrants[slot as usize];
        if entrant.active {
            let units = units.min(BESIDES_UNITS_MAX - f64::from(entrant.besides));
            entrant.besides += units as f32;
            entrant.p = entrant.p.saturating_add((units * entrant.weight_step()) as u64);
            self.place(now.0, slot);
        }
    }

    /// Whether an idle entrant may be served at once when nobody else is there; it is charged if so.
    pub(crate) fn pass(&mut self, now: Instant, slot: u32, charge: Charge) -> Option<Phase> {
        let due = self.reservations_at(now.0);
        let (entrant, rates, afar) = self.parts(slot);
        if entrant.limited {
            if rates.limited_until() > now.0 {
                return None;
            }
            rates.charge_limits(now.0, charge, afar);
        }
        if !entrant.reserves || rates.r > due {
            return Some(Phase::Weight);
        }
        rates.r = due;
        self.charge_reservation(slot, charge);
        Some(Phase::Reservation)
    }

    /// When an entrant may run, if it may not now.
    pub(crate) fn not_before(&self, now: Instant, slot: u32) -> Option<Instant> {
        let from = self.runs_from(slot);
        (from > now.0).then_some(Instant(from))
    }

    /// An entrant, what it is promised beyond a weight, and where others serve it too what is settled with them.
    fn parts(&mut self, slot: u32) -> (&mut Entrant<F>, &mut Rates, Option<&mut Afar>) {
        let slot = slot as usize;
        let (entrant, rates) = (&mut self.entrants[slot], &mut self.rates[slot]);
        let afar = if entrant.afar { self.afars.get_mut(slot) } else { None };
        (entrant, rates, afar)
    }

    /// When its limits, and what is below it, let an entrant run.
    fn runs_from(&self, slot: u32) -> u64 {
        let entrant = &self.entrants[slot as usize];
        if !entrant.limited && !entrant.held_below {
            return 0;
        }
        let rates = &self.rates[slot as usize];
        let limits = if entrant.limited { rates.limited_until() } else { 0 };
        let below = if entrant.held_below { rates.held_until } else { 0 };
        limits.max(below).min(KEY_MAX)
    }

    fn charge_reservation(&mut self, slot: u32, charge: Charge) {
        let (entrant, rates, afar) = self.parts(slot);
        if !entrant.reserves {
            return;
        }
        let last_reserved = rates.charge_reservation(charge, afar);
        if let Some(deadline) = self.deadlines.get_mut(slot as usize) {
            deadline.last_reserved = last_reserved;
        }
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
        if entrant.held {
            self.held.remove(slot);
        } else {
            self.ready.remove(slot);
            if entrant.reserves {
                self.reserved.remove(slot);
            }
        }
    }

    /// Puts an active entrant where its tags belong.
    fn place(&mut self, now: u64, slot: u32) {
        let from = self.runs_from(slot);
        let entrant = &mut self.entrants[slot as usize];
        let was_held = core::mem::replace(&mut entrant.held, from > now);
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
            let (entrant, rates, _) = self.parts(slot);
            // What it was not allowed to have meanwhile is no credit, but for the moment that the device needed for
            // others when its turn came.
            let idle_below = core::mem::take(&mut entrant.held_below);
            entrant.p = entrant.p.max(present.saturating_sub(entrant.last_step));
            let credit = if idle_below { 0 } else { RESERVATION_CREDIT.as_nanos() as u64 };
            rates.r = rates.r.max(due.saturating_sub(credit));
        }
        let entrant = &self.entrants[slot as usize];
        self.ready.set(slot, entrant.p);
        if entrant.reserves {
            self.reserved.set(slot, self.rates[slot as usize].r);
        } else {
            self.reserved.remove(slot);
        }
    }
}
