//! Placement held against Ceph 16.2.15's `osdmaptool`.
//!
//! `golden/placement/base.osdmap` was made by `osdmaptool --createsimple 24 --with-default-pool` with a CRUSH map of
//! three racks, twelve hosts, two device classes and uneven weights. Each scenario changes it here, by an incremental
//! drawn from a fixed seed; what `osdmaptool --test-map-pgs-dump-all` said of the result is kept beside it, as
//! `SCENARIO.txt`, with the checksum of the map it was asked about. `MAPS_BLESS=1 cargo test -p maps --test placement`
//! asks it again.

mod fixtures;

use base::{Epoch, OsdId, PgId, PoolId, Rng};
use bytes::Bytes;
use maps::hash::ObjectHash;
use maps::mapping::Mapping;
use maps::osd_state::OsdAddrs;
use maps::pool::{PoolFlags, PoolKind};
use maps::{Incremental, ObjectLocator, OsdMap, OsdState, PgPool};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use wire::codec::Decode;

const OSDS: i32 = 24;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/placement").join(name)
}

fn base_map() -> OsdMap {
    let bytes = Bytes::from_static(include_bytes!("golden/placement/base.osdmap"));
    OsdMap::from_bytes(&bytes).expect("a map that osdmaptool wrote")
}

fn next(map: &OsdMap) -> Incremental {
    Incremental::new(map.fsid, map.epoch.next(), map.modified)
}

fn pool(crush_rule: u8, size: u8, pg_num: u32, pgp_num: u32) -> PgPool {
    let mut pool = PgPool { crush_rule, size, ..PgPool::default() };
    pool.set_pg_num(pg_num);
    pool.pgp_num = pgp_num;
    pool
}

/// All OSDs up and in, and pools of every kind.
fn with_pools() -> OsdMap {
    let mut map = base_map();
    let mut inc = next(&map);
    let erasure = |size, pg_num| PgPool { kind: PoolKind::Erasure, ..pool(4, size, pg_num, pg_num) };
    let plain = PgPool { object_hash: ObjectHash::Linux, flags: PoolFlags(0), ..pool(0, 3, 128, 128) };
    let pools = [
        ("pgp", pool(0, 2, 300, 77)),
        ("racks", pool(1, 3, 200, 200)),
        ("ssd", pool(2, 4, 150, 150)),
        ("misfit", pool(3, 3, 8, 8)),
        ("ec5", erasure(5, 200)),
        ("ec8", erasure(8, 100)),
        ("linux", plain),
        ("single", pool(0, 1, 64, 64)),
    ];
    for (i, (name, pool)) in pools.into_iter().enumerate() {
        let id = PoolId(10 + i as i64);
        inc.new_pools.insert(id, pool);
        inc.new_pool_names.insert(id, name.to_owned());
    }
    inc.new_pool_max = Some(PoolId(100));
    for osd in (0..OSDS).map(OsdId) {
        inc.new_up.insert(osd, OsdAddrs::default());
        inc.new_weight.insert(osd, 0x10000);
    }
    map.apply(&inc).expect("it follows");
    map
}

/// Some OSDs reweighted, out, down or gone.
fn unwell() -> OsdMap {
    let mut map = with_pools();
    let mut inc = next(&map);
    let mut rng = Rng::new(1);
    for osd in (0..OSDS).map(OsdId) {
        match rng.below(8) {
            0 => drop(inc.new_weight.insert(osd, 0)),
            1 | 2 => drop(inc.new_weight.insert(osd, 0x1000 + rng.below(0xf000) as u32)),
            3 => drop(inc.new_state.insert(osd, OsdState::UP)),
            _ => {}
        }
    }
    inc.new_state.insert(OsdId(5), OsdState::EXISTS);
    map.apply(&inc).expect("it follows");
    map
}

/// Uneven affinities on top.
fn reluctant() -> OsdMap {
    let mut map = unwell();
    let mut inc = next(&map);
    let mut rng = Rng::new(2);
    for osd in (0..OSDS).map(OsdId) {
        if rng.chance(2, 3) {
            let affinity = if rng.chance(1, 4) { 0 } else { rng.below(0x10000) as u32 };
            inc.new_primary_affinity.insert(osd, affinity);
        }
    }
    map.apply(&inc).expect("it follows");
    map
}

