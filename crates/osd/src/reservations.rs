//! Slots for recovery and backfill: how many placement groups this OSD works on at once, and which first.
//!
//! A group that recovers needs a slot of the OSD that leads it (`local`), then one of each member (`remote`); each OSD
//! has `osd_max_backfills` of both. Who has a higher priority gets one first, also in place of one who has it (it is
//! preempted); among equals who came first. Priorities below `osd_min_recovery_priority` get none.
//!
//! Owns the queues, the slots and the times at which groups try again. Which group wants a slot, and what for, is its
//! own business (`pg::reservation`). Scrubs have places of another kind (`scrub_pace`): they do not wait.
//!
//! Follows Ceph v16.2 `src/common/AsyncReserver.h`.
//!
//! Invariants: a group waits or has a slot, not both; nobody waits whose priority is enough while a slot is free, once
//! `next_turn` has nothing more to say.

use admin::{Value, object};
use base::{Duration, Instant, PgId};
use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a group's wish for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It has one.
    Granted,
    /// It has it no more: another needs it more.
    Preempted,
}

/// The slots of one kind.
#[derive(Debug)]
pub struct Reserver {
    max: usize,
    priority_min: u8,
    /// Who waits, the next one first.
    queue: BTreeSet<(Reverse<u8>, u64, PgId)>,
    waits: BTreeMap<PgId, (u8, u64)>,
    /// Who has a slot, whoever would lose it first first: by priority, then who got it last.
    slots: BTreeSet<(u8, Reverse<u64>, PgId)>,
    has: BTreeMap<PgId, (u8, u64)>,
    /// Numbers requests.
    requests: u64,
}

impl Default for Reserver {
    fn default() -> Reserver {
        Reserver {
            max: 1,
            priority_min: 0,
            queue: BTreeSet::new(),
            waits: BTreeMap::new(),
            slots: BTreeSet::new(),
            has: BTreeMap::new(),
            requests: 0,
        }
    }
}

impl Reserver {
    /// Wants a slot for a group, or changes the priority with which it waits for one or has it.
    pub fn request(&mut self, pg: PgId, priority: u8) {
        if let Some((old, number)) = self.has.get_mut(&pg) {
            self.slots.remove(&(*old, Reverse(*number), pg));
            *old = priority;
            self.slots.insert((priority, Reverse(*number), pg));
            return;
        }
        let number = match self.waits.get(&pg) {
            Some((old, number)) => {
                self.queue.remove(&(Reverse(*old), *number, pg));
                *number
            }
            None => self.next_number(),
        };
        self.waits.insert(pg, (priority, number));
        self.queue.insert((Reverse(priority), number, pg));
    }

    /// A group wants none any more, or gives its own back.
    pub fn release(&mut self, pg: PgId) {
        if let Some((priority, number)) = self.waits.remove(&pg) {
            self.queue.remove(&(Reverse(priority), number, pg));
        }
        if let Some((priority, number)) = self.has.remove(&pg) {
            self.slots.remove(&(priority, Reverse(number), pg));
        }
    }

    /// Whether a group has a slot.
    pub fn has(&self, pg: PgId) -> bool {
        self.has.contains_key(&pg)
    }

    /// Takes over the options.
    fn set(&mut self, max: usize, priority_min: u8) {
        (self.max, self.priority_min) = (max, priority_min);
    }

    /// As `dump_recovery_reservations` shows it: who waits, by priority, and who has a slot. Whoever has one loses it to
    /// one who needs it more.
    fn value(&self) -> Value {
        let entry = |pg: PgId, priority: u8| {
            object! { "item" => pg.to_string(), "prio" => priority, "can_preempt" => true }
        };
        let mut queues: BTreeMap<u8, Vec<Value>> = BTreeMap::new();
        for (Reverse(priority), _, pg) in &self.queue {
            queues.entry(*priority).or_default().push(entry(*pg, *priority));
        }
        let queue = |(priority, items)| object! { "priority" => priority, "items" => Value::Array(items) };
        object! {
            "max_allowed" => self.max,
            "min_priority" => self.priority_min,
            "queues" => Value::array(queues.into_iter().map(queue)),
            "in_progress" => Value::array(self.has.iter().map(|(pg, (priority, _))| entry(*pg, *priority))),
        }
    }

