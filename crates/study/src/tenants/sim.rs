//! Tenants before OSDs of several queues before models of devices, in virtual time.

use super::{Case, Company, TenantsOptions};
use crate::latency::Latencies;
use crate::measurement::Measurement;
use crate::progress::Progress;
use base::{Duration, Instant, Rng};
use device::{Device, Io, IoId, IoKind, Media};
use qos::{
    Class, Cost, CostModel, Dequeued, Elsewhere, GroupId, Ledger, Load, MClock, MClockConfig, Priority, Profile,
    Promise, Scheduler, Served, Settled, StreamId, Way, Window, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const OSDS: usize = 4;
const BEGIN: Instant = Instant::from_secs(1);
/// What is not measured: queues fill, servers hear of one another.
const WARM_UP: Duration = Duration::from_secs(3);
/// How often servers settle, as OSDs do.
const SETTLE_EVERY: Duration = Duration::from_millis(100);
/// What a device is given at once at the most: an OSD's default for flash.
const STORE_IOS_MAX: usize = 128;
const STORE_BYTES_MAX: u64 = 64 << 20;
/// Of what OSDs reserve for clients, so much is reserved for tenants.
const RESERVED: f64 = 0.8;
/// Of its reservation, so much a victim asks for.
const VICTIM_ASKS: f64 = 0.8;
/// Requests under way of a tenant that wants more, and of a hog.
const DEPTH: usize = 16;
const REQUEST_BYTES: u64 = 4096;
/// Requests under way and their bytes, for each OSD: recovery and scrub.
const BACKGROUND: [(Class, usize, u64); 2] = [(Class::Recovery, 8, 64 << 10), (Class::BestEffort, 2, 512 << 10)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Victim,
    Greedy,
    Limited,
    Hog,
}

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
    tenants: Vec<Kind>,
    /// Of a tenant that is promised a rate, in requests a second.
    rate: f64,
    /// When victims ask.
    asking: BTreeSet<(Instant, usize)>,
    rng: Rng,
    next_io: u64,
    served: Vec<u64>,
    background: [u64; 2],
    latencies: Latencies,
    /// Of that, what victims' requests waited in queues, and what the device took.
    queued: Latencies,
    in_device: Latencies,
}

/// One run.
pub(super) fn run(options: &TenantsOptions, case: &Case, seed: u64, progress: &Progress) -> Measurement {
    let mut run = Run::new(options, case, seed);
    let measured_from = BEGIN + WARM_UP;
    let end = measured_from + Duration::from_secs(u64::from(options.seconds));
    let (mut settle_at, mut steps) = (BEGIN + SETTLE_EVERY, 0u64);
    loop {
        let next = run.next_event().unwrap_or(settle_at).min(settle_at);
        if next >= end {
            break;
        }
        run.step(next, next >= measured_from);
        if next >= settle_at {
            run.settle(next);
            settle_at = settle_at + SETTLE_EVERY;
        }
        steps += 1;
        if steps.is_multiple_of(65_536) {
            progress.part(next.since(BEGIN).as_secs_f64() / end.since(BEGIN).as_secs_f64());
        }
    }
    run.measured(f64::from(options.seconds))
}

