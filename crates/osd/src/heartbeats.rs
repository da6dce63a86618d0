//! Signs of life between OSDs: who has fallen silent, and until when this OSD may answer clients by what it has.
//!
//! An OSD that is cut off does not hear that others have gone on without it, and what it would answer its clients may be
//! old. So each answered ping is a lease: whoever answers promises to follow no map that shows the asker as down before
//! the lease is over, unless the asker is known to be dead or to know of it itself. Nobody goes on without an OSD unless
//! a member of the groups that it served takes part; so as long as all their other members have promised, what the OSD
//! has is the newest. Without a promise from each, its clients wait.
//!
//! Ceph leases reads group by group (v16.2 `src/osd/PeeringState.cc`, `recalc_readable_until`, and the state WAIT of
//! peering), for the same part of the grace. Ours are between OSDs, and bind whoever follows the map, not peering.
//! A group whose requests wait is `laggy`, as there; none is ever in WAIT, as who would peer has not followed the map.
//!
//! Of those who share no group with this OSD it asks for no lease: they could not go on without it, and a promise would
//! only keep them from a map.
//!
//! Invariants: a lease counts from when its ping was sent, a promise from when that was answered, and lasts longer by
//! what clocks may differ in pace. Who follows, or holds back, a map that shows an OSD as down promises it nothing. An OSD
//! that begins does not know what it has promised in its life before: it has promised everybody.
//!
//! Read next: `neighbours` (whom to watch), `peers` (the sessions that pings take), `following` (maps).

use crate::core::Level;
use crate::life::complaint;
use crate::neighbours::Neighbourhood;
use crate::osd::Osd;
use crate::peers::is_life_of;
use crate::ping_times::PingTimes;
use base::{Bug, Duration, Epoch, Instant, OsdId};
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::messages::{self, OsdPing};
use wire::net::{ConnId, Envelope};

/// What of the grace a lease lasts (`osd_pool_default_read_lease_ratio`, 0.8): it ends before others may go on.
const LEASE_FIFTHS: u32 = 4;
/// How much longer a promise lasts, as a part of the lease: more than clocks of working machines differ in pace.
const PROMISE_EXTRA_PART: u32 = 16;
/// The longest lease that another OSD is granted, whatever it asks for.
const LEASE_MAX: Duration = Duration::from_secs(300);
/// How often to look whether a map that was held back may be followed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Maps that may be held back: a cluster makes some ten a second at the worst, and promises last for seconds.
const HELD_MAPS_MAX: usize = 4096;
/// Whom an OSD that was marked down pings at the most, to see whether it can be heard.
const OTHERS_ASKED_MAX: usize = 10;

/// What is known of one peer's life.
#[derive(Clone, Debug)]
struct Beat {
    /// Since when it shares placement groups with this OSD, and is asked for leases, if it does.
    shares_since: Option<Instant>,
    /// Since when it is watched.
    since: Instant,
    /// When the newest ping that it has answered was sent.
    answered: Instant,
    /// When the lease ends that it has promised.
    leased_until: Instant,
    /// The monitor has been told that it is silent.
    complained: bool,
    /// How long its answers took.
    times: PingTimes,
}

impl Beat {
    fn shares(&self) -> bool {
        self.shares_since.is_some()
    }
}

/// Who lives, and what was promised.
#[derive(Debug)]
pub struct Heartbeats {
    every: Duration,
    grace: Duration,
    peers: BTreeMap<OsdId, Beat>,
    /// Whom else than those with whom groups are shared.
    pub(crate) neighbourhood: Neighbourhood,
    promised: BTreeMap<OsdId, Instant>,
    /// Whose death in the map is held back.
    denied: BTreeSet<OsdId>,
    began: Instant,
    round: Instant,
    look_again: Option<Instant>,
    /// The maps that wait. A monitor sends none twice in a session.
    held: Option<Box<messages::OsdMap>>,
}

