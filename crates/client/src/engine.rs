//! The client as its driver sees it: the monitor client and the objecter behind one set of inputs and outputs.
//!
//! Read next: `objecter`.

use crate::objecter::{Objecter, Wish};
use crate::request::{Completion, OpId, Request};
use crate::tell::Tells;
use base::rng::SecretRng;
use base::{Epoch, Errno, Instant, OsdId, Rng};
use bytes::Bytes;
use maps::OsdMap;
use monclient::{Handled, MonClient, MonClientConfig, MonEvent};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::net::{CloseReason, ConnIds, NetCommand, NetEvent};
use wire::types::EntityType;

/// Who the client is and where the monitors are.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What the monitor client needs.
    pub mon: MonClientConfig,
    /// The features that requests claim.
    pub features: u64,
    /// Whether the monitor is to send every map as it comes. If not, maps are asked for when something waits for one,
    /// once at a time, as librados does.
    pub follows_maps: bool,
}

/// The caller's name for a command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId(pub u64);

/// A monitor's or an OSD's answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandReply {
    /// Which.
    pub id: CommandId,
    /// 0, or an errno negated.
    pub result: i32,
    /// A line for the terminal.
    pub status: String,
    /// The output.
    pub output: Bytes,
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct Client {
    mon: MonClient,
    objecter: Objecter,
    tells: Tells,
    conns: ConnIds,
    follows_maps: bool,
    /// From which epoch on maps were asked for once, and have not come.
    asked_from: Option<Epoch>,
    commands: BTreeMap<u64, CommandId>,
    replies: VecDeque<CommandReply>,
    denied: Option<Errno>,
}

impl Client {
    /// A client that looks for a monitor at the next `poll_command`.
    pub fn new(now: Instant, config: ClientConfig, mut rng: SecretRng) -> Client {
        let objecter = Objecter::new(now, config.features, Rng::new(rng.u64()));
        let mut client = Client {
            mon: MonClient::new(now, config.mon, rng),
            objecter,
            tells: Tells::default(),
            conns: ConnIds::default(),
            follows_maps: config.follows_maps,
            asked_from: None,
            commands: BTreeMap::new(),
            replies: VecDeque::new(),
            denied: None,
        };
        client.want_maps(Epoch(0));
        client
    }

    /// Takes a request on. EBUSY if there are too many, EEXIST if another has its id; the request is dropped then.
    pub fn submit(&mut self, now: Instant, id: OpId, request: Request) -> Result<(), Errno> {
        let submitted = self.objecter.submit(now, id, request);
        self.grant_wishes();
        submitted
    }

    /// Forgets a request: it may still be applied, but will not complete.
    pub fn cancel(&mut self, id: OpId) {
        self.objecter.cancel(id);
    }

    /// Runs a command on the monitor, one JSON object, with its input.
    pub fn command(&mut self, id: CommandId, json: String, input: Bytes) {
        let tid = self.mon.command(vec![json], input);
        self.commands.insert(tid, id);
    }

    /// Runs a command on an OSD, one JSON object, once there is a map that says where it is. ENXIO if the OSD is not up, or
    /// is lost before its answer: it may have run the command then.
    pub fn tell(&mut self, id: CommandId, osd: OsdId, json: String) {
        self.tells.submit(id, osd, json);
    }

    /// How many commands have no answer yet.
    pub fn commands_under_way(&self) -> usize {
        self.commands.len() + self.tells.under_way()
    }