/// Explicit mappings and temporary sets on top, some of them to OSDs that are out, down, gone or never were.
fn overridden() -> OsdMap {
    let mut map = reluctant();
    let mut inc = next(&map);
    let mut rng = Rng::new(3);
    for (id, pool) in &map.pools {
        for seed in 0..pool.pg_num {
            let pg = PgId::new(*id, seed);
            let mut some = |count: u64| -> Vec<OsdId> { (0..count).map(|_| OsdId(rng.below(26) as i32)).collect() };
            let (set, pairs, temp) = (some(u64::from(pool.size)), some(4), some(u64::from(pool.size)));
            match rng.below(12) {
                0 => drop(inc.new_pg_upmap.insert(pg, set)),
                1 => drop(inc.new_pg_upmap_items.insert(pg, vec![(pairs[0], pairs[1]), (pairs[2], pairs[3])])),
                2 => {
                    let raw = map.pg_to_raw(pg);
                    let pairs = raw.iter().zip(pairs).map(|(from, to)| (*from, to)).collect();
                    inc.new_pg_upmap_items.insert(pg, pairs);
                }
                3 => {
                    inc.new_pg_upmap.insert(pg, set.clone());
                    inc.new_pg_upmap_items.insert(pg, vec![(set[0], pairs[1])]);
                }
                4 => drop(inc.new_pg_temp.insert(pg, temp)),
                5 => drop(inc.new_primary_temp.insert(pg, temp[0])),
                6 => {
                    inc.new_pg_temp.insert(pg, temp.clone());
                    inc.new_primary_temp.insert(pg, temp[temp.len() - 1]);
                }
                _ => {}
            }
        }
    }
    map.apply(&inc).expect("it follows");
    map
}

/// What osdmaptool prints of every group.
fn dump(map: &OsdMap) -> String {
    let mut text = format!("{:08x}\n", map.encoded().crc);
    for (id, pool) in &map.pools {
        writeln!(text, "pool {id} pg_num {}", pool.pg_num).expect("a string takes text");
        for pg in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
            writeln!(text, "{}", fixtures::placement_line(map, pg)).expect("a string takes text");
        }
    }
    text
}

fn osdmaptool(map: &OsdMap, arguments: &[&str]) -> String {
    let encoded = map.encoded();
    let file = std::env::temp_dir().join(format!("loligo-maps-{}-{:08x}", std::process::id(), encoded.crc));
    std::fs::write(&file, &encoded.bytes).expect("a temporary file");
    let output = Command::new("osdmaptool").arg(&file).args(arguments).output().expect("osdmaptool is installed");
    std::fs::remove_file(&file).expect("our own file");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn blessing() -> bool {
    std::env::var_os("MAPS_BLESS").is_some()
}

fn check(name: &str, map: &OsdMap) {
    let file = golden(&format!("{name}.txt"));
    if blessing() {
        let said = osdmaptool(map, &["--test-map-pgs-dump-all"]);
        // It prints statistics behind the groups.
        let groups = said.lines().filter(|line| line.starts_with("pool ") || line.contains(" raw ("));
        let text = groups.fold(format!("{:08x}\n", map.encoded().crc), |text, line| text + line + "\n");
        std::fs::write(&file, text).expect("the golden file");
    }
    let expected = std::fs::read_to_string(&file).expect("the golden file");
    let ours = dump(map);
    for (ours, expected) in ours.lines().zip(expected.lines()) {
        assert_eq!(ours, expected, "{name}");
    }
    assert_eq!(ours.lines().count(), expected.lines().count());
}

#[test]
fn a_healthy_map_places_as_osdmaptool_does() {
    check("healthy", &with_pools());
}

#[test]
fn an_unwell_map_places_as_osdmaptool_does() {
    check("unwell", &unwell());
}

#[test]
fn primary_affinity_picks_as_osdmaptool_does() {
    check("reluctant", &reluctant());
}

#[test]
fn overrides_place_as_osdmaptool_does() {
    check("overridden", &overridden());
}

#[test]
fn objects_go_to_the_groups_osdmaptool_says() {
    let map = with_pools();
    let file = golden("objects.txt");
    let mut rng = Rng::new(4);
    let alphabet: Vec<char> = "abcxyzABC0189._-/ %~ß".chars().collect();
    let names: Vec<(PoolId, String)> = (0..160u64)
        .map(|i| {
            let pool = PoolId([1, 10, 16, 14][i as usize % 4]);
            (pool, (0..1 + i / 4).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect())
        })
        .collect();
    if blessing() {
        let lines = names.iter().map(|(pool, name)| {
            let said = osdmaptool(&map, &["--test-map-object", name, "--pool", &pool.to_string()]);
            said.lines().find_map(|line| line.trim().strip_prefix("object ").map(str::to_owned)).expect("an answer")
        });
        std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).expect("the golden file");
    }
    let expected = std::fs::read_to_string(&file).expect("the golden file");
    let ours = names.iter().map(|(pool, name)| {
        let pg = map.object_to_pg(&ObjectLocator::pool(*pool), name.as_bytes()).expect("the pool exists");
        let acting: Vec<i32> = map.pg_to_up_acting(pg).acting.iter().map(|osd| osd.0).collect();
        format!("'{name}' -> {pg} -> {acting:?}").replace(", ", ",")
    });
    for (ours, expected) in ours.zip(expected.lines()) {
        assert_eq!(ours, expected);
    }
    assert_eq!(expected.lines().count(), names.len());
}

