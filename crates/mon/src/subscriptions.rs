//! What goes out unasked: maps, configuration and log lines to those who subscribed.
//!
//! Owns which version a subscriber has and what it gets next. Follows Ceph v16.2 `src/mon/Monitor.cc`
//! (`handle_subscribe`) and the services' `check_sub`: a start of 0 means the newest whole version, any other the first
//! version wanted; a onetime subscription ends with its first answer.
//!
//! OSD maps go further: who has asked for them once is sent what follows, too, for as long as `MAPS_FOLLOW`. librados asks
//! once when a session with an OSD breaks, and not again when nobody listens there any more (v16.2 `src/osdc/Objecter.cc`,
//! `ms_handle_reset`, `ms_handle_refused`), until its request has waited for 10 s. Asked in the moment when an OSD has died
//! and the map does not show it yet, the monitor had some other map to tell of, and the client waited for that long.
//!
//! A client is sent every epoch in a message of its own. A command to the OSD that leads a placement group is taken from
//! its session by the first epoch of a message in which another leads, and librados 16.2 looks at none of the later
//! ones for it: it goes to who led in between, is refused, and is sent there again without end until another map comes.

use crate::limits::{MAPS_FOLLOW, OSD_MAP_MESSAGE_EPOCHS_MAX};
use crate::mon::Mon;
use crate::services::config::Entity;
use crate::services::log::LogLevel;
use crate::sessions::Session;
use base::{Bug, Epoch, Instant, OsdId};
use std::collections::BTreeMap;
use wire::messages::{self, Log, MonSubscribe, Subscription};
use wire::net::ConnId;
use wire::types::EntityType;

/// The topics a session can subscribe to; others are remembered by nobody.
fn known(what: &str) -> bool {
    let maps = ["osdmap", "monmap", "mgrmap", "fsmap", "fsmap.user", "servicemap", "config"];
    maps.contains(&what) || log_level(what).is_some()
}

fn log_level(what: &str) -> Option<LogLevel> {
    LogLevel::from_name(what.strip_prefix("log-")?)
}

impl Mon {
    /// Takes a session's subscriptions and serves those that can be served.
    pub(crate) fn subscribe(&mut self, now: Instant, conn: ConnId, message: MonSubscribe) {
        let newest_line = self.log.newest();
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if !message.hostname.is_empty() {
            session.hostname = message.hostname;
            session.config_seen = None;
        }
        for (what, mut subscription) in message.what {
            if !known(&what) {
                continue;
            }
            if log_level(&what).is_some() {
                // Lines of before are asked for by command; who watches wants what comes.
                subscription.start = subscription.start.max(newest_line + 1);
            }
            session.subscriptions.insert(what, subscription);
        }
        self.serve(now, conn);
    }

    /// Serves every session after a change.
    pub(crate) fn publish(&mut self, now: Instant) {
        let conns: Vec<ConnId> = self.sessions.own().map(|(conn, _)| conn).collect();
        for conn in conns {
            self.serve_what_follows(now, conn);
            self.serve(now, conn);
        }
    }

    /// Sends OSD maps to who has asked once, lately.
    fn serve_what_follows(&mut self, now: Instant, conn: ConnId) {
        let lately = |session: &&Session| session.maps_until.is_some_and(|until| now < until);
        let Some(session) = self.sessions.get(conn).filter(lately) else { return };
        if !session.subscriptions.contains_key("osdmap") {
            let start = u64::from(session.osd_epoch.next().0);
            self.serve_osd_map(conn, Subscription { start, onetime: true });
        }
    }

    /// Sends a session everything it subscribed to and does not have.
    fn serve(&mut self, now: Instant, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        for (what, subscription) in session.subscriptions.clone() {
            let served = match what.as_str() {
                "osdmap" => self.serve_osd_map(conn, subscription),
                "monmap" => self.serve_version(conn, subscription, u64::from(self.monmap.epoch().0), |mon| {
                    mon.monmap.message().into()
                }),
                "mgrmap" => self.serve_version(conn, subscription, self.elections, |mon| mon.mgr_map_message().into()),
                "servicemap" => self.serve_version(conn, subscription, 1, |mon| mon.service_map_message().into()),
                "fsmap" => self.serve_version(conn, subscription, 1, |mon| mon.fs_map_message().into()),
                "fsmap.user" => self.serve_version(conn, subscription, 1, |mon| mon.fs_map_user_message().into()),
                "config" => self.serve_config(conn),
                other => self.serve_log(conn, other, subscription),
            };
            let Some(next) = served else { continue };
            let Some(session) = self.sessions.get_mut(conn) else { return };
            if subscription.onetime {
                session.subscriptions.remove(&what);
                if what == "osdmap" {
                    session.maps_until = Some(now + MAPS_FOLLOW);
                }
            } else {
                session.subscriptions.insert(what, Subscription { start: next, onetime: false });
            }
        }
    }