impl Heartbeats {
    /// Those of an OSD that begins, with Ceph's times.
    pub fn new(now: Instant) -> Heartbeats {
        let (every, grace) = (Duration::from_secs(6), Duration::from_secs(20));
        Heartbeats {
            every,
            grace,
            peers: BTreeMap::new(),
            neighbourhood: Neighbourhood::default(),
            promised: BTreeMap::new(),
            denied: BTreeSet::new(),
            began: now,
            round: Instant::ZERO,
            look_again: None,
            held: None,
        }
    }

    /// Sets `osd_heartbeat_interval` and `osd_heartbeat_grace`. Leases have to be renewed before they end: with a short
    /// grace, pings come sooner.
    pub fn set(&mut self, interval: Duration, grace: Duration) {
        self.grace = grace.clamp(Duration::from_secs(1), LEASE_MAX);
        self.every = interval.clamp(Duration::from_millis(100), self.grace / 5);
    }

    /// How long watched OSDs take to answer.
    pub fn ping_times(&self) -> impl Iterator<Item = (OsdId, &PingTimes)> {
        self.peers.iter().map(|(osd, beat)| (*osd, &beat.times))
    }

    /// After how long a peer's silence is told to the monitor.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    fn lease(&self) -> Duration {
        self.grace / 5 * LEASE_FIFTHS
    }

    /// The lease that `osd` is asked for.
    fn lease_wanted(&self, osd: OsdId) -> Duration {
        if self.peers.get(&osd).is_some_and(Beat::shares) { self.lease() } else { Duration::ZERO }
    }

    /// Whether what this OSD has is surely the newest as far as `osd`, a member of the same group, could know otherwise.
    pub fn has_lease(&self, now: Instant, osd: OsdId) -> bool {
        self.peers.get(&osd).is_some_and(|beat| now < beat.leased_until) || Bug::LeaseIgnored.is_planted()
    }

    /// Whom this OSD watches.
    pub fn watched(&self) -> impl Iterator<Item = OsdId> {
        self.peers.keys().copied()
    }

    /// Whether `osd` should promise something that it has not promised, or not lately.
    fn lacks_lease(&self, now: Instant, osd: OsdId) -> bool {
        self.peers.get(&osd).is_some_and(Beat::shares) && !self.has_lease(now, osd)
    }

    /// Whether `osd` has not promised for longer than it takes it to answer where all is well.
    pub fn is_lease_overdue(&self, now: Instant, osd: OsdId) -> bool {
        let asked = |beat: &Beat| beat.shares_since.is_some_and(|since| now >= since + self.every);
        self.peers.get(&osd).is_some_and(asked) && !self.has_lease(now, osd)
    }

    /// Watches these and nobody else, of whom `sharers` are asked for leases. Gives those who have to be asked anew.
    fn watch(&mut self, now: Instant, osds: impl Iterator<Item = OsdId>, sharers: &BTreeSet<OsdId>) -> Vec<OsdId> {
        let mut before = core::mem::take(&mut self.peers);
        let begin = || Beat {
            shares_since: None,
            since: now,
            answered: Instant::ZERO,
            leased_until: Instant::ZERO,
            complained: false,
            times: PingTimes::default(),
        };
        let mut new = Vec::new();
        for osd in osds {
            let known = before.remove(&osd);
            let shared = known.as_ref().map(|beat| beat.shares_since);
            let shares_since = sharers.contains(&osd).then(|| shared.flatten().unwrap_or(now));
            new.extend(shared.is_none_or(|shared| shares_since.is_some() && shared.is_none()).then_some(osd));
            self.peers.insert(osd, Beat { shares_since, ..known.unwrap_or_else(begin) });
        }
        new
    }

    /// Begins a round of pings, if it is time. Who has slept through more than a round knows nothing of others' silence.
    fn begins_round(&mut self, now: Instant) -> bool {
        if now < self.round + self.every {
            return false;
        }
        if now > self.round + self.every * 2 {
            self.peers.values_mut().for_each(|beat| beat.since = now);
        }
        self.round = now;
        true
    }

    /// Who does not answer, and for how long; remembers that it was complained of.
    fn silent(&mut self, now: Instant) -> Vec<(OsdId, Duration)> {
        let grace = self.grace;
        let mut silent = Vec::new();
        for (osd, beat) in &mut self.peers {
            let silence = now.since(beat.since.max(beat.answered));
            if silence >= grace {
                beat.complained = true;
                silent.push((*osd, silence));
            }
        }
        silent
    }

    /// `osd` has answered the ping sent at `sent`, and promised a lease of this length, or none. Says whether that made a
    /// lease where there was none, and whether the monitor was told that it is silent.
    fn answered(&mut self, now: Instant, osd: OsdId, sent: Instant, lease: Duration) -> (bool, bool) {
        let lapsed = !self.has_lease(now, osd);
        let Some(beat) = self.peers.get_mut(&osd).filter(|_| sent <= now) else { return (false, false) };
        let complained = sent > beat.answered && core::mem::replace(&mut beat.complained, false);
        beat.answered = beat.answered.max(sent);
        beat.times.note(now, now.since(sent));
        beat.leased_until = beat.leased_until.max(sent + lease.min(LEASE_MAX));
        (lapsed && now < beat.leased_until, complained)
    }

    /// Promises `osd` a lease, unless its death is held back.
    fn promise(&mut self, now: Instant, osd: OsdId, lease: Duration) -> bool {
        if self.denied.contains(&osd) && !Bug::PromiseToTheDead.is_planted() {
            return false;
        }
        let until = (now + longer(lease.min(LEASE_MAX))).max(self.bound_until(osd));
        self.promised.insert(osd, until);
        true
    }

    /// Until when what was promised to `osd` binds.
    fn bound_until(&self, osd: OsdId) -> Instant {
        self.promised.get(&osd).copied().unwrap_or(self.began + longer(self.lease()))
    }

    /// The process at the address that the map shows for `osd` is gone, and with it whoever relied on a promise.
    pub fn is_gone(&mut self, osd: OsdId) {
        self.promised.insert(osd, Instant::ZERO);
    }

    /// Whether enough of those who were asked since `then` have answered: a third, as Ceph has it
    /// (`osd_heartbeat_min_healthy_ratio`).
    fn is_heard(&self, then: Instant) -> bool {
        let answers = self.peers.values().filter(|beat| beat.answered >= then).count();
        answers * 3 >= self.peers.len()
    }

    /// Keeps maps that may not be followed yet.
    fn hold(&mut self, maps: &messages::OsdMap) {
        self.held = Some(Box::new(maps.clone()));
    }

    /// The maps that were held back, together with new ones: beyond a bound those are lost, and come with the monitor's
    /// next session.
    pub fn with_held(&mut self, news: &messages::OsdMap) -> Option<Box<messages::OsdMap>> {
        let mut all = self.held.take()?;
        if all.full.len() + all.incremental.len() < HELD_MAPS_MAX {
            all.full.extend(news.full.iter().map(|(epoch, map)| (*epoch, map.clone())));
            all.incremental.extend(news.incremental.iter().map(|(epoch, map)| (*epoch, map.clone())));
            all.newest = all.newest.max(news.newest);
        }
        Some(all)
    }

    /// When something is due.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let round = (!self.peers.is_empty()).then(|| self.round + self.every);
        round.into_iter().chain(self.look_again).min()
    }
}

