//! Whether OSDs hear no more than they were told.
//!
//! What OSDs say to one another they may say again without harm, by design; so nothing that clients see shows a session
//! that delivers a message twice. Here messages are counted, from one life of an OSD to another's.

use base::hash::FixedHashMap;
use wire::net::{ConnId, NetCommand, NetEvent};
use wire::types::{EntityAddr, EntityType};

/// Messages so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Count {
    sent: u64,
    delivered: u64,
}

/// All messages between OSDs.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// With whom each has a session of this number.
    peers: FixedHashMap<(EntityAddr, ConnId), EntityAddr>,
    counts: FixedHashMap<(EntityAddr, EntityAddr), Count>,
}

impl Deliveries {
    /// What the OSD at `own` wants of its network.
    pub(crate) fn commanded(&mut self, own: EntityAddr, command: &NetCommand) {
        match command {
            NetCommand::Open { conn, to, kind: EntityType::OSD, .. } => {
                if let Some(to) = to.msgr2() {
                    self.peers.insert((own, *conn), to);
                }
            }
            NetCommand::Send { conn, .. } => {
                if let Some(peer) = self.peers.get(&(own, *conn)) {
                    self.counts.entry((own, *peer)).or_default().sent += 1;
                }
            }
            _ => {}
        }
    }

    /// What the OSD at `own` hears of its network; says what is wrong with that.
    pub(crate) fn heard(&mut self, own: EntityAddr, event: &NetEvent) -> Option<String> {
        match event {
            NetEvent::Opened { conn, peer } if peer.name.kind == EntityType::OSD => {
                if let Some(addr) = peer.addrs.msgr2() {
                    self.peers.insert((own, *conn), addr);
                }
                None
            }
            NetEvent::Message { conn, envelope } => {
                let peer = *self.peers.get(&(own, *conn))?;
                let count = self.counts.entry((peer, own)).or_default();
                count.delivered += 1;
                let Count { sent, delivered } = *count;
                let name = envelope.message.name();
                (delivered > sent).then(|| format!("{own} heard {name}, its message {delivered} of {sent} from {peer}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Epoch, PgId, PoolId};
    use wire::messages::PgRemove;
    use wire::net::{Envelope, Policy};
    use wire::types::AddrVec;

    #[test]
    fn a_message_that_is_heard_twice_is_noticed_and_one_that_is_lost_is_not() {
        let addr = |port: u16| EntityAddr::msgr2(([10, 0, 0, 1], port).into(), 1);
        let (here, there, conn) = (addr(1), addr(2), ConnId(7));
        let envelope = || Envelope::new(PgRemove { pg: PgId::new(PoolId(1), 0), map_epoch: Epoch(1) });
        let mut deliveries = Deliveries::default();
        for own in [here, there] {
            let to = AddrVec::one(if own == here { there } else { here });
            deliveries.commanded(own, &NetCommand::Open { conn, to, kind: EntityType::OSD, policy: Policy::Lossless });
        }
        (0..2).for_each(|_| deliveries.commanded(here, &NetCommand::Send { conn, envelope: envelope() }));
        let mut hear = || deliveries.heard(there, &NetEvent::Message { conn, envelope: envelope() });
        assert_eq!((hear(), hear()), (None, None));
        assert!(hear().is_some_and(|why| why.contains("its message 3 of 2")));
    }
}
