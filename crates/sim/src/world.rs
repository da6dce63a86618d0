//! The world: nodes, network and time, and the one loop that moves them.
//!
//! An event happens, one node takes it, does everything that follows at once, and plans what it has to do later. The
//! same seed plans the same events.
//!
//! Read next: `streams` and `disks` (what nodes ask of the network and of their disks), `known_maps`,
//! `cluster` (who lives here), `run` (what a run consists of).

mod disks;
mod known_maps;
mod streams;

use crate::ailing::Ails;
use crate::ambush::Ambush;
use crate::check::deliveries::Deliveries;
use crate::check::logs::Logs;
use crate::check::queues;
use crate::disk::Stored;
use crate::faults::Fault;
use crate::network::{Network, PipeId, Side};
use crate::node::{Disk, Engine, Node, NodeId, Output};
use crate::options::Options;
use crate::queue::Queue;
use crate::regroup::Regroups;
use crate::rifts::Rifts;
use crate::rushes::Rushes;
use crate::trace::Trace;
use base::{Duration, Epoch, Instant, Rng};
use bytes::Bytes;
use core::net::SocketAddr;
use maps::OsdMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::msgr::StreamFault;
use wire::net::ConnId;
use wire::types::EntityAddr;

/// The date on which every run begins.
pub(crate) const BEGINNING: Instant = Instant::from_secs(1_800_000_000);
/// How often a node may wake without time passing: beyond, it is caught in a loop.
const SPINS_MAX: u32 = 1000;
/// How often queues and disks are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// A node's deadline.
    Wake(NodeId),
    /// The same, past already: the node was busy.
    Due(NodeId),
    /// An attempt to connect arrives.
    Dial { pipe: PipeId, to: SocketAddr },
    /// The answer to it arrives.
    Dialed { pipe: PipeId, accepted: bool },
    /// Bytes arrive.
    Bytes { pipe: PipeId, side: Side, bytes: Bytes },
    /// An end learns that the other has closed.
    Closed { pipe: PipeId, side: Side },
    /// An end learns that the pipe is cut.
    Cut { pipe: PipeId, side: Side },
    /// A disk has finished something.
    Stored { node: NodeId, life: u32, what: Stored },
    /// A drive has something to do.
    Disk { node: NodeId, life: u32 },
    /// A node starts again.
    Start(NodeId),
    /// A node's processor has time for what has come meanwhile.
    Free(NodeId),
    /// The next fault.
    Fault,
    /// A fault that has waited for this moment, on this node.
    Caught { kind: Fault, node: NodeId },
    /// A disk begins to hang, before a machine comes back.
    Ail { back_at: Instant },
    /// A node gives up this session, amid a fetch.
    Rift { node: NodeId, conn: ConnId },
    /// A client looks at some object beside its work.
    Look { client: usize },
    /// A client goes on with its work.
    Work { client: usize, slot: u32 },
}

/// The world.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Network,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) events: u64,
    pub(crate) failures: Vec<String>,
    /// What daemons wrote to their logs, the last lines.
    pub(crate) log: VecDeque<String>,
    /// Who is told each line at once.
    pub(crate) listener: Option<fn(&str)>,
    /// What waits for its moment.
    pub(crate) ambush: Option<Ambush>,
    /// Whose disks hang, and whose machines will lose their power.
    pub(crate) ails: Ails,
    /// Decides which disks fill up: one more.
    pub(crate) fills: Rng,
    /// What happens while the number of groups changes: another one.
    pub(crate) regroups: Regroups,
    /// When clients hurry.
    pub(crate) rushes: Rushes,
    /// When sessions end amid a fetch.
    pub(crate) rifts: Rifts,
    queue: Queue<Event>,
    /// What OSDs have told one another.
    deliveries: Deliveries,
    /// What placement groups have agreed on.
    logs: Logs,
    /// The checksum of each map that anybody was seen to have.
    maps: BTreeMap<Epoch, u32>,
    /// The last of them.
    newest_maps: VecDeque<Arc<OsdMap>>,
    /// When somebody looks around next.
    look_at: Instant,
}

/// Log lines kept for the report of a failure.
const LOG_LINES_KEPT: usize = 200;

