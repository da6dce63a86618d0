//! Sessions between OSDs that both live, given up while an object is on its way from one to the other.
//!
//! A fetch takes some hundred microseconds where all is well: a session that ends at a random moment, and whose OSDs live
//! on, ends beside it. What was asked and will not be answered must be asked again, and no new interval sees to that.
//! Now and then it is the disk of whoever receives the object that keeps it from reading what it is sent: what it has
//! fetched is not durable then when it is asked again.

use crate::faults::short_time;
use crate::node::NodeId;
use crate::world::{Event, World};
use base::{Duration, Instant, Rng};
use osd::limits::PEER_PROBE_INTERVAL;
use wire::messages::Message;
use wire::net::{ConnId, NetCommand};

/// When sessions are given up.
#[derive(Debug)]
pub(crate) struct Rifts {
    /// A stream of its own, so that the rest is drawn as without.
    rng: Rng,
    /// How many more there are in a run, and until when.
    left: u32,
    until: Instant,
}

/// How long after the last other fault there are some: what comes back then is what is fetched.
pub(crate) const LAST: Duration = Duration::from_secs(5);
/// The most in a run.
const RIFTS_MAX: u32 = 48;
/// One in how many messages that carry an object, or ask for one, does it.
const TAKEN_ONE_IN: u64 = 4;
/// At most so long after it: the slowest disks take some milliseconds for a read.
const AFTER_NANOS: u64 = 8_000_000;
/// How long at the most a disk hangs on once there is another session.
const HANGS_ON_NANOS: u64 = 32_000_000;

/// A session that will end.
#[derive(Debug)]
pub(crate) struct Rift {
    pub(crate) conn: ConnId,
    /// How much later.
    pub(crate) after: Duration,
    /// For how long, from now on, the disk at its other end hangs, if it does.
    pub(crate) hangs: Option<Duration>,
}

impl Rifts {
    /// Rifts, once they begin, or none at all.
    pub(crate) fn new(seed: u64, may: bool) -> Rifts {
        let rng = Rng::new(seed ^ 0x0000_7269_6674_7321);
        Rifts { rng, left: if may { RIFTS_MAX } else { 0 }, until: Instant::ZERO }
    }

    /// From now on there are some, until then.
    pub(crate) fn begin(&mut self, until: Instant) {
        self.until = until;
    }

    /// How an OSD breaks with another because of what it sends.
    pub(crate) fn after(&mut self, now: Instant, command: &NetCommand) -> Option<Rift> {
        let NetCommand::Send { conn, envelope } = command else { return None };
        let carries = matches!(envelope.message, Message::PgPull(_) | Message::PgPush(_));
        if self.left == 0 || now >= self.until || !carries || !self.rng.chance(1, TAKEN_ONE_IN) {
            return None;
        }
        self.left -= 1;
        let after = short_time(&mut self.rng, AFTER_NANOS);
        let hangs = matches!(envelope.message, Message::PgPush(_)) && self.rng.chance(1, 2);
        let hangs = hangs.then(|| after + PEER_PROBE_INTERVAL + short_time(&mut self.rng, HANGS_ON_NANOS));
        Some(Rift { conn: *conn, after, hangs })
    }
}

impl World {
    /// An OSD will break with another.
    pub(crate) fn plan_rift(&mut self, node: NodeId, rift: Rift) {
        let Rift { conn, after, hangs } = rift;
        self.plan(self.now + after, Event::Rift { node, conn });
        if let Some(hangs) = hangs
            && let Some(other) = self.other_end(node, conn)
        {
            self.hang(other, self.now + hangs);
        }
    }

    /// Who is at the other end of a session.
    fn other_end(&self, node: NodeId, conn: ConnId) -> Option<NodeId> {
        let peer = self.nodes[node.0].running.as_ref()?.messenger.peer(conn)?;
        self.network.listener(peer.addrs.msgr2()?.socket?)
    }

    /// A node gives up a session, if it still has it.
    pub(crate) fn give_up_session(&mut self, id: NodeId, conn: ConnId) -> Option<NodeId> {
        let now = self.shown(id);
        let node = &mut self.nodes[id.0];
        node.running.as_mut()?.messenger.give_up_on(now, conn);
        let line = format!("{} gives up a session amid a fetch", node.name);
        self.note(&line);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Epoch, PgId, PoolId};
    use wire::messages::{PgPush, PgRemove};
    use wire::net::Envelope;

    #[test]
    fn some_of_what_carries_an_object_ends_its_session_soon_for_a_while() {
        let conn = ConnId(7);
        let push = NetCommand::Send { conn, envelope: Envelope::new(PgPush::default()) };
        let remove = PgRemove { pg: PgId::new(PoolId(1), 0), map_epoch: Epoch(1) };
        let other = NetCommand::Send { conn, envelope: Envelope::new(remove) };
        let (early, end) = (Instant::from_secs(1), Instant::from_secs(10));
        let among = |rifts: &mut Rifts, now, command| (0..1000).filter_map(|_| rifts.after(now, command)).count();
        let (mut rifts, mut none) = (Rifts::new(1, true), Rifts::new(1, false));
        assert_eq!(among(&mut rifts, early, &push), 0, "they have not begun");
        rifts.begin(end);
        none.begin(end);
        assert_eq!((among(&mut rifts, early, &other), among(&mut rifts, end, &push)), (0, 0));
        let first = (0..1000).find_map(|_| rifts.after(early, &push)).expect("one of a thousand");
        assert!(first.conn == conn && first.after < Duration::from_millis(8), "{first:?}");
        assert!(first.hangs.is_none_or(|hangs| hangs > first.after + PEER_PROBE_INTERVAL), "{first:?}");
        assert_eq!(among(&mut rifts, early, &push), RIFTS_MAX as usize - 1);
        assert_eq!(among(&mut none, early, &push), 0);
    }
}
