//! Whom an OSD watches beside those with whom it shares placement groups: so that the death of one who shares none is
//! noticed, and that enough reporters from enough places see each death.
//!
//! Follows Ceph v16.2 (`src/osd/OSD.cc`, `maybe_update_heartbeat_peers`; `src/osd/OSDMap.cc`,
//! `get_random_up_osds_by_subtree`): the next OSD that is up by number, and the one before, so that everybody is watched
//! by somebody; one of each of several other subtrees; and whoever comes next, until there are enough. Ceph takes the
//! subtrees in random order. Here everybody begins with the one behind its own, so that all are watched alike.
//!
//! Invariant: what is chosen follows from the map and the arguments alone.

use base::OsdId;
use maps::OsdMap;
use std::collections::BTreeSet;

/// How much of a neighbourhood is enough.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Neighbourhood {
    /// OSDs watched at least (`osd_heartbeat_min_peers`).
    pub least: usize,
    /// Subtrees in which somebody is watched (that, or `mon_osd_min_down_reporters` if it is more).
    pub subtrees: usize,
    /// The type of bucket that a subtree is below (`mon_osd_reporter_subtree_level`).
    pub level: String,
}

impl Neighbourhood {
    /// The OSDs that `me` is to watch, of those that are up: those of `companions`, and whom that takes beside them.
    pub fn of(&self, map: &OsdMap, me: OsdId, companions: &BTreeSet<OsdId>) -> BTreeSet<OsdId> {
        let up: Vec<OsdId> = map.osd_ids().filter(|osd| map.is_up(*osd) && *osd != me).collect();
        // Those behind `me` by number, then those before.
        let (before, behind) = up.split_at(up.partition_point(|osd| *osd < me));
        let mut round = behind.iter().chain(before).copied();
        let mut watched: BTreeSet<OsdId> = companions.iter().copied().filter(|osd| map.is_up(*osd)).collect();
        watched.extend(round.clone().next().into_iter().chain(round.clone().last()));
        self.add_of_subtrees(map, me, &mut watched);
        while watched.len() < self.least
            && let Some(osd) = round.next()
        {
            watched.insert(osd);
        }
        watched
    }

    /// One of each subtree in which nobody is watched, as long as there are not enough subtrees.
    fn add_of_subtrees(&self, map: &OsdMap, me: OsdId, watched: &mut BTreeSet<OsdId>) {
        let mut subtrees = subtrees(map, &self.level);
        let own = subtrees.iter().position(|osds| osds.contains(&me));
        subtrees.rotate_left(own.unwrap_or(0));
        let others = &subtrees[usize::from(own.is_some())..];
        let is_covered = |osds: &&Vec<OsdId>| osds.iter().any(|osd| watched.contains(osd));
        let (covered, bare): (Vec<_>, Vec<_>) = others.iter().partition(is_covered);
        // Not everybody the same one.
        let turn = usize::try_from(me.0).unwrap_or(0);
        let chosen = bare.iter().filter_map(|osds| osds.get(turn.checked_rem(osds.len())?));
        watched.extend(chosen.take(self.subtrees.saturating_sub(covered.len())));
    }
}

/// The OSDs that are up below each bucket of the type named `level`, by the buckets' order.
fn subtrees(map: &OsdMap, level: &str) -> Vec<Vec<OsdId>> {
    let crush = &map.crush;
    let Some(level) = crush.type_id(level).filter(|level| *level > 0) else { return Vec::new() };
    let is_one = |id: i32| crush.item_kind(id) == Some(level) && !crush.is_shadow(id);
    let buckets = crush.buckets().map(|bucket| bucket.id()).filter(|id| is_one(*id));
    let up_below = |id| crush.devices_below(id).into_iter().map(OsdId).filter(|osd| map.is_up(*osd)).collect();
    buckets.map(up_below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Epoch;
    use maps::{Incremental, OsdState};
    use wire::Encode;
    use wire::types::Uuid;

    /// `hosts` hosts with `each` OSDs, all up.
    fn cluster(hosts: i32, each: i32) -> OsdMap {
        let mut map = OsdMap::new(Uuid::default());
        let mut crush = crush::CrushMap::simple("osd").expect("a new map");
        for osd in 0..hosts * each {
            let place = [("root", "default".to_owned()), ("host", format!("h{}", osd / each))];
            let place = place.map(|(kind, name)| (kind.to_owned(), name)).into();
            crush.create_or_move_item(osd, 0x10000, &format!("osd.{osd}"), &place).expect("a new device");
        }
        let mut inc = Incremental::new(Uuid::default(), Epoch(1), Default::default());
        inc.crush = crush.to_bytes();
        inc.new_max_osd = Some((hosts * each) as u32);
        for osd in (0..hosts * each).map(OsdId) {
            inc.new_state.insert(osd, OsdState::EXISTS);
            inc.new_up.insert(osd, Default::default());
        }
        map.apply(&inc).expect("the first map");
        map
    }

    fn mark_down(map: &mut OsdMap, osd: i32) {
        let mut inc = Incremental::new(Uuid::default(), map.epoch.next(), Default::default());
        inc.new_state.insert(OsdId(osd), OsdState::UP);
        map.apply(&inc).expect("a change that fits");
    }

    fn ids(osds: &[i32]) -> BTreeSet<OsdId> {
        osds.iter().copied().map(OsdId).collect()
    }

    fn watched(map: &OsdMap, least: usize, me: i32, companions: &[i32]) -> BTreeSet<OsdId> {
        let neighbourhood = Neighbourhood { least, subtrees: least, level: "host".to_owned() };
        neighbourhood.of(map, OsdId(me), &ids(companions))
    }

    #[test]
    fn whoever_shares_nothing_is_watched_by_those_next_to_it() {
        let mut map = cluster(1, 5);
        assert_eq!(watched(&map, 10, 2, &[]), ids(&[0, 1, 3, 4]), "all there are");
        assert_eq!(watched(&map, 0, 0, &[2]), ids(&[1, 2, 4]), "the one before the first is the last");
        mark_down(&mut map, 1);
        assert_eq!(watched(&map, 0, 0, &[1]), ids(&[2, 4]), "who is down is watched by nobody");
        assert_eq!(watched(&map, 3, 0, &[4]), ids(&[2, 3, 4]));
        assert_eq!(watched(&cluster(1, 1), 10, 0, &[]), ids(&[]), "alone");
    }

    #[test]
    fn those_who_are_watched_lie_below_different_hosts() {
        let map = cluster(6, 3);
        let hosts = |osds: &BTreeSet<OsdId>| osds.iter().map(|osd| osd.0 / 3).collect::<BTreeSet<_>>();
        let all = watched(&map, 4, 4, &[]);
        assert!(all.is_superset(&ids(&[3, 5])) && hosts(&all).len() == 5, "{all:?}");
        let all = watched(&map, 4, 4, &[9, 10, 11, 12]);
        assert!(all.is_superset(&ids(&[3, 5, 9, 10, 11, 12])) && hosts(&all).len() == 5, "{all:?}");
    }

    #[test]
    fn in_a_large_cluster_everybody_watches_few_and_is_watched_by_as_many() {
        let map = cluster(50, 4);
        let mut watchers = vec![0; 200];
        for me in 0..200 {
            let all = watched(&map, 10, me, &[]);
            assert!((10..=12).contains(&all.len()), "osd.{me} watches {all:?}");
            assert!(!all.contains(&OsdId(me)));
            all.iter().for_each(|osd| watchers[osd.0 as usize] += 1);
        }
        assert!(watchers.iter().all(|count| (2..=30).contains(count)), "{watchers:?}");
    }
}
