//! One machine with one daemon or client on it: engine, messenger, streams, disk.
//!
//! Owns what a crash takes away and what it leaves. The engines behind [`Engine`] are those that run in production.

use crate::clock::Clock;
use crate::disk::{MonDisk, OsdDisk};
use crate::extent_disk::ExtentDisk;
use crate::network::{PipeId, Side};
use crate::world::Event;
use base::{Duration, Epoch, Instant, Rng};
use bytes::{Bytes, BytesMut};
use client::Client;
use core::net::SocketAddr;
use maps::OsdMap;
use mon::{BatchWrites, Mon, PersistId};
use osd::Osd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{AheadId, CommitId, ReadId, ReadRequest, ReadResult, StoreError, Transaction};
use wire::auth::Auth;
use wire::msgr::{Messenger, StreamId};
use wire::net::{NetCommand, NetEvent};

/// Names a node: its place among the world's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub(crate) usize);

/// A node.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) addr: SocketAddr,
    /// Counts its lives; what was meant for an earlier one is lost.
    pub(crate) life: u32,
    pub(crate) running: Option<Running>,
    pub(crate) disk: Disk,
    /// Until when its processor is busy, or stands still.
    pub(crate) busy_until: Instant,
    /// What has come meanwhile, in order.
    pub(crate) inbox: VecDeque<Event>,
    /// What each input takes of its processor.
    pub(crate) input_cost: Duration,
    /// What time it believes it is.
    pub(crate) clock: Clock,
}

/// What a node has while it runs.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) messenger: Messenger,
    pub(crate) streams: BTreeMap<StreamId, (PipeId, Side)>,
    pub(crate) buffers: BTreeMap<StreamId, BytesMut>,
    /// When its next wake-up is planned.
    pub(crate) wake_at: Option<Instant>,
    /// When it last woke, and how often since then without time passing.
    pub(crate) woke_at: Instant,
    pub(crate) spins: u32,
    /// The newest map that it was seen to have, and how many OSDs are up and how many groups there are in it.
    pub(crate) epoch: Epoch,
    pub(crate) osds_up: usize,
    pub(crate) pg_nums: u32,
    /// Counts what was done; and what its messenger and its monitor had when they were last looked at as a whole.
    steps: u32,
    census: [u64; 8],
    looked_at: Epoch,
}

/// After so many steps everything is looked at as a whole, whether it seems to have changed or not.
const LOOK_EVERY_STEPS: u32 = 16;

/// What a node keeps.
pub(crate) enum Disk {
    None,
    Mon(Box<MonDisk>),
    Osd(Box<OsdDisk>),
    Extent(Box<ExtentDisk>),
}

impl Disk {
    /// What an OSD's disk answers, at once; none where it is no OSD's.
    pub(crate) fn read(&mut self, request: &ReadRequest) -> Option<Result<ReadResult, StoreError>> {
        match self {
            Disk::Osd(disk) => Some(disk.read(request)),
            Disk::Extent(disk) => Some(disk.read(request)),
            Disk::None | Disk::Mon(_) => None,
        }
    }

    /// What was on an OSD's disk is gone for good; it has another of the same kind.
    pub(crate) fn replace(&mut self, osd: u32, seed: u64) {
        match self {
            Disk::Osd(disk) => disk.replace(),
            Disk::Extent(disk) => disk.replace(osd, seed),
            Disk::Mon(_) | Disk::None => {}
        }
    }

    /// The power goes.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        match self {
            Disk::Osd(disk) => disk.crash(rng),
            Disk::Extent(disk) => disk.crash(rng),
            Disk::Mon(disk) => disk.crash(rng),
            Disk::None => {}
        }
    }
}

/// What runs on a node.
pub(crate) enum Engine {
    Mon(Box<Mon>),
    Osd(Box<Osd>),
    Client(Box<Client>),
}

/// What an engine wants done.
pub(crate) enum Output {
    Net(NetCommand),
    Read(ReadId, ReadRequest),
    Commit(CommitId, Transaction),
    Ahead(AheadId, u64, Bytes),
    ForgetAhead(AheadId),
    Persist(PersistId, BatchWrites),
    Log(String),
    Stopped,
    BeginAgain,
}

impl Engine {
    pub(crate) fn handle_net(&mut self, now: Instant, event: NetEvent) {
        match self {
            Engine::Mon(mon) => mon.handle_net(now, event),
            Engine::Osd(osd) => osd.handle_net(now, event),
            Engine::Client(client) => client.handle_net(now, event),
        }
    }

    pub(crate) fn handle_timer(&mut self, now: Instant) {
        match self {
            Engine::Mon(mon) => mon.handle_timer(now),
            Engine::Osd(osd) => osd.handle_timer(now),
            Engine::Client(client) => client.handle_timer(now),
        }
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        match self {
            Engine::Mon(mon) => mon.next_wakeup(),
            Engine::Osd(osd) => osd.next_wakeup(),
            Engine::Client(client) => client.next_wakeup(),
        }
    }

