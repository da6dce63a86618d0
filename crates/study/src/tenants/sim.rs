//! Tenants before OSDs of several queues before models of devices, in virtual time.

use super::account::Account;
use super::figures::{Measured, put_latencies};
use super::population::{Kind, OSDS, Tenant, population};
use super::{Case, Company, TenantsOptions};
use crate::latency::Latencies;
use crate::measurement::Measurement;
use crate::progress::Progress;
use base::{Duration, Instant, Rng};
use device::{Device, Io, IoId, IoKind, Media};
use qos::limits::QUEUED_MAX;
use qos::{
    Class, Cost, CostModel, Dequeued, Elsewhere, GroupId, Ledger, Load, MClock, MClockConfig, Priority, Profile,
    Scheduler, Served, Settled, StreamId, Way, Window, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an OSD promises its classes.
const PROFILE: Profile = Profile::HighClientOps;
const BEGIN: Instant = Instant::from_secs(1);
/// What is not measured: queues fill, servers hear of one another, windows are learnt.
const WARM_UP: Duration = Duration::from_secs(10);
/// How often servers settle, as OSDs do.
const SETTLE_EVERY: Duration = Duration::from_millis(100);
/// What a device is given at once at the most: an OSD's default for flash.
const STORE_IOS_MAX: usize = 128;
const STORE_BYTES_MAX: u64 = 64 << 20;
/// Requests under way of each tenant that is no victim.
const DEPTH: usize = 16;
/// Requests of a victim that wait at the most, where there is room for so many of all: as many as Ceph's clients have under
/// way (`objecter_inflight_ops`). What it would ask for beyond is not sent, and counts as not received.
const VICTIM_WAITING_MAX: usize = 1024;
const REQUEST_BYTES: u64 = 4096;
/// Requests under way and their bytes, for each OSD: recovery and scrub.
const BACKGROUND: [(Class, usize, u64); 2] = [(Class::Recovery, 8, 64 << 10), (Class::BestEffort, 2, 512 << 10)];

/// Whose a request is, and when it came.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The tenant; none for an OSD's own.
    tenant: Option<usize>,
    /// Of an OSD's own: bytes that are still to be read after this.
    rest_bytes: u64,
    came: Instant,
    /// When the device was given it.
    begun: Instant,
}

struct Osd {
    queues: Vec<MClock<Request>>,
    device: Device,
    window: Window,
    under_way: BTreeMap<IoId, (Work, Request)>,
    /// Which queue is asked first: each in turn.
    turn: usize,
    timer: Option<Instant>,
    /// What each queue has last told of each tenant.
    told: Vec<Vec<Settled>>,
}

struct Run {
    osds: Vec<Osd>,
    cost: CostModel,
    tenants: Vec<Tenant>,
    accounts: Vec<Account>,
    /// When victims ask.
    asking: BTreeSet<(Instant, usize)>,
    victim_waiting_max: usize,
    rng: Rng,
    next_io: u64,
    measured_from: Instant,
    /// Bytes that recovery and scrub have read, second by second.
    background: [Vec<u64>; 2],
    latencies: Latencies,
    /// Of that, what victims' requests waited in queues, and what the device took.
    queued: Latencies,
    in_device: Latencies,
}

/// One run.
pub(super) fn run(options: &TenantsOptions, case: &Case, seed: u64, progress: &Progress) -> Measurement {
    let mut run = Run::new(options, case, seed);
    let end = run.measured_from + Duration::from_secs(u64::from(options.seconds));
    let (mut settle_at, mut steps) = (BEGIN + SETTLE_EVERY, 0u64);
    loop {
        let next = run.next_event().unwrap_or(settle_at).min(settle_at);
        if next >= end {
            break;
        }
        run.step(next);
        if next >= settle_at {
            run.settle(next);
            settle_at = settle_at + SETTLE_EVERY;
        }
        steps += 1;
        if steps.is_multiple_of(65_536) {
            progress.part(next.since(BEGIN).as_secs_f64() / end.since(BEGIN).as_secs_f64());
        }
    }
    run.measured(end)
}