fn longer(lease: Duration) -> Duration {
    lease + lease / PROMISE_EXTRA_PART
}

/// Whether a map shows that the last life of an OSD is over: it said so itself, or its process was seen to be gone
/// (`OSDMap::is_dead`).
fn is_dead(map: &OsdMap, osd: OsdId) -> bool {
    let (Some(info), Some(more)) = (map.info(osd), map.xinfo(osd)) else { return false };
    more.dead_epoch > Epoch(0) && more.dead_epoch >= info.up_from
}

impl Osd {
    /// Pings whom this OSD watches, and tells the monitor who does not answer.
    pub(crate) fn tick_heartbeats(&mut self) {
        let now = self.core.now;
        if self.core.heartbeats.look_again.is_some_and(|at| at <= now) {
            self.core.heartbeats.look_again = None;
            self.maps(&messages::OsdMap { fsid: self.core.config.fsid, ..messages::OsdMap::default() });
        }
        if !self.core.heartbeats.begins_round(now) {
            return;
        }
        let watched: Vec<OsdId> = self.core.heartbeats.peers.keys().copied().collect();
        watched.into_iter().for_each(|osd| self.ping(osd));
        if !self.life.up || self.life.stopping.is_some() {
            return;
        }
        for (osd, silence) in self.core.heartbeats.silent(now) {
            let Some(addrs) = self.core.map.addrs(osd).filter(|_| self.core.map.is_up(osd)) else { continue };
            let message = complaint(&self.core, osd, addrs.client.clone(), Some(silence));
            self.mon.send(Envelope::new(message));
            // Once is enough to read of it; the monitor may not have heard.
            if silence < self.core.heartbeats.grace + self.core.heartbeats.every {
                self.core.log(Level::Warn, format!("{osd:?} has not answered for {} s", silence.as_secs()));
            }
        }
    }