    pub(crate) fn auth(&mut self) -> &mut dyn Auth {
        match self {
            Engine::Mon(mon) => mon.auth(),
            Engine::Osd(osd) => osd.auth(),
            Engine::Client(client) => client.auth(),
        }
    }

    pub(crate) fn osd(&self) -> Option<&Osd> {
        match self {
            Engine::Osd(osd) => Some(osd),
            Engine::Mon(_) | Engine::Client(_) => None,
        }
    }

    pub(crate) fn osd_mut(&mut self) -> Option<&mut Osd> {
        match self {
            Engine::Osd(osd) => Some(osd),
            Engine::Mon(_) | Engine::Client(_) => None,
        }
    }

    pub(crate) fn check_invariants(&self) {
        match self {
            Engine::Mon(mon) => mon.check_invariants(),
            Engine::Osd(osd) => osd.check_invariants(),
            Engine::Client(client) => client.check_invariants(),
        }
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Output> {
        Some(match self {
            Engine::Mon(mon) => match mon.poll_command()? {
                mon::Command::Net(command) => Output::Net(command),
                mon::Command::Persist { id, batch } => Output::Persist(id, batch),
                mon::Command::Log { text, .. } => Output::Log(text),
                mon::Command::Stopped => Output::Stopped,
            },
            Engine::Osd(osd) => match osd.poll_command()? {
                osd::Command::Net(command) => Output::Net(command),
                osd::Command::Read { id, request } => Output::Read(id, request),
                osd::Command::Commit { id, transaction } => Output::Commit(id, transaction),
                osd::Command::Ahead { id, offset, data } => Output::Ahead(id, offset, data),
                osd::Command::ForgetAhead(id) => Output::ForgetAhead(id),
                osd::Command::Log { text, .. } => Output::Log(text),
                osd::Command::Stopped => Output::Stopped,
                osd::Command::BeginAgain => Output::BeginAgain,
            },
            Engine::Client(client) => Output::Net(client.poll_command(now)?),
        })
    }
}

impl Running {
    pub(crate) fn new(engine: Engine, messenger: Messenger) -> Running {
        Running {
            engine,
            messenger,
            streams: BTreeMap::new(),
            buffers: BTreeMap::new(),
            wake_at: None,
            woke_at: Instant::ZERO,
            spins: 0,
            epoch: Epoch(0),
            osds_up: 0,
            pg_nums: 0,
            steps: 0,
            census: [0; 8],
            looked_at: Epoch(0),
        }
    }

    /// Checks what must always hold: what costs much where something seems to have changed, and now and then.
    pub(crate) fn check_invariants(&mut self) {
        self.engine.check_invariants();
        self.steps = self.steps.wrapping_add(1);
        let anyway = self.steps.is_multiple_of(LOOK_EVERY_STEPS);
        let census = self.messenger.census();
        if anyway || census != self.census {
            self.messenger.check_invariants();
        }
        self.census = census;
        if let Engine::Mon(mon) = &self.engine
            && (anyway || mon.epoch() != self.looked_at)
        {
            mon.check_newest_map();
            self.looked_at = mon.epoch();
        }
    }
}

impl Node {
    /// A node that does not run yet.
    pub(crate) fn new(name: String, addr: SocketAddr, disk: Disk, input_cost: Duration, clock: Clock) -> Node {
        let (busy_until, inbox) = (Instant::ZERO, VecDeque::new());
        Node { name, addr, life: 0, running: None, disk, busy_until, inbox, input_cost, clock }
    }

    /// The map that the engine on this node knows, while it runs; the monitor's own is not asked for.
    pub(crate) fn map(&self) -> Option<&Arc<OsdMap>> {
        match &self.running.as_ref()?.engine {
            Engine::Osd(osd) => Some(osd.map()),
            Engine::Client(client) => client.map(),
            Engine::Mon(_) => None,
        }
    }

    /// The OSD on this node, while it runs.
    pub(crate) fn osd(&self) -> Option<&Osd> {
        self.running.as_ref()?.engine.osd()
    }

    /// The client on this node, while it runs.
    pub(crate) fn client(&self) -> Option<&Client> {
        match &self.running.as_ref()?.engine {
            Engine::Client(client) => Some(client),
            Engine::Mon(_) | Engine::Osd(_) => None,
        }
    }

    /// The client on this node, while it runs.
    pub(crate) fn client_mut(&mut self) -> Option<&mut Client> {
        match &mut self.running.as_mut()?.engine {
            Engine::Client(client) => Some(client),
            Engine::Mon(_) | Engine::Osd(_) => None,
        }
    }
}