    fn next_number(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Whether somebody gets or loses a slot now.
    fn is_due(&self) -> bool {
        let too_many = self.slots.len() > self.max;
        let room = self.slots.len() < self.max;
        let weakest = self.slots.first().map_or(u8::MAX, |(priority, ..)| *priority);
        let next = self.queue.first().map(|(Reverse(priority), ..)| *priority);
        too_many || next.is_some_and(|next| next >= self.priority_min && (room || next > weakest) && self.max > 0)
    }

    /// The next group that gets a slot or loses it.
    fn next_turn(&mut self) -> Option<(PgId, Turn)> {
        if !self.is_due() {
            return None;
        }
        if self.slots.len() >= self.max {
            let (.., pg) = self.slots.pop_first()?;
            self.has.remove(&pg);
            return Some((pg, Turn::Preempted));
        }
        let (Reverse(priority), _, pg) = self.queue.pop_first()?;
        self.waits.remove(&pg);
        let number = self.next_number();
        self.has.insert(pg, (priority, number));
        self.slots.insert((priority, Reverse(number), pg));
        Some((pg, Turn::Granted))
    }

    /// Panics if what must always hold does not.
    fn check_invariants(&self) {
        assert_eq!(self.queue.len(), self.waits.len(), "who waits is in the queue");
        assert_eq!(self.slots.len(), self.has.len(), "who has a slot has one");
        assert!(!self.waits.keys().any(|pg| self.has(*pg)), "a group waits for what it has");
    }
}

/// Whose slots they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Of groups that this OSD leads.
    Local,
    /// Of groups that it follows in.
    Remote,
}

/// An OSD's slots.
#[derive(Debug, Default)]
pub struct Reservations {
    /// For groups that it leads.
    pub local: Reserver,
    /// For groups of which it is another member.
    pub remote: Reserver,
    retries: BTreeSet<(Instant, PgId)>,
    /// After which time a group tries again whose recovery met a full store (`osd_recovery_retry_interval`).
    pub recovery_retry: Duration,
    /// The same of backfill (`osd_backfill_retry_interval`).
    pub backfill_retry: Duration,
}

impl Reservations {
    /// Takes over how many slots there are of each kind, and from which priority on.
    pub fn set(&mut self, max: usize, priority_min: u8) {
        self.local.set(max, priority_min);
        self.remote.set(max, priority_min);
    }

    /// A group tries again at this time.
    pub fn retry_at(&mut self, at: Instant, pg: PgId) {
        self.retries.insert((at, pg));
    }

    /// A group has nothing to try again.
    pub fn forget_retry(&mut self, pg: PgId) {
        self.retries.retain(|(_, waits)| *waits != pg);
    }

    /// The next group whose time to try again has come.
    pub fn pop_retry(&mut self, now: Instant) -> Option<PgId> {
        let (at, pg) = *self.retries.first()?;
        (at <= now).then(|| {
            self.retries.pop_first();
            pg
        })
    }

    /// When a group tries again.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Whether `next_turn` has something to say.
    pub fn is_due(&self) -> bool {
        self.local.is_due() || self.remote.is_due()
    }

    /// The next group that gets a slot or loses it.
    pub fn next_turn(&mut self) -> Option<(PgId, Side, Turn)> {
        let local = self.local.next_turn().map(|(pg, turn)| (pg, Side::Local, turn));
        local.or_else(|| self.remote.next_turn().map(|(pg, turn)| (pg, Side::Remote, turn)))
    }

