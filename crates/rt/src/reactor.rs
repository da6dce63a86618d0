//! One daemon's thread: sockets, mailbox and timers in, engine in the middle, sockets and mailboxes out.
//!
//! Owns the order of work. Stream tasks only read and hand bytes to the messenger; one pump task then lets the engine
//! work off everything that has arrived and writes every stream once. So messages that arrive together cost one wake-up
//! and leave in one write.
//!
//! Refuses to know protocols: the messenger has the bytes, the daemon the meaning.
//!
//! Read next: `stream` (a socket's task), `local` (daemons of this process), `daemon` (what is driven).

use crate::admin_socket::AdminSocket;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::daemon::{Daemon, DaemonFailed, Output};
use crate::gather::{self, Gather};
use crate::hub::{Hub, Letter};
use crate::linger::{Found, Linger};
use crate::local::LocalSessions;
use crate::metrics::PageRequest;
use crate::preemption::Preemption;
use crate::stream::{self, ReadRoom, Stream};
use admin::Transport;
use base::hash::FixedHashMap;
use base::{Duration, Instant, rng::SecretRng};
use bytes::{Bytes, BytesMut};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use wire::msgr::{DoorId, Messenger, MessengerConfig, StreamCommand, StreamFault, StreamId};
use wire::net::{NetCommand, NetEvent, Peer, TicketCaps};
use wire::types::EntityType;

/// What a reactor needs besides its daemon.
#[derive(Debug)]
pub struct ReactorConfig {
    /// The messenger's identity and limits.
    pub messenger: MessengerConfig,
    /// The entity's name, `osd.0`, as other daemons of this process see it.
    pub entity: String,
    /// Where to accept connections: for the messenger's own name, then for each of its doors. Bound already, so that a
    /// taken port is known before anything starts.
    pub listeners: Vec<TcpListener>,
    /// The other daemons of this process.
    pub hub: Option<Hub>,
    /// Seeds the messenger's cookies and nonces.
    pub entropy: [u8; 32],
    /// Where `ceph daemon` asks.
    pub admin_socket: Option<PathBuf>,
    /// Who wants the page of metrics.
    pub pages: Option<mpsc::Receiver<PageRequest>>,
}

/// Asks a running reactor to stop.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    asked: Arc<Notify>,
}

impl Stopper {
    /// Begins a clean stop. May be called from any thread, and more than once.
    pub fn stop(&self) {
        self.asked.notify_one();
    }
}

/// Everything of one daemon, shared by the tasks of its thread.
pub(crate) struct Node<D> {
    pub(crate) clock: Clock,
    pub(crate) daemon: D,
    pub(crate) messenger: Messenger,
    local: Option<LocalSessions>,
    streams: FixedHashMap<StreamId, Rc<Stream>>,
    letters: Vec<Letter>,
    pub(crate) carried: Transport,
    /// What streams read into that have no part of a frame waiting.
    pub(crate) read_buffer: BytesMut,
    pub(crate) read_room: ReadRoom,
    gather: Gather,
    /// Whether messages come in large crowds.
    crowded: bool,
    stopped: bool,
}

/// A node and the bell that wakes its pump.
pub(crate) struct Shared<D> {
    pub(crate) node: RefCell<Node<D>>,
    pub(crate) work: Notify,
}

/// Runs a daemon until it has stopped. Blocks the calling thread, which becomes the daemon's own.
pub fn run<D: Daemon + 'static>(
    config: ReactorConfig,
    stopper: &Stopper,
    make: impl FnOnce(Instant) -> Result<D, DaemonFailed>,
) -> Result<(), DaemonFailed> {
    let entity = config.entity.clone();
    let failed = |reason: std::io::Error| DaemonFailed { daemon: entity.clone(), reason: reason.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let clock = Clock::start();
        let daemon = make(clock.now())?;
        let shared = Rc::new(Shared { node: RefCell::new(Node::new(clock, daemon, &config)), work: Notify::new() });
        let has_neighbours = config.hub.is_some();
        for (door, listener) in config.listeners.into_iter().enumerate() {
            listener.set_nonblocking(true).map_err(failed)?;
            let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
            spawn_local(accept(listener, DoorId(door), shared.clone()));
        }
        let _admin_socket = config.admin_socket.as_deref().and_then(|path| {
            // Nobody needs it to store data: a path too long for a socket, or a full disk, is not worth a refusal.
            let failed = |error| tracing::warn!("{}: no admin socket: {error}", path.display());
            AdminSocket::serve(path, &shared).map_err(failed).ok()
        });
        if let Some(pages) = config.pages {
            spawn_local(make_pages(pages, shared.clone()));
        }
        let bells = shared.node.borrow().daemon.bells().map_err(failed)?;
        for bell in bells {
            let bell = Bell::new(bell).map_err(failed)?;
            spawn_local(answer_bell(bell, shared.clone()));
        }
        shared.work.notify_one();
        let pump = pump(shared, stopper.clone());
        if has_neighbours {
            // Letters come from other threads: those wake soonest the future that is blocked on.
            return pump.await;
        }
        // Bytes come from tasks of this thread: as one of them it stands behind them in the queue, and does not begin
        // each of its turns with another look at the sockets.
        spawn_local(pump).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    })
}

