//! The layers: ARCHITECTURE.md's list held against what cargo knows.
//!
//! The list is a fenced block named `layers`, one line a crate: `LAYER CRATE: the workspace crates it may depend on`.
//! LAYER is a number, 0 at the bottom, or `beside` for what stands beside the house. An edge may not point up; onto
//! what stands beside, only the topmost layer may build. Development dependencies are free.

use super::Complaint;
use super::metadata::Metadata;
use std::collections::{BTreeMap, BTreeSet};

const FILE: &str = "ARCHITECTURE.md";

/// The highest layer whose crates must not touch the world.
const PURE_MAX: u8 = 3;

/// One line of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    line: usize,
    /// None: beside the house.
    layer: Option<u8>,
    name: String,
    allowed: BTreeSet<String>,
}

/// Reads the list.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, Complaint> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let missing = || Complaint::new(FILE, 0, "needs a fenced block named `layers`");
    lines.find(|(_, line)| line.trim_end() == "```layers").ok_or_else(missing)?;
    let mut entries = Vec::new();
    for (at, line) in lines.take_while(|(_, line)| !line.starts_with("```")) {
        let wrong = || Complaint::new(FILE, at, "a line of the list reads `LAYER CRATE: CRATES...`");
        let (head, allowed) = line.split_once(':').ok_or_else(wrong)?;
        let (layer, name) = head.trim().split_once(' ').ok_or_else(wrong)?;
        let layer = match layer {
            "beside" => None,
            number => Some(number.parse().map_err(|_| wrong())?),
        };
        let allowed = allowed.split_whitespace().map(str::to_owned).collect();
        entries.push(Entry { line: at, layer, name: name.trim().to_owned(), allowed });
    }
    Ok(entries)
}

/// The crates that must not touch clocks, randomness, files or sockets.
pub(crate) fn pure_crates(entries: &[Entry]) -> Vec<&str> {
    entries
        .iter()
        .filter(|entry| entry.layer.is_some_and(|layer| layer <= PURE_MAX))
        .map(|entry| &entry.name[..])
        .collect()
}

/// Complaints about the list itself and about edges that it does not allow.
pub(crate) fn check(entries: &[Entry], metadata: &Metadata) -> Vec<Complaint> {
    let by_name: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (&entry.name[..], entry)).collect();
    let top = entries.iter().filter_map(|entry| entry.layer).max();
    let mut complaints = Vec::new();
    for entry in entries {
        let mut complain = |text: String| complaints.push(Complaint::new(FILE, entry.line, text));
        if !metadata.edges.contains_key(&entry.name) {
            complain(format!("there is no crate {} in the workspace", entry.name));
        }
        for to in &entry.allowed {
            match by_name.get(&to[..]) {
                None => complain(format!("{} may not depend on {to}, which is not in the list", entry.name)),
                Some(to) if points_up(entry, to, top) => {
                    complain(format!("{} -> {} points up: an edge may only point down", entry.name, to.name));
                }
                Some(_) => {}
            }
        }
    }
    for (from, edges) in &metadata.edges {
        let manifest =
            if from == "xtask" { "xtask/Cargo.toml".to_owned() } else { format!("crates/{from}/Cargo.toml") };
        let Some(entry) = by_name.get(&from[..]) else {
            complaints.push(Complaint::new(FILE, 0, format!("the list of layers lacks the crate {from}")));
            continue;
        };
        for to in edges.difference(&entry.allowed) {
            let text =
                format!("the edge {from} -> {to} is not in {FILE}'s list: add it there with its reason, or do without");
            complaints.push(Complaint::new(manifest.clone(), 0, text));
        }
    }
    complaints
}

fn points_up(from: &Entry, to: &Entry, top: Option<u8>) -> bool {
    match (from.layer, to.layer) {
        (Some(from), Some(to)) => to > from,
        (layer @ Some(_), None) => layer != top,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "# A\n```layers\n2 top: low mid side\n1 mid: low\n0 low:\nbeside side: mid low\n```\n9 not: read\n";

    fn metadata(edges: &[(&str, &[&str])]) -> Metadata {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let edges = edges.iter().map(|(from, to)| ((*from).to_owned(), owned(to))).collect();
        Metadata { edges, ..Metadata::default() }
    }

    fn complaints(list: &str, edges: &[(&str, &[&str])]) -> Vec<String> {
        check(&parse(list).expect("a list"), &metadata(edges)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tree_as_listed_is_fine_and_pure_crates_are_those_of_the_lower_layers() {
        let edges: &[(&str, &[&str])] =
            &[("top", &["mid", "side"]), ("mid", &["low"]), ("low", &[]), ("side", &["mid"])];
        assert_eq!(complaints(LIST, edges), [""; 0]);
        assert_eq!(pure_crates(&parse(LIST).expect("a list")), ["top", "mid", "low"]);
    }

    #[test]
    fn an_unlisted_edge_or_crate_is_named() {
        let edges: &[(&str, &[&str])] = &[("top", &[]), ("mid", &["side"]), ("low", &[]), ("side", &[]), ("new", &[])];
        let found = complaints(LIST, edges);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/mid/Cargo.toml: the edge mid -> side"), "{found:?}");
        assert!(found[1].contains("lacks the crate new"), "{found:?}");
    }

    #[test]
    fn a_list_that_allows_what_may_not_be_is_refused() {
        let edges: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("s", &[])];
        let found = complaints("```layers\n0 a: b s\n1 b: a nobody\nbeside s:\n3 gone:\n```\n", edges);
        let expected = ["a -> b points up", "a -> s points up", "nobody", "no crate gone"];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?}");
        }
        assert!(parse("no block").is_err() && parse("```layers\nx y: z\n```").is_err());
    }
}
