//! Who is next among those with promises: the tags of mClock, and start-time fair queueing for what is left.
//!
//! Each entrant carries, instead of a tag a request, the tags of its next request: when its reservation is due (`r`),
//! when its limits allow it (`l`, `b`, in time), and how much it has had by weight (`p`, in a time of its own). Serving
//! moves the tags on by what the service cost. A request is served because a reservation is due, else because its entrant
//! has had least for its weight; the second moves `r` not, so that what is left over is not held against a reservation.
//!
//! What is known to go wrong, and how it does not here:
//! - *Credit of the idle.* Who comes back starts at the present of every tag (`activate`), also after being held by a
//!   limit; a burst of what was not used meanwhile would pass limits and push others aside.
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

pub(crate) use entrant::Charge;

use crate::afar::{Elsewhere, Settled};
use crate::limits::{AFAR_CREDIT, BESIDES_UNITS_MAX, OVERLOAD_TURNS, RESERVATION_CREDIT};
use crate::min_tree::MinTree;
use crate::promise::Promise;
use base::{Bug, Duration, Instant};
use entrant::{AFAR_RESERVATION_CREDIT_NS, Entrant, WEIGHT_SCALE};

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

/// All entrants of one competition.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    entrants: Vec<Entrant>,
    /// What each is promised: asked for seldom.
    promises: Vec<Promise>,
    /// How much longer than its reservation says each of the first can wait.
    patience_ns: [u64; DEADLINES_MAX],
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
}

impl Tags {
    /// A new entrant, idle.
    pub(crate) fn add(&mut self, promise: Promise) -> u32 {
        let entrant = Entrant::new(promise);
        self.reserving += usize::from(entrant.reserves());
        if let Some(slot) = self.free.pop() {
            self.entrants[slot as usize] = entrant;
            self.promises[slot as usize] = promise;
            return slot;
        }
        self.entrants.push(entrant);
        self.promises.push(promise);
        (self.entrants.len() - 1) as u32
    }

    /// Forgets an idle entrant.
    pub(crate) fn forget(&mut self, slot: u32) {
        let entrant = &mut self.entrants[slot as usize];
        assert!(!entrant.active, "only the idle are forgotten");
        self.reserving -= usize::from(entrant.reserves());
        self.free.push(slot);
    }

    /// Whether forgetting it now would give it no more than two small requests that it should not have.
    pub(crate) fn is_forgettable(&self, slot: u32) -> bool {
        let entrant = &self.entrants[slot as usize];
        !entrant.active
            && !entrant.is_limited()
            && entrant.afar.is_none()
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
        let entrant = &mut self.entrants[slot as usize];
        let owed = |tag: u64, from: u64, old_ns: f64, new_ns: f64| {
            let units = if old_ns > 0.0 { tag.saturating_sub(from) as f64 / old_ns } else { 0.0 };
            from.saturating_add((units * new_ns) as u64)
        };
        let (old, new) = (entrant.limit_ns, promise.limit_ns());
        (entrant.l, entrant.b) = (owed(entrant.l, now, old.0, new.0), owed(entrant.b, now, old.1, new.1));
        let (old, new) = (entrant.reservation_ns, promise.reservation_ns());
        entrant.r = if new.0 > 0.0 { owed(entrant.r, due, old.0, new.0) } else { due };
        let ahead = entrant.p.saturating_sub(present) as f64 / entrant.weight_step;
        self.reserving -= usize::from(entrant.reserves());
        entrant.set_promise(&promise);
        self.reserving += usize::from(entrant.reserves());
        entrant.p = entrant.p.min(present).saturating_add((ahead * entrant.weight_step) as u64);
        self.promises[slot as usize] = promise;
        if entrant.active {
            self.place(now, slot);
        }
    }

