//! What is made up survives its encoding, and maps made by incrementals survive theirs.

use base::{EVersion, Epoch, OsdId, PgId, PoolId, Rng, SnapId};
use bytes::Bytes;
use maps::osd_map::{MapFlags, StretchMode};
use maps::pool::{AutoscaleMode, PgMergeMeta, PoolFlags, PoolKind, PoolSnap, StretchPeering};
use maps::pool_options::{OptionKey, OptionKind, OptionValue};
use maps::{Incremental, OsdAddrs, OsdMap, OsdState, OsdXInfo, PgPool, Release, SnapSet};
use proptest::prelude::*;
use std::sync::Arc;
use wire::codec::{Decode, Encode};
use wire::types::{AddrKind, AddrVec, EntityAddr, UTime, Uuid};

const OSDS: u64 = 20;

/// Makes things up.
struct Maker(Rng);

impl Maker {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn u32(&mut self) -> u32 {
        self.0.u64() as u32
    }

    fn osd(&mut self) -> OsdId {
        OsdId(self.below(OSDS) as i32)
    }

    fn pool_id(&mut self) -> PoolId {
        PoolId(1 + self.below(5) as i64)
    }

    fn pg(&mut self) -> PgId {
        PgId::new(self.pool_id(), self.below(64) as u32)
    }

    fn stamp(&mut self) -> UTime {
        UTime { secs: self.u32(), nanos: self.below(1_000_000_000) as u32 }
    }

    fn text(&mut self) -> String {
        let len = self.below(12);
        (0..len).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }

    fn many<T, C: FromIterator<T>>(&mut self, make: impl Fn(&mut Self) -> T) -> C {
        let count = self.below(4);
        (0..count).map(|_| make(self)).collect()
    }

    fn maybe<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Option<T> {
        self.0.chance(1, 2).then(|| make(self))
    }

    fn addr(&mut self) -> EntityAddr {
        let port = self.u32() as u16;
        let v6 = std::net::Ipv6Addr::from(u128::from(self.0.u64()));
        let socket = match self.below(3) {
            0 => None,
            1 => Some(std::net::SocketAddr::from((self.u32().to_be_bytes(), port))),
            _ => Some(std::net::SocketAddr::from((v6, port))),
        };
        let kind = [AddrKind::Legacy, AddrKind::Msgr2, AddrKind::Any][self.below(3) as usize];
        EntityAddr { kind, nonce: self.u32(), socket }
    }

    fn addrs(&mut self) -> OsdAddrs {
        let mut some = || AddrVec(self.many(Maker::addr));
        OsdAddrs { client: some(), cluster: some(), heartbeat_front: some(), heartbeat_back: some() }
    }

    fn snaps(&mut self) -> SnapSet {
        let mut set = SnapSet::default();
        for _ in 0..self.below(5) {
            let start = SnapId(1 + self.below(100));
            set.insert_interval(start, 1 + self.below(10));
        }
        set
    }