    /// Says whom to watch: those with whom groups are shared, and neighbours; once marked down, some of those who are up.
    pub(crate) fn watch_peers(&mut self, companions: &BTreeSet<OsdId>) {
        let (me, now, map) = (self.core.me(), self.core.now, Arc::clone(&self.core.map));
        let again = !self.life.up && self.life.boot_epoch > Epoch(0);
        let others = || map.osd_ids().filter(|osd| *osd != me && map.is_up(*osd)).take(OTHERS_ASKED_MAX).collect();
        let beats = &mut self.core.heartbeats;
        let watched = if again { others() } else { beats.neighbourhood.of(&map, me, companions) };
        let new = beats.watch(now, watched.iter().copied(), companions);
        self.core.peers.watch(watched);
        // Where there is a session already; a new one brings a ping by itself.
        new.into_iter().for_each(|osd| self.ping(osd));
    }

    /// Whether others hear this OSD, which the map shows as down: where none does, coming up would stop them again.
    pub(crate) fn is_heard(&self) -> bool {
        self.life.boot_epoch == Epoch(0) || self.core.heartbeats.is_heard(self.life.down_since)
    }

    /// Pings a peer, where there is a session for that.
    pub(crate) fn ping(&mut self, osd: OsdId) {
        self.send_ping(osd, false);
    }

    fn send_ping(&mut self, osd: OsdId, returned: bool) {
        if let Some(conn) = self.core.peers.probe(osd) {
            let lease = self.core.heartbeats.lease_wanted(osd);
            let lease_ns = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
            let ping = OsdPing { sent_ns: self.core.now.0, lease_ns, answers: false, returned };
            self.core.send(conn, Envelope::new(ping));
        }
    }