    /// An entrant has something to do: it takes part from now on, without credit and without debt.
    pub(crate) fn activate(&mut self, now: Instant, slot: u32) {
        let (period, present, due) = (self.period, self.weight_present(), self.reservations_at(now.0));
        let entrant = &mut self.entrants[slot as usize];
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
        let afar = entrant.is_kept_together() && entrant.afar.is_some();
        if entrant.is_limited() {
            let floor = if afar { now.0.saturating_sub(AFAR_CREDIT.as_nanos() as u64) } else { now.0 };
            (entrant.l, entrant.b) = (entrant.l.max(floor), entrant.b.max(floor));
        }
        entrant.r = entrant.r.max(if afar { due.saturating_sub(AFAR_RESERVATION_CREDIT_NS) } else { due });
        (entrant.active, entrant.held, entrant.held_until) = (true, false, 0);
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
        self.entrants[slot as usize].held_until = until.0;
        self.place(now.0, slot);
    }

    /// What is below an entrant may run, for all that is known.
    pub(crate) fn let_go(&mut self, now: Instant, slot: u32) {
        let due = self.reservations_at(now.0);
        let entrant = &mut self.entrants[slot as usize];
        if entrant.active && core::mem::take(&mut entrant.held_until) > 0 {
            // It was as good as idle.
            entrant.r = entrant.r.max(due);
            self.place(now.0, slot);
        }
    }

    /// Who is next.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        while self.held.least().is_some_and(|from| from <= now.0) {
            let (from, slot) = self.held.first().expect("there is a least one");
            debug_assert_eq!(from, self.entrants[slot as usize].runs_from());
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

    /// Whether some entrants have reservations, and whether one is due.
    pub(crate) fn reservations(&self, now: Instant) -> (bool, bool) {
        (self.reserving > 0, self.reserved.least().is_some_and(|r| r <= self.reservations_at(now.0)))
    }

    /// What waits below an entrant can wait so much longer than its reservation says; heard where deadlines are.
    pub(crate) fn set_patience(&mut self, slot: u32, patience: Duration) {
        if let Some(of) = self.patience_ns.get_mut(slot as usize) {
            *of = patience.as_nanos() as u64;
        }
    }

    /// Of those whose reservations are due, who has to be served soonest lest it falls behind. What is large and rare may
    /// wait for what is small and frequent, which must not wait for it (Bennett and Zhang, "WF2Q: Worst-case Fair Weighted
    /// Fair Queueing", INFOCOM 1996). Among many, the one that has been due for longest is as good.
    fn most_urgent(&self, now: u64) -> u32 {
        let due = self.reservations_at(now);
        let is_due = |entrant: &Entrant| entrant.active && !entrant.held && entrant.reserves() && entrant.r <= due;
        let deadline = |entrant: &Entrant, patience: u64| entrant.r.saturating_add(entrant.last_reserved + patience);
        let few = if self.entrants.len() > DEADLINES_MAX { &[] } else { self.entrants.as_slice() };
        let all = few.iter().zip(self.patience_ns).zip(0..).filter(|((entrant, _), _)| is_due(entrant));
        let soonest = all.min_by_key(|((entrant, patience), _)| deadline(entrant, *patience));
        soonest.map_or_else(|| self.reserved.first().expect("one is due").1, |(_, slot)| slot)
    }

    /// An entrant has been served; `stays` while it has more to do.
    pub(crate) fn charge(&mut self, now: Instant, slot: u32, phase: Phase, charge: Charge, stays: bool) {
        let entrant = &mut self.entrants[slot as usize];
        let uses_reservation = phase == Phase::Reservation || Bug::WeightUsesReservation.is_planted();
        if uses_reservation {
            entrant.charge_reservation(charge);
        }
        match phase {
            Phase::Reservation => self.turns += u32::from(self.overloaded),
            Phase::Weight => {
                self.weight_now = self.weight_now.max(entrant.p);
                self.turns = 0;
            }
        }
        entrant.charge_weight(charge.units);
        entrant.besides = 0.0;
        entrant.charge_limits(now.0, charge);
        if !stays {
            self.deactivate(slot);
        } else if uses_reservation || entrant.runs_from() > now.0 {
            self.place(now.0, slot);
        } else {
            // It stays ready, and its reservation is due when it was.
            self.ready.set(slot, entrant.p);
        }
    }

