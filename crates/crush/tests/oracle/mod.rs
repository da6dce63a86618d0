//! Ceph's own `crushtool`, asked for the truth; and a generator of text maps to ask it about.
//!
//! Owns the calling of the tool (Debian package ceph-base) and the random maps; what must agree is the tests' business.
#![allow(dead_code)] // Each test binary uses its part.

use base::Rng;
use crush::CrushMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::{Decode, Encode};

/// What became of an edit.
pub(crate) enum Outcome {
    Done(Box<CrushMap>),
    Refused,
    Crashed,
}

/// A directory with a map in it, and crushtool beside it.
pub(crate) struct Oracle {
    dir: tempfile::TempDir,
}

impl Oracle {
    pub(crate) fn new() -> Oracle {
        Oracle { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs crushtool and gives what it printed.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = match Command::new("crushtool").args(args).current_dir(self.dir.path()).output() {
            Ok(output) => output,
            Err(error) => panic!("crushtool does not start ({error}): install Debian's package ceph-base"),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "crushtool {args:?}: {}: {text}{complaint}", output.status);
        text
    }

    /// Compiles a text map.
    pub(crate) fn compile(&self, text: &str) -> Vec<u8> {
        std::fs::write(self.path("map.txt"), text).expect("writing the text map");
        self.run(&["--enable-unsafe-tunables", "-c", "map.txt", "-o", "map"]);
        self.bytes("map")
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("reading a map that crushtool wrote")
    }

    pub(crate) fn write(&self, name: &str, map: &CrushMap) {
        std::fs::write(self.path(name), map.to_bytes()).expect("writing a map");
    }

    /// Changes the map in `before` by crushtool's arguments; gives the changed map.
    pub(crate) fn edit(&self, before: &CrushMap, args: &[&str]) -> CrushMap {
        self.write("before", before);
        self.run(&[&["-i", "before", "-o", "after"], args].concat());
        decode(&self.bytes("after"))
    }

    /// The same where crushtool may refuse, or crash: some edits of maps with weight sets do that to 16.2.
    pub(crate) fn try_edit(&self, before: &CrushMap, args: &[&str]) -> Outcome {
        self.write("before", before);
        let args = [&["-i", "before", "-o", "after"], args].concat();
        let output = Command::new("crushtool").args(args).current_dir(self.dir.path()).output();
        let output = output.expect("crushtool does not start: install Debian's package ceph-base");
        // It writes nothing when it has changed nothing.
        let after = std::fs::read(self.path("after")).map_or_else(|_| before.clone(), |bytes| decode(&bytes));
        let _ = std::fs::remove_file(self.path("after"));
        match output.status.code() {
            Some(0) => Outcome::Done(Box::new(after)),
            Some(_) => Outcome::Refused,
            None => Outcome::Crashed,
        }
    }

    /// The text of a map.
    pub(crate) fn text(&self, map: &CrushMap) -> String {
        self.write("text", map);
        self.run(&["-d", "text"])
    }

    /// What crushtool maps the seeds `0..count` to.
    pub(crate) fn mappings(&self, map: &Path, query: &Query, count: u32) -> Vec<Vec<i32>> {
        let mut args = vec!["-i".to_owned(), map.display().to_string()];
        args.extend(["--test", "--show-mappings", "--min-x", "0"].map(str::to_owned));
        args.extend(["--max-x".to_owned(), (count - 1).to_string()]);
        args.extend(["--rule".to_owned(), query.rule.to_string(), "--num-rep".to_owned(), query.size.to_string()]);
        if let Some(pool) = query.pool {
            args.extend(["--pool-id".to_owned(), pool.to_string()]);
        }
        for (device, weight) in &query.weights {
            // Sixteen binary places need sixteen decimal ones at most.
            args.extend(["--weight".to_owned(), device.to_string(), format!("{:.16}", f64::from(*weight) / 65536.0)]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        parse_mappings(&self.run(&args))
    }

    /// Asserts that we map the seeds `0..count` as crushtool does.
    pub(crate) fn assert_same_mappings(&self, map: &CrushMap, query: &Query, count: u32) {
        self.write("tested", map);
        let expected = self.mappings(Path::new("tested"), query, count);
        assert_eq!(expected.len(), count as usize);
        let weights = query.weight_vector(map);
        for (x, expected) in (0..).zip(&expected) {
            // The tool uses the choose args of key 0, or the default ones, whatever the pool.
            let ours = map.do_rule(query.rule, query.seed(x), query.size, &weights, Some(0));
            assert_eq!(&ours, expected, "seed {x}, {query:?}\n{}", self.run(&["-d", "tested"]));
        }
    }
}

pub(crate) fn decode(bytes: &[u8]) -> CrushMap {
    CrushMap::from_bytes(&bytes::Bytes::copy_from_slice(bytes)).expect("a map that crushtool wrote decodes")
}

/// The lines `CRUSH rule 0 x 5 [1,2,3]`.
pub(crate) fn parse_mappings(text: &str) -> Vec<Vec<i32>> {
    text.lines()
        .filter_map(|line| line.strip_prefix("CRUSH rule ")?.split_once('['))
        .map(|(_, list)| {
            let list = list.trim_end_matches(']');
            list.split(',').filter(|id| !id.is_empty()).map(|id| id.parse().expect("a device")).collect()
        })
        .collect()
}

/// One question to both sides.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) rule: i32,
    pub(crate) size: usize,
    /// Devices that are not fully in, with their weight (16.16).
    pub(crate) weights: Vec<(i32, u32)>,
    pub(crate) pool: Option<i64>,
}

impl Query {
    /// crushtool hashes the pool into the seed.
    fn seed(&self, x: u32) -> u32 {
        self.pool.map_or(x, |pool| crush::hash::hash2(x, pool as u32))
    }

    /// crushtool takes devices that are in no bucket as out.
    fn weight_vector(&self, map: &CrushMap) -> Vec<u32> {
        let mut weights = vec![0; map.max_devices() as usize];
        for item in map.buckets().flat_map(|bucket| bucket.items()).filter(|item| **item >= 0) {
            weights[*item as usize] = 0x10000;
        }
        for (device, weight) in &self.weights {
            weights[*device as usize] = *weight;
        }
        weights
    }

    pub(crate) fn random(rng: &mut Rng, map: &CrushMap) -> Query {
        let rules: Vec<i32> = map.rules().map(|(id, _)| id).collect();
        let mut weights = Vec::new();
        let share = rng.below(4);
        for device in 0..map.max_devices() {
            if rng.chance(share, 8) {
                weights.push((device, if rng.chance(1, 2) { 0 } else { rng.below(0x10000) as u32 }));
            }
        }
        Query {
            rule: rules[rng.below(rules.len() as u64) as usize],
            size: 1 + rng.below(7) as usize,
            weights,
            pool: rng.chance(1, 3).then(|| rng.below(3) as i64),
        }
    }
}

/// What a random map may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flavour {
    pub(crate) algorithms: &'static [&'static str],
    pub(crate) legacy_tunables: bool,
    pub(crate) classes: bool,
    pub(crate) choose_args: bool,
}

