//! Messages of other OSDs: to which PG they go, and which of them are too old or too new.

use crate::core::Level;
use crate::osd::Osd;
use base::{Epoch, OsdId, PgId};
use wire::messages::{Message, PgNotify};
use wire::net::{ConnId, Envelope};

impl Osd {
    /// A message of another OSD.
    pub(crate) fn peer_message(&mut self, conn: ConnId, from: OsdId, envelope: Envelope) {
        match &envelope.message {
            Message::OsdRoom(room) => return self.peer_has_room(from, room),
            Message::OsdTenants(news) => return self.core.tenants.told(self.core.now, from, news),
            Message::OsdPing(ping) => return self.pinged(conn, from, ping),
            Message::SubWrite(write) => self.note_replicated(write),
            Message::PgPush(push) => self.note_copied(push.tenant, push.bytes.len() as u64),
            _ => {}
        }
        if let Message::SubCommit(m) = &envelope.message {
            for write in &m.writes {
                if let Some(pg) = self.pgs.get_mut(&write.pg) {
                    pg.handle_confirmed(&mut self.core, from, write);
                }
            }
            return;
        }
        let Some((id, epoch)) = addressed_to(&envelope.message) else {
            return self.core.log(Level::Debug, format!("{from:?} sent {}: ignored", envelope.message.name()));
        };
        if epoch.is_some_and(|epoch| epoch > self.core.epoch()) {
            return self.wait_for_map(epoch.unwrap_or_default(), conn, envelope);
        }
        let since = self.core.placement.get(id).map(|history| history.since);
        if epoch.is_some_and(|epoch| since.is_none_or(|since| epoch < since)) {
            return;
        }
        let Some(pg) = self.pgs.get_mut(&id) else {
            if let Message::PgQuery(query) = &envelope.message {
                let (map_epoch, born) = (self.core.epoch(), self.core.born);
                let nothing = PgNotify { pg: id, map_epoch, peering: query.peering, born, info: None, missing: 0 };
                self.core.send(conn, Envelope::new(nothing));
            }
            return;
        };
        let core = &mut self.core;
        match envelope.message {
            Message::SubWrite(m) => pg.handle_sub_write(core, conn, from, &m),
            Message::PgQuery(m) => pg.handle_query(core, conn, &m),
            Message::PgNotify(m) => pg.handle_notify(core, from, &m),
            Message::PgLogQuery(m) => pg.handle_log_query(core, conn, &m),
            Message::PgLog(m) => pg.handle_log(core, from, &m),
            Message::PgActivate(m) => pg.handle_activate(core, conn, from, &m),
            Message::PgActivated(m) => pg.handle_activated(core, from, &m),
            Message::PgRecover(m) => pg.handle_recover(core, conn, from, &m),
            Message::PgRecovered(m) => pg.handle_recovered(core, from, &m),
            Message::PgReserve(m) => pg.handle_reserve(core, conn, from, &m),
            Message::PgReserved(m) => pg.handle_reserved(core, from, &m),
            Message::PgScrub(m) => pg.handle_scrub(core, conn, from, &m),
            Message::PgScrubbed(m) => pg.handle_scrubbed(core, from, &m),
            Message::PgScrubEnd(m) => pg.handle_scrub_end(core, from, &m),
            Message::PgBackfill(m) => pg.handle_backfill(core, conn, from, *m),
            Message::PgBackfilled(m) => pg.handle_backfilled(core, from, &m),
            Message::PgPull(m) => {
                core.counters.subop_pull.inc();
                pg.handle_pull(core, conn, m);
            }
            Message::PgHurry(m) => pg.handle_hurry(core, conn, &m),
            Message::PgPush(m) => pg.handle_push(core, from, *m),
            Message::PgCommittedQuery(m) => pg.handle_committed_query(core, conn, &m),
            Message::PgCommitted(m) => pg.handle_committed(core, from, &m),
            Message::PgRemove(_) if pg.sets.acting_primary == from && !pg.sets.concerns(core.me()) => {
                self.remove_pg(id);
            }
            _ => {}
        }
    }
}

/// The PG that a peer's message is for, and the sender's map where it says.
fn addressed_to(message: &Message) -> Option<(PgId, Option<Epoch>)> {
    Some(match message {
        Message::SubWrite(m) => (m.pg, None),
        Message::PgQuery(m) => (m.pg, Some(m.map_epoch)),
        Message::PgNotify(m) => (m.pg, Some(m.map_epoch)),
        Message::PgLogQuery(m) => (m.pg, Some(m.map_epoch)),
        Message::PgLog(m) => (m.pg, Some(m.map_epoch)),
        Message::PgActivate(m) => (m.pg, Some(m.map_epoch)),
        Message::PgActivated(m) => (m.pg, Some(m.map_epoch)),
        Message::PgRecover(m) => (m.pg, Some(m.map_epoch)),
        Message::PgRecovered(m) => (m.pg, Some(m.map_epoch)),
        Message::PgReserve(m) => (m.pg, Some(m.map_epoch)),
        Message::PgReserved(m) => (m.pg, Some(m.map_epoch)),
        Message::PgScrub(m) => (m.pg, Some(m.map_epoch)),
        Message::PgScrubbed(m) => (m.pg, Some(m.map_epoch)),
        Message::PgScrubEnd(m) => (m.pg, Some(m.map_epoch)),
        Message::PgBackfill(m) => (m.pg, Some(m.map_epoch)),
        Message::PgBackfilled(m) => (m.pg, Some(m.map_epoch)),
        Message::PgPull(m) => (m.pg, Some(m.map_epoch)),
        Message::PgHurry(m) => (m.pg, Some(m.map_epoch)),
        Message::PgPush(m) => (m.pg, Some(m.map_epoch)),
        Message::PgRemove(m) => (m.pg, Some(m.map_epoch)),
        Message::PgCommittedQuery(m) => (m.pg, Some(m.map_epoch)),
        Message::PgCommitted(m) => (m.pg, Some(m.map_epoch)),
        _ => return None,
    })
}
