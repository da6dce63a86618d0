//! What a result is worth nothing without: machine, seed, versions, options.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// Where, with what and how a study ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The study's name.
    pub study: String,
    /// `sim`, `live`, or the `ceph.conf` of a cluster.
    pub on: String,
    /// The number that decides everything random.
    pub seed: u64,
    /// All options that decide the result.
    pub options: BTreeMap<String, String>,
    /// What ran: programs with their versions.
    pub versions: BTreeMap<String, String>,
    /// The machine: processors, memory, kernel.
    pub machine: BTreeMap<String, String>,
}

impl Record {
    /// The first difference that keeps runs of `other` from being compared with runs of this: what, there, here.
    pub(crate) fn differs(&self, other: &Record) -> Option<(String, String, String)> {
        let plain = |of: &Record| {
            let mut all: BTreeMap<String, String> =
                of.options.iter().map(|(name, value)| (format!("option {name}"), value.clone())).collect();
            all.extend(of.versions.iter().map(|(name, value)| (format!("version of {name}"), value.clone())));
            all.insert("study".to_owned(), of.study.clone());
            all.insert("on".to_owned(), of.on.clone());
            all.insert("seed".to_owned(), of.seed.to_string());
            all
        };
        let (ours, theirs) = (plain(self), plain(other));
        let names = ours.keys().chain(theirs.keys());
        let value = |of: &BTreeMap<String, String>, name: &String| of.get(name).cloned().unwrap_or("none".to_owned());
        names
            .map(|name| (name.clone(), value(&theirs, name), value(&ours, name)))
            .find(|(_, there, here)| there != here)
    }
}

/// This machine in a few words.
pub(crate) fn machine() -> BTreeMap<String, String> {
    let mut machine = BTreeMap::new();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "of an unknown kind".to_owned());
    machine.insert("processors".to_owned(), format!("{processors} x {model}"));
    if let Some(memory) = field(&read("/proc/meminfo"), "MemTotal") {
        machine.insert("memory".to_owned(), memory);
    }
    let kernel = read("/proc/sys/kernel/osrelease");
    if !kernel.is_empty() {
        machine.insert("kernel".to_owned(), kernel.trim().to_owned());
    }
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_differ_by_what_decides_the_result_and_not_by_the_machine() {
        let map = |of: &[(&str, &str)]| of.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let one = Record {
            study: "fairness".to_owned(),
            on: "sim".to_owned(),
            seed: 1,
            options: map(&[("seconds", "20")]),
            versions: map(&[("loligo", "0.1.0")]),
            machine: map(&[("kernel", "6.1")]),
        };
        let elsewhere = Record { machine: map(&[]), ..one.clone() };
        assert_eq!(one.differs(&elsewhere), None);
        let longer = Record { options: map(&[("seconds", "30"), ("depth", "2")]), ..one.clone() };
        let difference =
            |what: &str, there: &str, here: &str| Some((what.to_owned(), there.to_owned(), here.to_owned()));
        assert_eq!(one.differs(&longer), difference("option seconds", "30", "20"));
        assert_eq!(longer.differs(&one), difference("option depth", "none", "2"));
    }
}
