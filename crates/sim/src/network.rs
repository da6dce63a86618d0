//! Virtual byte streams between nodes: what TCP promises, and what it does not.
//!
//! Owns the pipes and their delays. Bytes of one direction arrive in order; streams overtake each other. A cut loses
//! what is under way, and the two ends learn of it at different times, the later one long after. Two nodes that are
//! kept apart, or one of which does not hear the other, lose nothing: everything waits, as with retransmission. Where
//! links have a bandwidth, all that a node sends, to whomever, goes out one after the other.

use crate::node::NodeId;
use base::{Duration, Instant, Rng};
use core::net::SocketAddr;
use std::collections::BTreeMap;
use wire::msgr::StreamId;

/// Names one pipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PipeId(pub(crate) u64);

/// One end of a pipe: 0 opened it, 1 accepted it.
pub(crate) type Side = usize;

/// A connection between two nodes, or an attempt at one.
#[derive(Debug)]
pub(crate) struct Pipe {
    ends: [Option<End>; 2],
    /// When the last bytes towards each side arrive: later ones do not overtake them.
    busy_until: [Instant; 2],
    cut: bool,
}

/// Who is at an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) node: NodeId,
    /// Which life of the node: what arrives for an earlier one is lost.
    pub(crate) life: u32,
    pub(crate) stream: StreamId,
}

/// The network.
#[derive(Debug)]
pub(crate) struct Network {
    rng: Rng,
    pipes: BTreeMap<PipeId, Pipe>,
    last_pipe: u64,
    listeners: BTreeMap<SocketAddr, NodeId>,
    /// Until when nothing comes from one node to another.
    apart: BTreeMap<(NodeId, NodeId), Instant>,
    /// Until when what one node sends to another is slow.
    slow_links: BTreeMap<(NodeId, NodeId), Instant>,
    /// Whether something is lost now and then, and sent again.
    lossy: bool,
    /// How long a node's link takes for a byte; nothing where it is not to be noticed.
    nanos_per_byte: u64,
    /// Until when each node's link is busy with what the node has sent.
    links_busy_until: BTreeMap<NodeId, Instant>,
    /// Until when everything is slow.
    slow_until: Instant,
}

/// One way, without a wait: what switches and kernels take on a local network.
const LATENCY_MIN: Duration = Duration::from_micros(40);
/// What chance adds at most in quiet times.
const JITTER_MAX_NANOS: u64 = 120_000;
/// What chance adds at most in slow times.
const SLOW_JITTER_MAX_NANOS: u64 = 80_000_000;

/// One in how many sends is lost where some are, and after how long it is sent again.
const LOST_ONE_IN: u64 = 300;
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// What goes with each send: the headers of Ethernet, IP and TCP.
const HEADER_BYTES: u64 = 66;

impl Network {
    /// A network of which each node's link carries so many kilobytes a second; 0 is as many as there are.
    pub(crate) fn new(rng: Rng, lossy: bool, link_kb_s: u32) -> Network {
        Network {
            rng,
            pipes: BTreeMap::new(),
            last_pipe: 0,
            listeners: BTreeMap::new(),
            apart: BTreeMap::new(),
            slow_links: BTreeMap::new(),
            lossy,
            nanos_per_byte: 1_000_000_u64.checked_div(u64::from(link_kb_s)).unwrap_or(0),
            links_busy_until: BTreeMap::new(),
            slow_until: Instant::ZERO,
        }
    }

    /// Notes that connections to `addr` reach `node`.
    pub(crate) fn listen(&mut self, addr: SocketAddr, node: NodeId) {
        self.listeners.insert(addr, node);
    }

    /// Who listens at `addr`.
    pub(crate) fn listener(&self, addr: SocketAddr) -> Option<NodeId> {
        self.listeners.get(&addr).copied()
    }

