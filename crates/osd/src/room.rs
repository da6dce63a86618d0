//! Room in the stores of a write's members: how much each has left, and what of it must not be used up.
//!
//! Owns the last line of defence before a store refuses a write that its group's others have taken. Flags in the map
//! come late: statistics have to reach the monitor, and the map has to come back. So OSDs tell one another, each time a
//! good part of what is left is gone, and a primary judges by the tightest of a group's members. What is on its way to
//! a member while the news travels is bounded: the bytes of clients' requests that an OSD takes in at once shrink with
//! the room that is left.
//!
//! The reserve is what Ceph v16.2 keeps with `osd_failsafe_full_ratio` (`src/osd/OSD.cc`, `check_failsafe_full`): below
//! it only what makes room goes. Unlike Ceph's OSDs, which look at their own disk alone, these look at all members'.
//!
//! Invariant: as long as every member has told, what all primaries have under way fits into the tightest one's room.

use crate::core::Core;
use crate::limits::CLIENT_REQUEST_BYTES_MAX;
use crate::osd::Osd;
use base::OsdId;
use maps::OsdState;
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::OsdRoom;
use wire::net::Envelope;

/// How full a store is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// What can be used.
    pub total: u64,
    /// What of that is left.
    pub free: u64,
}

impl Room {
    fn used_ratio(self) -> f64 {
        (self.total - self.free) as f64 / self.total.max(1) as f64
    }
}

/// What an OSD knows of its own room and that of others.
#[derive(Debug)]
pub struct Rooms {
    /// Its own; none for a store that keeps no account.
    own: Option<Room>,
    /// Those that share placement groups with this one.
    sharers: BTreeSet<OsdId>,
    /// What others have told.
    others: BTreeMap<OsdId, Room>,
    /// What others have been told.
    told: BTreeMap<OsdId, Room>,
    /// What was used when the map's full ratio was passed, until the map says so: who was told to wait for that map must
    /// not wait in vain, however soon there is room again.
    full_at: Option<u64>,
    /// The share of a store beyond which only what makes room goes (`osd_failsafe_full_ratio`).
    failsafe_ratio: f64,
}

impl Default for Rooms {
    fn default() -> Rooms {
        let (own, sharers, others, told) = (None, BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Rooms { own, sharers, others, told, full_at: None, failsafe_ratio: 0.97 }
    }
}

/// The least that clients may have under way in one OSD, however tight it is: a request of the usual sizes.
const UNDER_WAY_BYTES_MIN: u64 = 4 << 20;

impl Rooms {
    /// Sets what is kept in reserve; nonsense keeps Ceph's default.
    pub(crate) fn set_failsafe_ratio(&mut self, ratio: f64) {
        self.failsafe_ratio = if ratio > 0.0 && ratio <= 1.0 { ratio } else { 0.97 };
    }

    /// Says who has to know how much room there is.
    pub(crate) fn set_sharers(&mut self, osds: BTreeSet<OsdId>) {
        self.sharers = osds;
    }

    fn reserve(&self, room: Room) -> u64 {
        (room.total as f64 * (1.0 - self.failsafe_ratio)) as u64
    }

    fn left(&self, room: Room) -> u64 {
        room.free.saturating_sub(self.reserve(room))
    }

    /// What the tightest of these OSDs has left beyond its reserve, or beyond half of it; nobody is tight of whom
    /// nothing is known.
    pub(crate) fn left_at(&self, me: OsdId, members: &[OsdId], into_reserve: bool) -> u64 {
        let of = |osd: &OsdId| if *osd == me { self.own } else { self.others.get(osd).copied() };
        let halves = if into_reserve { 1 } else { 2 };
        let left = |room: Room| room.free.saturating_sub(self.reserve(room) / 2 * halves);
        members.iter().filter_map(of).map(left).min().unwrap_or(u64::MAX)
    }

    /// Whether this OSD's own store is fuller than this; none for one that keeps no account.
    pub(crate) fn is_beyond(&self, ratio: f32) -> Option<bool> {
        self.own.map(|room| ratio > 0.0 && room.used_ratio() >= f64::from(ratio))
    }

    /// Whether the map is about to call one of these OSDs full: then clients will hold their writes back by themselves.
    pub(crate) fn will_be_called_full(&self, me: OsdId, members: &[OsdId], full_ratio: f32) -> bool {
        let of = |osd: &OsdId| if *osd == me { self.own } else { self.others.get(osd).copied() };
        let mut rooms = members.iter().filter_map(of);
        full_ratio > 0.0 && rooms.any(|room| room.used_ratio() >= f64::from(full_ratio))
    }

    /// What the monitor is told to be used, if `used` is.
    pub(crate) fn to_be_reported(&self, used: u64) -> u64 {
        self.full_at.map_or(used, |full| full.max(used))
    }

    /// What clients may have under way here at once: so much that all OSDs together, each judging by news that may be
    /// twice as good as the truth, stay within what the tightest has left.
    pub(crate) fn under_way_max(&self) -> usize {
        let all = self.own.iter().chain(self.others.values());
        let Some(left) = all.map(|room| self.left(*room)).min() else { return CLIENT_REQUEST_BYTES_MAX };
        let part = left / 4 / self.primaries();
        part.clamp(UNDER_WAY_BYTES_MIN, CLIENT_REQUEST_BYTES_MAX as u64) as usize
    }

    /// How many OSDs may send writes to one: this one and those it knows.
    pub(crate) fn primaries(&self) -> u64 {
        self.others.len() as u64 + 1
    }

