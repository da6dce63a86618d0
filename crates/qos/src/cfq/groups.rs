//! Groups and their streams: who has work queued, who has work under way.
//!
//! Invariants: a stream is in its group's ring exactly when it has work queued and is not being served; a group is in the
//! tree exactly when its ring is not empty and it is not being served.

use super::think::ThinkTime;
use crate::limits::{FLOWS_KEPT_MIN, FLOWS_MAX};
use crate::lists::{List, Lists, Waiting};
use crate::min_tree::MinTree;
use crate::work::{Class, GroupId, StreamId, Work};
use base::hash::FixedHashMap;
use base::{Duration, Instant};
use std::collections::VecDeque;

/// Of the time of weights, in a microsecond or a request at weight 1: a thousand at the greatest weight, so that shares are
/// true to a thousandth, and with a device for itself a group of the least weight needs sixty years to come to the end.
const WEIGHT_SCALE: f64 = 1_000_000.0;

/// What a turn took of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Time(Duration),
    Requests(u64),
}

impl Service {
    /// By weight.
    fn over(self, weight: u32) -> u64 {
        let amount = match self {
            Service::Time(time) => time.as_nanos() as f64 / 1e3,
            Service::Requests(count) => count as f64,
        };
        (amount * WEIGHT_SCALE / f64::from(weight)) as u64
    }
}

/// A group within a class.
pub(crate) type GroupKey = (Class, GroupId);
type StreamKey = (u32, Option<StreamId>);

#[derive(Debug)]
pub(crate) struct Stream {
    group: u32,
    key: StreamKey,
    list: List,
    pub(crate) queued: usize,
    pub(crate) under_way: u32,
    pub(crate) think: ThinkTime,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    pub(crate) weight: u32,
    /// What it has had, by weight.
    had: u64,
    ring: VecDeque<u32>,
    /// Is in the tree or being served.
    competes: bool,
    pub(crate) queued: usize,
    pub(crate) under_way: u32,
    pub(crate) think: ThinkTime,
}

impl Group {
    /// Streams that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.ring.len()
    }
}

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups<T> {
    groups: Vec<Group>,
    by_key: FixedHashMap<GroupKey, u32>,
    streams: Vec<Option<Stream>>,
    by_stream: FixedHashMap<StreamKey, u32>,
    free: Vec<u32>,
    waiting: Lists<Waiting<T>>,
    tree: MinTree,
    /// The weights of all groups that compete.
    weights: u64,
    present: u64,
    /// The group and the stream whose turn it is.
    served: Option<(u32, u32)>,
    look_through_at: usize,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups {
            groups: Vec::new(),
            by_key: FixedHashMap::default(),
            streams: Vec::new(),
            by_stream: FixedHashMap::default(),
            free: Vec::new(),
            waiting: Lists::default(),
            tree: MinTree::default(),
            weights: 0,
            present: 0,
            served: None,
            look_through_at: FLOWS_KEPT_MIN,
        }
    }
}

impl<T> Groups<T> {
    pub(crate) fn group(&self, slot: u32) -> &Group {
        &self.groups[slot as usize]
    }

    pub(crate) fn stream(&self, slot: u32) -> &Stream {
        self.streams[slot as usize].as_ref().expect("a slot in use has its stream")
    }