struct Named {
    name: String,
    weight: u64,
}

/// A random text map: devices in hosts in racks in a root, some hosts straight in the root, and a few rules.
pub(crate) fn random_map(rng: &mut Rng, flavour: Flavour) -> String {
    let mut text = String::new();
    tunables(rng, flavour, &mut text);
    let devices = 3 + rng.below(40) as usize;
    for device in 0..devices {
        // Rules may take either class, so both have a device at least.
        let class = if device < 2 { 1 + device } else { rng.below(3) as usize };
        let class = if flavour.classes { ["", " class ssd", " class hdd"][class] } else { "" };
        writeln!(text, "device {device} osd.{device}{class}").expect("writing to memory");
    }
    text.push_str("type 0 osd\ntype 1 host\ntype 2 rack\ntype 3 root\n");
    // By slot, how many items each bucket has.
    let mut ids = Vec::new();
    let mut leaves: Vec<Named> = (0..devices).map(|id| Named { name: format!("osd.{id}"), weight: 0 }).collect();
    let mut hosts = group(rng, flavour, "host", &mut leaves, true, 1 + devices / 5, &mut ids, &mut text);
    let rack_count = 1 + hosts.len() / 3;
    let loose: Vec<Named> = if rng.chance(1, 3) { hosts.drain(..1).collect() } else { Vec::new() };
    let mut top = group(rng, flavour, "rack", &mut hosts, false, rack_count, &mut ids, &mut text);
    top.extend(loose);
    group(rng, flavour, "root", &mut top, false, 1, &mut ids, &mut text);
    for rule in 0..3 {
        random_rule(rng, flavour, rule, &mut text);
    }
    if flavour.choose_args {
        for key in [0, 1] {
            choose_args(rng, key, &ids, &mut text);
        }
    }
    text
}

