//! Recovery beside a client's writes, in virtual time: four OSDs as queues.
//!
//! Whole engines would take hours for a hundred thousand objects of 4 MiB. What decides who waits for whom is here as it
//! is there: `qos`'s schedulers with the options' own values, reservations of backfill, turns of recovery and their
//! pauses, a store that is a device. What is not: logs, peering, locks of placement groups, threads of the network.
//!
//! The client has 64 writes under way. A write passes its primary's scheduler and goes to the store there and, as a
//! copy, to two more OSDs. An object's turn passes its primary's scheduler, is read there and sent to the OSD that came
//! back, whose scheduler it passes under wpq. A placement group has one object under way.

use super::configuration::{Configuration, InForce, Queues, REPLICA_PRIORITY, TURN_COST_BYTES, TURN_PRIORITY};
use super::hardware::{CLIENT_IOPS, Hardware, OSDS, SIZE};
use super::osd_model::{Done, Job, OsdModel};
use crate::latency::{Latencies, OverTime};
use crate::measurement::Measurement;
use crate::progress::Progress;
use base::{Duration, Instant, Rng};
use qos::{Class, Cost, GroupId, Priority, StreamId, Work};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Writes that the client has under way.
const DEPTH: u64 = 64;
const WRITE_BYTES: u64 = 4096;
const OBJECT_BYTES: u64 = 4 << 20;
/// A message from one process to another on the same host: some 50 us with two threads to wake.
const HOP: Duration = Duration::from_micros(50);
/// The OSD that was away.
const BACK: usize = OSDS as usize - 1;
/// Placement groups of each pool, as the study's author describes its test (cbt, `docs/New_Background_Recovery_Test.md`).
const PGS: u32 = 64;
/// How long the client is listened to, if recovery lasts so long: what the publication says of its runs without recovery.
const CLIENT_TIME: Duration = Duration::from_secs(300);
/// What an object's bytes cost in processors between two stores: a sum when they are read, sent, received and written, a copy
/// into a socket and one out of it, each at what a core of the published machine (E5-2650 v3) moves. Estimated.
pub(super) const PASSES: f64 = 6.0;
pub(super) const PASS_BYTES_PER_S: f64 = 4e9;
const BEGIN: Instant = Instant::from_secs(1);

/// What arrives somewhere later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Arrival {
    /// A write of the client at its primary.
    Sent {
        op: u64,
    },
    Replica {
        op: u64,
        osd: usize,
    },
    Committed {
        op: u64,
    },
    Answered {
        op: u64,
    },
    Push {
        group: u32,
    },
    Recovered {
        group: u32,
    },
    /// A primary's pause is over.
    Pace,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    began: Instant,
    pg: u32,
    members: Members,
    left: u32,
}

/// The OSDs of a placement group.
type Members = [usize; SIZE as usize];

/// The recovery of one placement group.
#[derive(Clone, Copy, Debug)]
struct Group {
    pg: u32,
    primary: usize,
    left: u32,
    under_way: u32,
}

/// A primary's pace.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    active: u32,
    not_before: Instant,
}

struct Cluster {
    now: Instant,
    in_force: InForce,
    rng: Rng,
    osds: Vec<OsdModel>,
    dirty: Vec<usize>,
    wakeups: BTreeSet<(Instant, usize)>,
    planned_wakeup: [Option<Instant>; OSDS as usize],
    agenda: BTreeMap<(Instant, u64), Arrival>,
    planned: u64,
    ops: BTreeMap<u64, Op>,
    next_op: u64,
    groups: Vec<Group>,
    /// When the client has sent what it has issued.
    client_free: Instant,
    client_each: Duration,
    /// Groups that have what they need to go on, in turn.
    reserved: VecDeque<u32>,
    waiting: VecDeque<u32>,
    paces: [Pace; OSDS as usize],
    max_active: u32,
    /// A group's objects under way: it starts so many, and again when one has ended (v16.2, `PG::finish_recovery_op`).
    max_of_group: u32,
    sleep: Duration,
    missing: u32,
    recovered: u32,
    latencies: Latencies,
    over_time: OverTime,
    rate_over_time: OverTime,
    left_over_time: Vec<(f64, f64)>,
}