    /// Begins a connection to `to`; says when the attempt arrives there.
    pub(crate) fn dial(&mut self, now: Instant, from: End, to: SocketAddr) -> (PipeId, Instant) {
        self.last_pipe += 1;
        let id = PipeId(self.last_pipe);
        let arrival = match self.listener(to) {
            Some(node) => self.arrival(now, from.node, node, 0),
            None => now + LATENCY_MIN,
        };
        self.pipes.insert(id, Pipe { ends: [Some(from), None], busy_until: [now, arrival], cut: false });
        (id, arrival)
    }

    /// Notes who has accepted a connection.
    pub(crate) fn accept(&mut self, pipe: PipeId, end: End) {
        if let Some(pipe) = self.pipes.get_mut(&pipe) {
            pipe.ends[1] = Some(end);
        }
    }

    /// Whose end it is, whether the pipe still stands or not.
    pub(crate) fn whose(&self, pipe: PipeId, side: Side) -> Option<NodeId> {
        self.pipes.get(&pipe)?.ends[side].map(|end| end.node)
    }

    /// Who is at one side of a pipe that still stands.
    pub(crate) fn end(&self, pipe: PipeId, side: Side) -> Option<End> {
        self.pipes.get(&pipe).filter(|pipe| !pipe.cut)?.ends[side]
    }

    /// Plans the way of so many bytes towards `side`: when they arrive, or none if they are lost.
    pub(crate) fn send(&mut self, now: Instant, pipe: PipeId, side: Side, bytes: usize) -> Option<Instant> {
        let ends = self.pipes.get(&pipe).filter(|pipe| !pipe.cut)?.ends;
        let (from, to) = (ends[1 - side]?, ends[side]?);
        let arrival = self.arrival(now, from.node, to.node, bytes);
        let pipe = self.pipes.get_mut(&pipe)?;
        pipe.busy_until[side] = pipe.busy_until[side].max(arrival);
        Some(pipe.busy_until[side])
    }

    /// Forgets one end, which has closed; says when the other learns of it.
    pub(crate) fn close(&mut self, now: Instant, pipe: PipeId, side: Side) -> Option<Instant> {
        let arrival = self.send(now, pipe, 1 - side, 0);
        if let Some(entry) = self.pipes.get_mut(&pipe) {
            entry.ends[side] = None;
            if entry.ends.iter().all(Option::is_none) {
                self.pipes.remove(&pipe);
            }
        }
        arrival
    }

    /// Cuts a pipe: what is under way is lost. Each end that is still there learns of it later: some at once, some
    /// only when a keepalive would have told.
    pub(crate) fn cut(&mut self, now: Instant, pipe: PipeId) -> Vec<(Side, Instant)> {
        let Some(entry) = self.pipes.get_mut(&pipe) else { return Vec::new() };
        entry.cut = true;
        let ends = entry.ends;
        let mut learn = Vec::new();
        for (side, _) in ends.iter().enumerate().filter(|(_, end)| end.is_some()) {
            let wait = if self.rng.chance(1, 4) { self.rng.below(20_000) } else { self.rng.below(50) };
            learn.push((side, now + Duration::from_millis(wait)));
        }
        learn
    }

    /// Who is at an end of a cut pipe: it learns of the cut and the end is forgotten.
    pub(crate) fn forget(&mut self, pipe: PipeId, side: Side) -> Option<End> {
        let entry = self.pipes.get_mut(&pipe)?;
        let end = entry.ends[side].take();
        if entry.ends.iter().all(Option::is_none) {
            self.pipes.remove(&pipe);
        }
        end
    }

    /// All pipes of a node, with its side.
    pub(crate) fn pipes_of(&self, node: NodeId) -> Vec<(PipeId, Side)> {
        let sides = |(id, pipe): (&PipeId, &Pipe)| {
            let id = *id;
            let here = move |end: &Option<End>| end.is_some_and(|end| end.node == node);
            [0, 1]
                .into_iter()
                .filter(move |&side| here(&pipe.ends[side]))
                .map(move |side| (id, side))
                .collect::<Vec<_>>()
        };
        self.pipes.iter().flat_map(sides).collect()
    }