impl World {
    pub(crate) fn new(options: &Options) -> World {
        let seed = options.seed;
        let mut rng = Rng::new(seed);
        World {
            now: BEGINNING,
            nodes: Vec::new(),
            network: Network::new(rng.fork(), options.lossy, options.link_kb_s),
            rng,
            trace: Trace::new(),
            events: 0,
            failures: Vec::new(),
            log: VecDeque::new(),
            listener: None,
            ambush: None,
            ails: Ails::new(seed, options.racks),
            fills: Rng::new(seed ^ 0x0000_6669_6C6C_7321),
            regroups: Regroups::new(seed, options.regroups),
            rushes: Rushes::new(seed, options.rushes),
            rifts: Rifts::new(seed, options.rifts),
            queue: Queue::new(),
            deliveries: Deliveries::default(),
            logs: Logs::default(),
            maps: BTreeMap::new(),
            newest_maps: VecDeque::new(),
            look_at: BEGINNING,
        }
    }

    /// Plans an event.
    pub(crate) fn plan(&mut self, at: Instant, event: Event) {
        self.queue.plan(at.max(self.now), event);
    }

    /// Takes the next event up to `until`. Those that concern a node are carried out; the others are returned.
    pub(crate) fn step(&mut self, until: Instant) -> Option<Event> {
        while self.queue.next_at().is_some_and(|at| at <= until) {
            let (at, event) = self.queue.pop().expect("there is a next event");
            self.now = at;
            self.events += 1;
            if at >= self.look_at {
                self.look_around();
            }
            self.trace.number(at.0);
            match event {
                Event::Fault | Event::Caught { .. } | Event::Ail { .. } => return Some(event),
                Event::Work { .. } | Event::Look { .. } | Event::Start(_) => return Some(event),
                event => {
                    let happened = self.ended(event).and_then(|event| self.in_turn(event));
                    let happened = happened.and_then(|event| self.happen(event));
                    if let Some(node) = happened {
                        let node_time = &mut self.nodes[node.0];
                        node_time.busy_until = node_time.busy_until.max(at + node_time.input_cost);
                        self.settle(node);
                        return Some(Event::Wake(node));
                    }
                }
            }
        }
        self.now = until;
        None
    }

    /// What happens now: the event itself, or what has waited longer, or nothing if its node is busy.
    fn in_turn(&mut self, event: Event) -> Option<Event> {
        let now = self.now;
        if let Event::Free(id) = event {
            let node = &mut self.nodes[id.0];
            if node.busy_until > now {
                let at = node.busy_until;
                self.plan(at, Event::Free(id));
                return None;
            }
            let next = node.inbox.pop_front();
            if !node.inbox.is_empty() {
                let at = now + node.input_cost;
                self.plan(at, Event::Free(id));
            }
            return next;
        }
        let Some(id) = self.concerns(&event) else { return Some(event) };
        let node = &mut self.nodes[id.0];
        if node.busy_until <= now && node.inbox.is_empty() {
            return Some(event);
        }
        let event = match (event, &mut node.running) {
            // A plan that an earlier one replaced is forgotten; a good one has come true, whenever its turn is.
            (Event::Wake(_), Some(running)) if running.wake_at != Some(now) => return None,
            (Event::Wake(_), Some(running)) => {
                running.wake_at = None;
                Event::Due(id)
            }
            (_, None) => return None,
            (event, Some(_)) => event,
        };
        node.inbox.push_back(event);
        if node.inbox.len() == 1 {
            let at = node.busy_until;
            self.plan(at, Event::Free(id));
        }
        None
    }

    /// Whose processor an event needs.
    fn concerns(&self, event: &Event) -> Option<NodeId> {
        match event {
            Event::Wake(id) | Event::Due(id) => Some(*id),
            Event::Stored { node: id, .. } | Event::Rift { node: id, .. } => Some(*id),
            Event::Dial { to, .. } => self.network.listener(*to),
            Event::Dialed { pipe, .. } => self.network.whose(*pipe, 0),
            Event::Bytes { pipe, side, .. } | Event::Closed { pipe, side } | Event::Cut { pipe, side } => {
                self.network.whose(*pipe, *side)
            }
            Event::Disk { .. } | Event::Free(_) | Event::Start(_) => None,
            Event::Fault | Event::Caught { .. } | Event::Ail { .. } | Event::Look { .. } | Event::Work { .. } => None,
        }
        .filter(|id| self.nodes[id.0].running.is_some())
    }

    /// What a node's clock shows.
    pub(crate) fn shown(&self, id: NodeId) -> Instant {
        self.nodes[id.0].clock.shows(self.now)
    }

    /// Lets a node stand still until then.
    pub(crate) fn stall(&mut self, id: NodeId, until: Instant) {
        let node = &mut self.nodes[id.0];
        node.busy_until = node.busy_until.max(until);
    }