#[test]
fn a_kept_mapping_equals_a_computed_one_whatever_changed() {
    let mut mapping = Mapping::new();
    let mut previous: Option<Arc<OsdMap>> = None;
    let steps = [base_map(), with_pools(), unwell(), reluctant(), overridden(), unwell(), overridden(), base_map()];
    for map in steps.map(Arc::new) {
        let moved = mapping.update(&map);
        assert_kept(&mapping, &map);
        let sets = |map: &Option<Arc<OsdMap>>, pg| match map {
            Some(map) if map.pg_exists(pg) => Some(map.pg_to_up_acting(pg)),
            _ => None,
        };
        let groups = |map: &OsdMap| -> Vec<PgId> {
            map.pools.iter().flat_map(|(id, p)| (0..p.pg_num).map(|seed| PgId::new(*id, seed))).collect()
        };
        let mut all = groups(&map);
        all.extend(previous.as_deref().map(groups).unwrap_or_default());
        all.sort_unstable();
        all.dedup();
        let now = Some(Arc::clone(&map));
        let expected: Vec<PgId> = all.into_iter().filter(|pg| sets(&previous, *pg) != sets(&now, *pg)).collect();
        assert_eq!(moved, expected, "epoch {}", map.epoch);
        previous = now;
    }
}

#[test]
fn small_changes_are_followed_one_by_one() {
    let mut mapping = Mapping::new();
    let mut map = with_pools();
    mapping.update(&Arc::new(map.clone()));
    let mut rng = Rng::new(5);
    for _ in 0..60 {
        let mut inc = next(&map);
        let osd = OsdId(rng.below(24) as i32);
        let pools: Vec<PoolId> = map.pools.keys().copied().collect();
        let pool = pools[rng.below(pools.len() as u64) as usize];
        let pg = PgId::new(pool, rng.below(u64::from(map.pools[&pool].pg_num)) as u32);
        match rng.below(9) {
            0 => drop(inc.new_state.insert(osd, OsdState::UP)),
            1 => drop(inc.new_weight.insert(osd, rng.below(0x10001) as u32)),
            2 => drop(inc.new_primary_affinity.insert(osd, rng.below(0x10001) as u32)),
            3 => drop(inc.new_pg_temp.insert(pg, vec![osd])),
            4 => drop(inc.new_pg_temp.insert(pg, vec![])),
            5 => drop(
                inc.new_pg_upmap_items.insert(pg, vec![(map.pg_to_raw(pg)[..].first().copied().unwrap_or(osd), osd)]),
            ),
            6 => drop(inc.new_primary_temp.insert(pg, osd)),
            7 => inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().next()),
            _ => {
                let mut changed = PgPool::clone(&map.pools[&pool]);
                changed.set_pg_num(1 + rng.below(64) as u32);
                inc.new_pools.insert(pool, changed);
            }
        }
        map.apply(&inc).expect("it follows");
        mapping.update(&Arc::new(map.clone()));
        assert_kept(&mapping, &map);
    }
    assert_eq!(mapping.epoch(), Epoch(map.epoch.0));
}

fn assert_kept(mapping: &Mapping, map: &OsdMap) {
    let mut count = 0;
    for (pg, sets) in mapping.iter() {
        assert_eq!(*sets, map.pg_to_up_acting(pg), "{pg} at {}", map.epoch);
        count += 1;
    }
    assert_eq!(count, map.pools.values().map(|pool| pool.pg_num).sum::<u32>());
    for osd in (0..OSDS).map(OsdId) {
        assert!(mapping.pgs_of(osd).all(|(pg, _)| map.pg_to_up_acting(pg).concerns(osd)));
    }
}
