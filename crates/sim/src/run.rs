//! One run from its founding to its judgement.
//!
//! The cluster boots and gets a pool; clients work while faults strike (`strikes`); then everything heals,
//! every request must end, every object is read once more, all snapshots are removed (`last_looks`), and the histories are
//! judged. At last a disk rots: reads must be right all the same, a repair must heal it, and a deep scrub must then find
//! nothing.

use crate::cluster::Cluster;
use crate::node::NodeId;
use crate::options::{Options, Report};
use crate::rests::Rests;
use crate::rifts;
use crate::snapshots::Snapshots;
use crate::workload::{self, Workload};
use crate::world::{BEGINNING, Event, World};
use base::{Bug, Duration, Instant, PoolId, Rng};
use client::{CommandId, CommandReply, OpId, Request};
use maps::{OsdMap, PgPool};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const POOL_NAME: &str = "sim";
/// How long a cluster may take to boot, in virtual time.
const BOOT_MAX: Duration = Duration::from_secs(60);
/// How long everything may take to settle once nothing is broken any more.
pub(crate) const HEAL_MAX: Duration = Duration::from_secs(300);

/// Marks the commands that mark OSDs.
pub(crate) const MARK: u64 = 1 << 62;
/// Marks the commands that ask for scrubs.
pub(crate) const SCRUB: u64 = 1 << 61;

/// Runs a whole cluster in virtual time. The same options give the same report, trace hash included.
pub fn run(options: &Options) -> Report {
    run_with_log(options, None)
}

/// The same, and `listener` hears what daemons log, and which faults strike, as it happens.
pub fn run_with_log(options: &Options, listener: Option<fn(&str)>) -> Report {
    let _witness = Witness(options.command());
    let _planting = Bug::plant(options.planted);
    let mut run = Run::new(options);
    run.world.listener = listener;
    run.live();
    run.report()
}

/// Says how to see a run again if an assertion of an engine ends it.
struct Witness(String);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to see this again: {}", self.0);
        }
    }
}

pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) work: Workload,
    rests: Rests,
    pub(crate) snapshots: Snapshots,
    /// Decides who is exiled: a stream of its own, so that the rest is drawn as without.
    pub(crate) exile: Rng,
    pub(crate) pool: PoolId,
    working: bool,
    /// Whether a disk was lost for good.
    pub(crate) disk_lost: bool,
    /// Whether faults strike.
    pub(crate) faulty: bool,
    pub(crate) faults: u64,
    /// How many commands have marked OSDs out or in.
    pub(crate) marks: u64,
    /// Listings of placement groups that are under way, and the names that have come.
    pub(crate) listings: BTreeSet<OpId>,
    pub(crate) listed: Vec<String>,
}

impl Run {
    fn new(options: &Options) -> Run {
        let mut world = World::new(options);
        let cluster = Cluster::found(options, &mut world);
        let work = Workload::new(options, world.rng.fork());
        let snapshots = Snapshots::new(world.rng.fork(), options.seed);
        Run {
            options: options.clone(),
            world,
            cluster,
            work,
            rests: Rests::new(options.seed, options.clients, options.rest),
            snapshots,
            exile: Rng::new(options.seed ^ 0x0065_7869_6C65_6421),
            pool: PoolId(0),
            working: false,
            disk_lost: false,
            faulty: false,
            faults: 0,
            marks: 0,
            listings: BTreeSet::new(),
            listed: Vec::new(),
        }
    }

    fn live(&mut self) {
        for id in 0..self.world.nodes.len() {
            self.cluster.start(&mut self.world, NodeId(id));
        }
        if !self.prepare() {
            return;
        }
        self.work_under_faults();
        if self.heal()
            && self.read_everything()
            && self.let_others_read()
            && self.read_snapshots()
            && self.remove_snapshots()
        {
            self.list_everything();
            self.let_a_disk_rot();
            self.compare_copies();
            self.look_for_what_is_left();
        }
        let complaints = self.work.history.complaints();
        self.world.failures.extend(complaints);
    }