    /// All slots, as `dump_recovery_reservations` shows them.
    pub fn value(&self) -> Value {
        object! { "local_reservations" => self.local.value(), "remote_reservations" => self.remote.value() }
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        self.local.check_invariants();
        self.remote.check_invariants();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    fn pg(seed: u32) -> PgId {
        PgId::new(PoolId(1), seed)
    }

    fn turns(reserver: &mut Reserver) -> Vec<(u32, Turn)> {
        let all = core::iter::from_fn(|| reserver.next_turn()).map(|(pg, turn)| (pg.seed, turn)).collect();
        reserver.check_invariants();
        all
    }

    #[test]
    fn slots_go_by_priority_then_by_arrival() {
        let mut reserver = Reserver::default();
        reserver.set(1, 0);
        for (seed, priority) in [(1, 110), (2, 190), (3, 190), (4, 150)] {
            reserver.request(pg(seed), priority);
        }
        let shown = reserver.value().to_json();
        let queue = r#"{"priority":190,"items":[{"item":"1.2","prio":190,"can_preempt":true},{"item":"1.3","prio":190"#;
        assert!(shown.contains(queue), "{shown}");
        let mut order = Vec::new();
        for _ in 0..4 {
            let got = turns(&mut reserver);
            assert!(matches!(got[..], [(_, Turn::Granted)]), "{got:?}");
            order.push(got[0].0);
            reserver.release(pg(got[0].0));
        }
        assert_eq!((order, turns(&mut reserver)), (vec![2, 3, 4, 1], vec![]));
    }

    #[test]
    fn who_needs_it_more_takes_the_slot_of_who_needs_it_least() {
        let mut reserver = Reserver::default();
        reserver.set(2, 0);
        reserver.request(pg(1), 110);
        reserver.request(pg(2), 110);
        assert_eq!(turns(&mut reserver), [(1, Turn::Granted), (2, Turn::Granted)]);
        reserver.request(pg(3), 110);
        assert_eq!(turns(&mut reserver), [], "an equal waits");
        reserver.request(pg(3), 254);
        assert_eq!(turns(&mut reserver), [(2, Turn::Preempted), (3, Turn::Granted)], "the last comer goes");
        reserver.request(pg(1), 255);
        reserver.request(pg(4), 254);
        assert_eq!(turns(&mut reserver), [], "nobody has less");
        reserver.release(pg(1));
        assert_eq!(turns(&mut reserver), [(4, Turn::Granted)]);
    }

    #[test]
    fn fewer_slots_and_a_higher_bar_hold_at_once() {
        let mut reserver = Reserver::default();
        reserver.set(2, 0);
        (1..4).for_each(|seed| reserver.request(pg(seed), 100 + seed as u8));
        assert_eq!(turns(&mut reserver), [(3, Turn::Granted), (2, Turn::Granted)]);
        reserver.set(1, 200);
        assert_eq!(turns(&mut reserver), [(2, Turn::Preempted)]);
        reserver.release(pg(3));
        reserver.request(pg(2), 102);
        assert_eq!(turns(&mut reserver), [], "not enough for the bar");
        reserver.set(0, 0);
        assert_eq!(turns(&mut reserver), [], "no slots");
        reserver.set(1, 0);
        assert_eq!(turns(&mut reserver), [(2, Turn::Granted)]);
    }

    #[test]
    fn who_failed_tries_again_in_time() {
        let mut reservations = Reservations::default();
        let at = Instant::from_secs;
        reservations.retry_at(at(30), pg(1));
        reservations.retry_at(at(20), pg(2));
        reservations.retry_at(at(25), pg(3));
        reservations.forget_retry(pg(3));
        assert_eq!((reservations.next_wakeup(), reservations.pop_retry(at(10))), (Some(at(20)), None));
        assert_eq!((reservations.pop_retry(at(30)), reservations.pop_retry(at(30))), (Some(pg(2)), Some(pg(1))));
        assert_eq!(reservations.next_wakeup(), None);
    }
}
