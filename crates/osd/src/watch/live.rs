//! The watches and notifications that are alive in a PG, on its primary.
//!
//! Owns which session each watch is on, when it was last heard of, and which notifications wait for it. Nothing of it
//! is kept: a new primary, or a new interval, begins with the records, waits for each watcher to come back, and ends
//! the watch of one who does not within its time. What it wants sent it appends to a list.
//!
//! Invariants: a notification waits only for watches that exist; every watch that can time out has an alarm at or
//! before that time (pings only move the time, the alarm finds out when it goes off).
//!
//! Follows Ceph v16.2 `src/osd/Watch.cc`.

use super::effect::Effect;
use super::notification::Notification;
use super::record::{WatchName, WatchRecord, Watchers};
use crate::limits::{NOTIFICATION_BYTES_MAX, NOTIFICATION_TIMEOUT_S_MAX, NOTIFICATIONS_MAX};
use base::hash::FixedHashMap;
use base::{Duration, Instant};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectId;
use wire::messages::{WatchNotify, watch_event};
use wire::net::ConnId;
use wire::types::{EntityAddr, EntityName};

/// Messages to send.
pub type Sends = Vec<(ConnId, WatchNotify)>;

/// A watch on its object.
pub type Watched = (ObjectId, WatchName);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Watch {
    record: WatchRecord,
    conn: Option<ConnId>,
    pings: bool,
    heard: Instant,
    /// When it ends if nothing is heard; none for one that lives as long as its session.
    deadline: Option<Instant>,
    /// When its alarm goes off.
    alarm: Option<Instant>,
    /// Its record is being removed.
    ending: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Alarm {
    Watch(ObjectId, WatchName),
    Notification(u64),
}

/// Who asks for effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The session.
    pub conn: ConnId,
    /// The client.
    pub entity: EntityName,
}

/// See the module.
#[derive(Debug, Default)]
pub struct LiveWatches {
    objects: FixedHashMap<ObjectId, BTreeMap<WatchName, Watch>>,
    notifications: BTreeMap<u64, Notification>,
    bytes: usize,
    alarms: BTreeSet<(Instant, Alarm)>,
}

