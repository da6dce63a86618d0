//! An OSD as a queue: shards, each with a scheduler and threads; a throttle; a store.
//!
//! A placement group belongs to a shard. What a thread takes from its shard's scheduler it brings to the store. Writes
//! pass a throttle in their order, and a thread that waits there does nothing else; reads hold their thread until they
//! end. The schedulers are `qos`'s own, with what Ceph's options make of them; the store is a `device::Device`.

use super::hardware::Hardware;
use base::Instant;
use device::{Device, Io, IoId, IoKind};
use qos::{AnyScheduler, Dequeued, Scheduler, Work};
use std::collections::{BTreeMap, VecDeque};

/// What an OSD does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    /// A client's write at its primary.
    Write(u64),
    /// Its copy at another member.
    Replica(u64),
    /// An object's turn at the primary: read it, send it.
    Turn(u32),
    /// The object's arrival where it was missing.
    Push(u32),
}

/// What has come of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Done {
    /// A thread has taken it up.
    Begun(Job),
    /// The store has ended it.
    Ended(Job),
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    shard: usize,
    job: Job,
    bytes: u64,
    work: Work,
}

/// What serves some of the placement groups.
#[derive(Debug)]
struct Shard {
    queue: AnyScheduler<(Job, u64)>,
    threads_free: u32,
    timer: Option<Instant>,
}

/// The model of an OSD.
#[derive(Debug)]
pub(super) struct OsdModel {
    shards: Vec<Shard>,
    store: Device,
    /// Writes whose threads wait at the throttle.
    at_throttle: VecDeque<Taken>,
    throttled: u64,
    throttle: u64,
    cost_per_io: u64,
    under_way: BTreeMap<IoId, (Taken, u64)>,
    next_io: u64,
}

impl OsdModel {
    /// An OSD with a scheduler for each of its shards, among which its threads are dealt out.
    pub(super) fn new(hardware: &Hardware, schedulers: Vec<AnyScheduler<(Job, u64)>>, seed: u64) -> OsdModel {
        let threads_free = (hardware.threads / schedulers.len() as u32).max(1);
        let shard = |queue| Shard { queue, threads_free, timer: None };
        OsdModel {
            shards: schedulers.into_iter().map(shard).collect(),
            store: Device::new(hardware.store.clone(), seed),
            at_throttle: VecDeque::new(),
            throttled: 0,
            throttle: hardware.throttle_bytes,
            cost_per_io: hardware.throttle_cost_per_io,
            under_way: BTreeMap::new(),
            next_io: 0,
        }
    }

    /// Takes a job of a placement group that moves so many bytes.
    pub(super) fn take(&mut self, now: Instant, pg: u32, work: Work, job: Job, bytes: u64) {
        let shard = pg as usize % self.shards.len();
        let taken = self.shards[shard].queue.enqueue(now, work, (job, bytes));
        assert!(taken.is_ok(), "what is under way is bounded");
    }

    /// When something happens by itself.
    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.shards.iter().map(|shard| shard.timer).chain([self.store.next_wakeup()]).flatten().min()
    }

    /// Goes on as far as it may; says what has come of jobs.
    pub(super) fn advance(&mut self, now: Instant, done: &mut Vec<Done>) {
        while let Some(io) = self.store.poll(now) {
            let (taken, cost) = self.under_way.remove(&io).expect("it was submitted");
            self.throttled -= cost;
            let shard = &mut self.shards[taken.shard];
            shard.threads_free += u32::from(matches!(taken.job, Job::Turn(_)));
            shard.queue.completed(now, &taken.work);
            done.push(Done::Ended(taken.job));
        }
        while let Some(write) = self.at_throttle.front().copied().filter(|write| self.admits(write)) {
            self.at_throttle.pop_front();
            self.shards[write.shard].threads_free += 1;
            self.write(now, write);
        }
        for shard in 0..self.shards.len() {
            self.work_off(now, shard, done);
        }
    }

    fn work_off(&mut self, now: Instant, shard: usize, done: &mut Vec<Done>) {
        self.shards[shard].timer = None;
        while self.shards[shard].threads_free > 0 {
            match self.shards[shard].queue.dequeue(now) {
                Dequeued::Ready(work, (job, bytes)) => {
                    done.push(Done::Begun(job));
                    self.begin(now, Taken { shard, job, bytes, work });
                }
                Dequeued::NotBefore(at) => {
                    self.shards[shard].timer = Some(at);
                    return;
                }
                Dequeued::Empty => return,
            }
        }
    }

    fn begin(&mut self, now: Instant, taken: Taken) {
        if let Job::Turn(_) = taken.job {
            self.shards[taken.shard].threads_free -= 1;
            self.submit(now, IoKind::Read, taken, 0);
        } else if self.at_throttle.is_empty() && self.admits(&taken) {
            self.write(now, taken);
        } else {
            self.shards[taken.shard].threads_free -= 1;
            self.at_throttle.push_back(taken);
        }
    }

    /// What a write counts at the throttle: its bytes, and a sum for its request and for its commit (`BlueStore.cc`,
    /// v16.2, `_txc_calc_cost`).
    fn cost(&self, write: &Taken) -> u64 {
        write.bytes + 2 * self.cost_per_io
    }

    /// One that is dearer than the whole throttle goes as soon as others have left room (`Throttle.cc`, v16.2).
    fn admits(&self, write: &Taken) -> bool {
        let cost = self.cost(write);
        if cost < self.throttle { self.throttled + cost <= self.throttle } else { self.throttled <= self.throttle }
    }

    fn write(&mut self, now: Instant, write: Taken) {
        let cost = self.cost(&write);
        self.throttled += cost;
        self.submit(now, IoKind::Write, write, cost);
    }

    fn submit(&mut self, now: Instant, kind: IoKind, taken: Taken, cost: u64) {
        let id = IoId(self.next_io);
        self.next_io += 1;
        self.under_way.insert(id, (taken, cost));
        self.store.submit(now, id, Io { kind, offset: 0, bytes: taken.bytes });
    }
}