    /// Lets a node do everything that follows from what it was told.
    pub(crate) fn settle(&mut self, id: NodeId) {
        while self.pump(id) {}
        let (now, clock) = (self.now, self.nodes[id.0].clock);
        let Some(running) = &mut self.nodes[id.0].running else { return };
        running.check_invariants();
        let wake = [running.engine.next_wakeup(), running.messenger.next_wakeup()].into_iter().flatten().min();
        if let Some(wake) = wake.map(|at| clock.when(at).max(now))
            && running.wake_at.is_none_or(|planned| wake < planned)
        {
            running.wake_at = Some(wake);
            self.plan(wake, Event::Wake(id));
        }
        self.note_map(id);
        self.note_logs(id);
    }

    /// Looks at what waits, and at the room that disks have, everywhere.
    fn look_around(&mut self) {
        self.look_at = self.now + LOOK_EVERY;
        for node in &self.nodes {
            let excess = node.running.as_ref().and_then(queues::excess);
            self.failures.extend(excess.map(|what| format!("{}: {what}", node.name)));
        }
        for id in (0..self.nodes.len()).map(NodeId) {
            if self.tell_room(id) {
                self.settle(id);
            }
        }
    }

    /// Looks at the logs of groups that a node has begun to serve.
    fn note_logs(&mut self, id: NodeId) {
        let node = &self.nodes[id.0];
        let Some(osd) = node.osd() else { return };
        for (pg, peering) in osd.served().filter(|(pg, peering)| self.logs.is_new(*pg, *peering)).collect::<Vec<_>>() {
            if let (Some(pool), Some(log)) = (osd.map().pool(pg.pool), osd.shown_log(pg))
                && let Some(wrong) = self.logs.agreed(pg, peering, pool, log)
            {
                self.failures.push(format!("{}: {wrong}", node.name));
            }
        }
    }

    /// Carries out an event; returns the node that it concerned, if it is still there.
    fn happen(&mut self, event: Event) -> Option<NodeId> {
        match event {
            Event::Wake(id) => self.wake(id),
            Event::Due(id) => self.ring(id),
            Event::Disk { node, life } => {
                self.disk_due(node, life);
                None
            }
            Event::Dial { pipe, to } => self.dialed_at(pipe, to),
            Event::Dialed { pipe, accepted } => self.dialed(pipe, accepted),
            Event::Bytes { pipe, side, bytes } => self.receive(pipe, side, bytes),
            Event::Closed { pipe, side } => {
                let end = self.network.end(pipe, side)?;
                self.network.forget(pipe, side);
                self.broken(end, StreamFault::Broken)
            }
            Event::Cut { pipe, side } => {
                let end = self.network.forget(pipe, side)?;
                self.broken(end, StreamFault::Broken)
            }
            Event::Stored { node, life, what } => self.stored(node, life, what),
            Event::Rift { node, conn } => self.give_up_session(node, conn),
            Event::Free(_)
            | Event::Start(_)
            | Event::Fault
            | Event::Caught { .. }
            | Event::Ail { .. }
            | Event::Look { .. }
            | Event::Work { .. } => {
                unreachable!("these are nothing that a node takes")
            }
        }
    }

    fn wake(&mut self, id: NodeId) -> Option<NodeId> {
        let now = self.now;
        let running = self.nodes[id.0].running.as_mut()?;
        // A plan that an earlier one replaced.
        if running.wake_at != Some(now) {
            return None;
        }
        running.wake_at = None;
        running.spins = if running.woke_at == now { running.spins + 1 } else { 0 };
        running.woke_at = now;
        if running.spins > SPINS_MAX {
            self.failures.push(format!("{} wakes again and again while no time passes", self.nodes[id.0].name));
            return None;
        }
        self.ring(id)
    }

    /// A node's deadline has come.
    fn ring(&mut self, id: NodeId) -> Option<NodeId> {
        let now = self.shown(id);
        let running = self.nodes[id.0].running.as_mut()?;
        self.trace.number(id.0 as u64);
        running.engine.handle_timer(now);
        running.messenger.handle_timer(now);
        self.let_disk_rest(id);
        Some(id)
    }

