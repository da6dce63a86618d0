//! New maps: applied one after the other, and what follows from them for PGs, peers and waiting messages.
//!
//! Invariant: placement histories see every map; PGs begin intervals only with the newest of a batch.

use crate::boot::store_maps;
use crate::core::{Command, CommitFor, Level};
use crate::life::Record;
use crate::limits::ASK_AGAIN;
use crate::map_follower::{NextMap, follow, is_served};
use crate::osd::Osd;
use crate::peers::is_life_of;
use crate::pg::Pg;
use crate::requests::leave_to_client;
use base::{Bug, Epoch, Instant, OsdId, PgId};
use maps::{OsdMap, OsdState};
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::messages;
use wire::net::NetCommand;

/// Whether a pool has another number of PGs.
fn resizes(before: &OsdMap, map: &OsdMap) -> bool {
    map.pools.iter().any(|(id, pool)| before.pool(*id).is_some_and(|old| old.pg_num != pool.pg_num))
}

impl Osd {
    /// New maps.
    pub(crate) fn maps(&mut self, message: &messages::OsdMap) {
        match self.core.heartbeats.with_held(message) {
            Some(all) => self.follow_maps(&all),
            None => self.follow_maps(message),
        }
    }

    fn follow_maps(&mut self, message: &messages::OsdMap) {
        let before = Arc::clone(&self.core.map);
        let counters = &mut self.core.counters;
        counters.map_messages.inc();
        for epoch in message.full.keys().chain(message.incremental.keys()) {
            counters.map_message_epochs.inc();
            counters.map_message_epoch_dups.0 += u64::from(*epoch <= before.epoch);
        }
        let followed = follow(&mut self.core.blobs, &before, self.core.config.fsid, message);
        if let Some(trouble) = followed.trouble {
            self.core.log(Level::Error, format!("a map cannot be used: {trouble}"));
        }
        if followed.maps.last().is_some_and(|newest| self.holds_back(&newest.map, message)) {
            return;
        }
        if self.life.up && followed.maps.iter().any(|next| !next.contiguous) {
            return self.begin_again("the monitor has no more the maps that come next");
        }
        let (clients, ranges) = (Arc::clone(&before.blocklist), Arc::clone(&before.range_blocklist));
        let mut moved = self.go_through(&before, &followed.maps);
        let Some(newest) = followed.maps.last() else {
            return self.ask_for_maps(message.newest);
        };
        self.core.map = Arc::clone(&newest.map);
        self.mon.got("osdmap", u64::from(self.core.epoch().0));
        let blob = message.full.get(&self.core.epoch()).cloned();
        let blob = blob.unwrap_or_else(|| self.core.map.encoded().bytes);
        self.core.blobs.set_full(self.core.epoch(), blob);
        let reborn = self.core.with_peers(|peers, map, _, out| peers.follow(map, out));
        self.forget_sessions_of_the_dead(&before);
        if self.notice_own_state() {
            // Up at last: what was only noted until now begins.
            moved.extend(self.core.placement.iter().map(|(pg, _)| pg));
        }
        self.move_pgs(&moved, &reborn);
        self.left.drain(..).for_each(|request| leave_to_client(&mut self.core, &request));
        if self.core.map.blocklist != clients || self.core.map.range_blocklist != ranges {
            self.end_watches_of_shut_out();
        }
        self.follow_merges();
        if self.core.born == Epoch(0) {
            // New in the newest map that there is, which may be long after this one: whatever was before it, this store
            // does not have.
            let newest = if Bug::BornTooEarly.is_planted() { Epoch(0) } else { message.newest };
            self.core.born = newest.max(self.core.epoch());
        }
        self.store_maps();
        if message.newest > self.core.epoch() {
            self.ask_for_maps(message.newest);
        }
        self.wake_waiting();
        self.run();
    }