/// What a run is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) configuration: Configuration,
    /// Objects in the recovery pool; none for the client alone.
    pub(super) objects: u32,
    /// How long the client is alone, then.
    pub(super) alone: Duration,
    /// Shards that keep an OSD's promises together; for none, those of the published cluster.
    pub(super) shards: Option<u32>,
    pub(super) seed: u64,
}

/// One run.
pub(super) fn run(hardware: &Hardware, plan: &Plan, progress: &Progress) -> Measurement {
    let (mut cluster, alone) = (Cluster::new(hardware, plan), plan.alone);
    let total = cluster.missing;
    let mut steps = 0u64;
    let end = |c: &Cluster| if total > 0 { c.recovered == total } else { c.now.since(BEGIN) >= alone };
    while !end(&cluster) {
        cluster.step();
        steps += 1;
        if steps.is_multiple_of(65_536) {
            let part = f64::from(cluster.recovered) / f64::from(total.max(1));
            progress.part(if total > 0 { part } else { cluster.now.since(BEGIN).div_duration_f64(alone) });
        }
    }
    cluster.measurement()
}

impl Cluster {
    fn new(hardware: &Hardware, plan: &Plan) -> Cluster {
        let in_force = InForce::new(plan.configuration, hardware.baseline_iops, hardware.rotational);
        let mut rng = Rng::new(plan.seed);
        let queues = plan.shards.map_or(Queues::Apart(hardware.shards), Queues::Together);
        let osds = (0..OSDS).map(|_| OsdModel::new(hardware, in_force.schedulers(queues), rng.u64())).collect();
        let groups = groups(plan.objects, &mut rng);
        let missing = groups.iter().map(|group| group.left).sum();
        // mClock does without pauses: it is the scheduler that holds recovery back (v16.2, `OSD.cc`).
        let sleep = if in_force.is_mclock() { 0.0 } else { in_force.settings.number(hardware.sleep_option) };
        // Groups are backfilled in no order of their primaries.
        let mut waiting: Vec<u32> = (0..groups.len() as u32).collect();
        for place in (1..waiting.len()).rev() {
            waiting.swap(place, rng.below(place as u64 + 1) as usize);
        }
        let window = Duration::from_secs(if hardware.rotational { 10 } else { 2 });
        let mut cluster = Cluster {
            now: BEGIN,
            max_active: in_force.by_device("osd_recovery_max_active") as u32,
            max_of_group: in_force.settings.number("osd_recovery_max_single_start") as u32,
            sleep: Duration::from_secs_f64(sleep),
            in_force,
            rng,
            osds,
            dirty: Vec::new(),
            wakeups: BTreeSet::new(),
            planned_wakeup: [None; OSDS as usize],
            agenda: BTreeMap::new(),
            planned: 0,
            ops: BTreeMap::new(),
            next_op: 0,
            groups,
            client_free: BEGIN,
            client_each: Duration::from_secs_f64(1.0 / CLIENT_IOPS),
            reserved: VecDeque::new(),
            waiting: waiting.into(),
            paces: [Pace::default(); OSDS as usize],
            missing,
            recovered: 0,
            latencies: Latencies::default(),
            over_time: OverTime::new(window),
            rate_over_time: OverTime::new(window),
            left_over_time: Vec::new(),
        };
        (0..DEPTH).for_each(|_| cluster.issue());
        cluster.reserve();
        cluster.settle();
        cluster
    }