    /// Pipes with somebody at both ends.
    pub(crate) fn standing(&self) -> Vec<PipeId> {
        let stands = |pipe: &Pipe| !pipe.cut && pipe.ends.iter().all(Option::is_some);
        self.pipes.iter().filter(|(_, pipe)| stands(pipe)).map(|(id, _)| *id).collect()
    }

    /// Keeps what `from` sends from `to` until then.
    pub(crate) fn separate(&mut self, from: NodeId, to: NodeId, until: Instant) {
        self.apart.insert((from, to), until);
    }

    /// Slows everything down until then.
    pub(crate) fn slow_down(&mut self, until: Instant) {
        self.slow_until = until;
    }

    /// Slows down what `from` sends to `to` until then.
    pub(crate) fn slow_link(&mut self, from: NodeId, to: NodeId, until: Instant) {
        self.slow_links.insert((from, to), until);
    }

    /// Ends what keeps nodes apart or slow.
    pub(crate) fn heal(&mut self) {
        self.apart.clear();
        self.slow_links.clear();
        self.slow_until = Instant::ZERO;
    }

    /// When all that is under way now has arrived, attempts to connect among it.
    pub(crate) fn arrives_by(&self) -> Instant {
        let stand = self.pipes.values().filter(|pipe| !pipe.cut);
        stand.flat_map(|pipe| pipe.busy_until).max().unwrap_or(Instant::ZERO)
    }

    fn arrival(&mut self, now: Instant, from: NodeId, to: NodeId, bytes: usize) -> Instant {
        let gone = self.gone_out(now, from, bytes);
        let together = self.apart.get(&(from, to)).map_or(gone, |until| gone.max(*until));
        let slow_until = self.slow_links.get(&(from, to)).map_or(self.slow_until, |until| self.slow_until.max(*until));
        let jitter = if now < slow_until { SLOW_JITTER_MAX_NANOS } else { JITTER_MAX_NANOS };
        let lost = self.lossy && self.rng.chance(1, LOST_ONE_IN);
        let again = if lost { RETRANSMISSION } else { Duration::ZERO };
        together + again + LATENCY_MIN + Duration::from_nanos(self.rng.below(jitter))
    }

    /// When the link of `from` is done with what is sent now.
    fn gone_out(&mut self, now: Instant, from: NodeId, bytes: usize) -> Instant {
        if self.nanos_per_byte == 0 {
            return now;
        }
        let busy_until = self.links_busy_until.entry(from).or_insert(now);
        let takes = Duration::from_nanos((bytes as u64 + HEADER_BYTES) * self.nanos_per_byte);
        *busy_until = now.max(*busy_until) + takes;
        *busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When what is sent at once arrives, in milliseconds: a megabyte and a byte from one node to two others, and a byte
    /// back.
    fn arrivals(link_kb_s: u32) -> [u128; 3] {
        let mut network = Network::new(Rng::new(1), false, link_kb_s);
        let now = Instant::from_secs(100);
        let end = |node, stream| End { node: NodeId(node), life: 1, stream: StreamId(stream) };
        let mut pipe = |to: usize| {
            let addr = SocketAddr::from(([10, 0, 0, to as u8], 1));
            network.listen(addr, NodeId(to));
            let (pipe, _) = network.dial(now, end(0, to as u64), addr);
            network.accept(pipe, end(to, 0));
            pipe
        };
        let (first, second) = (pipe(1), pipe(2));
        let sent = [(first, 1, 1_000_000), (second, 1, 1), (first, 0, 1)];
        sent.map(|(pipe, side, bytes)| network.send(now, pipe, side, bytes).expect("it stands").since(now).as_millis())
    }

    #[test]
    fn what_a_node_sends_goes_out_one_after_the_other_where_links_have_a_bandwidth() {
        assert_eq!(arrivals(0), [0, 0, 0]);
        assert_eq!(arrivals(1000), [1000, 1000, 0]);
        assert_eq!(arrivals(100_000), [10, 10, 0]);
    }
}