    fn pool(&mut self) -> PgPool {
        let mut pool = PgPool {
            kind: [PoolKind::Replicated, PoolKind::Erasure][self.below(2) as usize],
            size: 1 + self.below(6) as u8,
            min_size: self.below(4) as u8,
            last_force_op_resend: Epoch(self.u32()),
            last_force_op_resend_prenautilus: Epoch(self.u32()),
            last_force_op_resend_preluminous: Epoch(self.u32()),
            snap_seq: SnapId(self.0.u64()),
            snap_epoch: Epoch(self.u32()),
            removed_snaps: self.snaps(),
            flags: PoolFlags(self.0.u64()),
            quota_max_bytes: self.0.u64(),
            quota_max_objects: self.0.u64(),
            properties: self.many(|m| (m.text(), m.text())),
            stripe_width: self.u32(),
            erasure_code_profile: self.text(),
            fast_read: self.0.chance(1, 2),
            expected_num_objects: self.0.u64(),
            applications: self.many(|m| (m.text(), m.many(|m| (m.text(), m.text())))),
            create_time: self.stamp(),
            autoscale_mode: [AutoscaleMode::Off, AutoscaleMode::Warn, AutoscaleMode::On][self.below(3) as usize],
            ..PgPool::default()
        };
        pool.set_pg_num(1 + self.below(64) as u32);
        pool.pgp_num = 1 + self.below(64) as u32;
        pool.last_pg_merge = PgMergeMeta {
            source: self.pg(),
            ready_epoch: Epoch(self.u32()),
            target_version: EVersion::new(Epoch(self.u32()), self.0.u64()),
            ..PgMergeMeta::default()
        };
        for id in self.many::<_, Vec<SnapId>>(|m| SnapId(m.below(1000))) {
            pool.snaps.insert(id, PoolSnap { id, stamp: self.stamp(), name: self.text() });
        }
        for key in OptionKey::ALL.iter().filter(|_| self.0.chance(1, 4)).copied().collect::<Vec<_>>() {
            let value = match key.kind() {
                Some(OptionKind::Text) => OptionValue::Text(self.text()),
                Some(OptionKind::Int) => OptionValue::Int(self.0.u64() as i64),
                _ => OptionValue::Double(self.below(1 << 40) as f64 / 1024.0),
            };
            pool.options.0.insert(key, value);
        }
        pool.tiering.tiers = self.many(|m| m.0.u64());
        pool.tiering.tier_of = self.pool_id();
        pool.tiering.hit_set.parameters = Bytes::from(self.text());
        pool.tiering.target_dirty_high_ratio_micro = self.u32();
        if self.0.chance(1, 3) {
            let bucket_count = 1 + self.below(3) as u32;
            pool.stretch = StretchPeering { bucket_count, mandatory_member: -3, ..StretchPeering::default() };
        }
        pool
    }

    fn incremental(&mut self, to: Epoch) -> Incremental {
        let mut inc = Incremental::new(Uuid([3; 16]), to, self.stamp());
        self.about_pools(&mut inc);
        self.about_osds(&mut inc);
        self.about_the_cluster(&mut inc);
        inc.full_crc = self.u32();
        inc
    }

    fn about_pools(&mut self, inc: &mut Incremental) {
        inc.new_pool_max = self.maybe(Maker::pool_id);
        inc.new_pools = self.many(|m| (m.pool_id(), m.pool()));
        inc.new_pool_names = self.many(|m| (m.pool_id(), m.text()));
        inc.old_pools = self.many(Maker::pool_id);
        inc.new_pg_temp = self.many(|m| (m.pg(), m.many(Maker::osd)));
        inc.new_primary_temp = self.many(|m| (m.pg(), OsdId(m.below(OSDS) as i32 - 1)));
        inc.new_erasure_code_profiles = self.many(|m| (m.text(), m.many(|m| (m.text(), m.text()))));
        inc.old_erasure_code_profiles = self.many(Maker::text);
        inc.new_pg_upmap = self.many(|m| (m.pg(), m.many(Maker::osd)));
        inc.old_pg_upmap = self.many(Maker::pg);
        inc.new_pg_upmap_items = self.many(|m| (m.pg(), m.many(|m| (m.osd(), m.osd()))));
        inc.old_pg_upmap_items = self.many(Maker::pg);
        inc.new_removed_snaps = self.many(|m| (m.pool_id(), m.snaps()));
        // What was removed just now may be purged.
        inc.new_purged_snaps = inc.new_removed_snaps.clone().into_iter().filter(|_| self.0.chance(1, 2)).collect();
    }

    fn about_osds(&mut self, inc: &mut Incremental) {
        inc.new_up = self.many(|m| (m.osd(), m.addrs()));
        inc.new_state = self.many(|m| (m.osd(), OsdState(m.below(1 << 13) as u32)));
        inc.new_weight = self.many(|m| (m.osd(), m.below(0x1_0001) as u32));
        inc.new_primary_affinity = self.many(|m| (m.osd(), m.below(0x1_0001) as u32));
        inc.new_up_thru = self.many(|m| (m.osd(), Epoch(m.u32())));
        inc.new_last_clean_interval = self.many(|m| (m.osd(), (Epoch(m.u32()), Epoch(m.u32()))));
        inc.new_lost = self.many(|m| (m.osd(), Epoch(m.u32())));
        inc.new_uuid = self.many(|m| (m.osd(), Uuid(m.0.u64().to_le_bytes().repeat(2).try_into().expect("16 bytes"))));
        inc.new_xinfo = self.many(|m| {
            let xinfo = OsdXInfo { down_stamp: m.stamp(), laggy_probability: m.u32(), ..OsdXInfo::default() };
            (m.osd(), OsdXInfo { features: m.0.u64(), dead_epoch: Epoch(m.u32()), ..xinfo })
        });
        inc.new_last_up_change = self.stamp();
        inc.new_last_in_change = self.stamp();
    }