/// Makes the page of metrics for whoever asks.
async fn make_pages<D: Daemon + 'static>(mut asked: mpsc::Receiver<PageRequest>, shared: Rc<Shared<D>>) {
    while let Some(reply) = asked.recv().await {
        let node = shared.node.borrow();
        // Whoever asked may have left: then nobody reads the page.
        let _ = reply.send(node.daemon.metrics(node.clock.now()));
    }
}

/// Wakes the pump whenever a disk has something to say.
async fn answer_bell<D: Daemon + 'static>(bell: Bell, shared: Rc<Shared<D>>) {
    while bell.rung().await.is_ok() {
        shared.work.notify_one();
    }
}

/// How long an accept that failed for want of file descriptors waits before it tries again.
const ACCEPT_RETRY: std::time::Duration = std::time::Duration::from_millis(50);

async fn accept<D: Daemon + 'static>(listener: tokio::net::TcpListener, door: DoorId, shared: Rc<Shared<D>>) {
    loop {
        match listener.accept().await {
            Ok((socket, from)) => {
                let mut node = shared.node.borrow_mut();
                let now = node.clock.now();
                let id = node.messenger.accepted_at(now, from, door);
                node.add_stream(&shared, id, socket);
                shared.work.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connect<D: Daemon + 'static>(id: StreamId, to: SocketAddr, shared: Rc<Shared<D>>) {
    let connected = tokio::net::TcpStream::connect(to).await;
    let mut node = shared.node.borrow_mut();
    let now = node.clock.now();
    match connected.and_then(|socket| Ok((socket.local_addr()?, socket))) {
        Ok((local, socket)) => {
            node.messenger.connected(now, id, local);
            // The messenger may have changed its mind meanwhile: then nothing waits for this stream, and it closes.
            if node.messenger.outgoing(id).is_some() {
                node.add_stream(&shared, id, socket);
            }
        }
        Err(error) => node.messenger.stream_failed(now, id, fault(&error)),
    }
    shared.work.notify_one();
}

/// Only a refusal says that no process is there. A host or network that cannot be reached may well live, and serve.
fn fault(error: &std::io::Error) -> StreamFault {
    match error.kind() {
        ErrorKind::ConnectionRefused => StreamFault::Refused,
        _ => StreamFault::Broken,
    }
}

async fn pump<D: Daemon + 'static>(shared: Rc<Shared<D>>, stopper: Stopper) -> Result<(), DaemonFailed> {
    let mailbox = shared.node.borrow().local.as_ref().map(|l| l.mailbox().clone());
    let arrival = async || match &mailbox {
        Some(mailbox) => mailbox.arrival().await,
        None => std::future::pending().await,
    };
    let mut armed: Option<Instant> = None;
    let sleep = tokio::time::sleep(std::time::Duration::ZERO);
    tokio::pin!(sleep);
    let (mut linger, mut preemption, mut awake) = (Linger::default(), Preemption::default(), false);
    loop {
        tokio::select! {
            biased;
            () = shared.work.notified() => {}
            () = arrival() => {}
            // The sockets were looked at once more, in vain.
            () = tokio::task::yield_now(), if awake => {
                std::thread::yield_now();
                let node = shared.node.borrow();
                awake = linger.stays_awake(node.clock.now(), node.daemon.linger());
                continue;
            }
            () = &mut sleep, if armed.is_some() => armed = None,
            () = stopper.asked.notified() => {
                let mut node = shared.node.borrow_mut();
                let now = node.clock.now();
                node.daemon.shutdown(now);
            }
        }
        let has_work = {
            let mut node = shared.node.borrow_mut();
            let known = node.carried.msgr_recv_messages.0;
            node.turn(&shared)?;
            if node.stopped {
                return Ok(());
            }
            let (now, limit) = (node.clock.now(), node.daemon.linger());
            linger.worked(now, node.carried.msgr_recv_messages.0 - known, limit);
            awake = linger.stays_awake(now, limit);
            node.crowded = linger.gives_way();
            if let Err(error) = preemption.give_way(node.crowded) {
                tracing::debug!(%error, "changing the scheduling policy failed");
            }
            // A deadline that moved later is met early and armed anew; so moving one costs nothing per message.
            let next = node.next_wakeup();
            if next.is_some_and(|at| armed.is_none_or(|armed| at < armed)) {
                armed = next;
                sleep.as_mut().reset(node.clock.deadline(next.expect("checked above")));
            }
            node.daemon.has_work()
        };
        if has_work {
            shared.work.notify_one();
            tokio::task::yield_now().await;
        }
    }
}

impl<D: Daemon + 'static> Node<D> {
    fn new(clock: Clock, daemon: D, config: &ReactorConfig) -> Node<D> {
        let messenger = Messenger::new(config.messenger.clone(), SecretRng::from_entropy(config.entropy));
        let local = config.hub.clone().map(|hub| {
            let me = Peer {
                name: config.messenger.me,
                entity: config.entity.clone(),
                called: None,
                addrs: config.messenger.addrs.clone(),
                socket: None,
                global_id: 0,
                features: config.messenger.supported_features,
                caps: TicketCaps { allow_all: true, ..TicketCaps::default() },
            };
            LocalSessions::new(hub, me)
        });
        let (streams, letters, carried) = (FixedHashMap::default(), Vec::new(), Transport::default());
        let read_buffer = BytesMut::new();
        let (read_room, gather) = Default::default();
        Node {
            clock,
            daemon,
            messenger,
            local,
            streams,
            letters,
            carried,
            read_buffer,
            read_room,
            gather,
            crowded: false,
            stopped: false,
        }
    }

    /// Works off everything that has arrived, then writes everything that is to leave.
    fn turn(&mut self, shared: &Rc<Shared<D>>) -> Result<(), DaemonFailed> {
        let began = self.clock.now();
        let mut now = began;
        if self.messenger.next_wakeup().is_some_and(|at| at <= now) {
            self.messenger.handle_timer(now);
        }
        if self.daemon.next_wakeup().is_some_and(|at| at <= now) {
            self.daemon.handle_timer(now);
        }
        let sent = self.carried.msgr_send_messages.0;
        while self.step(&mut now)? {}
        let ready = self.carried.msgr_send_messages.0 - sent;
        let mut waited = self.wait_for_answers(&mut now, ready)?;
        self.send(now, shared);
        if self.gather.wants_commit(now, self.crowded && !self.stopped, self.daemon.reads(), self.daemon.committing()) {
            let took = self.wait_for_disk(&mut now, 1)?;
            self.gather.waited_for_commit(took);
            self.send(now, shared);
            waited += took;
        }
        let busy = self.clock.now().since(began).saturating_sub(waited);
        self.carried.msgr_running_total_time.0 += u64::try_from(busy.as_nanos()).unwrap_or(0);
        self.carried.msgr_active_connections.0 = self.streams.len() as u64;
        self.daemon.note_transport(&self.carried);
        Ok(())
    }

    /// Opens and closes streams as the messenger wants, and writes everything that is to leave.
    fn send(&mut self, now: Instant, shared: &Rc<Shared<D>>) {
        while let Some(command) = self.messenger.poll_stream_command() {
            match command {
                StreamCommand::Connect { stream, to } => drop(spawn_local(connect(stream, to, shared.clone()))),
                StreamCommand::Close { stream, peer, why } => {
                    tracing::debug!(%peer, %why, "stream closed");
                    if let Some(stream) = self.streams.remove(&stream) {
                        stream.close();
                    }
                }
            }
        }
        while let Some(id) = self.messenger.poll_dirty() {
            self.write(now, id, shared);
        }
    }

    /// Waits for the others of a crowd of which so many answers are ready, where that pays; how long it took.
    fn wait_for_answers(&mut self, now: &mut Instant, ready: u64) -> Result<Duration, DaemonFailed> {
        let wanted = self.gather.wanted(*now, self.crowded, ready, self.daemon.owed());
        let Some(count) = wanted.filter(|_| !self.stopped) else { return Ok(Duration::ZERO) };
        let took = self.wait_for_disk(now, count)?;
        self.gather.waited(took);
        Ok(took)
    }

    /// Waits until the disk has ended so many requests, and works off what they were for; how long the wait took.
    fn wait_for_disk(&mut self, now: &mut Instant, requests: u64) -> Result<Duration, DaemonFailed> {
        let began = self.clock.now();
        self.daemon.wait_for_disk(requests, gather::LIMIT)?;
        *now = self.clock.now();
        let took = now.since(began);
        while self.step(now)? {}
        Ok(took)
    }

    /// Answers a request of the admin socket.
    pub(crate) fn admin(&mut self, request: &str) -> Bytes {
        let now = self.clock.now();
        self.daemon.note_transport(&self.carried);
        self.daemon.admin(now, request)
    }

    /// One round: events to the engine, its commands out. False when nothing was left to do. `now` goes on with the work,
    /// and never back from one round to the next.
    fn step(&mut self, now: &mut Instant) -> Result<bool, DaemonFailed> {
        let mut worked = false;
        if let Some(local) = &mut self.local {
            local.mailbox().take(&mut self.letters);
            for letter in self.letters.drain(..) {
                local.receive(letter);
            }
        }
        while let Some(event) = self.next_event() {
            self.carried.msgr_recv_messages.0 += u64::from(matches!(event, NetEvent::Message { .. }));
            self.daemon.handle_net(*now, event);
            worked = true;
        }
        // What has arrived together is done together: looking at the clock again shows how long that took.
        *now = self.clock.now();
        while let Some(output) = self.daemon.poll(*now)? {
            worked = true;
            match output {
                Output::Stopped => {
                    self.stopped = true;
                    break;
                }
                Output::Net(command) => {
                    self.carried.msgr_send_messages.0 += u64::from(matches!(command, NetCommand::Send { .. }));
                    let elsewhere = match &mut self.local {
                        Some(local) => local.command(command),
                        None => Some(command),
                    };
                    if let Some(command) = elsewhere {
                        self.messenger.command(*now, command);
                    }
                }
            }
        }
        if let Some(local) = &mut self.local {
            local.flush();
        }
        Ok(worked && !self.stopped)
    }

    fn next_event(&mut self) -> Option<NetEvent> {
        self.local.as_mut().and_then(LocalSessions::poll_event).or_else(|| self.messenger.poll_event())
    }

    fn next_wakeup(&self) -> Option<Instant> {
        [self.messenger.next_wakeup(), self.daemon.next_wakeup()].into_iter().flatten().min()
    }

    fn add_stream(&mut self, shared: &Rc<Shared<D>>, id: StreamId, socket: tokio::net::TcpStream) {
        // Small replies must not wait for the peer's acknowledgements.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "setting TCP_NODELAY failed");
        }
        self.carried.msgr_created_connections.inc();
        self.streams.insert(id, Rc::new(Stream::new(id, socket, shared)));
    }

    fn write(&mut self, now: Instant, id: StreamId, shared: &Rc<Shared<D>>) {
        let Some(stream) = self.streams.get(&id) else { return };
        match stream.write(now, id, &mut self.messenger, &mut self.carried) {
            Ok(true) => {}
            Ok(false) => stream::write_when_ready(id, stream, shared),
            Err(error) => self.fail_stream(id, &error),
        }
    }

    /// Hands over bytes that a stream's task has read, of which `count` are new; gives how many events that made, which
    /// `found` counts too.
    pub(crate) fn received(&mut self, id: StreamId, buffer: &mut BytesMut, count: usize, found: &mut Found) -> usize {
        self.carried.msgr_recv_bytes.add(count as u64);
        let (now, waiting) = (self.clock.now(), self.messenger.events_waiting());
        self.messenger.received(now, id, buffer, self.daemon.auth());
        let events = self.messenger.events_waiting().saturating_sub(waiting);
        if events > 0 {
            found.note(events as u64);
            if !found.are_crowds() {
                let peer = self.messenger.peer_of(id);
                self.gather.asked_alone(now, peer.is_some_and(|peer| peer.name.kind == EntityType::CLIENT));
            }
        }
        events
    }

    /// A stream broke: the messenger decides what that means.
    pub(crate) fn fail_stream(&mut self, id: StreamId, error: &std::io::Error) {
        if let Some(stream) = self.streams.remove(&id) {
            stream.close();
            let now = self.clock.now();
            self.messenger.stream_failed(now, id, fault(error));
        }
    }
}
