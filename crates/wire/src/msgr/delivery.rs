//! Messages in and out of an established session, acknowledgements and signs of life.
//!
//! Owns exactly-once, in-order delivery: numbers going up, duplicates dropped, what is not acknowledged kept and sent
//! again (Ceph v16.2 `ProtocolV2::handle_message`, `write_message`, `handle_message_ack`).

use super::control::{Ack, Keepalive2, Keepalive2Ack};
use super::error::StreamError;
use super::frame::{Frame, Segment};
use super::header::MessageHeader;
use super::limits;
use super::messenger::Messenger;
use super::session::{Outgoing, SessionId, State};
use super::stream::{Phase, Stream, StreamId};
use super::tag::Tag;
use crate::messages::{Message, Payload};
use crate::net::{ConnId, Envelope, NetEvent, Policy};
use base::{Bug, Instant};
use bytes::Bytes;

impl Messenger {
    /// Sends a message, or keeps it until the session is ready.
    pub(super) fn enqueue(&mut self, now: Instant, sid: SessionId, envelope: Envelope) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let Envelope { tid, priority, message } = envelope;
        let message = Outgoing { tid, priority, payload: message.into_payload() };
        let stream = session.stream.filter(|_| session.is_ready());
        let waiting = match stream.and_then(|id| Some((id, self.streams.get_mut(&id)?))) {
            Some((id, stream)) => {
                session.unacked = 0;
                session.unacked_bytes = 0;
                self.spare.lend(&mut stream.out);
                let kept = if session.policy == Policy::Lossy {
                    write_message(stream, session.in_seq, session.backlog.pass(), &message);
                    0
                } else {
                    write_message(stream, session.in_seq, session.backlog.last_seq() + 1, &message);
                    session.backlog.push(message);
                    session.backlog.bytes()
                };
                let waiting = kept.max(stream.out.len());
                self.mark_dirty(now, id);
                waiting
            }
            None => {
                session.backlog.push(message);
                session.backlog.bytes()
            }
        };
        if waiting > self.config.backlog_bytes_max {
            self.give_up(now, sid);
        }
    }

    /// Ends the session of a peer that does not read.
    fn give_up(&mut self, now: Instant, sid: SessionId) {
        match self.sessions[&sid].stream {
            Some(id) => self.fail(now, id, StreamError::NotReading),
            None => self.end_session(sid, StreamError::NotReading.close_reason()),
        }
    }

    /// Gives up one of the lossless sessions, if there is one, as if too much waited for its peer; `nth` chooses. For
    /// simulations, in which too little waits.
    pub fn give_up_one(&mut self, now: Instant, nth: u64) {
        let sessions: Vec<SessionId> = self.by_addr.values().copied().collect();
        if let Some(sid) = sessions.get((nth % sessions.len().max(1) as u64) as usize) {
            self.give_up(now, *sid);
        }
    }

    /// Gives up this session, if it stands, in the same way.
    pub fn give_up_on(&mut self, now: Instant, conn: ConnId) {
        if let Some(&sid) = self.conns.get(&conn) {
            self.give_up(now, sid);
        }
    }

    /// The session's stream is established: everything that waits is sent, messages flow from here.
    pub(super) fn begin_delivery(&mut self, now: Instant, id: StreamId, sid: SessionId) {
        self.handshakes.remove(&id);
        self.set_session_timer(sid, None);
        let (Some(stream), Some(session)) = (self.streams.get_mut(&id), self.sessions.get_mut(&sid)) else { return };
        stream.phase = Phase::Ready;
        stream.handshake = None;
        stream.reader.allow_messages();
        session.state = State::Ready { since: now };
        if !core::mem::replace(&mut session.opened, true)
            && let Some(peer) = session.peer.clone()
        {
            self.events.push_back(NetEvent::Opened { conn: session.conn, peer });
        }
        if Bug::UnackedForgotten.is_planted() && session.in_seq > 0 {
            session.backlog.acknowledge(u64::MAX);
        }
        for (seq, message) in session.backlog.iter() {
            write_message(stream, session.in_seq, seq, message);
        }
        session.unacked = 0;
        session.unacked_bytes = 0;
        if session.policy == Policy::Lossy {
            session.backlog.acknowledge(u64::MAX);
        }
        self.mark_dirty(now, id);
    }

    /// Takes a frame of an established session.
    pub(super) fn on_ready_frame(&mut self, now: Instant, id: StreamId, frame: &Frame) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(sid) = stream.session else { return Ok(()) };
        match frame.tag {
            Tag::Message => self.on_message(now, sid, frame)?,
            Tag::Ack => {
                let ack: Ack = frame.control()?;
                if let Some(session) = self.sessions.get_mut(&sid) {
                    session.backlog.acknowledge(ack.seq);
                }
            }
            Tag::Keepalive2 => {
                let keepalive: Keepalive2 = frame.control()?;
                stream.writer.control(&mut stream.out, &Keepalive2Ack { at: keepalive.at });
                self.mark_dirty(now, id);
            }
            Tag::Keepalive2Ack => {
                frame.control::<Keepalive2Ack>()?;
            }
            tag => return Err(StreamError::OutOfTurn(tag)),
        }
        Ok(())
    }
}

impl Messenger {
    fn on_message(&mut self, now: Instant, sid: SessionId, frame: &Frame) -> Result<(), StreamError> {
        let Some(session) = self.sessions.get_mut(&sid) else { return Ok(()) };
        let header = frame.header()?;
        // An old number is a copy of what has been delivered. A number ahead is fine: a kernel client takes messages
        // out of its queue again after they were numbered.
        if header.seq <= session.in_seq && !Bug::RepeatsDelivered.is_planted() {
            return Ok(());
        }
        session.in_seq = header.seq;
        let payload = Payload {
            kind: header.kind,
            version: header.version,
            compat: header.compat,
            front: frame.segment(1),
            middle: frame.segment(2),
            lead: Bytes::new(),
            data: frame.segment(3),
            sums: frame.data_sums().clone(),
        };
        let mut late = false;
        if session.policy == Policy::Lossless {
            session.backlog.acknowledge(header.ack_seq);
            session.unacked += 1;
            session.unacked_bytes += payload.front.len() + payload.middle.len() + payload.data.len();
            late = session.unacked >= limits::ACK_AFTER_MESSAGES || session.unacked_bytes >= limits::ACK_AFTER_BYTES;
        }
        let ack_later = session.policy == Policy::Lossless && !late && session.deadline.is_none();
        let message = Message::decode(payload)?;
        let envelope = Envelope { tid: header.tid, priority: header.priority, message };
        self.events.push_back(NetEvent::Message { conn: session.conn, envelope });
        if late {
            self.acknowledge(now, sid);
        } else if ack_later {
            self.set_session_timer(sid, Some(now + self.config.timing.ack_delay));
        }
        Ok(())
    }
}

fn write_message(stream: &mut Stream, ack_seq: u64, seq: u64, message: &Outgoing) {
    let Outgoing { tid, priority, payload } = message;
    let header = MessageHeader {
        seq,
        tid: *tid,
        kind: payload.kind,
        priority: *priority,
        version: payload.version,
        compat: payload.compat,
        ack_seq,
    };
    let data = Segment { lead: &payload.lead, bytes: &payload.data, sum: payload.sums.find(&payload.data) };
    stream.writer.message(&mut stream.out, &header, &payload.front, &payload.middle, data);
}