    /// Goes through new maps one by one; gives the PGs that these have moved.
    fn go_through(&mut self, before: &Arc<OsdMap>, maps: &[NextMap]) -> BTreeSet<PgId> {
        let mut moved = BTreeSet::new();
        let mut last = before;
        for next in maps {
            let previous = (last.epoch.0 > 0).then_some(&**last);
            // Before the first map ever there is nothing to be contiguous with; epoch 1 begins everything.
            let contiguous = next.contiguous && (previous.is_some() || next.map.epoch.0 == 1);
            let change = self.core.placement.follow(previous, &next.map, contiguous);
            if previous.is_none_or(|previous| resizes(previous, &next.map)) {
                self.resize_pgs(&next.map, contiguous);
            }
            moved.extend(change.moved);
            for pg in change.gone {
                moved.remove(&pg);
                // A start finds here what a map that comes later has made again.
                if self.pgs.get(&pg).is_none_or(|pg| pg.info.resized_at <= next.map.epoch) {
                    self.remove_pg(pg);
                }
            }
            self.core.full_pools.follow(&next.map);
            last = &next.map;
        }
        moved
    }

    /// Ends this life. Who has been up and does not know since when it has led a group cannot tell which requests are good
    /// still, and clients that know all maps would not send them again; to them a new life is a new interval.
    fn begin_again(&mut self, why: &str) {
        if !core::mem::replace(&mut self.life.stopped, true) {
            self.core.log(Level::Warn, format!("{why}: beginning again"));
            self.core.push(Command::BeginAgain);
        }
    }

    /// Closes the sessions that OSDs opened in lives which the maps since `before` show to be over: nobody will come
    /// back to them. One of a life that is not known yet stays.
    fn forget_sessions_of_the_dead(&mut self, before: &OsdMap) {
        let map = Arc::clone(&self.core.map);
        let lives = |osd: OsdId| map.is_up(osd) && map.addrs(osd) == before.addrs(osd);
        for conn in self.core.sessions.of_osds(|osd, peer| !lives(osd) && is_life_of(before, osd, peer)) {
            self.core.net(NetCommand::Close { conn });
            for pg in self.core.sessions.close(conn) {
                if let Some(pg) = self.pgs.get_mut(&pg) {
                    pg.session_closed(&mut self.core, conn);
                }
            }
        }
    }

    /// Something is missing between the map that is here and the newest.
    pub(crate) fn ask_for_maps(&mut self, newest: Epoch) {
        if newest > self.core.epoch() && self.core.now >= self.life.maps_asked + ASK_AGAIN / 8 {
            self.life.maps_asked = self.core.now;
            self.mon.subscribe("osdmap", u64::from(self.core.epoch().0) + 1, false);
        }
    }

    /// Looks whether the map shows this life as up; tells whether that is new.
    pub(crate) fn notice_own_state(&mut self) -> bool {
        let me = self.core.me();
        let ours = |addrs: &maps::OsdAddrs| {
            addrs.client.msgr2() == self.core.config.public_addrs.msgr2()
                && addrs.cluster.msgr2() == self.core.config.cluster_addrs.msgr2()
        };
        let up = self.core.map.is_up(me) && self.core.map.addrs(me).is_some_and(|addrs| ours(addrs));
        if !up && let Some(why) = self.told_to_stop() {
            self.core.log(Level::Error, format!("{why} in epoch {}: stopping", self.core.epoch()));
            self.life.up = false;
            self.stop();
            return false;
        }
        if up && !self.life.up {
            self.life.boot_epoch = self.core.epoch();
            self.core.log(Level::Info, format!("up in epoch {}", self.core.epoch()));
        } else if !up && self.life.up {
            self.core.log(Level::Warn, format!("marked down in epoch {}", self.core.epoch()));
            if self.life.stopping.is_none() {
                let text = format!("Monitor daemon marked osd.{me} down, but it is still running");
                self.core.cluster_log.line(self.core.now, crate::cluster_log::Level::WARN, text);
                self.say_that_it_is_known();
                if let Some(text) = self.life.markdowns.note(self.core.now) {
                    let text = format!("osd.{me} {text}");
                    self.core.log(Level::Error, text.clone());
                    self.core.cluster_log.line(self.core.now, crate::cluster_log::Level::ERROR, text);
                }
            }
            self.life.boot_sent = Instant::ZERO;
            self.life.down_since = self.core.now;
        }
        if !up && self.life.stopping.is_some() {
            self.stop();
        }
        let was = core::mem::replace(&mut self.life.up, up);
        up && !was
    }