    fn serve_version(
        &mut self,
        conn: ConnId,
        subscription: Subscription,
        newest: u64,
        message: impl FnOnce(&Mon) -> messages::Message,
    ) -> Option<u64> {
        if subscription.start > newest {
            return None;
        }
        let message = message(self);
        self.send(conn, message);
        Some(newest + 1)
    }

    fn serve_osd_map(&mut self, conn: ConnId, subscription: Subscription) -> Option<u64> {
        let newest = self.osds.epoch();
        let start = Epoch(u32::try_from(subscription.start).unwrap_or(u32::MAX));
        if start > newest {
            return None;
        }
        let session = self.sessions.get_mut(conn)?;
        let messages = if start == Epoch(0) {
            vec![self.osds.full_message()]
        } else {
            // What was sent already is not sent again (v16.2 `send_incremental`).
            let start = start.max(session.osd_epoch.next());
            let each = if session.is(EntityType::CLIENT) { 1 } else { OSD_MAP_MESSAGE_EPOCHS_MAX };
            self.osds.messages_from(start, each, subscription.onetime)
        };
        for message in &messages {
            // Who asks once is sent a part of a long history, and asks for the next.
            let last = message.full.keys().chain(message.incremental.keys()).max().copied();
            let last = if Bug::LongHistoryCutOff.is_planted() { Some(newest) } else { last };
            session.osd_epoch = session.osd_epoch.max(last.unwrap_or_default());
        }
        for message in messages {
            self.send(conn, message);
        }
        Some(u64::from(newest.0) + 1)
    }

    /// Sends the options that changed for this session since they were last sent, or for the first time.
    fn serve_config(&mut self, conn: ConnId) -> Option<u64> {
        let made_from = (self.central.generation(), self.osds.map().crush_version);
        let session = self.sessions.get_mut(conn)?;
        if session.config_seen.replace(made_from) == Some(made_from) {
            return None;
        }
        let session = self.sessions.get(conn)?;
        let entity = self.entity_for_config(&session.peer.entity, &session.hostname);
        let effective = self.central.effective(&entity);
        let options: BTreeMap<String, String> =
            effective.into_iter().map(|(name, (value, _))| (name.to_owned(), value.to_owned())).collect();
        let session = self.sessions.get_mut(conn)?;
        if session.config.as_ref() == Some(&options) {
            return None;
        }
        session.config = Some(options.clone());
        self.send(conn, messages::Config { options });
        Some(self.central.generation() + 1)
    }

    fn serve_log(&mut self, conn: ConnId, what: &str, subscription: Subscription) -> Option<u64> {
        let level = log_level(what)?;
        if subscription.start > self.log.newest() {
            return None;
        }
        let entries: Vec<_> = self.log.since(subscription.start, level).cloned().collect();
        if !entries.is_empty() {
            let paxos = messages::PaxosHead::new(self.log.newest());
            self.send(conn, Log { paxos, fsid: self.config.fsid, entries });
        }
        Some(self.log.newest() + 1)
    }

    /// Who `name` is to the central configuration: where it stands and of which class it is.
    pub(crate) fn entity_for_config(&self, name: &str, hostname: &str) -> Entity {
        let mut entity = Entity { name: name.to_owned(), ..Entity::default() };
        let osd = name.strip_prefix("osd.").and_then(|id| id.parse().ok()).map(OsdId);
        if let Some(osd) = osd {
            entity.location = crate::crush_view::full_location(&self.osds.map().crush, osd.0).into_iter().collect();
            entity.device_class = self.osds.map().device_class(osd).unwrap_or_default().to_owned();
        }
        if !hostname.is_empty() {
            entity.location.entry("host".to_owned()).or_insert_with(|| hostname.to_owned());
        }
        entity
    }

    /// Sends log lines to those who watch, between batches too: lines are no state anybody depends on.
    pub(crate) fn publish_log(&mut self) {
        let conns: Vec<(ConnId, String, Subscription)> = (self.sessions.iter())
            .flat_map(|(conn, s)| s.subscriptions.iter().map(move |(what, sub)| (conn, what.clone(), *sub)))
            .filter(|(_, what, _)| log_level(what).is_some())
            .collect();
        for (conn, what, subscription) in conns {
            if let Some(next) = self.serve_log(conn, &what, subscription)
                && let Some(session) = self.sessions.get_mut(conn)
            {
                session.subscriptions.insert(what, Subscription { start: next, onetime: false });
            }
        }
    }
}
