//! Damaged maps, incrementals and statistics: decoding never panics, and what decodes means what it says.
//!
//! Real bytes are damaged from fixed seeds. Checksums are made right again after the damage, so that it reaches the
//! fields behind them.

mod fixtures;

use base::checksum::{CRC_SEED, crc32c};
use base::{OsdId, PgId, Rng};
use bytes::Bytes;
use fixtures::{messages, numbered};
use maps::mapping::Mapping;
use maps::stats::{PgStat, PoolStat};
use maps::{FsMap, Incremental, MgrMap, MonMap, OsdMap, OsdStat, ServiceMap};
use std::fmt::Debug;
use std::sync::Arc;
use wire::codec::{Decode, Encode};
use wire::messages::Message;

/// Values that sit at the edges of what counts and ids may be.
const EDGES: [u32; 10] = [0, 1, 2, 0xff, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

/// Damages some bytes from `from` on.
fn damage(bytes: &Bytes, from: usize, rng: &mut Rng) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        let len = damaged.len();
        if len <= from + 8 {
            break;
        }
        let at = from + rng.below((len - from - 4) as u64) as usize;
        match rng.below(6) {
            0 => damaged[at] ^= 1 << rng.below(8),
            1 => damaged[at] = rng.u64() as u8,
            2 | 3 => {
                let edge = EDGES[rng.below(EDGES.len() as u64) as usize];
                damaged[at..at + 4].copy_from_slice(&edge.to_le_bytes());
            }
            4 => damaged.truncate(at),
            _ => {
                let count = 1 + rng.below(12) as usize;
                let piece = damaged[at..(at + count).min(len)].to_vec();
                damaged.splice(at..at, piece);
            }
        }
    }
    damaged
}