    /// Why the map leaves no place for this life, if it does not. Who was asked to stop and is started again is welcome.
    fn told_to_stop(&self) -> Option<&'static str> {
        let state = self.core.map.state(self.core.me());
        match self.life.up {
            _ if state.contains(OsdState::DESTROYED) => Some("destroyed"),
            true if state.contains(OsdState::STOP) => Some("asked to stop"),
            true if !state.contains(OsdState::EXISTS) => Some("removed"),
            _ => None,
        }
    }

    /// Begins new intervals where there are any, and tells the other PGs of the new map, and of peers who have begun
    /// another life.
    fn move_pgs(&mut self, moved: &BTreeSet<PgId>, reborn: &[OsdId]) {
        let me = self.core.me();
        for id in moved {
            if !self.pgs.contains_key(id) {
                let comes_here = self.core.placement.get(*id).is_some_and(|history| history.current.concerns(me));
                if !comes_here || !is_served(&self.core.map, id.pool) {
                    continue;
                }
                self.make_way(|pg| pg == *id);
                let mut pg = Pg::new(*id);
                pg.info.pg_num = self.core.map.pool(id.pool).map_or(0, |pool| pool.pg_num);
                pg.info.resized_at = self.core.epoch();
                self.pgs.insert(*id, Box::new(pg));
            }
            if let (Some(pg), Some(history)) = (self.pgs.get_mut(id), self.core.placement.get(*id)) {
                pg.place(history);
                pg.start_interval(&mut self.core, self.life.up);
            }
        }
        self.pgs.retain(|_, pg| pg.exists || pg.sets.concerns(me));
        let companions = self.companions();
        for (id, pg) in &mut self.pgs {
            if self.life.up && !moved.contains(id) {
                pg.follow_map(&mut self.core);
                reborn.iter().for_each(|osd| pg.peer_reset(&mut self.core, *osd));
            }
        }
        self.watch_peers(&companions);
        self.core.rooms.set_sharers(companions);
        reborn.iter().for_each(|osd| self.tell_room_again(*osd));
        self.tick_peers();
        self.follow_rooms();
    }

    /// The OSDs that share a PG with this one.
    fn companions(&self) -> BTreeSet<OsdId> {
        let (me, mut companions) = (self.core.me(), BTreeSet::new());
        self.pgs.values().filter(|pg| pg.sets.concerns(me)).for_each(|pg| pg.companions(me, &mut companions));
        companions
    }

    pub(crate) fn tick_peers(&mut self) {
        for osd in self.core.with_peers(|peers, map, now, out| peers.tick(map, now, out)) {
            self.pgs.values_mut().for_each(|pg| pg.peer_reset(&mut self.core, osd));
            self.tell_room_again(osd);
        }
    }

    /// An operator gives up all copies of groups. What is asked before its map has come, or again, is asked again.
    pub(crate) fn asked_to_create(&mut self, message: &messages::OsdPgCreate) {
        if message.epoch > self.core.epoch() {
            return;
        }
        for spg in message.pgs.keys() {
            if let Some(pg) = self.pgs.get_mut(&spg.pg) {
                pg.make_anew(&mut self.core);
            }
        }
        self.run();
    }

    pub(crate) fn remove_pg(&mut self, id: PgId) {
        if let Some(mut pg) = self.pgs.remove(&id) {
            pg.abandon_recovery(&mut self.core);
            self.core.wishes.forget(id);
            pg.forget_watches(&mut self.core);
            pg.send_replica_reads_away(&mut self.core);
            pg.requeue_requests(&mut self.core);
            self.left.extend(pg.waiting.drain(..));
            if pg.exists {
                self.delete_collection(id);
            }
            self.core.stats_changed = true;
        }
    }

    /// Stores the newest map, once what it asks of PGs is: merges are understood one map at a time.
    pub(crate) fn store_maps(&mut self) {
        self.life.maps_unstored = self.core.is_resizing() && !Bug::MapBeforeSplit.is_planted();
        if self.life.maps_unstored {
            return;
        }
        let first = self.life.record == Record::None;
        if first {
            self.life.record = Record::OnItsWay;
        }
        let t = store_maps(&self.core, first);
        self.core.commit(if first { CommitFor::Birth } else { CommitFor::Own }, t);
    }
}