impl LiveWatches {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.notifications.is_empty()
    }

    /// Whether the watches of an object are known here.
    pub fn knows(&self, object: &ObjectId) -> bool {
        self.objects.contains_key(object)
    }

    /// Takes the watchers of an object from its record: all of them have their time to come back.
    pub fn load(&mut self, now: Instant, object: &ObjectId, watchers: &Watchers) {
        if watchers.is_empty() || self.knows(object) {
            return;
        }
        for (name, record) in watchers {
            self.objects.entry(object.clone()).or_default().insert(*name, Watch::new(now, *record));
            self.set_deadline(object, name, Some(now + record.timeout()));
        }
    }

    /// All watches.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &WatchName, &WatchRecord)> {
        self.objects.iter().flat_map(|(object, watches)| watches.iter().map(move |(n, w)| (object, n, &w.record)))
    }

    /// Whether the watcher's session stands.
    pub fn is_connected(&self, object: &ObjectId, name: &WatchName) -> bool {
        self.watch(object, name).is_some_and(|watch| watch.conn.is_some())
    }

    /// Whether the watch is to end because its time is over or its client is shut out.
    pub fn is_ending(&self, object: &ObjectId, name: &WatchName) -> bool {
        self.watch(object, name).is_some_and(|watch| watch.ending)
    }

    /// Whether there is room for another notification with this many bytes.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.notifications.len() < NOTIFICATIONS_MAX && self.bytes + bytes <= NOTIFICATION_BYTES_MAX
    }

    /// Whether there is room for an answer with this many bytes.
    pub fn has_room_for_answer(&self, bytes: usize) -> bool {
        self.bytes + bytes <= NOTIFICATION_BYTES_MAX
    }

    fn watch(&self, object: &ObjectId, name: &WatchName) -> Option<&Watch> {
        self.objects.get(object)?.get(name)
    }

    fn watch_mut(&mut self, object: &ObjectId, name: &WatchName) -> Option<&mut Watch> {
        self.objects.get_mut(object)?.get_mut(name)
    }

    /// Does what an op wants done. `version` is the object's that users see.
    pub fn apply(
        &mut self,
        now: Instant,
        object: &ObjectId,
        caller: Caller,
        version: u64,
        effect: Effect,
        out: &mut Sends,
    ) {
        match effect {
            Effect::Connect { watch, record, pings } => {
                self.connect(now, object, watch, record, (caller.conn, pings), out)
            }
            Effect::Disconnect { watch, tell } => self.remove(object, &watch, tell, out),
            Effect::Ping { watch } => {
                if let Some(found) = self.watch_mut(object, &watch) {
                    found.heard = now;
                    if found.conn.is_some() {
                        let until = now + found.record.timeout();
                        self.set_deadline(object, &watch, Some(until));
                    }
                }
            }
            Effect::Notify { id, cookie, timeout_s, payload } => {
                let timeout = Duration::from_secs(u64::from(timeout_s.min(NOTIFICATION_TIMEOUT_S_MAX)));
                let notification = Notification {
                    id,
                    object: object.clone(),
                    conn: Some(caller.conn),
                    client: caller.entity.num as u64,
                    cookie,
                    version,
                    payload: Bytes::copy_from_slice(&payload),
                    deadline: now + timeout,
                    waiting: BTreeSet::new(),
                    answers: Vec::new(),
                };
                self.notify(now, notification, out);
            }
            Effect::Ack { id, cookie, payload } => self.acknowledge(object, caller.entity, id, cookie, &payload, out),
        }
    }

    fn connect(
        &mut self,
        now: Instant,
        object: &ObjectId,
        name: WatchName,
        record: WatchRecord,
        (conn, pings): (ConnId, bool),
        out: &mut Sends,
    ) {
        let watches = self.objects.entry(object.clone()).or_default();
        let watch = watches.entry(name).or_insert_with(|| Watch::new(now, record));
        let moved = watch.conn != Some(conn);
        (watch.conn, watch.pings, watch.heard, watch.ending) = (Some(conn), pings, now, false);
        let until = pings.then(|| now + watch.record.timeout());
        self.set_deadline(object, &name, until);
        if moved {
            // What it has not answered it may not have heard.
            let unheard = self.notifications.values().filter(|n| n.object == *object && n.waiting.contains(&name));
            out.extend(unheard.map(|n| (conn, n.call(name.cookie))));
        }
    }

    /// Ends a watch; nobody waits for it any more.
    fn remove(&mut self, object: &ObjectId, name: &WatchName, tell: bool, out: &mut Sends) {
        let Some(watches) = self.objects.get_mut(object) else { return };
        let Some(watch) = watches.remove(name) else { return };
        if watches.is_empty() {
            self.objects.remove(object);
        }
        if let Some(at) = watch.alarm {
            self.alarms.remove(&(at, Alarm::Watch(object.clone(), *name)));
        }
        if let (true, Some(conn)) = (tell, watch.conn) {
            let event = watch_event::DISCONNECT;
            out.push((conn, WatchNotify { event, cookie: name.cookie, ..WatchNotify::default() }));
        }
        let on_object = self.notifications.values_mut().filter(|n| n.object == *object);
        let done: Vec<u64> =
            on_object.filter_map(|n| (n.waiting.remove(name) && n.waiting.is_empty()).then_some(n.id)).collect();
        done.into_iter().for_each(|id| self.complete(id, out));
    }

    fn notify(&mut self, now: Instant, mut notification: Notification, out: &mut Sends) {
        for (name, watch) in self.objects.get_mut(&notification.object).into_iter().flatten() {
            if watch.pings && watch.heard + watch.record.timeout() < now {
                // Silent for too long already, only not yet removed.
                watch.conn = None;
                continue;
            }
            notification.waiting.insert(*name);
            out.extend(watch.conn.map(|conn| (conn, notification.call(name.cookie))));
        }
        if notification.waiting.is_empty() {
            out.extend(notification.conn.map(|conn| (conn, notification.complete())));
            return;
        }
        self.bytes += notification.bytes();
        self.alarms.insert((notification.deadline, Alarm::Notification(notification.id)));
        self.notifications.insert(notification.id, notification);
    }

    fn acknowledge(
        &mut self,
        object: &ObjectId,
        entity: EntityName,
        id: u64,
        cookie: Option<u64>,
        payload: &Bytes,
        out: &mut Sends,
    ) {
        let Some(notification) = self.notifications.get_mut(&id).filter(|n| n.object == *object) else { return };
        let named = |name: &&WatchName| name.entity == entity && cookie.is_none_or(|cookie| name.cookie == cookie);
        let answering: Vec<WatchName> = notification.waiting.iter().filter(named).copied().collect();
        for name in &answering {
            if notification.answer(name, Bytes::copy_from_slice(payload)) {
                self.bytes += payload.len();
            }
        }
        if !answering.is_empty() && notification.waiting.is_empty() {
            self.complete(id, out);
        }
    }

    fn complete(&mut self, id: u64, out: &mut Sends) {
        if let Some(notification) = self.notifications.remove(&id) {
            self.bytes -= notification.bytes();
            self.alarms.remove(&(notification.deadline, Alarm::Notification(id)));
            out.extend(notification.conn.map(|conn| (conn, notification.complete())));
        }
    }

    /// A session is over: its watches have their time to come back. Its notifications go on, for watchers who are away and
    /// come back, but nobody is told how they end.
    pub fn session_closed(&mut self, now: Instant, conn: ConnId) {
        let mut silent = Vec::new();
        for (object, watches) in &mut self.objects {
            for (name, watch) in watches.iter_mut().filter(|(_, watch)| watch.conn == Some(conn)) {
                watch.conn = None;
                if !watch.pings {
                    silent.push((object.clone(), *name, now + watch.record.timeout()));
                }
            }
        }
        silent.into_iter().for_each(|(object, name, until)| self.set_deadline(&object, &name, Some(until)));
        self.notifications.values_mut().filter(|n| n.conn == Some(conn)).for_each(|n| n.conn = None);
    }

    /// Ends what the clock ends: notifications complete, and the watches given are to be removed from their records.
    pub fn expire(&mut self, now: Instant, out: &mut Sends) -> Vec<Watched> {
        let mut over = Vec::new();
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            match self.alarms.pop_first() {
                Some((_, Alarm::Notification(id))) => self.complete(id, out),
                Some((_, Alarm::Watch(object, name))) => {
                    let Some(watch) = self.watch_mut(&object, &name) else { continue };
                    watch.alarm = None;
                    match watch.deadline {
                        Some(deadline) if deadline <= now => {
                            (watch.ending, watch.deadline) = (true, None);
                            over.push((object, name));
                        }
                        later => self.set_deadline(&object, &name, later),
                    }
                }
                None => break,
            }
        }
        over
    }

    /// The watches of clients that are shut out: they are to be removed from their records.
    pub fn shut_out(&mut self, is_shut_out: impl Fn(&EntityAddr) -> bool) -> Vec<Watched> {
        let mut over = Vec::new();
        for (object, watches) in &mut self.objects {
            for (name, watch) in watches.iter_mut().filter(|(_, w)| !w.ending && is_shut_out(&w.record.addr)) {
                watch.ending = true;
                over.push((object.clone(), *name));
            }
        }
        over.sort_unstable();
        over
    }

    /// When `expire` is due.
    pub fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Forgets everything: the interval is over, clients will begin anew.
    pub fn clear(&mut self) {
        *self = LiveWatches::default();
    }

    fn set_deadline(&mut self, object: &ObjectId, name: &WatchName, deadline: Option<Instant>) {
        let Some(watch) = self.objects.get_mut(object).and_then(|watches| watches.get_mut(name)) else { return };
        watch.deadline = deadline;
        let Some(deadline) = deadline else { return };
        if watch.alarm.is_some_and(|alarm| alarm <= deadline) {
            return;
        }
        if let Some(old) = watch.alarm.replace(deadline) {
            self.alarms.remove(&(old, Alarm::Watch(object.clone(), *name)));
        }
        self.alarms.insert((deadline, Alarm::Watch(object.clone(), *name)));
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        assert_eq!(
            self.bytes,
            self.notifications.values().map(Notification::bytes).sum::<usize>(),
            "bytes are counted"
        );
        for notification in self.notifications.values() {
            assert!(!notification.waiting.is_empty(), "a notification waits for nobody");
            let exist = notification.waiting.iter().all(|name| self.watch(&notification.object, name).is_some());
            assert!(exist, "a notification waits for a watch that is gone");
        }
        for (object, watches) in &self.objects {
            assert!(!watches.is_empty(), "an object is remembered for nothing");
            for (name, watch) in watches {
                if let Some(alarm) = watch.alarm {
                    let there = self.alarms.contains(&(alarm, Alarm::Watch(object.clone(), *name)));
                    assert!(there, "a watch's alarm is lost");
                }
                let heard = watch.deadline.is_none_or(|deadline| watch.alarm.is_some_and(|alarm| alarm <= deadline));
                assert!(heard, "a watch would outlive its time");
            }
        }
    }
}

impl Watch {
    fn new(now: Instant, record: WatchRecord) -> Watch {
        Watch { record, conn: None, pings: false, heard: now, deadline: None, alarm: None, ending: false }
    }
}

#[cfg(test)]
mod tests;