/// Damages a map or incremental, then makes its length and its checksum, `tail` bytes before the end, right again.
fn damage_checked(bytes: &Bytes, tail: usize, rng: &mut Rng) -> Bytes {
    let mut damaged = damage(bytes, 6, rng);
    let len = damaged.len() as u32 - 6;
    damaged[2..6].copy_from_slice(&len.to_le_bytes());
    if let Some(at) = damaged.len().checked_sub(4 + tail).filter(|at| *at > 6) {
        let crc = crc32c(crc32c(CRC_SEED, &damaged[..at]), &damaged[at + 4..]);
        damaged[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    Bytes::from(damaged)
}

/// What decodes must decode again from its own encoding, and encode to the same bytes.
fn consistent<T: Decode + Encode>(bytes: &Bytes) -> Option<T> {
    let value = T::from_bytes(bytes).ok()?;
    let encoded = value.to_bytes();
    let again = T::from_bytes(&encoded).expect("our own encoding decodes");
    assert_eq!(again.to_bytes(), encoded);
    Some(value)
}

#[test]
fn damaged_maps_are_refused_or_answer() {
    let mut rng = Rng::new(11);
    let mut accepted = 0;
    for bytes in numbered("osdmap.full.", ".bin").values() {
        for _ in 0..40 {
            let Some(map) = consistent::<OsdMap>(&damage_checked(bytes, 0, &mut rng)) else { continue };
            accepted += 1;
            for (id, pool) in &map.pools {
                for seed in [0, 1, pool.pg_num / 2, pool.pg_num - 1, u32::MAX] {
                    map.pg_to_up_acting(PgId::new(*id, seed));
                    map.raw_pg_to_up_acting(PgId::new(*id, seed));
                }
            }
            for osd in [-1, 0, 1, map.max_osd(), i32::MAX, i32::MIN].map(OsdId) {
                assert!(!(map.is_up(osd) && map.info(osd).is_none()));
                map.device_class(osd);
            }
        }
    }
    assert!(accepted > 80, "only {accepted} damaged maps were accepted: the damage misses the fields");
}

#[test]
fn damaged_incrementals_apply_whole_or_not_at_all() {
    let mut rng = Rng::new(12);
    let (mut applied, mut refused) = (0, 0);
    let mut map = OsdMap::new(Default::default());
    for bytes in numbered("osdmap.inc.", ".bin").values() {
        for _ in 0..5 {
            let Some(inc) = consistent::<Incremental>(&damage_checked(bytes, 4, &mut rng)) else { continue };
            let mut next = map.clone();
            match next.apply(&inc) {
                Ok(()) => {
                    applied += 1;
                    assert_eq!(next.epoch, inc.epoch);
                    let encoded = next.encoded();
                    let again = OsdMap::from_bytes(&encoded.bytes);
                    // Only what an incremental may say and a map may not: more groups than there may be is refused
                    // when the pool is read, so nothing is left.
                    assert_eq!(again.map(|again| again.encoded()), Ok(encoded));
                }
                Err(_) => {
                    refused += 1;
                    // Ratios that are no numbers do not equal themselves; bytes do.
                    assert_eq!(next.encoded(), map.encoded());
                }
            }
        }
        map.apply(&Incremental::from_bytes(bytes).expect("a real incremental")).expect("it follows");
    }
    assert!(applied > 50 && refused > 10, "{applied} {refused}");
}

#[test]
fn a_mapping_follows_damaged_maps() {
    let mut rng = Rng::new(13);
    let mut mapping = Mapping::new();
    let mut followed = 0;
    for bytes in numbered("osdmap.full.", ".bin").values() {
        for _ in 0..8 {
            let Ok(map) = OsdMap::from_bytes(&damage_checked(bytes, 0, &mut rng)) else { continue };
            if map.pools.values().any(|pool| pool.pg_num > 4096) {
                continue;
            }
            let map = Arc::new(map);
            mapping.update(&map);
            assert!(mapping.iter().all(|(pg, sets)| *sets == map.pg_to_up_acting(pg)));
            followed += 1;
        }
    }
    assert!(followed > 15, "{followed}");
}

fn batter<T: Decode + Encode + PartialEq + Debug>(pieces: &[Bytes], rounds: usize, rng: &mut Rng) {
    assert!(!pieces.is_empty());
    let mut accepted = 0;
    for bytes in pieces {
        for _ in 0..rounds {
            let mut damaged = damage(bytes, 6, rng);
            let len = damaged.len() as u32 - 6;
            damaged[2..6].copy_from_slice(&len.to_le_bytes());
            if let Some(value) = consistent::<T>(&Bytes::from(damaged)) {
                assert_eq!(T::from_bytes(&value.to_bytes()), Ok(value));
                accepted += 1;
            }
        }
    }
    assert!(accepted > rounds / 20, "{accepted}");
}

#[test]
fn damaged_statistics_and_small_maps_are_refused_or_mean_what_they_say() {
    let mut rng = Rng::new(14);
    let (mut osds, mut groups, mut pools) = (vec![], vec![], vec![]);
    for message in messages(87).into_iter().chain(messages(59)) {
        match message {
            Message::PgStats(report) => {
                osds.push(report.osd_stat.0.clone());
                groups.extend(report.pg_stats.values().map(|stat| stat.0.clone()));
            }
            Message::GetPoolStatsReply(reply) => pools.extend(reply.stats.values().map(|stat| stat.0.clone())),
            other => panic!("{other:?}"),
        }
    }
    batter::<OsdStat>(&osds, 300, &mut rng);
    batter::<PgStat>(&groups, 300, &mut rng);
    batter::<PoolStat>(&pools, 300, &mut rng);
    let small: Vec<Message> = [4, 45, 1796, 1799].into_iter().flat_map(messages).collect();
    let pick = |open: fn(&Message) -> Option<Bytes>| -> Vec<Bytes> { small.iter().filter_map(open).collect() };
    batter::<MonMap>(&pick(|m| if let Message::MonMap(m) = m { Some(m.map.clone()) } else { None }), 300, &mut rng);
    batter::<FsMap>(&pick(|m| if let Message::FsMap(m) = m { Some(m.map.0.clone()) } else { None }), 300, &mut rng);
    batter::<MgrMap>(&pick(|m| if let Message::MgrMap(m) = m { Some(m.map.0.clone()) } else { None }), 30, &mut rng);
    batter::<ServiceMap>(
        &pick(|m| if let Message::ServiceMap(m) = m { Some(m.map.0.clone()) } else { None }),
        300,
        &mut rng,
    );
}