impl Run {
    fn new(options: &TenantsOptions, case: &Case, seed: u64) -> Run {
        let tenants = tenants(options, case);
        let (capacity, bytes_per_s) = abilities(case);
        let config = MClockConfig {
            cost: CostModel { per_io: 0.0, per_byte: capacity / bytes_per_s },
            ..MClockConfig::profile(PROFILE, capacity)
        };
        let (mut rng, measured_from) = (Rng::new(seed), BEGIN + WARM_UP);
        let osds = (0..OSDS)
            .map(|_| {
                let ledger = Arc::new(Ledger::default());
                let mut queues: Vec<MClock<Request>> =
                    (0..case.queues).map(|_| MClock::sharing(config, Arc::clone(&ledger))).collect();
                if case.company != Company::Unpromised {
                    queues.iter_mut().for_each(|queue| promise(queue, &tenants));
                }
                let told = vec![vec![Settled::default(); tenants.len()]; queues.len()];
                let device = Device::new(case.device.clone(), rng.u64());
                let most = Load { ios: STORE_IOS_MAX, bytes: STORE_BYTES_MAX, units: STORE_IOS_MAX as f64 };
                Osd {
                    queues,
                    device,
                    window: Window::new(most, true),
                    under_way: BTreeMap::new(),
                    turn: 0,
                    timer: None,
                    told,
                }
            })
            .collect();
        let mut run = Run {
            osds,
            cost: config.cost,
            asking: BTreeSet::new(),
            victim_waiting_max: VICTIM_WAITING_MAX.min(QUEUED_MAX / tenants.len()),
            rng,
            next_io: 0,
            measured_from,
            accounts: vec![Account::open(measured_from); tenants.len()],
            background: [(); 2].map(|()| vec![0; options.seconds as usize]),
            latencies: Latencies::default(),
            queued: Latencies::default(),
            in_device: Latencies::default(),
            tenants,
        };
        run.begin(case.company);
        run
    }