    /// Whether one who was told `before` has to hear of `now`: a quarter of what was left is gone, or has come back.
    fn is_news(&self, before: Option<Room>, now: Room) -> bool {
        let Some(before) = before else { return true };
        let (before, now) = (self.left(before), self.left(now));
        before.abs_diff(now) > before.min(now) / 4
    }
}

impl Osd {
    /// The store says how much room it has. True where somebody is told.
    pub fn note_room(&mut self, room: Room) -> bool {
        let core = &mut self.core;
        let before = core.rooms.own.replace(room);
        if before == Some(room) {
            return false;
        }
        core.store_used = room.total - room.free;
        let ratios = [core.map.nearfull_ratio, core.map.backfillfull_ratio, core.map.full_ratio];
        let passed = |room: Room| ratios.map(|ratio| room.used_ratio() >= f64::from(ratio));
        // The monitor should know at once: it is the map by which clients hold their writes back.
        core.stats_changed |= before.is_some_and(|before| passed(before) != passed(room));
        if core.map.full_ratio > 0.0 && passed(room)[2] && !core.map.state(core.me()).contains(OsdState::FULL) {
            core.rooms.full_at = Some(core.store_used);
        }
        core.sessions.set_room(core.rooms.under_way_max());
        let told = tell_peers(core);
        self.let_go_on();
        told
    }

    /// Another OSD says how much room it has.
    pub(crate) fn peer_has_room(&mut self, from: OsdId, message: &OsdRoom) {
        let core = &mut self.core;
        core.rooms.others.insert(from, Room { total: message.total, free: message.free });
        core.sessions.set_room(core.rooms.under_way_max());
    }

    /// The map or the peers have changed: forgets those who are gone, tells those who are new.
    pub(crate) fn follow_rooms(&mut self) {
        let core = &mut self.core;
        let map = std::sync::Arc::clone(&core.map);
        core.rooms.others.retain(|osd, _| map.is_up(*osd));
        core.rooms.told.retain(|osd, _| map.is_up(*osd));
        if map.full_ratio <= 0.0 || map.state(core.me()).contains(OsdState::FULL) {
            // The truth from now on.
            core.stats_changed |= core.rooms.full_at.take().is_some();
        }
        tell_peers(core);
    }

    /// What was sent to this OSD may be lost: it hears again.
    pub(crate) fn tell_room_again(&mut self, osd: OsdId) {
        self.core.rooms.told.remove(&osd);
        tell_peers(&mut self.core);
    }
}

/// Tells the OSDs that share placement groups with this one what they should know; whether there were any.
fn tell_peers(core: &mut Core) -> bool {
    let Some(own) = core.rooms.own else { return false };
    let rooms = &core.rooms;
    let due = |osd: &&OsdId| core.map.is_up(**osd) && rooms.is_news(rooms.told.get(osd).copied(), own);
    let due: Vec<OsdId> = rooms.sharers.iter().filter(due).copied().collect();
    for osd in &due {
        core.rooms.told.insert(*osd, own);
        core.send_osd(*osd, Envelope::new(OsdRoom { total: own.total, free: own.free }));
    }
    !due.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn rooms(own: u64, others: &[u64]) -> Rooms {
        let room = |free| Room { total: 1000 * MIB, free };
        let others = others.iter().zip(1..).map(|(free, osd)| (OsdId(osd), room(*free))).collect();
        Rooms { own: Some(room(own)), others, ..Rooms::default() }
    }

    #[test]
    fn the_tightest_member_counts_and_strangers_do_not() {
        let rooms = rooms(500 * MIB, &[31 * MIB, 20 * MIB]);
        let left = |members: &[i32]| {
            let members: Vec<OsdId> = members.iter().map(|osd| OsdId(*osd)).collect();
            rooms.left_at(OsdId(0), &members, false) / MIB
        };
        assert_eq!((left(&[0, 1]), left(&[0, 2]), left(&[0, 7])), (1, 0, 470));
        assert_eq!(left(&[7]), u64::MAX / MIB, "nothing is known of it");
        assert_eq!(rooms.left_at(OsdId(0), &[OsdId(2)], true) / MIB, 5, "into half of the reserve");
    }

    #[test]
    fn what_is_under_way_shrinks_with_the_room() {
        assert_eq!(Rooms::default().under_way_max(), CLIENT_REQUEST_BYTES_MAX);
        let of = |own, others: &[u64]| rooms(own, others).under_way_max() as u64;
        assert_eq!(of(1000 * MIB, &[]), 970 * MIB / 4);
        assert_eq!(of(1000 * MIB, &[1000 * MIB, 150 * MIB]), 120 * MIB / 12);
        assert_eq!(of(1000 * MIB, &[0]), UNDER_WAY_BYTES_MIN);
    }

    #[test]
    fn news_is_a_quarter_more_or_less() {
        let rooms = Rooms::default();
        let room = |left: u64| Room { total: 1000 * MIB, free: left + 30 * MIB };
        assert!(rooms.is_news(None, room(7)));
        assert!(!rooms.is_news(Some(room(100 * MIB)), room(81 * MIB)));
        assert!(rooms.is_news(Some(room(100 * MIB)), room(79 * MIB)));
        assert!(rooms.is_news(Some(room(79 * MIB)), room(100 * MIB)));
        assert!(rooms.is_news(Some(room(1)), room(0)) && !rooms.is_news(Some(room(0)), room(0)));
    }
}