    fn plan(&mut self, at: Instant, arrival: Arrival) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), arrival);
    }

    /// Lets time pass to what happens next.
    fn step(&mut self) {
        let arrives = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let wakes = self.wakeups.first().map(|(at, _)| *at);
        self.now = [arrives, wakes].into_iter().flatten().min().expect("a closed loop never ends");
        while let Some((_, arrival)) =
            self.agenda.first_entry().filter(|e| e.key().0 <= self.now).map(|e| e.remove_entry())
        {
            self.arrive(arrival);
        }
        while let Some((_, osd)) = self.wakeups.first().copied().filter(|(at, _)| *at <= self.now) {
            self.wakeups.pop_first();
            self.planned_wakeup[osd] = None;
            self.dirty.push(osd);
        }
        self.settle();
    }

    /// Lets every OSD that something has come to work it off.
    fn settle(&mut self) {
        let mut done = Vec::new();
        while let Some(osd) = self.dirty.pop() {
            self.osds[osd].advance(self.now, &mut done);
            core::mem::take(&mut done).into_iter().for_each(|done| self.done(done));
            if self.dirty.contains(&osd) {
                continue;
            }
            let next = self.osds[osd].next_wakeup();
            if let Some(before) = core::mem::replace(&mut self.planned_wakeup[osd], next) {
                self.wakeups.remove(&(before, osd));
            }
            self.wakeups.extend(next.map(|at| (at, osd)));
        }
    }

    fn give(&mut self, (osd, pg): (usize, u32), work: Work, job: Job, bytes: u64) {
        self.osds[osd].take(self.now, pg, work, job, bytes);
        if !self.dirty.contains(&osd) {
            self.dirty.push(osd);
        }
    }

    /// The client's next write, which it sends after those before. Its pool lies evenly, as the baseline has been measured on
    /// its own placement.
    fn issue(&mut self) {
        let (pg, members) = (self.rng.below(u64::from(PGS)) as u32, members(&mut self.rng));
        let op = self.next_op;
        self.next_op += 1;
        self.ops.insert(op, Op { began: self.now, pg, members, left: SIZE });
        self.client_free = self.client_free.max(self.now) + self.client_each;
        self.plan(self.client_free, Arrival::Sent { op });
    }

    fn done(&mut self, done: Done) {
        let later = self.now + HOP;
        match done {
            Done::Begun(Job::Write(op)) => {
                let members = self.ops[&op].members;
                members[1..].iter().for_each(|osd| self.plan(later, Arrival::Replica { op, osd: *osd }));
            }
            Done::Ended(Job::Write(op)) => self.committed(op),
            Done::Ended(Job::Replica(op)) => self.plan(later, Arrival::Committed { op }),
            Done::Ended(Job::Turn(group)) => self.plan(later + object_passes(), Arrival::Push { group }),
            Done::Ended(Job::Push(group)) => self.plan(later, Arrival::Recovered { group }),
            Done::Begun(_) => {}
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Sent { op } => {
                let Op { pg, members, .. } = self.ops[&op];
                self.give(
                    (members[0], pg),
                    work(Class::Client, Priority(63), WRITE_BYTES, 0),
                    Job::Write(op),
                    WRITE_BYTES,
                );
            }
            Arrival::Replica { op, osd } => {
                let (pg, class) = (self.ops[&op].pg, self.class_of_peers(Class::Client));
                self.give((osd, pg), work(class, REPLICA_PRIORITY, WRITE_BYTES, 1), Job::Replica(op), WRITE_BYTES);
            }
            Arrival::Committed { op } => self.committed(op),
            Arrival::Answered { op } => {
                let op = self.ops.remove(&op).expect("answered once");
                let (latency, since) = (self.now.since(op.began), self.now.since(BEGIN));
                if since < CLIENT_TIME {
                    self.latencies.record(latency);
                }
                self.over_time.record(since, latency.as_secs_f64() * 1e3);
                self.issue();
            }
            Arrival::Push { group } => {
                let priority = self.in_force.settings.number("osd_recovery_op_priority") as u8;
                let (pg, class) = (self.groups[group as usize].pg, self.class_of_peers(Class::Recovery));
                let work = work(class, Priority(priority), OBJECT_BYTES, 2);
                self.give((BACK, pg), work, Job::Push(group), OBJECT_BYTES);
            }
            Arrival::Recovered { group } => self.object_recovered(group),
            Arrival::Pace => self.pace(),
        }
    }

    /// What comes from another OSD passes mClock by (v16.2, `PGOpItem::get_scheduler_class`).
    fn class_of_peers(&self, otherwise: Class) -> Class {
        if self.in_force.is_mclock() { Class::Immediate } else { otherwise }
    }

    fn committed(&mut self, op: u64) {
        let of = self.ops.get_mut(&op).expect("not answered yet");
        of.left -= 1;
        if of.left == 0 {
            // There and back.
            self.plan(self.now + 2 * HOP, Arrival::Answered { op });
        }
    }

    /// Lets groups begin, as many as the OSD that came back takes at once.
    fn reserve(&mut self) {
        let most = self.in_force.settings.number("osd_max_backfills") as usize;
        while self.reserved.len() < most
            && let Some(group) = self.waiting.pop_front()
        {
            self.reserved.push_back(group);
        }
        self.pace();
    }

    /// Gives primaries the turns that their pace allows.
    fn pace(&mut self) {
        for _ in 0..self.reserved.len() {
            let n = self.reserved.pop_front().expect("counted");
            self.reserved.push_back(n);
            while self.turn(n) {}
        }
    }

    fn turn(&mut self, n: u32) -> bool {
        let group = &mut self.groups[n as usize];
        let pace = &mut self.paces[group.primary];
        if group.left == 0
            || group.under_way >= self.max_of_group
            || pace.active >= self.max_active
            || self.now < pace.not_before
        {
            return false;
        }
        (group.left, group.under_way, pace.active) = (group.left - 1, group.under_way + 1, pace.active + 1);
        let (primary, pg) = (group.primary, group.pg);
        if self.sleep > Duration::ZERO {
            pace.not_before = self.now + self.sleep;
            self.plan(self.now + self.sleep, Arrival::Pace);
        }
        self.give((primary, pg), work(Class::Recovery, TURN_PRIORITY, TURN_COST_BYTES, 3), Job::Turn(n), OBJECT_BYTES);
        true
    }

    fn object_recovered(&mut self, n: u32) {
        let group = &mut self.groups[n as usize];
        group.under_way -= 1;
        self.paces[group.primary].active -= 1;
        self.recovered += 1;
        let since = self.now.since(BEGIN);
        self.rate_over_time.record(since, 1.0);
        let left: u32 = self.groups.iter().map(|group| group.left + group.under_way).sum();
        self.left_over_time.push((since.as_secs_f64(), f64::from(left)));
        let group = &self.groups[n as usize];
        if group.left == 0 && group.under_way == 0 {
            self.reserved.retain(|other| *other != n);
            self.reserve();
        } else {
            self.pace();
        }
    }

    fn measurement(&self) -> Measurement {
        let total = self.missing;
        let seconds = self.now.since(BEGIN).as_secs_f64();
        let mut measurement = Measurement::default();
        measurement.put("client_iops", self.latencies.count() as f64 / seconds.min(CLIENT_TIME.as_secs_f64()));
        measurement.put_latencies("client", &self.latencies);
        measurement.series.insert("client_latency_ms".to_owned(), self.over_time.means());
        if total > 0 {
            measurement.put("recovered_objects_per_s", f64::from(total) / seconds);
            measurement.put("recovered_mib_per_s", f64::from(total) * 4.0 / seconds);
            measurement.put("time_to_clean_s", seconds);
            let every = self.left_over_time.len().div_ceil(500).max(1);
            let left = self.left_over_time.iter().step_by(every).copied().collect();
            measurement.series.insert("misplaced_objects".to_owned(), left);
        }
        measurement
    }
}