    /// An entrant has been served by somebody else who keeps the same promises: `charge` in all, of which `reserved` units
    /// because its reservation was due.
    pub(crate) fn charge_elsewhere(&mut self, now: Instant, slot: u32, charge: Charge, reserved: f64) {
        let entrant = &mut self.entrants[slot as usize];
        entrant.charge_reservation(Charge::alike(reserved, 0));
        entrant.charge_limits(now.0, charge);
        if entrant.active {
            entrant.charge_weight(charge.units);
            self.place(now.0, slot);
        }
    }

    /// Settles with others who keep the same promise: takes in what they have served since the last time, and gives what was
    /// served here.
    pub(crate) fn settle(&mut self, now: Instant, slot: u32, others: Elsewhere) -> Settled {
        let behind = self.behind;
        let entrant = &mut self.entrants[slot as usize];
        let own = entrant.settle((now.0, behind), others);
        if entrant.active {
            self.place(now.0, slot);
        }
        own
    }

    /// An entrant had something past this competition. It falls back behind the others for that, but between two services
    /// here by no more than `BESIDES_UNITS_MAX`: what nobody regulates cannot shut it out.
    pub(crate) fn charge_besides(&mut self, now: Instant, slot: u32, units: f64) {
        let entrant = &mut self.entrants[slot as usize];
        if entrant.active {
            let units = units.min(BESIDES_UNITS_MAX - entrant.besides);
            entrant.besides += units;
            entrant.p = entrant.p.saturating_add((units * entrant.weight_step) as u64);
            self.place(now.0, slot);
        }
    }

    /// Whether an idle entrant may be served at once when nobody else is there; it is charged if so.
    pub(crate) fn pass(&mut self, now: Instant, slot: u32, charge: Charge) -> Option<Phase> {
        let due = self.reservations_at(now.0);
        let entrant = &mut self.entrants[slot as usize];
        if entrant.is_limited() {
            if entrant.l.max(entrant.b) > now.0 {
                return None;
            }
            (entrant.l, entrant.b) = (now.0, now.0);
            entrant.charge_limits(now.0, charge);
        }
        if !entrant.reserves() || entrant.r > due {
            return Some(Phase::Weight);
        }
        entrant.r = due;
        entrant.charge_reservation(charge);
        Some(Phase::Reservation)
    }

    /// When an entrant may run, if it may not now.
    pub(crate) fn not_before(&self, now: Instant, slot: u32) -> Option<Instant> {
        let from = self.entrants[slot as usize].runs_from();
        (from > now.0).then_some(Instant(from))
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
            if entrant.reserves() {
                self.reserved.remove(slot);
            }
        }
    }

    /// Puts an active entrant where its tags belong.
    fn place(&mut self, now: u64, slot: u32) {
        let entrant = &self.entrants[slot as usize];
        let from = entrant.runs_from();
        let (was_held, is_held) = (entrant.held, from > now);
        if is_held {
            if !was_held {
                self.ready.remove(slot);
                self.reserved.remove(slot);
            }
            self.entrants[slot as usize].held = true;
            return self.held.set(slot, from);
        }
        if was_held {
            self.held.remove(slot);
            let (present, due) = (self.weight_present(), self.reservations_at(now));
            let entrant = &mut self.entrants[slot as usize];
            let idle_below = core::mem::take(&mut entrant.held_until) > 0;
            entrant.held = false;
            // What it was not allowed to have meanwhile is no credit, but for the moment that the device needed for
            // others when its turn came.
            entrant.p = entrant.p.max(present.saturating_sub(entrant.last_step));
            let credit = if idle_below { 0 } else { RESERVATION_CREDIT.as_nanos() as u64 };
            entrant.r = entrant.r.max(due.saturating_sub(credit));
        }
        let entrant = &self.entrants[slot as usize];
        let (p, r) = (entrant.p, entrant.reserves().then_some(entrant.r));
        self.ready.set(slot, p);
        match r {
            Some(r) => self.reserved.set(slot, r),
            None => self.reserved.remove(slot),
        }
    }
}