    /// A ping, or an answer to one.
    pub(crate) fn pinged(&mut self, conn: ConnId, from: OsdId, ping: &OsdPing) {
        let now = self.core.now;
        if !ping.answers {
            // Whom the map shows as down, or in another life, it is too late to promise anything, or too early.
            let peer = self.core.sessions.get(conn).map(|session| &session.peer);
            let lives = peer.is_some_and(|peer| is_life_of(&self.core.map, from, peer));
            let promises = (lives || Bug::PromiseToTheDead.is_planted())
                && self.core.heartbeats.promise(now, from, Duration::from_nanos(ping.lease_ns));
            let lease_ns = if promises { ping.lease_ns } else { 0 };
            self.core.send(conn, Envelope::new(OsdPing { answers: true, lease_ns, ..*ping }));
            // Who asks has the map that shows this life: it may promise now what it could not before.
            if !ping.returned && self.core.heartbeats.lacks_lease(now, from) {
                self.send_ping(from, true);
            }
            return;
        }
        let (lapsed, complained) =
            self.core.heartbeats.answered(now, from, Instant(ping.sent_ns), Duration::from_nanos(ping.lease_ns));
        if complained && let Some(addrs) = self.core.map.addrs(from) {
            let message = complaint(&self.core, from, addrs.client.clone(), None);
            self.mon.send(Envelope::new(message));
        }
        if lapsed {
            self.core.stats_changed = true;
            for pg in self.pgs.values_mut().filter(|pg| !pg.waiting.is_empty()) {
                pg.lease_renewed(&mut self.core);
            }
            self.run();
        }
    }

