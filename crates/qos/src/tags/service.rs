//! What service does to the tags: here, elsewhere by servers that keep the same promise, and past the competition.

use super::entrant::Is;
use super::rates::Charge;
use super::{Phase, Tags};
use crate::afar::{Afar, Elsewhere, Past, Settled};
use crate::limits::BESIDES_UNITS_MAX;
use base::{Bug, Instant};

impl<F: Default> Tags<F> {
    /// An entrant has been served; `stays` while it has more to do.
    pub(crate) fn charge(&mut self, now: Instant, slot: u32, phase: Phase, charge: Charge, stays: bool) {
        let uses_reservation = phase == Phase::Reservation || Bug::WeightUsesReservation.is_planted();
        if uses_reservation {
            self.charge_reservation(slot, charge);
        }
        let entrant = &mut self.entrants[slot as usize];
        let before = entrant.p;
        entrant.charge_weight(charge.units);
        entrant.set(Is::ServedBesides, false);
        let p = entrant.p;
        if entrant.is_kept_together() {
            self.parts(slot).1.charge_limits(now.0, charge);
        }
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
        let (entrant, mut promised) = self.parts(slot);
        if entrant.is_kept_together() {
            promised.charge_limits(now.0, charge);
        }
        if entrant.is(Is::Active) {
            entrant.charge_weight(charge.units);
            self.place(now.0, slot);
        }
    }

    /// Settles with others who keep the same promise: takes in what they have served since the last time, and gives what was
    /// served here.
    pub(crate) fn settle(&mut self, now: Instant, slot: u32, others: Elsewhere) -> Settled {
        let (behind, place) = (self.behind, slot as usize);
        let entrant = &mut self.entrants[place];
        let active = entrant.is(Is::Active);
        if !entrant.replace(Is::Afar, true) {
            self.afars.set(place, Afar::default());
            self.pasts.set(place, Past::default());
        }
        let mut past = core::mem::take(self.pasts.get_mut(place));
        let own = self.parts(slot).1.settle((now.0, behind), active, &mut past, others);
        self.pasts.set(place, past);
        if active {
            self.place(now.0, slot);
        }
        own
    }

    /// An entrant had something past this competition. It falls back behind the others for that, but between two services
    /// here by no more than `BESIDES_UNITS_MAX`: what nobody regulates cannot shut it out.
    pub(crate) fn charge_besides(&mut self, now: Instant, slot: u32, units: f64) {
        let entrant = &mut self.entrants[slot as usize];
        if entrant.is(Is::Active) {
            let had = if entrant.replace(Is::ServedBesides, true) { *self.besides.get(slot as usize) } else { 0.0 };
            let units = units.min(BESIDES_UNITS_MAX - had);
            self.besides.set(slot as usize, had + units);
            entrant.p = entrant.p.saturating_add((units * entrant.weight_step()) as u64);
            self.place(now.0, slot);
        }
    }

    /// Whether an idle entrant may be served at once when nobody else is there; it is charged if so.
    pub(crate) fn pass(&mut self, now: Instant, slot: u32, charge: Charge) -> Option<Phase> {
        let due = self.reservations_at(now.0);
        let (entrant, mut promised) = self.parts(slot);
        if entrant.is(Is::Limited) {
            if promised.limited_until() > now.0 {
                return None;
            }
            promised.charge_limits(now.0, charge);
        }
        if !entrant.is(Is::Reserving) || promised.rates.r > due {
            return Some(Phase::Weight);
        }
        promised.rates.r = due;
        self.charge_reservation(slot, charge);
        Some(Phase::Reservation)
    }

    fn charge_reservation(&mut self, slot: u32, charge: Charge) {
        let (entrant, mut promised) = self.parts(slot);
        if !entrant.is(Is::Reserving) {
            return;
        }
        let moved = promised.charge_reservation(charge);
        if let Some(last_reserved) = self.last_reserved.get_mut(slot as usize) {
            *last_reserved = moved;
        }
    }
}