    fn stream_mut(&mut self, slot: u32) -> &mut Stream {
        self.streams[slot as usize].as_mut().expect("a slot in use has its stream")
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// Groups other than the served one that have work queued.
    pub(crate) fn others(&self) -> usize {
        self.tree.len()
    }

    /// The weights of all that have work queued, and of the served one.
    pub(crate) fn weights(&self) -> u64 {
        self.weights
    }

    /// Changes a group's weight, if it is known.
    pub(crate) fn set_weight(&mut self, key: GroupKey, weight: u32) {
        if let Some(slot) = self.by_key.get(&key) {
            let group = &mut self.groups[*slot as usize];
            let before = core::mem::replace(&mut group.weight, weight);
            if group.competes {
                self.weights = self.weights - u64::from(before) + u64::from(weight);
            }
        }
    }

    /// Takes work in.
    pub(crate) fn push(&mut self, now: Instant, work: Work, item: T, weight: impl FnOnce(GroupKey) -> u32) {
        let group = self.group_of(&work, weight);
        let slot = self.stream_of(group, work.stream);
        let stream = self.streams[slot as usize].as_mut().expect("just found");
        self.waiting.push(&mut stream.list, Waiting { work, item });
        if stream.queued == 0 && stream.under_way == 0 {
            stream.think.asked(now);
        }
        stream.queued += 1;
        let first = stream.queued == 1;
        let of = &mut self.groups[group as usize];
        if of.queued == 0 && of.under_way == 0 {
            of.think.asked(now);
        }
        of.queued += 1;
        if first && self.served != Some((group, slot)) {
            of.ring.push_back(slot);
            if of.ring.len() == 1 && self.served.is_none_or(|(served, _)| served != group) {
                // Who comes back has no credit of what it did not use.
                of.had = of.had.max(self.present);
                of.competes = true;
                self.weights += u64::from(of.weight);
                self.tree.set(group, of.had);
            }
        }
    }

    /// Begins to serve the stream whose turn it is, of the group that has had least.
    pub(crate) fn begin(&mut self) -> Option<(u32, u32)> {
        let (had, group) = self.tree.first()?;
        self.tree.remove(group);
        self.present = self.present.max(had);
        let stream = self.groups[group as usize].ring.pop_front().expect("a group in the tree has streams");
        self.served = Some((group, stream));
        Some((group, stream))
    }

    /// Gives the next work of a stream.
    pub(crate) fn pop(&mut self, stream: u32) -> Option<(Work, T)> {
        let slot = stream as usize;
        let stream = self.streams[slot].as_mut().expect("a slot in use has its stream");
        let waiting = self.waiting.pop(&mut stream.list)?;
        stream.queued -= 1;
        stream.under_way += 1;
        let group = &mut self.groups[stream.group as usize];
        group.queued -= 1;
        group.under_way += 1;
        Some((waiting.work, waiting.item))
    }

    /// The served stream's turn is over; its group is charged for it.
    pub(crate) fn end(&mut self, group: u32, stream: u32, service: Service) {
        let more = self.stream(stream).queued > 0;
        let of = &mut self.groups[group as usize];
        of.had = of.had.saturating_add(service.over(of.weight));
        if more {
            of.ring.push_back(stream);
        }
        if of.ring.is_empty() {
            of.competes = false;
            self.weights -= u64::from(of.weight);
        } else {
            self.tree.set(group, of.had);
        }
        self.served = None;
    }

    /// Work has been done: its stream. One that is not known (any more) is ignored.
    pub(crate) fn completed(&mut self, now: Instant, work: &Work) -> Option<u32> {
        let known = self.by_key.get(&(work.class, work.group));
        let group = known.or_else(|| self.by_key.get(&(work.class, GroupId::NONE))).copied()?;
        let own = self.by_stream.get(&(group, Some(work.stream))).filter(|slot| self.stream(**slot).under_way > 0);
        let slot = own.or_else(|| self.by_stream.get(&(group, None))).copied()?;
        let stream = self.stream_mut(slot);
        stream.under_way = stream.under_way.saturating_sub(1);
        stream.think.answered(now);
        let of = &mut self.groups[group as usize];
        of.under_way = of.under_way.saturating_sub(1);
        of.think.answered(now);
        Some(slot)
    }

    /// Looks at everything.
    pub(crate) fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        self.waiting.entries().for_each(|waiting| see(&waiting.work, &waiting.item));
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        for stream in self.streams.iter_mut().flatten() {
            while let Some(waiting) = self.waiting.pop(&mut stream.list) {
                take(waiting.work, waiting.item);
            }
            stream.queued = 0;
        }
        for (slot, group) in (0..).zip(&mut self.groups) {
            group.ring.clear();
            (group.queued, group.competes) = (0, false);
            self.tree.remove(slot);
        }
        self.served = None;
        self.weights = 0;
    }

    fn group_of(&mut self, work: &Work, weight: impl FnOnce(GroupKey) -> u32) -> u32 {
        let mut key = (work.class, work.group);
        if let Some(slot) = self.by_key.get(&key) {
            return *slot;
        }
        if self.groups.len() >= FLOWS_MAX {
            // No room to tell it apart: it counts as nobody's in particular.
            key.1 = GroupId::NONE;
            if let Some(slot) = self.by_key.get(&key) {
                return *slot;
            }
        }
        let slot = self.groups.len() as u32;
        let think = ThinkTime::default();
        let weight = weight(key);
        let (ring, competes, had) = (VecDeque::new(), false, 0);
        self.groups.push(Group { key, weight, had, ring, competes, queued: 0, under_way: 0, think });
        self.by_key.insert(key, slot);
        slot
    }

    fn stream_of(&mut self, group: u32, stream: StreamId) -> u32 {
        let mut key = (group, Some(stream));
        if let Some(slot) = self.by_stream.get(&key) {
            return *slot;
        }
        if self.by_stream.len() >= self.look_through_at {
            self.forget_idle();
        }
        if self.by_stream.len() >= FLOWS_MAX {
            key.1 = None;
            if let Some(slot) = self.by_stream.get(&key) {
                return *slot;
            }
        }
        let (list, think) = (List::default(), ThinkTime::default());
        let stream = Some(Stream { group, key, list, queued: 0, under_way: 0, think });
        let slot = self.free.pop().unwrap_or(self.streams.len() as u32);
        if slot as usize == self.streams.len() {
            self.streams.push(stream);
        } else {
            self.streams[slot as usize] = stream;
        }
        self.by_stream.insert(key, slot);
        slot
    }

    fn forget_idle(&mut self) {
        for slot in 0..self.streams.len() {
            let Some(stream) = &self.streams[slot] else { continue };
            if stream.queued == 0
                && stream.under_way == 0
                && self.served.is_none_or(|(_, served)| served as usize != slot)
            {
                self.by_stream.remove(&stream.key);
                self.streams[slot] = None;
                self.free.push(slot as u32);
            }
        }
        self.look_through_at = (2 * self.by_stream.len()).max(FLOWS_KEPT_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Cost, Priority};

    #[test]
    fn years_of_service_are_told_apart() {
        const MONTH: Duration = Duration::from_secs(30 * 86_400);
        let mut groups = Groups::default();
        let work = |group| Work {
            class: Class::Client,
            group: GroupId(group),
            stream: StreamId(u64::from(group)),
            priority: Priority(63),
            cost: Cost::one(4096),
        };
        let weight = |(_, group): GroupKey| if group == GroupId(1) { 100 } else { 1000 };
        for _ in 0..111 {
            [1, 2].into_iter().for_each(|group| groups.push(Instant::ZERO, work(group), (), weight));
        }
        let turns = (0..110).filter(|_| {
            let (group, stream) = groups.begin().expect("both have work");
            groups.pop(stream).expect("both have work");
            groups.end(group, stream, Service::Time(MONTH));
            groups.group(group).weight == 1000
        });
        assert_eq!(turns.count(), 100);
    }
}
