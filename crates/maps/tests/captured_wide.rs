//! The maps of a wide cluster, from `crates/wire/tests/golden/maps/wide` (its README says what it went through).
//!
//! It has 24 OSDs, racks, device classes, an erasure-coded pool, upmaps and weight sets, but only one OSD ever ran: its
//! maps are asked about with all OSDs marked up and in, and what `osdmaptool --test-map-pgs-dump-all` said of those is
//! kept in `golden/placement/wide.EPOCH.txt`. `MAPS_BLESS=1 cargo test -p maps --test captured_wide` asks it again.

use base::{OsdId, PgId};
use bytes::Bytes;
use maps::osd_state::OsdAddrs;
use maps::{Incremental, OsdMap, UpActing};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::codec::{Decode, Encode};

fn captured() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/golden/maps/wide")
}

/// The files whose names start so, in the order of their epochs.
fn files(folder: &Path, start: &str, end: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if let Some(epoch) = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)) {
            found.insert(epoch.to_owned(), std::fs::read(&path).expect("a fixture"));
        }
    }
    found.into_iter().collect()
}

fn map_at(folder: &Path, epoch: &str) -> OsdMap {
    let bytes = std::fs::read(folder.join(format!("osdmap.full.{epoch}.bin"))).expect("a fixture");
    OsdMap::from_bytes(&Bytes::from(bytes)).expect("a real map")
}

/// Applies the whole chain; checks every checksum and every whole map at hand, and the bytes of each incremental.
fn follow(folder: &Path) -> usize {
    let fulls: BTreeMap<String, Vec<u8>> = files(folder, "osdmap.full.", ".bin").into_iter().collect();
    let mut map = OsdMap::new(Default::default());
    let (mut compared, mut applied) = (0, 0);
    for (epoch, bytes) in files(folder, "osdmap.inc.", ".bin") {
        let bytes = Bytes::from(bytes);
        let inc = Incremental::from_bytes(&bytes).unwrap_or_else(|e| panic!("{epoch}: {e}"));
        assert!(inc.to_bytes() == bytes, "{epoch} does not encode to the bytes it came from");
        map.apply(&inc).unwrap_or_else(|e| panic!("{epoch}: {e}"));
        let encoded = map.encoded();
        if inc.full_map.is_empty() {
            assert_eq!(encoded.crc, inc.full_crc, "{epoch}");
        }
        if let Some(full) = fulls.get(&epoch) {
            assert!(encoded.bytes[..] == full[..], "{epoch} is not the monitor's map");
            compared += 1;
        }
        applied += 1;
    }
    assert_eq!(compared, fulls.len());
    applied
}

fn osd_list(osds: &[OsdId]) -> String {
    let names: Vec<String> = osds.iter().map(OsdId::to_string).collect();
    format!("[{}]", names.join(","))
}

/// The sets of every group, in osdmaptool's words but for the raw set.
fn placement(map: &OsdMap) -> String {
    let mut text = String::new();
    for (id, pool) in &map.pools {
        for pg in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
            let UpActing { up, up_primary, acting, acting_primary } = map.pg_to_up_acting(pg);
            let (up, acting) = (osd_list(&up), osd_list(&acting));
            writeln!(text, "{pg} up ({up}, p{up_primary}) acting ({acting}, p{acting_primary})").expect("text");
        }
    }
    text
}

/// The lines on groups in what osdmaptool printed, without the raw sets.
fn groups(said: &str) -> String {
    let lines = said.lines().filter_map(|line| {
        let (pg, rest) = line.split_once(" raw (")?;
        let (_, sets) = rest.split_once(") up (")?;
        Some(format!("{pg} up ({sets}\n"))
    });
    lines.collect()
}

fn assert_same_lines(ours: &str, theirs: &str, what: &str) {
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs, "{what}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
}

#[test]
fn every_incremental_gives_the_monitors_maps() {
    assert!(follow(&captured()) > 100);
}

#[test]
fn groups_are_where_osdmaptool_says() {
    for epoch in ["0095", "0105", "0112", "0118", "0125"] {
        let mut map = map_at(&captured(), epoch);
        let mut inc = Incremental::new(map.fsid, map.epoch.next(), map.modified);
        for osd in (0..map.max_osd()).map(OsdId).filter(|osd| map.exists(*osd)) {
            inc.new_weight.insert(osd, if osd.0 % 7 == 3 { 0xc000 } else { 0x10000 });
            if !map.is_up(osd) {
                inc.new_up.insert(osd, OsdAddrs::default());
            }
        }
        map.apply(&inc).expect("it follows");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/placement/wide.{epoch}.txt"));
        if std::env::var_os("MAPS_BLESS").is_some() {
            std::fs::write(&kept, groups(&osdmaptool(&map))).expect("the golden file");
        }
        let said = std::fs::read_to_string(&kept).expect("the golden file");
        assert_same_lines(&placement(&map), &said, epoch);
    }
}

fn osdmaptool(map: &OsdMap) -> String {
    let file = std::env::temp_dir().join(format!("loligo-wide-{}-{}", std::process::id(), map.epoch));
    std::fs::write(&file, &map.encoded().bytes).expect("a temporary file");
    let output = Command::new("osdmaptool").arg(&file).arg("--test-map-pgs-dump-all").output().expect("osdmaptool");
    std::fs::remove_file(&file).expect("our own file");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
