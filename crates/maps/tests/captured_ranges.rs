//! Blocklisted networks in the maps of a real cluster, Ceph 16.2.15: the fields that only such maps have.
//!
//! They lie in `crates/wire/tests/golden/maps/ranges`: a whole map before, the incrementals of `osd blocklist range
//! add 10.1.2.0/24`, `range add fe80::/64`, `add 10.0.0.1:0/7` and `range rm 10.1.2.0/24`, and whole maps after.

mod fixtures;

use bytes::Bytes;
use fixtures::golden_maps;
use maps::{Incremental, OsdMap};
use wire::codec::{Decode, Encode};
use wire::types::AddrKind;

fn captured(name: &str) -> Bytes {
    std::fs::read(golden_maps().join("ranges").join(name)).expect("a readable fixture").into()
}

fn increment(epoch: u32) -> Incremental {
    let bytes = captured(&format!("osdmap.inc.{epoch:04}.bin"));
    let inc = Incremental::from_bytes(&bytes).expect("a real incremental");
    assert_eq!(inc.to_bytes(), bytes, "epoch {epoch}");
    inc
}

#[test]
fn incrementals_say_which_networks_come_and_go() {
    let [v4, v6, single, gone] = [18, 19, 20, 21].map(increment);
    let shown = |inc: &Incremental| {
        let new = inc.new_range_blocklist.iter().map(|(range, until)| (range.kind, range.to_string(), until.secs));
        new.collect::<Vec<_>>()
    };
    // 2026-11-22T04:00:16Z, as the monitor said.
    assert_eq!(shown(&v4), [(AddrKind::Cidr, "cidr:10.1.2.0/24".to_owned(), 1_795_320_016)]);
    assert_eq!(shown(&v6)[0].1, "cidr:fe80::/64");
    assert!(shown(&single).is_empty() && single.new_blocklist.len() == 1);
    assert!(shown(&gone).is_empty());
    assert_eq!(gone.old_range_blocklist, v4.new_range_blocklist.keys().copied().collect::<Vec<_>>());
}

#[test]
fn applying_them_gives_the_monitors_maps() {
    let mut map = OsdMap::from_bytes(&captured("osdmap.full.0017.bin")).expect("a real map");
    assert!(map.range_blocklist.is_empty());
    for epoch in 18..=21 {
        let inc = increment(epoch);
        map.apply(&inc).unwrap_or_else(|e| panic!("epoch {epoch}: {e}"));
        let encoded = map.encoded();
        assert_eq!(encoded.crc, inc.full_crc, "epoch {epoch}");
        if epoch >= 20 {
            let full = captured(&format!("osdmap.full.{epoch:04}.bin"));
            assert_eq!(encoded.bytes, full, "epoch {epoch}");
            assert_eq!(OsdMap::from_bytes(&full).expect("a real map").to_bytes(), full, "epoch {epoch}");
        }
    }
    assert_eq!(map.range_blocklist.len(), 1);
    assert_eq!(map.blocklist.len(), 1);
}