    /// Boots the cluster and makes a pool; false if that fails.
    fn prepare(&mut self) -> bool {
        let osds = self.options.osds as usize;
        if !self.wait_for(BOOT_MAX, |run| run.osds_up(0) == osds) {
            let up = self.osds_up(0);
            return self.fail(format!("{up} of {osds} OSDs are up after {BOOT_MAX:?}"));
        }
        let (pg_num, size) = (self.options.pg_num, self.options.pool_size);
        let create = format!(
            r#"{{"prefix":"osd pool create","pool":"{POOL_NAME}","pg_num":{pg_num},"pgp_num":{pg_num},"size":{size},"format":"json"}}"#
        );
        let min_size = self.options.min_size;
        let words = format!(r#""pool":"{POOL_NAME}","var":"min_size","val":"{min_size}""#);
        for command in [create, format!(r#"{{"prefix":"osd pool set",{words}}}"#)] {
            match self.ask(command) {
                Some(reply) if reply.result == 0 => {}
                reply => return self.fail(format!("the pool was not made: {reply:?}")),
            }
        }
        // Who does not follow maps learns of the pool when it needs it.
        let told = if self.options.ask_once { 1 } else { self.options.clients as usize };
        if !self.wait_for(BOOT_MAX, |run| (0..told).all(|client| run.find_pool(client).is_some())) {
            return self.fail("the pool does not reach every client".to_owned());
        }
        self.pool = self.find_pool(0).expect("it was just seen");
        true
    }

    /// Gives a command while all is quiet, and waits for its answer.
    fn ask(&mut self, command: String) -> Option<CommandReply> {
        self.command(1, command);
        let mut reply = None;
        self.wait_for(BOOT_MAX, |run| {
            let first = run.cluster.client(0);
            reply = run.world.nodes[first.0].client_mut().expect("clients run all the time").poll_reply();
            reply.is_some()
        });
        reply
    }

    fn work_under_faults(&mut self) {
        self.faulty = self.options.faults.strikes();
        self.world.ails.begun = self.faulty && self.options.ailing_disks;
        if self.faulty {
            self.world.regroups.begin(self.world.now + self.options.duration / 2);
            self.world.rifts.begin(self.world.now + self.options.duration + rifts::LAST);
            self.plan_fault();
        }
        self.work_for(self.options.duration);
        self.faulty = false;
    }

    /// Lets clients work.
    pub(crate) fn work_for(&mut self, duration: Duration) {
        self.working = true;
        for client in 0..self.options.clients as usize {
            for slot in 0..self.options.depth {
                self.go_on(client, slot);
            }
        }
        let end = self.world.now + duration;
        while let Some(event) = self.world.step(end) {
            self.handle(event);
        }
        self.working = false;
    }

    /// Takes or removes a snapshot of the pool.
    pub(crate) fn snapshot(&mut self) {
        let Some(pool) = self.known_pool() else { return };
        let (id, command) = self.snapshots.next(POOL_NAME, &pool, self.work.history.now());
        self.work.forget_snapshots(&self.snapshots.readable(&pool));
        self.command(id, command);
    }

    pub(crate) fn command(&mut self, id: u64, command: String) {
        let first = self.cluster.client(0);
        let client = self.world.nodes[first.0].client_mut().expect("clients run all the time");
        while client.poll_reply().is_some() {}
        client.command(CommandId(id), command, bytes::Bytes::new());
        self.world.settle(first);
    }

    pub(crate) fn known_pool(&self) -> Option<Arc<PgPool>> {
        self.map()?.pool(self.pool).cloned()
    }

    /// The newest map that a client has.
    pub(crate) fn map(&self) -> Option<&Arc<OsdMap>> {
        self.world.nodes[self.cluster.client(0).0].map()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake(node) => self.collect(node),
            Event::Start(node) => self.cluster.start(&mut self.world, node),
            Event::Ail { back_at } => self.ail(back_at),
            Event::Fault => self.strike(),
            Event::Caught { kind, node } => self.strike_caught(kind, node),
            Event::Work { client, slot } if self.working => {
                let (id, request) = self.work.next(self.pool, slot, client < self.options.readers as usize);
                if self.work.loses(id) {
                    return self.go_on(client, slot);
                }
                let request = self.at_some_snapshot(client, id, request);
                if let Some(second) = self.work.doubles(id) {
                    self.submit(client, second, request.clone());
                }
                self.submit(client, id, request);
            }
            Event::Look { client } if self.working => {
                let (id, request) = self.work.next(self.pool, workload::LOOK, true);
                self.submit(client, id, request);
            }
            _ => {}
        }
    }

    /// Lets some reads read at a snapshot that their client knows.
    fn at_some_snapshot(&mut self, client: usize, id: OpId, request: Request) -> Request {
        let map = self.world.nodes[self.cluster.client(client).0].map();
        let pool = map.and_then(|map| map.pool(self.pool)).filter(|_| self.options.snap_reads);
        match pool.and_then(|pool| self.snapshots.choose(pool)) {
            Some((snap, since)) => self.work.at_snapshot(id, request, snap, since),
            None => request,
        }
    }

    pub(crate) fn submit(&mut self, client: usize, id: OpId, request: Request) {
        let node = self.cluster.client(client);
        let now = self.world.shown(node);
        let engine = self.world.nodes[node.0].client_mut().expect("clients run all the time");
        engine.submit(now, id, request).expect("the workload stays far below the limit");
        self.world.settle(node);
        self.collect(node);
    }

    /// Records what a client's requests came to, and lets it go on.
    fn collect(&mut self, node: NodeId) {
        while let Some(done) = self.world.nodes[node.0].client_mut().and_then(|client| client.poll_completion()) {
            if self.listings.remove(&done.id) {
                self.take_listing(done.result);
                continue;
            }
            let Some(pending) = self.work.end(done) else { continue };
            if self.working && pending.slot != workload::LOOK {
                let client = node.0 - self.cluster.client(0).0;
                self.go_on(client, pending.slot);
            }
        }
    }

    /// Plans a client's next request.
    fn go_on(&mut self, client: usize, slot: u32) {
        let mean = self.world.rushes.pause(self.world.now, self.options.think);
        let at = self.world.now + self.work.pause(mean);
        let at = self.rests.wakes(client, at);
        self.world.plan(at, Event::Work { client, slot });
    }

    /// Lets the world go on until `done`, for at most `patience`.
    pub(crate) fn wait_for(&mut self, patience: Duration, mut done: impl FnMut(&mut Run) -> bool) -> bool {
        let end = self.world.now + patience;
        loop {
            if done(self) {
                return true;
            }
            // Looking after every event costs more than the events: look a few times a second.
            let look: Instant = (self.world.now + Duration::from_millis(50)).min(end);
            while let Some(event) = self.world.step(look) {
                self.handle(event);
            }
            if self.world.now >= end || !self.world.failures.is_empty() {
                return done(self);
            }
        }
    }

    pub(crate) fn osds_up(&self, client: usize) -> usize {
        let node = &self.world.nodes[self.cluster.client(client).0];
        let map = node.client().and_then(|client| client.map());
        map.map_or(0, |map| map.osd_counts().up)
    }

    fn find_pool(&self, client: usize) -> Option<PoolId> {
        self.world.nodes[self.cluster.client(client).0].client()?.map()?.pool_id(POOL_NAME)
    }

    /// Records a failure, with the daemons' last words. Always false.
    pub(crate) fn fail(&mut self, what: String) -> bool {
        let log: Vec<&str> = self.world.log.iter().map(String::as_str).collect();
        let last = log[log.len().saturating_sub(40)..].join("\n  ");
        self.world.failures.push(format!("{what}\n  {last}"));
        false
    }

    fn report(mut self) -> Report {
        self.world.failures.append(&mut self.work.complaints);
        let (operations, unknown) = self.work.history.counts();
        Report {
            seed: self.options.seed,
            trace_hash: self.world.trace.hash(),
            events: self.world.events,
            simulated: self.world.now.since(BEGINNING),
            operations,
            unknown,
            faults: self.faults,
            snapshots: self.known_pool().map_or(0, |pool| pool.snap_seq.0),
            disk_lost: self.disk_lost,
            failures: self.world.failures,
            command: self.options.command(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ailing::AILS_PER_FAULT;
    use crate::check::linear::Ask;
    use crate::faults::Faults;

    /// A cluster that has its pool.
    fn prepared(options: &Options) -> Run {
        let mut run = Run::new(options);
        for id in 0..run.world.nodes.len() {
            run.cluster.start(&mut run.world, NodeId(id));
        }
        assert!(run.prepare());
        run
    }

    /// A write came to its OSD long after its client had given it up, and after what was to be the last look at the
    /// object: the listing then named what the read had not found.
    #[test]
    fn what_is_under_way_has_arrived_before_the_last_look() {
        for has_session in [true, false] {
            let options = Options { faults: Faults::none(), pg_num: 1, ..Options::new(4) };
            let mut run = prepared(&options);
            let write = |object| workload::request(run.pool, object, Ask::Write(7)).within(Duration::from_secs(1));
            let (first, second) = (write(0), write(1));
            if has_session {
                run.submit(1, OpId(1 << 50), first);
                assert!(!run.wait_for(Duration::from_secs(2), |_| false));
            }
            let until = run.world.now + Duration::from_secs(5);
            for osd in 0..options.osds {
                run.world.network.separate(run.cluster.client(1), run.cluster.osd(osd), until);
            }
            run.submit(1, OpId(1 << 51), second);
            assert!(!run.wait_for(Duration::from_secs(2), |_| false));
            assert!(run.heal() && run.read_everything(), "{:?}", run.world.failures);
            assert!(run.world.now > until && run.work.found().contains("object.1"), "{has_session}");
        }
    }

    #[test]
    fn writes_wait_while_disks_are_full_and_go_on_when_there_is_room() {
        let options = Options { faults: Faults::none(), full_disks: true, store: "memory", ..Options::new(4) };
        let mut run = prepared(&options);
        let is_full = |run: &mut Run| run.known_pool().is_some_and(|pool| pool.is_full());
        for osd in 0..options.osds {
            run.world.fill(run.cluster.osd(osd), 25, Duration::from_secs(60));
        }
        assert!(run.wait_for(Duration::from_secs(10), is_full));
        for _ in 0..40 {
            let (id, request) = run.work.next(run.pool, 0, false);
            run.submit(0, id, request);
        }
        assert!(!run.wait_for(Duration::from_secs(5), |run| run.work.in_flight() == 0), "writes wait");
        assert!(run.work.in_flight() < 20, "reads do not, nor who is told that there is no room");
        run.world.empty_disks();
        assert!(run.wait_for(Duration::from_secs(10), |run| run.work.in_flight() == 0 && !is_full(run)));
        assert_eq!((run.world.failures, run.work.complaints), (vec![], vec![]));
    }

    /// In a cluster of nine, one machine that lost its power led to three such a second, for as long as the run went on: who
    /// died of a disk that hung came back, and two others' disks hung for that.
    #[test]
    fn disks_that_hang_when_a_machine_comes_back_do_not_go_on_so_for_ever() {
        let (ambushes, disk_loss) = (false, false);
        let options = Options { osds: 9, faults: Faults::none(), ambushes, disk_loss, ..Options::new(4) };
        let mut run = prepared(&options);
        (run.faulty, run.world.ails.begun) = (true, true);
        run.crash(run.cluster.osd(0), 1);
        assert!(!run.wait_for(Duration::from_secs(120), |_| false));
        let lives: u32 = (0..options.osds).map(|osd| run.world.nodes[run.cluster.osd(osd).0].life).sum();
        assert!(lives > options.osds + 1, "others' disks hung");
        assert!(lives <= options.osds * (1 + AILS_PER_FAULT) + 1, "{lives} lives");
    }

    #[test]
    fn a_read_at_a_snapshot_is_judged_as_one_of_its_time() {
        let options = Options { faults: Faults::none(), snap_reads: true, ..Options::new(4) };
        let mut run = prepared(&options);
        let write = |run: &mut Run, token| {
            let (id, request) = run.work.begin(run.pool, 0, Ask::Write(token), 0);
            run.submit(0, id, request);
            assert!(run.wait_for(Duration::from_secs(5), |run| run.work.in_flight() == 0));
        };
        write(&mut run, 1);
        run.snapshot();
        let is_there = |run: &mut Run| run.known_pool().is_some_and(|pool| !pool.snaps.is_empty());
        assert!(run.wait_for(Duration::from_secs(5), is_there));
        write(&mut run, 2);
        for as_if_of_now in [false, true] {
            let pool = run.known_pool().expect("it was just seen");
            let (snap, asked_at) = run.snapshots.readable(&pool)[0];
            let since = if as_if_of_now { run.work.history.now() } else { asked_at };
            let (id, request) = run.work.final_read(run.pool, 0);
            let request = run.work.at_snapshot(id, request, snap, since);
            run.submit(0, id, request);
            assert!(run.wait_for(Duration::from_secs(5), |run| run.work.in_flight() == 0));
            assert_eq!(run.work.history.complaints().is_empty(), !as_if_of_now);
        }
    }
}