    fn begin(&mut self, company: Company) {
        for tenant in 0..self.tenants.len() {
            match self.tenants[tenant].kind {
                Kind::Victim => self.ask_later(BEGIN, tenant),
                _ if company == Company::Alone => {}
                _ => (0..DEPTH).for_each(|_| self.send(BEGIN, tenant)),
            }
        }
        for osd in 0..OSDS {
            if company != Company::Alone {
                for (class, depth, _) in BACKGROUND {
                    (0..depth).for_each(|_| self.send_background(BEGIN, osd, class));
                }
            }
            self.dispatch(BEGIN, osd);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let asks = self.asking.first().map(|(at, _)| *at);
        let of_osds = self.osds.iter().flat_map(|osd| [osd.timer, osd.device.next_wakeup()]).flatten();
        of_osds.chain(asks).min()
    }

    fn step(&mut self, now: Instant) {
        for osd in 0..OSDS {
            while let Some(io) = self.osds[osd].device.poll(now) {
                self.done(now, osd, io);
            }
        }
        while let Some((_, tenant)) = self.asking.first().copied().filter(|(at, _)| *at <= now) {
            self.asking.pop_first();
            if self.accounts[tenant].waiting() < self.victim_waiting_max {
                self.send(now, tenant);
            } else {
                self.accounts[tenant].unsent(now >= self.measured_from);
            }
            self.ask_later(now, tenant);
        }
        (0..OSDS).for_each(|osd| self.dispatch(now, osd));
    }

    /// A victim asks again after a random time, as many who do not know of one another.
    fn ask_later(&mut self, now: Instant, tenant: usize) {
        let rate = self.tenants[tenant].asks().expect("a victim");
        let uniform = (self.rng.below(1 << 32) + 1) as f64 / (1u64 << 32) as f64;
        let pause = Duration::from_secs_f64(-uniform.ln() / rate);
        self.asking.insert((now + pause, tenant));
    }

    fn send(&mut self, now: Instant, tenant: usize) {
        let of = &self.tenants[tenant];
        let osd = of.osd(self.rng.below(u64::from(of.parts())) as u32);
        self.accounts[tenant].queued(now, now >= self.measured_from);
        let work = work(Class::Client, GroupId(tenant as u32 + 1), tenant as u64, REQUEST_BYTES);
        self.enqueue(now, osd, work, Request { tenant: Some(tenant), rest_bytes: 0, came: now, begun: now });
    }

    fn send_background(&mut self, now: Instant, osd: usize, class: Class) {
        let bytes = BACKGROUND.iter().find(|(of, ..)| *of == class).map_or(0, |(.., bytes)| *bytes);
        self.read_piece(now, osd, class, bytes);
    }

    /// An OSD reads what it recovers and scrubs piece by piece, as its window allows.
    fn read_piece(&mut self, now: Instant, osd: usize, class: Class, bytes: u64) {
        let piece = bytes.min(self.osds[osd].window.piece_bytes(&self.cost));
        let request = Request { tenant: None, rest_bytes: bytes - piece, came: now, begun: now };
        self.enqueue(now, osd, work(class, GroupId::NONE, 0, piece), request);
    }

    fn enqueue(&mut self, now: Instant, osd: usize, work: Work, request: Request) {
        let queues = &mut self.osds[osd].queues;
        let queue = self.rng.below(queues.len() as u64) as usize;
        queues[queue].enqueue(now, work, request).expect("senders have few requests each");
    }

    fn done(&mut self, now: Instant, osd: usize, io: IoId) {
        let (work, request) = self.osds[osd].under_way.remove(&io).expect("it was submitted");
        let load = Load::one(work.cost.bytes.into(), self.cost.units(work.cost));
        self.osds[osd].window.end(now, load, Way::Scheduled);
        let measured = now >= self.measured_from;
        let Some(tenant) = request.tenant else {
            let second = now.since(self.measured_from).as_secs() as usize;
            self.background[usize::from(work.class == Class::BestEffort)][second] +=
                if measured { u64::from(work.cost.bytes) } else { 0 };
            return match request.rest_bytes {
                0 => self.send_background(now, osd, work.class),
                rest => self.read_piece(now, osd, work.class, rest),
            };
        };
        let is_victim = self.tenants[tenant].kind == Kind::Victim;
        if measured {
            self.accounts[tenant].served(now, now.since(request.came));
        }
        if is_victim && measured {
            self.latencies.record(now.since(request.came));
            self.queued.record(request.begun.since(request.came));
            self.in_device.record(now.since(request.begun));
        }
        if !is_victim {
            self.send(now, tenant);
        }
    }

    fn dispatch(&mut self, now: Instant, osd: usize) {
        self.osds[osd].timer = None;
        let mut idle = 0;
        while idle < self.osds[osd].queues.len() {
            let of = &mut self.osds[osd];
            of.turn = (of.turn + 1) % of.queues.len();
            let queue = &mut of.queues[of.turn];
            let next = match (of.window.has_room(), of.window.has_room_for_due()) {
                (true, _) => queue.dequeue(now),
                (false, true) => {
                    queue.dequeue_due(now).map_or(Dequeued::Empty, |(work, item)| Dequeued::Ready(work, item))
                }
                (false, false) => break,
            };
            idle += 1;
            match next {
                Dequeued::Ready(work, request) => {
                    idle = 0;
                    self.give(now, osd, work, request);
                }
                Dequeued::NotBefore(at) => of.timer = Some(of.timer.map_or(at, |timer| timer.min(at))),
                Dequeued::Empty => {}
            }
        }
    }

    /// Gives a request to its device.
    fn give(&mut self, now: Instant, osd: usize, work: Work, request: Request) {
        if let Some(tenant) = request.tenant {
            self.accounts[tenant].begun(now, self.measured_from);
        }
        self.next_io += 1;
        let (of, id) = (&mut self.osds[osd], IoId(self.next_io));
        of.window.begin(now, Load::one(work.cost.bytes.into(), self.cost.units(work.cost)), Way::Scheduled);
        of.under_way.insert(id, (work, Request { begun: now, ..request }));
        of.device.submit(now, id, Io { kind: IoKind::Read, offset: self.rng.u64(), bytes: work.cost.bytes.into() });
    }

    /// Each queue of each OSD settles with what all others told the last time.
    fn settle(&mut self, now: Instant) {
        for (tenant, _) in self.tenants.iter().enumerate().filter(|(_, tenant)| tenant.promise().is_some()) {
            let mut all = All::default();
            let told = self.osds.iter().flat_map(|osd| osd.told.iter().map(|told| &told[tenant]));
            told.for_each(|settled| all.add(settled));
            for osd in &mut self.osds {
                for (queue, mine) in osd.queues.iter_mut().zip(&mut osd.told) {
                    let others = all.without(&mine[tenant]);
                    mine[tenant] = queue.settle(now, Class::Client, GroupId(tenant as u32 + 1), others);
                }
            }
        }
        (0..OSDS).for_each(|osd| self.dispatch(now, osd));
    }

    fn measured(mut self, end: Instant) -> Measurement {
        let (mut measurement, from) = (Measurement::default(), self.measured_from);
        let seconds = end.since(from).as_secs_f64();
        let served: u64 = self.accounts.iter().map(|account| account.served).sum();
        measurement.put("client_iops", served as f64 / seconds);
        Measured { tenants: &self.tenants, accounts: &mut self.accounts, from, end }.put(&mut measurement);
        put_latencies(&mut measurement, [&self.latencies, &self.queued, &self.in_device]);
        let windows = self.osds.iter().map(|osd| osd.window.most().units).sum::<f64>();
        measurement.put("window_units", windows / OSDS as f64);
        for (name, bytes) in ["recovery_mib_s", "scrub_mib_s"].into_iter().zip(&self.background) {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            measurement.put(name, mib(bytes.iter().sum()) / seconds);
            let series = bytes.iter().zip(0..).map(|(bytes, second)| (f64::from(second) + 0.5, mib(*bytes)));
            measurement.series.insert(name.to_owned(), series.collect());
        }
        measurement
    }
}

/// The tenants of a case.
pub(super) fn tenants(options: &TenantsOptions, case: &Case) -> Vec<Tenant> {
    let (capacity, _) = abilities(case);
    population(options.tenants as usize, PROFILE.promises(capacity)[0].reservation())
}

/// What a device does at best, in small reads and in bytes a second.
fn abilities(case: &Case) -> (f64, f64) {
    match &case.device.media {
        Media::Flash(flash) => (flash.read_iops, flash.read_bytes_per_s),
        // A rotation and a half for a read anywhere.
        Media::Platters(disks) => {
            let each = disks.rotations_per_minute / 60.0 / 1.5;
            (each * f64::from(disks.spindles), disks.bytes_per_s * f64::from(disks.spindles))
        }
    }
}

fn promise(queue: &mut MClock<Request>, tenants: &[Tenant]) {
    for (group, tenant) in (1..).zip(tenants) {
        queue.promise_group(BEGIN, Class::Client, GroupId(group), tenant.promise());
    }
}

fn work(class: Class, group: GroupId, stream: u64, bytes: u64) -> Work {
    Work { class, group, stream: StreamId(stream), priority: Priority(63), cost: Cost::one(bytes) }
}

/// What all servers have told of a tenant.
#[derive(Default)]
struct All {
    served: Served,
    servers: u32,
    waiting: u32,
}

impl All {
    fn add(&mut self, one: &Settled) {
        self.served.requests += one.served.requests;
        self.served.bytes += one.served.bytes;
        self.served.reserved_ns += one.served.reserved_ns;
        self.servers += u32::from(one.served.requests > 0.0);
        self.waiting += u32::from(one.waits);
    }

    fn without(&self, one: &Settled) -> Elsewhere {
        let served = Served {
            requests: self.served.requests - one.served.requests,
            bytes: self.served.bytes - one.served.bytes,
            reserved_ns: self.served.reserved_ns - one.served.reserved_ns,
        };
        let servers = self.servers - u32::from(one.served.requests > 0.0);
        Elsewhere { served, servers, waits: self.waiting > u32::from(one.waits) }
    }
}