/// Weight sets and ids for some of the buckets, all sets of one key with the same number of positions.
fn choose_args(rng: &mut Rng, key: u32, sizes: &[usize], text: &mut String) {
    let positions = 1 + rng.below(3);
    writeln!(text, "choose_args {key} {{").expect("writing to memory");
    for (slot, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
        if rng.chance(1, 4) {
            continue;
        }
        writeln!(text, "  {{\n    bucket_id {}\n    weight_set [", -1 - slot as i32).expect("writing to memory");
        for _ in 0..positions {
            let weights: String = (0..*size).map(|_| format!(" {:.5}", rng.below(9 << 16) as f64 / 65536.0)).collect();
            writeln!(text, "      [{weights} ]").expect("writing to memory");
        }
        text.push_str("    ]\n");
        if rng.chance(1, 3) {
            let ids: String = (0..*size).map(|_| format!(" {}", 1000 + rng.below(1000))).collect();
            writeln!(text, "    ids [{ids} ]").expect("writing to memory");
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
}

fn tunables(rng: &mut Rng, flavour: Flavour, text: &mut String) {
    let mut set = |name: &str, value: u64| writeln!(text, "tunable {name} {value}").expect("writing to memory");
    if flavour.legacy_tunables {
        set("choose_local_tries", rng.below(4));
        set("choose_local_fallback_tries", rng.below(7));
        set("choose_total_tries", 3 + rng.below(30));
        set("chooseleaf_descend_once", rng.below(2));
        set("chooseleaf_vary_r", rng.below(5));
        set("chooseleaf_stable", rng.below(2));
        set("straw_calc_version", rng.below(2));
    } else {
        set("choose_local_tries", 0);
        set("choose_local_fallback_tries", 0);
        set("choose_total_tries", 50);
        set("chooseleaf_descend_once", 1);
        set("chooseleaf_vary_r", 1);
        set("chooseleaf_stable", 1);
        set("straw_calc_version", 1);
    }
    set("allowed_bucket_algs", 62);
}

/// Deals `members` to `count` buckets of one type and writes those out.
#[allow(clippy::too_many_arguments)] // A test's generator; all but the last two describe the level.
fn group(
    rng: &mut Rng,
    flavour: Flavour,
    kind: &str,
    members: &mut Vec<Named>,
    devices: bool,
    count: usize,
    ids: &mut Vec<usize>,
    text: &mut String,
) -> Vec<Named> {
    let mut dealt: Vec<Vec<Named>> = (0..count).map(|_| Vec::new()).collect();
    for member in members.drain(..) {
        dealt[rng.below(count as u64) as usize].push(member);
    }
    let mut made = Vec::new();
    for (index, members) in dealt.into_iter().enumerate() {
        let algorithm = flavour.algorithms[rng.below(flavour.algorithms.len() as u64) as usize];
        let name = if kind == "root" { "default".to_owned() } else { format!("{kind}{index}") };
        let id = -1 - ids.len() as i32;
        writeln!(text, "{kind} {name} {{\n  id {id}\n  alg {algorithm}\n  hash 0").expect("writing to memory");
        ids.push(members.len());
        let equal = 1 + rng.below(4 << 16);
        let mut sum = 0;
        for member in members {
            let own = match rng.below(8) {
                0 => 0,
                _ if devices => 1 + rng.below(8 << 16),
                _ => member.weight,
            };
            let weight = if algorithm == "uniform" { equal } else { own };
            sum += weight;
            writeln!(text, "  item {} weight {:.16}", member.name, weight as f64 / 65536.0).expect("writing to memory");
        }
        text.push_str("}\n");
        made.push(Named { name, weight: sum });
    }
    made
}

fn random_rule(rng: &mut Rng, flavour: Flavour, id: usize, text: &mut String) {
    let mut line = |line: String| writeln!(text, "{line}").expect("writing to memory");
    line(format!("rule rule{id} {{\n  id {id}\n  type replicated\n  min_size 1\n  max_size 10"));
    for (name, values) in [
        ("set_choose_tries", 60),
        ("set_chooseleaf_tries", 8),
        ("set_choose_local_tries", 4),
        ("set_choose_local_fallback_tries", 6),
        ("set_chooseleaf_vary_r", 4),
        ("set_chooseleaf_stable", 2),
    ] {
        if rng.chance(1, 6) {
            line(format!("  step {name} {}", rng.below(values)));
        }
    }
    let class = if flavour.classes { ["", " class ssd", " class hdd"][rng.below(3) as usize] } else { "" };
    line(format!("  step take default{class}"));
    let mode = |rng: &mut Rng| ["firstn", "indep"][rng.below(2) as usize];
    match rng.below(4) {
        0 => line(format!("  step choose {} 0 type osd", mode(rng))),
        1 => line(format!("  step chooseleaf {} 0 type host", mode(rng))),
        2 => {
            let kind = ["rack", "host"][rng.below(2) as usize];
            line(format!("  step chooseleaf {} {} type {kind}", mode(rng), rng.below(5)));
        }
        _ => {
            let racks = 1 + rng.below(3);
            line(format!("  step choose {} {racks} type rack", mode(rng)));
            line(format!("  step chooseleaf {} {} type host", mode(rng), 1 + rng.below(3)));
        }
    }
    line("  step emit\n}".to_owned());
}