fn work(class: Class, priority: Priority, bytes: u64, stream: u64) -> Work {
    Work { class, group: GroupId::NONE, stream: StreamId(stream), priority, cost: Cost::one(bytes) }
}

/// Where a placement group lies, drawn; the primary first.
fn members(rng: &mut Rng) -> Members {
    let mut osds: [usize; OSDS as usize] = core::array::from_fn(|osd| osd);
    for place in 0..SIZE as usize {
        osds.swap(place, place + rng.below((OSDS as usize - place) as u64) as usize);
    }
    [osds[0], osds[1], osds[2]]
}

/// The groups of the recovery pool that lack their objects on the OSD that was away.
///
/// Where it should lead, another leads until it is filled: of those whose logs are alike, and all others have everything, the
/// first by number (v16.2, `PeeringState::find_best_info`).
fn groups(objects: u32, rng: &mut Rng) -> Vec<Group> {
    let mut groups = Vec::new();
    for pg in 0..PGS {
        let members = members(rng);
        let left = objects / PGS + u32::from(pg < objects % PGS);
        if members.contains(&BACK) && left > 0 {
            let primary = if members[0] == BACK { 0 } else { members[0] };
            groups.push(Group { pg, primary, left, under_way: 0 });
        }
    }
    groups
}

fn object_passes() -> Duration {
    Duration::from_secs_f64(PASSES * OBJECT_BYTES as f64 / PASS_BYTES_PER_S)
}
