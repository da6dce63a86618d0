//! Bytes between nodes: what their messengers ask for becomes pipes of the network, and what arrives there is theirs.

use super::{Event, World};
use crate::network::{End, PipeId, Side};
use crate::node::NodeId;
use base::Duration;
use bytes::{Bytes, BytesMut};
use core::net::SocketAddr;
use std::collections::VecDeque;
use wire::msgr::{StreamCommand, StreamFault, StreamId};

/// Pieces as one; most often they are.
fn joined(mut pieces: VecDeque<Bytes>, total: usize) -> Bytes {
    if pieces.len() == 1 {
        return pieces.pop_front().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(total);
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}

impl World {
    pub(super) fn dialed_at(&mut self, pipe: PipeId, to: SocketAddr) -> Option<NodeId> {
        let now = self.now;
        let opener = self.network.end(pipe, 0)?;
        let target = self.network.listener(to);
        let shown = target.map_or(now, |id| self.shown(id));
        let peer = self.nodes[opener.node.0].addr;
        let running = target.and_then(|id| self.nodes[id.0].running.as_mut().map(|running| (id, running)));
        let Some((id, running)) = running else {
            self.plan(now + Duration::from_micros(60), Event::Dialed { pipe, accepted: false });
            return None;
        };
        let stream = running.messenger.accepted(shown, peer);
        running.streams.insert(stream, (pipe, 1));
        let life = self.nodes[id.0].life;
        self.network.accept(pipe, End { node: id, life, stream });
        if let Some(at) = self.network.send(now, pipe, 0, 0) {
            self.plan(at, Event::Dialed { pipe, accepted: true });
        }
        Some(id)
    }

    pub(super) fn dialed(&mut self, pipe: PipeId, accepted: bool) -> Option<NodeId> {
        let end = self.network.end(pipe, 0)?;
        let now = self.shown(end.node);
        if !accepted {
            self.network.forget(pipe, 0);
            return self.broken(end, StreamFault::Refused);
        }
        let node = &mut self.nodes[end.node.0];
        let running = node.running.as_mut().filter(|_| node.life == end.life)?;
        running.messenger.connected(now, end.stream, node.addr);
        Some(end.node)
    }

    pub(super) fn receive(&mut self, pipe: PipeId, side: Side, bytes: Bytes) -> Option<NodeId> {
        let end = self.network.end(pipe, side)?;
        let now = self.shown(end.node);
        let node = &mut self.nodes[end.node.0];
        let running = node.running.as_mut().filter(|_| node.life == end.life)?;
        self.trace.number((end.node.0 as u64) << 32 | bytes.len() as u64);
        self.trace.bytes(&bytes);
        // Mostly nothing waits for the rest of a frame, and what has come is read where it is.
        let mut buffer = match running.buffers.remove(&end.stream) {
            Some(mut buffer) => {
                buffer.extend_from_slice(&bytes);
                buffer
            }
            None => BytesMut::from(bytes),
        };
        running.messenger.received(now, end.stream, &mut buffer, running.engine.auth());
        if !buffer.is_empty() && running.streams.contains_key(&end.stream) {
            running.buffers.insert(end.stream, buffer);
        }
        Some(end.node)
    }

    pub(super) fn broken(&mut self, end: End, fault: StreamFault) -> Option<NodeId> {
        let now = self.shown(end.node);
        let node = &mut self.nodes[end.node.0];
        let running = node.running.as_mut().filter(|_| node.life == end.life)?;
        if running.streams.remove(&end.stream).is_some() {
            running.buffers.remove(&end.stream);
            running.messenger.stream_failed(now, end.stream, fault);
        }
        Some(end.node)
    }

    pub(super) fn pump_streams(&mut self, id: NodeId) -> bool {
        let now = self.now;
        let mut moved = false;
        while let Some(command) = self.nodes[id.0].running.as_mut().and_then(|r| r.messenger.poll_stream_command()) {
            moved = true;
            match command {
                StreamCommand::Connect { stream, to } => {
                    let end = End { node: id, life: self.nodes[id.0].life, stream };
                    let (pipe, at) = self.network.dial(now, end, to);
                    let running = self.nodes[id.0].running.as_mut().expect("it just spoke");
                    running.streams.insert(stream, (pipe, 0));
                    self.plan(at, Event::Dial { pipe, to });
                }
                StreamCommand::Close { stream, .. } => self.close_stream(id, stream),
            }
        }
        while let Some(stream) = self.nodes[id.0].running.as_mut().and_then(|r| r.messenger.poll_dirty()) {
            moved = true;
            self.send_bytes(id, stream);
        }
        moved
    }

    fn close_stream(&mut self, id: NodeId, stream: StreamId) {
        let running = self.nodes[id.0].running.as_mut().expect("it just spoke");
        running.buffers.remove(&stream);
        if let Some((pipe, side)) = running.streams.remove(&stream)
            && let Some(at) = self.network.close(self.now, pipe, side)
        {
            self.plan(at, Event::Closed { pipe, side: 1 - side });
        }
    }

    fn send_bytes(&mut self, id: NodeId, stream: StreamId) {
        let shown = self.shown(id);
        let running = self.nodes[id.0].running.as_mut().expect("it just spoke");
        let pieces = running.messenger.take_outgoing(stream);
        let total: usize = pieces.iter().map(Bytes::len).sum();
        running.messenger.written(shown, stream, 0);
        let Some(&(pipe, side)) = running.streams.get(&stream) else { return };
        if total == 0 {
            return;
        }
        let mut all = joined(pieces, total);
        // Sometimes they come in two parts, so that frames arrive torn.
        if self.rng.chance(1, 8) {
            let first = all.split_to(self.rng.below(total as u64) as usize);
            self.send_part(pipe, 1 - side, first);
        }
        self.send_part(pipe, 1 - side, all);
        self.has_spoken(id);
    }

    fn send_part(&mut self, pipe: PipeId, side: Side, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        if let Some(at) = self.network.send(self.now, pipe, side, bytes.len()) {
            self.plan(at, Event::Bytes { pipe, side, bytes });
        }
    }

    /// Cuts a random pipe, if there is one.
    pub(crate) fn cut_some_pipe(&mut self) {
        let standing = self.network.standing();
        if standing.is_empty() {
            return;
        }
        let pipe = standing[self.rng.below(standing.len() as u64) as usize];
        for (side, at) in self.network.cut(self.now, pipe) {
            self.plan(at, Event::Cut { pipe, side });
        }
    }

    /// Lets a node, if it runs, give up one of its sessions.
    pub(crate) fn give_up_some_session(&mut self, id: NodeId) {
        let (now, nth) = (self.shown(id), self.rng.u64());
        if let Some(running) = &mut self.nodes[id.0].running {
            running.messenger.give_up_one(now, nth);
            self.settle(id);
        }
    }
}