    fn about_the_cluster(&mut self, inc: &mut Incremental) {
        inc.new_flags = self.maybe(|m| MapFlags(m.u32() >> 1));
        inc.new_blocklist = self.many(|m| (m.addr(), m.stamp()));
        inc.old_blocklist = self.many(Maker::addr);
        inc.new_range_blocklist = self.many(|m| (m.addr(), m.stamp()));
        inc.old_range_blocklist = self.many(Maker::addr);
        inc.cluster_snapshot = self.text();
        inc.new_nearfull_ratio = self.maybe(|m| m.below(100) as f32 / 100.0);
        inc.new_full_ratio = self.maybe(|m| m.below(100) as f32 / 100.0);
        inc.new_backfillfull_ratio = self.maybe(|m| m.below(100) as f32 / 100.0);
        inc.new_require_min_compat_client = self.maybe(|m| Release(m.below(20) as u8));
        inc.new_require_osd_release = self.maybe(|m| Release(m.below(20) as u8));
        inc.new_crush_node_flags = self.many(|m| (m.u32() as i32, m.below(3) as u32));
        inc.new_device_class_flags = self.many(|m| (m.below(5) as i32, m.below(3) as u32));
        inc.new_stretch = self.maybe(|m| StretchMode {
            enabled: m.0.chance(1, 2),
            bucket_count: m.u32(),
            degraded: m.u32(),
            recovering: m.u32(),
            bucket_type: 8,
        });
    }
}

/// The fields of stretch mode are only encoded while it is on, or where something newer follows them.
fn without_idle_stretch(mut map: OsdMap) -> OsdMap {
    if !map.stretch.enabled && map.range_blocklist.is_empty() {
        map.stretch = StretchMode::default();
    }
    map
}

proptest! {
    #[test]
    fn pools_survive(seed: u64) {
        let pool = Maker(Rng::new(seed)).pool();
        prop_assert_eq!(PgPool::from_bytes(&pool.to_bytes()), Ok(pool));
    }

    #[test]
    fn incrementals_survive(seed: u64) {
        let inc = Maker(Rng::new(seed)).incremental(Epoch(7));
        prop_assert_eq!(Incremental::from_bytes(&inc.to_bytes()), Ok(inc));
    }

    #[test]
    fn maps_made_by_incrementals_survive_and_a_whole_map_replaces_everything(seed: u64) {
        let mut maker = Maker(Rng::new(seed));
        let mut map = OsdMap::new(Uuid([3; 16]));
        map.set_max_osd(OSDS as u32);
        for epoch in 1..8 {
            let before = map.clone();
            let mut inc = maker.incremental(Epoch(epoch));
            // What is purged must have been removed and not be purged before.
            prop_assert_eq!(map.apply(&inc), Ok(()));
            let encoded = map.encoded();
            let again = OsdMap::from_bytes(&encoded.bytes);
            prop_assert_eq!(again.as_ref().map(OsdMap::encoded), Ok(encoded.clone()));
            prop_assert_eq!(again, Ok(without_idle_stretch(map.clone())));
            for (id, pool) in &map.pools {
                prop_assert!(inc.new_pools.contains_key(id) || Arc::ptr_eq(pool, &before.pools[id]));
            }
            inc.full_map = encoded.bytes.clone();
            let mut replaced = before;
            prop_assert_eq!(replaced.apply(&inc), Ok(()));
            prop_assert_eq!(replaced.encoded(), encoded);
        }
    }
}
