//! Where a study runs.

use std::path::PathBuf;

/// Where a study runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// In virtual time.
    Sim,
    /// On this machine, on what the study starts itself.
    Live,
    /// On a cluster that runs, by its `ceph.conf`.
    Cluster(PathBuf),
}

impl Target {
    /// What the flag `--on` says: `sim`, `live`, or a path.
    pub fn named(text: &str) -> Target {
        match text {
            "sim" => Target::Sim,
            "live" => Target::Live,
            path => Target::Cluster(PathBuf::from(path)),
        }
    }

    /// A word for reports.
    pub fn name(&self) -> &str {
        match self {
            Target::Sim => "sim",
            Target::Live => "live",
            Target::Cluster(path) => path.to_str().unwrap_or("a cluster"),
        }
    }
}