impl Run {
    fn new(options: &TenantsOptions, case: &Case, seed: u64) -> Run {
        let count = options.tenants as usize;
        let kind = |place: usize| match place * 8 / count {
            0..=3 => Kind::Victim,
            4..=5 => Kind::Greedy,
            6 => Kind::Limited,
            _ => Kind::Hog,
        };
        let tenants: Vec<Kind> = (0..count).map(kind).collect();
        let (capacity, bytes_per_s) = abilities(case);
        let profile = Profile::HighClientOps;
        let promised = tenants.iter().filter(|kind| matches!(kind, Kind::Victim | Kind::Greedy)).count();
        let for_clients = OSDS as f64 * profile.promises(capacity)[0].reservation();
        let rate = RESERVED * for_clients / promised.max(1) as f64;
        let config = MClockConfig {
            cost: CostModel { per_io: 0.0, per_byte: capacity / bytes_per_s },
            ..MClockConfig::profile(profile, capacity)
        };
        let mut rng = Rng::new(seed);
        let osds = (0..OSDS)
            .map(|_| {
                let ledger = Arc::new(Ledger::default());
                let mut queues: Vec<MClock<Request>> =
                    (0..case.queues).map(|_| MClock::sharing(config, Arc::clone(&ledger))).collect();
                if case.company != Company::Unpromised {
                    queues.iter_mut().for_each(|queue| promise(queue, &tenants, rate));
                }
                let told = vec![vec![Settled::default(); count]; queues.len()];
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
            rate,
            rng,
            next_io: 0,
            served: vec![0; count],
            background: [0; 2],
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
            match self.tenants[tenant] {
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

    fn step(&mut self, now: Instant, measured: bool) {
        for osd in 0..OSDS {
            while let Some(io) = self.osds[osd].device.poll(now) {
                self.done(now, osd, io, measured);
            }
        }
        while let Some((_, tenant)) = self.asking.first().copied().filter(|(at, _)| *at <= now) {
            self.asking.pop_first();
            self.send(now, tenant);
            self.ask_later(now, tenant);
        }
        (0..OSDS).for_each(|osd| self.dispatch(now, osd));
    }

    /// A victim asks again after a random time, as many who do not know of one another.
    fn ask_later(&mut self, now: Instant, tenant: usize) {
        let uniform = (self.rng.below(1 << 32) + 1) as f64 / (1u64 << 32) as f64;
        let pause = Duration::from_secs_f64(-uniform.ln() / (self.rate * VICTIM_ASKS));
        self.asking.insert((now + pause, tenant));
    }

    fn send(&mut self, now: Instant, tenant: usize) {
        let osd = self.rng.below(OSDS as u64) as usize;
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

    fn done(&mut self, now: Instant, osd: usize, io: IoId, measured: bool) {
        let (work, request) = self.osds[osd].under_way.remove(&io).expect("it was submitted");
        let load = Load::one(work.cost.bytes, self.cost.units(work.cost));
        self.osds[osd].window.end(now, load, Way::Scheduled);
        let Some(tenant) = request.tenant else {
            if request.rest_bytes > 0 {
                return self.read_piece(now, osd, work.class, request.rest_bytes);
            }
            self.background[usize::from(work.class == Class::BestEffort)] += u64::from(measured);
            return self.send_background(now, osd, work.class);
        };
        self.served[tenant] += u64::from(measured);
        match self.tenants[tenant] {
            Kind::Victim if measured => {
                self.latencies.record(now.since(request.came));
                self.queued.record(request.begun.since(request.came));
                self.in_device.record(now.since(request.begun));
            }
            Kind::Victim => {}
            _ => self.send(now, tenant),
        }
    }

    fn dispatch(&mut self, now: Instant, osd: usize) {
        let cost = self.cost;
        let of = &mut self.osds[osd];
        of.timer = None;
        let mut idle = 0;
        while idle < of.queues.len() && of.window.has_room() {
            let queue = of.turn;
            of.turn = (of.turn + 1) % of.queues.len();
            match of.queues[queue].dequeue(now) {
                Dequeued::Ready(work, request) => {
                    idle = 0;
                    self.next_io += 1;
                    of.window.begin(now, Load::one(work.cost.bytes, cost.units(work.cost)), Way::Scheduled);
                    of.under_way.insert(IoId(self.next_io), (work, Request { begun: now, ..request }));
                    let io = Io { kind: IoKind::Read, offset: self.rng.u64(), bytes: work.cost.bytes };
                    of.device.submit(now, IoId(self.next_io), io);
                }
                Dequeued::NotBefore(at) => {
                    idle += 1;
                    of.timer = Some(of.timer.map_or(at, |timer| timer.min(at)));
                }
                Dequeued::Empty => idle += 1,
            }
        }
    }

    /// Each queue of each OSD settles with what all others told the last time.
    fn settle(&mut self, now: Instant) {
        for (tenant, kind) in self.tenants.iter().enumerate() {
            if *kind == Kind::Hog {
                continue;
            }
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

    fn measured(&self, seconds: f64) -> Measurement {
        let mut measurement = Measurement::default();
        let of = |wanted: Kind| {
            let all = self.tenants.iter().zip(&self.served).filter(move |(kind, _)| **kind == wanted);
            all.map(|(_, served)| *served as f64 / seconds / self.rate * 100.0)
        };
        let met = of(Kind::Greedy).fold(f64::INFINITY, f64::min);
        if met > 0.0 {
            measurement.put("reservation_met_percent", met);
            measurement.put("limit_reached_percent", of(Kind::Limited).fold(0.0, f64::max));
        }
        measurement.put_latencies("victim", &self.latencies);
        measurement.put_latencies("victim_queued", &self.queued);
        measurement.put_latencies("victim_in_device", &self.in_device);
        let windows = self.osds.iter().map(|osd| osd.window.most().units).sum::<f64>();
        measurement.put("window_units", windows / OSDS as f64);
        measurement.put("client_iops", self.served.iter().sum::<u64>() as f64 / seconds);
        measurement.put("recovery_iops", self.background[0] as f64 / seconds);
        measurement.put("scrub_iops", self.background[1] as f64 / seconds);
        measurement
    }
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

fn promise(queue: &mut MClock<Request>, tenants: &[Kind], rate: f64) {
    for (group, kind) in (1..).zip(tenants) {
        let promise = match kind {
            Kind::Victim | Kind::Greedy => Promise::new(rate, 1, None),
            Kind::Limited => Promise::new(0.0, 1, Some(rate)),
            Kind::Hog => continue,
        };
        queue.promise_group(BEGIN, Class::Client, GroupId(group), Some(promise.expect("sound")));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::limit_percent_max;
    use device::DeviceModel;

    /// A tenth of the study: reservations are met and limits kept beside hogs, in one shard and in four; without promises
    /// nobody holds to a limit.
    #[test]
    fn promises_are_kept_in_one_shard_and_in_many() {
        let device = DeviceModel::named("ssd").expect("a model");
        let options = TenantsOptions { devices: vec![device.clone()], tenants: 96, shards: vec![1, 4], seconds: 6 };
        let get = |shards, company| {
            let case = Case { device: device.clone(), shards, queues: shards, company };
            let measured = run(&options, &case, 1, &Progress::new(1));
            ["reservation_met_percent", "limit_reached_percent"].map(|key| measured.value(key).expect("measured"))
        };
        for shards in [1, 4] {
            let [met, limit] = get(shards, Company::Promised);
            assert!(met >= 99.0 && limit <= limit_percent_max(6), "{shards} shards: {met}, {limit}");
        }
        let [_, limit] = get(1, Company::Unpromised);
        assert!(limit > 104.5, "{limit}");
    }
}