    /// Carries events, commands and bytes through a node once; tells whether anything moved.
    fn pump(&mut self, id: NodeId) -> bool {
        let now = self.shown(id);
        let Some(running) = &mut self.nodes[id.0].running else { return false };
        let mut moved = false;
        if let Engine::Client(client) = &running.engine
            && client.global_id() != 0
        {
            running.messenger.set_number(client.global_id() as i64);
        }
        let own = EntityAddr::msgr2(self.nodes[id.0].addr, self.nodes[id.0].life);
        let Some(running) = &mut self.nodes[id.0].running else { return false };
        while let Some(event) = running.messenger.poll_event() {
            moved = true;
            if matches!(running.engine, Engine::Osd(_)) {
                self.failures.extend(self.deliveries.heard(own, &event));
            }
            running.engine.handle_net(now, event);
        }
        while let Some(running) = &mut self.nodes[id.0].running {
            let Some(output) = running.engine.poll(now) else { break };
            moved = true;
            self.carry_out(id, output);
        }
        moved | self.pump_streams(id)
    }

    fn carry_out(&mut self, id: NodeId, output: Output) {
        let (now, shown) = (self.now, self.shown(id));
        let node = &mut self.nodes[id.0];
        let life = node.life;
        let done = match (output, &mut node.disk) {
            (Output::Net(command), disk) => {
                if matches!(disk, Disk::Osd(_) | Disk::Extent(_)) {
                    self.deliveries.commanded(EntityAddr::msgr2(node.addr, life), &command);
                }
                let rift = self.rifts.after(now, &command);
                let running = node.running.as_mut().expect("an engine that speaks runs");
                running.messenger.command(shown, command);
                return rift.into_iter().for_each(|rift| self.plan_rift(id, rift));
            }
            (Output::Log(text), _) => {
                let line = format!("{}: {text}", node.name);
                return self.note(&line);
            }
            (Output::Stopped, _) => {
                self.failures.push(format!("{} stopped by itself", node.name));
                return self.kill(id);
            }
            (Output::BeginAgain, _) => {
                self.kill(id);
                return self.plan(now + Duration::from_millis(1), Event::Start(id));
            }
            (Output::Commit(commit, transaction), Disk::Osd(disk)) => {
                match disk.commit(now, commit, transaction, &mut self.rng) {
                    Ok(at) => (at, Stored::Committed(commit)),
                    Err(error) => (now, Stored::Refused(commit, error)),
                }
            }
            (Output::Read(read, request), Disk::Osd(disk)) => {
                (now + disk.read_time(now, &mut self.rng), Stored::Read(read, disk.read(&request)))
            }
            (Output::Commit(commit, transaction), Disk::Extent(disk)) => {
                disk.commit(now, commit, transaction);
                return self.let_disk_work(id);
            }
            (Output::Ahead(ahead, offset, data), Disk::Extent(disk)) => {
                disk.give_ahead(now, ahead, offset, data);
                return self.let_disk_work(id);
            }
            // A disk of memory takes data with its transaction.
            (Output::Ahead(ahead, ..), Disk::Osd(_)) => (now, Stored::Completed(store::Completion::Ahead(ahead))),
            (Output::ForgetAhead(ahead), Disk::Extent(disk)) => return disk.forget_ahead(ahead),
            (Output::ForgetAhead(_), Disk::Osd(_)) => return,
            (Output::Read(read, request), Disk::Extent(disk)) => {
                disk.ask(now, read, request);
                return self.let_disk_work(id);
            }
            (Output::Persist(batch, writes), Disk::Mon(disk)) => {
                (disk.persist(now, batch, writes, &mut self.rng), Stored::Persisted)
            }
            _ => unreachable!("engines only ask disks that they have"),
        };
        self.plan(done.0, Event::Stored { node: id, life, what: done.1 });
    }

    /// Keeps a line for the report of a failure.
    pub(crate) fn note(&mut self, line: &str) {
        let line = format!("{:.6} {line}", self.now.since(BEGINNING).as_secs_f64());
        if let Some(listener) = self.listener {
            listener(&line);
        }
        if self.log.len() == LOG_LINES_KEPT {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }

    /// Ends a node as a crash does: its peers' streams break, its disk keeps what it keeps.
    pub(crate) fn kill(&mut self, id: NodeId) {
        let now = self.now;
        let node = &mut self.nodes[id.0];
        if node.running.take().is_none() {
            return;
        }
        node.busy_until = now;
        // Who dials hears that nobody is there.
        for event in core::mem::take(&mut node.inbox).into_iter().filter(|event| matches!(event, Event::Dial { .. })) {
            self.plan(now, event);
        }
        self.nodes[id.0].disk.crash(&mut self.rng);
        for (pipe, side) in self.network.pipes_of(id) {
            if let Some(at) = self.network.close(now, pipe, side) {
                self.plan(at, Event::Closed { pipe, side: 1 - side });
            }
        }
    }
}
