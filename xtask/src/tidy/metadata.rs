//! What cargo knows of the workspace: crates and the edges between them.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The workspace's crates.
#[derive(Clone, Default, Debug)]
pub(crate) struct Metadata {
    /// Crate -> workspace crates it is built on; development dependencies are not counted.
    pub(crate) edges: BTreeMap<String, BTreeSet<String>>,
    /// Crates of others -> our crates that name them, for whatever purpose.
    pub(crate) external: BTreeMap<String, BTreeSet<String>>,
}

/// Asks cargo; needs no network.
pub(crate) fn read(root: &Path) -> Result<Metadata> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = root.join("Cargo.toml");
    let manifest = manifest.to_str().context("a path that is not UTF-8")?;
    let args = ["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", manifest];
    parse(&crate::run::output(&cargo, &args)?)
}

fn parse(text: &str) -> Result<Metadata> {
    let json: Value = serde_json::from_str(text).context("cargo metadata is not JSON")?;
    let packages = json["packages"].as_array().context("cargo metadata lists no packages")?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut metadata = Metadata::default();
    for package in packages {
        let from = name(package);
        let edges = metadata.edges.entry(from.clone()).or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = name(dependency);
            if !ours.contains(&to) {
                metadata.external.entry(to).or_default().insert(from.clone());
            } else if dependency["kind"] != "dev" {
                edges.insert(to);
            }
        }
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    #[test]
    fn edges_are_told_from_development_and_from_others() {
        let text = r#"{"packages": [
            {"name": "a", "dependencies": []},
            {"name": "b", "dependencies": [{"name": "a", "kind": null}, {"name": "serde", "kind": null}]},
            {"name": "c", "dependencies": [{"name": "b", "kind": "dev"}, {"name": "serde", "kind": "dev"}]}]}"#;
        let metadata = super::parse(text).expect("well-formed");
        assert_eq!(metadata.edges["b"], ["a".to_owned()].into());
        assert!(metadata.edges["c"].is_empty());
        assert_eq!(metadata.external["serde"], ["b".to_owned(), "c".to_owned()].into());
        assert!(super::parse("{}").is_err());
    }
}
