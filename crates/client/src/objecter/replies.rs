//! What OSDs send: answers, maps, back-offs.

use super::{Objecter, Op};
use crate::limits;
use crate::request::Reply;
use base::{Errno, Instant, OsdId};
use wire::messages::{Backoff, Message, OsdOpReply, backoff_op};
use wire::net::{Envelope, NetCommand};
use wire::osd::{RequestFlags, SpgId};

impl Objecter {
    pub(super) fn handle_message(&mut self, now: Instant, osd: OsdId, envelope: Envelope) {
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.failures = 0;
        }
        match envelope.message {
            Message::OsdOpReply(reply) => self.handle_reply(now, osd, envelope.tid, *reply),
            Message::OsdMap(maps) => self.handle_maps(now, &maps),
            Message::Backoff(backoff) => self.handle_backoff(now, osd, *backoff),
            // Answers to our pings, and what newer OSDs may say.
            _ => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, osd: OsdId, tid: u64, reply: OsdOpReply) {
        let Some(op) = self.ops.get(&tid).filter(|op| op.osd == Some(osd)) else { return };
        // An answer to an earlier attempt tells nothing that the present one will not tell again; Ceph drops it too.
        let stale = reply.retry_attempt >= 0 && i64::from(reply.retry_attempt) + 1 != i64::from(op.attempts);
        if reply.map_epoch > self.epoch() {
            self.wish_for_maps();
        }
        if stale {
            return;
        }
        if reply.result == Errno::EAGAIN.code() || reply.redirect.is_some() {
            return self.submit_again(now, tid, &reply);
        }
        self.complete(
            tid,
            Ok(Reply {
                result: reply.result,
                version: reply.replay_version,
                user_version: reply.user_version,
                ops: reply.ops,
            }),
        );
    }

    /// The OSD did nothing and wants the request again, of the primary (EAGAIN) or for another object (a redirect):
    /// it becomes a new one.
    fn submit_again(&mut self, now: Instant, tid: u64, reply: &OsdOpReply) {
        let Some(op) = self.remove(tid) else { return };
        let Op { id, mut request, submitted, deadline, .. } = op;
        request.flags = request.flags.without(RequestFlags::BALANCE_READS | RequestFlags::LOCALIZE_READS);
        if let Some(redirect) = &reply.redirect {
            request.target.pool = redirect.locator.pool;
            request.target.nspace = redirect.locator.nspace.clone();
            request.target.key = redirect.locator.key.clone();
            if !redirect.object.is_empty() {
                request.target.object = redirect.object.clone();
            }
            request.flags = request.flags | RequestFlags::REDIRECTED;
        }
        let op = Op {
            id,
            request,
            placement: None,
            osd: None,
            sent: false,
            attempts: 0,
            sent_epoch: base::Epoch(0),
            sent_at: now,
            submitted,
            deadline,
        };
        let tid = self.add(op);
        self.route(now, tid);
    }

    fn handle_backoff(&mut self, now: Instant, osd: OsdId, backoff: Backoff) {
        let Some(session) = self.sessions.get_mut(&osd) else { return };
        let Some(conn) = session.conn else { return };
        match backoff.op {
            backoff_op::BLOCK if session.backoff_count() >= limits::BACKOFFS_MAX => {
                self.conns.remove(&conn);
                self.commands.push_back(NetCommand::Close { conn });
                self.session_lost(now, osd);
            }
            backoff_op::BLOCK => {
                session.block(backoff.pgid, backoff.id, backoff.begin.clone(), backoff.end.clone());
                // The OSD has dropped these; they are sent again when it says so.
                for tid in &session.tids {
                    let op = self.ops.get_mut(tid).expect("a session's requests exist");
                    let pg = SpgId::replicated(op.placement.as_ref().expect("a session's requests are placed").pg);
                    op.sent &= !session.is_blocked(pg, &op.place_in_order());
                }
                let ack = Backoff { op: backoff_op::ACK_BLOCK, ..backoff };
                self.commands.push_back(NetCommand::Send { conn, envelope: Envelope::new(ack) });
            }
            backoff_op::UNBLOCK => {
                session.unblock(backoff.pgid, backoff.id);
                for tid in session.tids.clone() {
                    self.send_if_possible(now, osd, tid);
                }
            }
            _ => {}
        }
    }
}
