//! Edits held against `crushtool`: after each of a random series, both maps are the same to the byte, or both refused.

mod oracle;

use base::Rng;
use crush::edit::{Mode, parse_location, parse_weight};
use crush::{CrushMap, EditError, SimpleRule};
use oracle::{Flavour, Oracle, Outcome, decode, random_map};
use wire::Encode;

/// One edit, as crushtool's arguments and as ours.
type Ours = Box<dyn Fn(&mut CrushMap) -> Result<(), EditError>>;

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

fn names(map: &CrushMap, wanted: impl Fn(i32) -> bool) -> Vec<String> {
    let named = map.item_names().iter().filter(|(id, name)| wanted(**id) && !name.contains('~'));
    named.map(|(_, name)| name.clone()).collect()
}

/// A location for crushtool and for us: a host or a rack, old or new, perhaps with what is above it.
fn location(rng: &mut Rng, buckets: &[String]) -> (Vec<String>, Vec<String>) {
    let kind = *pick(rng, &["host", "rack"]);
    let of_kind: Vec<&String> = buckets.iter().filter(|name| name.starts_with(kind)).collect();
    let name =
        if of_kind.is_empty() || rng.chance(1, 5) { format!("{kind}-new") } else { (*pick(rng, &of_kind)).clone() };
    let mut pairs = vec![(kind.to_owned(), name)];
    if rng.chance(2, 3) {
        pairs.push(("root".to_owned(), "default".to_owned()));
    }
    let tool = pairs.iter().flat_map(|(kind, name)| ["--loc".to_owned(), kind.clone(), name.clone()]).collect();
    (tool, pairs.iter().map(|(kind, name)| format!("{kind}={name}")).collect())
}

fn random_edit(rng: &mut Rng, map: &CrushMap) -> (Vec<String>, Ours) {
    let (devices, buckets) = (names(map, |id| id >= 0), names(map, |id| id < 0));
    let weight = rng.below(500) as f64 / 100.0;
    let text = format!("{weight:.2}");
    let (tool_location, our_location) = location(rng, &buckets);
    let place = move || parse_location(our_location.iter().map(String::as_str));
    let weight = parse_weight(weight).expect("a small weight");
    let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let device = pick(rng, &devices).clone();
    let bucket = pick(rng, &buckets).clone();
    let any = if rng.chance(1, 2) { device.clone() } else { bucket.clone() };
    let id = map.item_id(&device).expect("the name is from the map");
    match rng.below(10) {
        0 => {
            let id = map.max_devices();
            let name = format!("osd.{id}");
            let tool = [args(&["--add-item", &id.to_string(), &text, &name]), tool_location].concat();
            (tool, Box::new(move |map| map.insert_item(id, weight, &name, &place()?)))
        }
        1 => {
            let tool = [args(&["--update-item", &id.to_string(), &text, &device]), tool_location].concat();
            (tool, Box::new(move |map| map.update_item(id, weight, &device, &place()?).map(drop)))
        }
        2 => (args(&["--remove-item", &any]), Box::new(move |map| map.remove_item(&any, false))),
        3 | 4 => (args(&["--reweight-item", &device, &text]), Box::new(move |map| map.reweight_item(&device, weight))),
        5 => {
            let tool = [args(&["--move", &bucket]), tool_location].concat();
            (tool, Box::new(move |map| map.move_item(&bucket, &place()?).map(drop)))
        }
        6 => {
            let name = format!("rack-added{}", rng.below(3));
            let tool = args(&["--add-bucket", &name, "rack"]);
            (tool, Box::new(move |map| map.add_named_bucket(&name, "rack").map(drop)))
        }
        7 => {
            let name = format!("made{}", rng.below(4));
            let domain = *pick(rng, &["osd", "host", "rack"]);
            let mode = *pick(rng, &["firstn", "indep"]);
            let tool = args(&["--create-simple-rule", &name, "default", domain, mode]);
            let mode = if mode == "firstn" { Mode::Firstn } else { Mode::Indep };
            let make = move |map: &mut CrushMap| {
                map.add_simple_rule(&SimpleRule { mode, ..SimpleRule::replicated(&name, "default", domain) }).map(drop)
            };
            (tool, Box::new(make))
        }
        8 => {
            let name = format!("classy{}", rng.below(4));
            let class = *pick(rng, &["ssd", "hdd", "nvme"]);
            let tool = args(&["--create-replicated-rule", &name, "default", "host", "--device-class", class]);
            let make = move |map: &mut CrushMap| {
                map.add_simple_rule(&SimpleRule { class, ..SimpleRule::replicated(&name, "default", "host") }).map(drop)
            };
            (tool, Box::new(make))
        }
        _ if rng.chance(1, 2) => (args(&["--reweight"]), Box::new(CrushMap::reweight_all)),
        _ => {
            let name = format!("rule{}", rng.below(4));
            let tool = args(&["--remove-rule", &name]);
            let remove = move |map: &mut CrushMap| {
                // crushtool is content when the rule is not there.
                map.rule_id(&name).map_or(Ok(()), |id| map.remove_rule(id))
            };
            (tool, Box::new(remove))
        }
    }
}

fn compare(seed: u64, maps: u32, edits: u32, flavour: Flavour) {
    let oracle = Oracle::new();
    let mut rng = Rng::new(seed);
    let (mut refused, mut crashed) = (0, 0);
    for _ in 0..maps {
        let mut map = decode(&oracle.compile(&random_map(&mut rng, flavour)));
        let mut history = Vec::new();
        for _ in 0..edits {
            let (tool, ours) = random_edit(&mut rng, &map);
            history.push(tool.join(" "));
            let before = map.clone();
            let result = ours(&mut map);
            let tool: Vec<&str> = tool.iter().map(String::as_str).collect();
            match oracle.try_edit(&before, &tool) {
                Outcome::Done(expected) => {
                    assert!(result.is_ok(), "{result:?} {history:#?}\n{}", oracle.text(&before));
                    if map.to_bytes() != expected.to_bytes() {
                        let (expected_text, text) = (oracle.text(&expected), oracle.text(&map));
                        assert_eq!(text, expected_text, "{history:#?}\nbefore:\n{}", oracle.text(&before));
                        assert_eq!(map, *expected, "{history:#?}: the same text, and yet other bytes");
                    }
                }
                Outcome::Refused => {
                    refused += 1;
                    // Moving an item to where it is is an error for crushtool and nothing for the monitor.
                    let text = || oracle.text(&before);
                    assert_eq!(map, before, "crushtool refuses: {result:?} {history:#?}\n{}", text());
                }
                // Nothing to compare with; the map that we made is as good as any for what follows.
                Outcome::Crashed => crashed += 1,
            }
        }
    }
    assert!(refused + crashed < maps * edits / 2, "most edits should be possible");
}

#[test]
fn edits_of_straw2_maps_are_those_of_crushtool() {
    compare(11, 8, 12, Flavour { algorithms: &["straw2"], legacy_tunables: false, classes: false, choose_args: false });
}

#[test]
fn edits_keep_shadow_trees_as_crushtool_does() {
    compare(12, 8, 12, Flavour { algorithms: &["straw2"], legacy_tunables: false, classes: true, choose_args: false });
}

#[test]
fn edits_of_older_algorithms_are_those_of_crushtool() {
    compare(14, 8, 12, Flavour { algorithms: &["straw"], legacy_tunables: true, classes: false, choose_args: false });
}