    /// Whether a map that has come may not be followed yet: it shows somebody as down who may still answer clients, and
    /// relies on a promise.
    pub(crate) fn holds_back(&mut self, newest: &OsdMap, message: &messages::OsdMap) -> bool {
        let (me, now, before) = (self.core.me(), self.core.now, &self.core.map);
        let beats = &mut self.core.heartbeats;
        let left = |osd: OsdId| {
            let since = newest.info(osd).map_or(Epoch(0), |info| info.down_at);
            !newest.is_up(osd) && (since > before.epoch || before.is_up(osd)) && !is_dead(newest, osd)
        };
        let osds: BTreeSet<OsdId> = newest.osd_ids().chain(before.osd_ids()).collect();
        let bound: Vec<OsdId> =
            osds.into_iter().filter(|osd| *osd != me && beats.bound_until(*osd) > now && left(*osd)).collect();
        if before.epoch == Epoch(0) || bound.is_empty() || Bug::PromisesBroken.is_planted() {
            beats.denied.clear();
            beats.look_again = None;
            return false;
        }
        let until = bound.iter().map(|osd| beats.bound_until(*osd)).max().unwrap_or(now);
        beats.look_again = Some(until.min(now + LOOK_AGAIN));
        if bound.iter().any(|osd| !beats.denied.contains(osd)) {
            let (epoch, wait) = (newest.epoch, until.since(now).as_secs_f64());
            let text = format!("{bound:?} may still answer clients: map {epoch} waits for up to {wait:.1} s");
            beats.denied.extend(bound);
            self.core.log(Level::Info, text);
        }
        self.core.heartbeats.hold(message);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: OsdId = OsdId(3);
    const LEASE: Duration = Duration::from_secs(8);

    fn at(ms: u64) -> Instant {
        Instant::from_secs(1000) + Duration::from_millis(ms)
    }

    fn beats() -> Heartbeats {
        let mut beats = Heartbeats::new(at(0));
        beats.set(Duration::from_secs(1), Duration::from_secs(10));
        beats.watch(at(0), [PEER].into_iter(), &BTreeSet::from([PEER]));
        beats
    }

    #[test]
    fn a_lease_counts_from_the_ping_and_a_promise_from_its_answer() {
        let (mut asks, mut answers) = (beats(), beats());
        assert!(!asks.has_lease(at(0), PEER));
        assert!(answers.promise(at(20_000), PEER, asks.lease()));
        assert_eq!(asks.answered(at(20_100), PEER, at(19_900), LEASE), (true, false));
        assert!(asks.has_lease(at(27_899), PEER) && !asks.has_lease(at(27_900), PEER));
        assert!(!asks.is_lease_overdue(at(27_899), PEER) && asks.is_lease_overdue(at(27_900), PEER));
        assert_eq!(answers.bound_until(PEER), at(28_500));
        // What a new grace says holds for leases to come.
        asks.set(Duration::from_secs(1), Duration::from_secs(100));
        assert!(!asks.has_lease(at(27_900), PEER));
        // An answer that another has overtaken, or one from the future, changes nothing.
        assert_eq!(asks.answered(at(20_200), PEER, at(19_000), LEASE), (false, false));
        assert_eq!(asks.answered(at(20_200), PEER, at(30_000), LEASE), (false, false));
        assert!(!asks.has_lease(at(27_900), PEER));
        answers.is_gone(PEER);
        assert!(answers.bound_until(PEER) < at(20_000));
    }

    #[test]
    fn an_answer_without_a_promise_is_a_sign_of_life_and_no_lease() {
        let mut beats = beats();
        assert!(!beats.is_lease_overdue(at(999), PEER) && beats.is_lease_overdue(at(1000), PEER));
        assert_eq!(beats.answered(at(100), PEER, at(90), Duration::ZERO), (false, false));
        assert!(!beats.has_lease(at(100), PEER) && beats.is_heard(at(50)));
        assert_eq!(beats.answered(at(200), PEER, at(190), LEASE), (true, false));
        assert!(beats.has_lease(at(200), PEER));
    }

    #[test]
    fn who_begins_has_promised_everybody() {
        assert_eq!(beats().bound_until(OsdId(9)), at(8_500));
    }

    #[test]
    fn who_is_denied_gets_no_promise() {
        let mut beats = beats();
        beats.denied.insert(PEER);
        assert!(!beats.promise(at(1), PEER, Duration::from_secs(8)));
    }

    #[test]
    fn silence_is_told_after_the_grace_and_taken_back() {
        let mut beats = beats();
        for second in 0..10 {
            assert!(beats.begins_round(at(second * 1000)));
            assert!(!beats.begins_round(at(second * 1000 + 500)));
            assert_eq!(beats.silent(at(second * 1000)), []);
        }
        assert!(beats.begins_round(at(10_000)));
        assert_eq!(beats.silent(at(10_000)), [(PEER, Duration::from_secs(10))]);
        assert_eq!(beats.answered(at(10_500), PEER, at(10_400), LEASE), (true, true));
        assert_eq!(beats.silent(at(10_600)), []);
    }

    #[test]
    fn who_has_slept_complains_of_nobody() {
        let mut beats = beats();
        assert!(beats.begins_round(at(0)));
        assert!(beats.begins_round(at(60_000)));
        assert_eq!(beats.silent(at(60_000)), []);
    }

    #[test]
    fn a_stranger_is_asked_for_no_lease_until_it_shares_a_group() {
        let (mut beats, stranger) = (beats(), OsdId(5));
        let sharers = BTreeSet::from([PEER]);
        assert_eq!(beats.watch(at(10), [PEER, stranger].into_iter(), &sharers), [stranger]);
        assert_eq!((beats.lease_wanted(PEER), beats.lease_wanted(stranger)), (LEASE, Duration::ZERO));
        assert!(beats.lacks_lease(at(10), PEER) && !beats.lacks_lease(at(10), stranger));
        let sharers = BTreeSet::from([PEER, stranger]);
        assert_eq!(beats.watch(at(20), [PEER, stranger].into_iter(), &sharers), [stranger], "it is asked at once");
        assert_eq!(beats.lease_wanted(stranger), LEASE);
    }

    #[test]
    fn a_third_of_those_asked_has_to_answer() {
        let mut beats = beats();
        beats.watch(at(0), (1..=4).map(OsdId), &BTreeSet::new());
        beats.answered(at(100), OsdId(1), at(90), LEASE);
        assert!(!beats.is_heard(at(50)));
        beats.answered(at(100), OsdId(2), at(90), LEASE);
        assert!(beats.is_heard(at(50)) && !beats.is_heard(at(95)));
        beats.watch(at(0), core::iter::empty(), &BTreeSet::new());
        assert!(beats.is_heard(at(95)));
    }
}
