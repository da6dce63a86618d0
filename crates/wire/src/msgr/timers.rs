//! What happens when nothing happens: time-outs, back-off, signs of life, late acknowledgements.
//!
//! Owns the timer table: one entry per stream, one per session that waits for something. A stream's entry is looked
//! at lazily: traffic does not move it, the time-out looks at when traffic last was.

use super::control::{Ack, Keepalive2};
use super::crypto::Side;
use super::error::StreamError;
use super::messenger::Messenger;
use super::session::{SessionId, State};
use super::stream::{Phase, StreamId};
use crate::net::CloseReason;
use base::Instant;
use std::collections::BTreeSet;

/// Whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    Stream(StreamId),
    Session(SessionId),
}

/// Deadlines in order.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub(super) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(super) fn clear(&mut self, at: Instant, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Messenger {
    /// When `handle_timer` wants to be called next; `None` while there are no streams and no sessions.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.0.first().map(|(at, _)| *at)
    }

    /// Does what is due at `now`.
    pub fn handle_timer(&mut self, now: Instant) {
        while let Some((at, timer)) = self.timers.0.first().copied()
            && at <= now
        {
            self.timers.0.pop_first();
            match timer {
                Timer::Stream(id) => self.check_stream(now, id),
                Timer::Session(sid) => self.wake_session(now, sid),
            }
        }
    }

    fn check_stream(&mut self, now: Instant, id: StreamId) {
        let timing = &self.config.timing;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let silent = now.since(stream.heard);
        let halved = stream.held > 0 && silent >= timing.stall_max;
        let stalled = stream.waiting_since.is_some_and(|since| now.since(since) >= timing.stall_max);
        let why = match (stream.phase, stream.side) {
            (Phase::Ready, _) if stalled => Some(StreamError::NotReading),
            (Phase::Ready, _) if halved => Some(StreamError::Silent),
            (Phase::Ready, Side::Connecting) if silent >= timing.silence_max => Some(StreamError::Silent),
            (Phase::Ready, Side::Accepting) if silent >= timing.idle_max => Some(StreamError::Silent),
            (Phase::Ready, _) => None,
            _ => Some(StreamError::HandshakeTimeout),
        };
        let ask = stream.side == Side::Connecting && silent >= timing.keepalive_every;
        let pause = if stream.side == Side::Connecting { timing.keepalive_every } else { timing.stall_max };
        stream.deadline = now + pause;
        self.timers.set(stream.deadline, Timer::Stream(id));
        match why {
            Some(why) => self.fail(now, id, why),
            None if ask => {
                stream.writer.control(&mut stream.out, &Keepalive2 { at: now.into() });
                self.mark_dirty(now, id);
            }
            None => {}
        }
    }

    fn wake_session(&mut self, now: Instant, sid: SessionId) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        session.deadline = None;
        match session.state {
            State::Backoff => self.dial(now, sid),
            State::Standby => self.end_session(sid, CloseReason::Fault),
            State::Ready { .. } => self.acknowledge(now, sid),
            State::Connecting => {}
        }
    }

    /// Acknowledges by itself what no message has acknowledged on its way.
    pub(super) fn acknowledge(&mut self, now: Instant, sid: SessionId) {
        let Some(session) = self.sessions.get_mut(&sid).filter(|session| session.unacked > 0) else { return };
        let Some(id) = session.stream else { return };
        session.unacked = 0;
        session.unacked_bytes = 0;
        let ack = Ack { seq: session.in_seq };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.writer.control(&mut stream.out, &ack);
            self.mark_dirty(now, id);
        }
    }
}