    /// The next completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.objecter.poll_completion()
    }

    /// The next command's answer.
    pub fn poll_reply(&mut self) -> Option<CommandReply> {
        self.replies.pop_front()
    }

    /// Takes an event of the transport.
    pub fn handle_net(&mut self, now: Instant, event: NetEvent) {
        // An OSD that refuses our ticket sees a new one at the next attempt.
        let refused = matches!(event, NetEvent::Closed { why: CloseReason::Denied(_), .. });
        if self.mon.handle_net(now, &event) == Handled::No {
            if refused {
                self.mon.ticket_refused(EntityType::OSD);
                self.mon.handle_timer(now);
            }
            if let Some(event) = self.tells.handle_net(event, &mut self.replies) {
                self.objecter.handle_net(now, event);
            }
        }
        self.drain(now);
    }

    /// To be called at `next_wakeup`, or at any other time.
    pub fn handle_timer(&mut self, now: Instant) {
        self.mon.handle_timer(now);
        self.objecter.handle_timer(now);
        self.drain(now);
    }

    /// When `handle_timer` should be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.mon.next_wakeup().into_iter().chain(self.objecter.next_wakeup()).min()
    }

    /// The next command for the transport.
    pub fn poll_command(&mut self, now: Instant) -> Option<NetCommand> {
        let Client { mon, objecter, tells, conns, replies, .. } = self;
        mon.poll_command(conns)
            .or_else(|| tells.poll_command(objecter.map().map(Arc::as_ref), conns, replies))
            .or_else(|| objecter.poll_command(now, conns))
    }

    /// Who answers handshakes for us.
    pub fn auth(&mut self) -> &mut (impl wire::auth::Auth + use<>) {
        self.mon.auth()
    }

    /// Our number; 0 before a monitor gave one.
    pub fn global_id(&self) -> u64 {
        self.mon.global_id()
    }

    /// The newest OSD map, once there is one.
    pub fn map(&self) -> Option<&Arc<OsdMap>> {
        self.objecter.map()
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> usize {
        self.objecter.in_flight()
    }

    /// Why the last monitor refused us, if one did since a session stood. The search goes on; a tool may rather stop.
    pub fn denied(&self) -> Option<Errno> {
        self.denied
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        self.mon.check_invariants();
        self.objecter.check_invariants();
    }

    fn drain(&mut self, now: Instant) {
        while let Some(event) = self.mon.poll_event() {
            match event {
                MonEvent::OsdMap(maps) => {
                    self.objecter.handle_maps(now, &maps);
                    if let Some(map) = self.objecter.map() {
                        self.mon.got("osdmap", u64::from(map.epoch.0));
                        self.asked_from = self.asked_from.filter(|from| *from > map.epoch);
                    }
                }
                MonEvent::Version { newest, .. } => {
                    let newest = Epoch(u32::try_from(newest).unwrap_or(u32::MAX));
                    self.objecter.handle_newest_epoch(now, newest);
                }
                MonEvent::CommandReply { tid, reply } => {
                    if let Some(id) = self.commands.remove(&tid) {
                        let (result, status, output) = (reply.result, reply.status, reply.output);
                        self.replies.push_back(CommandReply { id, result, status, output });
                    }
                }
                MonEvent::CommandDropped { tid } => {
                    if let Some(id) = self.commands.remove(&tid) {
                        let (result, status) = (Errno::EBUSY.code(), "too many commands at once".to_owned());
                        self.replies.push_back(CommandReply { id, result, status, output: Bytes::new() });
                    }
                }
                MonEvent::Denied(errno) => self.denied = Some(errno),
                MonEvent::Ready => self.denied = None,
                MonEvent::Lost
                | MonEvent::Rotating
                | MonEvent::Config(_)
                | MonEvent::MonMap(_)
                | MonEvent::MgrMap(_)
                | MonEvent::Message(_) => {}
            }
        }
        self.grant_wishes();
    }

    fn grant_wishes(&mut self) {
        while let Some(wish) = self.objecter.poll_wish() {
            match wish {
                Wish::Maps(epoch) => self.want_maps(epoch),
                Wish::NewestEpoch => {
                    self.mon.get_version("osdmap");
                }
            }
        }
        if !self.follows_maps && self.objecter.waits_for_map() {
            self.want_maps(self.objecter.next_epoch());
        }
    }

    /// Asks for the maps from `from` on: for all of them, or once, and not again while no answer has come.
    fn want_maps(&mut self, from: Epoch) {
        if self.follows_maps || self.asked_from.replace(from) != Some(from) {
            self.mon.subscribe("osdmap", u64::from(from.0), !self.follows_maps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Target;
    use base::PoolId;
    use maps::Incremental;
    use std::net::SocketAddr;
    use wire::Encode;
    use wire::cephx::AuthName;
    use wire::messages::{Message, OsdMap as OsdMapMessage};
    use wire::net::{ConnId, Envelope, Peer, TicketCaps};
    use wire::types::{AddrVec, EntityAddr, EntityName, UTime, Uuid};

    const NOW: Instant = Instant::from_secs(1_800_000_000);
    const FSID: Uuid = Uuid([3; 16]);

    /// A client with a session with a monitor.
    fn client(follows_maps: bool) -> (Client, ConnId) {
        let mon_addr = AddrVec::one(EntityAddr::msgr2(SocketAddr::from(([127, 0, 0, 1], 3300)), 0));
        let mon = MonClientConfig::new(AuthName::new(EntityType::CLIENT, "a"), None, vec![mon_addr.clone()]);
        let config = ClientConfig { mon, features: 7, follows_maps };
        let mut client = Client::new(NOW, config, SecretRng::from_entropy([1; 32]));
        let Some(NetCommand::Open { conn, .. }) = client.poll_command(NOW) else { panic!("it looks for a monitor") };
        let peer = Peer {
            name: EntityName::mon(0),
            entity: "mon.".to_owned(),
            called: None,
            addrs: mon_addr,
            socket: None,
            global_id: 0,
            features: 7,
            caps: TicketCaps::default(),
        };
        client.handle_net(NOW, NetEvent::Opened { conn, peer: Arc::new(peer) });
        (client, conn)
    }

    /// The OSD maps that the client has asked for: from when on, and whether once.
    fn asked(client: &mut Client) -> Vec<(u64, bool)> {
        let sent = std::iter::from_fn(|| client.poll_command(NOW)).filter_map(|command| match command {
            NetCommand::Send { envelope: Envelope { message: Message::MonSubscribe(what), .. }, .. } => Some(what.what),
            _ => None,
        });
        sent.filter_map(|what| what.get("osdmap").map(|wanted| (wanted.start, wanted.onetime))).collect()
    }

    /// Tells the client of all maps after its own up to `newest`, none of which has a pool.
    fn tell(client: &mut Client, conn: ConnId, newest: u32) {
        let mut map = client.map().map_or_else(|| OsdMap::new(FSID), |map| (**map).clone());
        let mut maps = OsdMapMessage { fsid: FSID, newest: Epoch(newest), oldest: Epoch(1), ..Default::default() };
        while map.epoch < Epoch(newest) {
            let inc = Incremental::new(FSID, map.epoch.next(), UTime::default());
            map.apply(&inc).expect("a change that fits");
            maps.incremental.insert(inc.epoch, inc.to_bytes());
        }
        if client.map().is_none() {
            maps.full.insert(map.epoch, map.to_bytes());
        }
        client.handle_net(NOW, NetEvent::Message { conn, envelope: Envelope::new(maps) });
    }

    #[test]
    fn who_follows_maps_asks_for_all_of_them_at_once() {
        let (mut client, conn) = client(true);
        assert_eq!(asked(&mut client), [(0, false)]);
        tell(&mut client, conn, 5);
        client.submit(NOW, OpId(1), Request::new(Target::object(PoolId(1), "x")).read(0, 0)).expect("room");
        assert_eq!(asked(&mut client), []);
    }

    #[test]
    fn who_does_not_asks_once_when_something_waits_for_a_map() {
        let (mut client, conn) = client(false);
        assert_eq!(asked(&mut client), [(0, true)]);
        tell(&mut client, conn, 5);
        assert_eq!(asked(&mut client), [], "nothing waits");
        for id in [1, 2] {
            client.submit(NOW, OpId(id), Request::new(Target::object(PoolId(1), "x")).read(0, 0)).expect("room");
        }
        assert_eq!(asked(&mut client), [(6, true)], "for both");
        tell(&mut client, conn, 7);
        assert_eq!(asked(&mut client), [(8, true)], "still without the pool");
        client.handle_net(NOW, NetEvent::Closed { conn, why: CloseReason::Fault });
        let again = std::iter::from_fn(|| client.poll_command(NOW)).count();
        assert_eq!(again, 0, "it waits before it tries again");
    }
}
