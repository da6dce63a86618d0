//! The house rules that a machine can hold. Each complaint names the place and what would be right.
//!
//! Owns the rules marked [T] in the style guide, one file per theme: `layers` and `dependencies` hold documents against
//! `cargo metadata`, `files` reads sources, `bans` watches over the crates that must not touch the world. Where a limit on
//! length makes a piece of code worse, a line that begins `// Long because` says so beside it; nothing else is
//! negotiable. Runs as an ordinary test too.

mod bans;
mod dependencies;
mod files;
mod layers;
mod metadata;
mod options;
mod source;

use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Complaint {
    /// The file, from the workspace's root.
    pub(crate) path: String,
    /// The line, from 1; 0 for the file as a whole.
    pub(crate) line: usize,
    /// A sentence.
    pub(crate) text: String,
}

impl Complaint {
    pub(crate) fn new(path: impl Into<String>, line: usize, text: impl Into<String>) -> Complaint {
        Complaint { path: path.into(), line, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// All complaints about the tree at `root`, by place.
pub(crate) fn tidy(root: &Path) -> Result<Vec<Complaint>> {
    let metadata = metadata::read(root)?;
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
    let mut complaints = Vec::new();
    let layers = match layers::parse(&read("ARCHITECTURE.md")) {
        Ok(layers) => layers,
        Err(complaint) => {
            complaints.push(complaint);
            Vec::new()
        }
    };
    complaints.extend(layers::check(&layers, &metadata));
    complaints.extend(dependencies::check(&read("DEPENDENCIES.md"), &metadata));
    let pure = layers::pure_crates(&layers);
    for name in &pure {
        let path = format!("crates/{name}/clippy.toml");
        complaints.extend(bans::check(&path, std::fs::read_to_string(root.join(&path)).ok().as_deref()));
    }
    let mut literals = Vec::new();
    for path in sources(root)? {
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| format!("reading {path}"))?;
        complaints.extend(files::check(&path, &text));
        let is_pure = pure.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
        if path.starts_with("crates/") && path.ends_with(".rs") && path != options::TABLE && !files::is_test_file(&path)
        {
            literals.extend(options::literals(&text));
        }
        if is_pure && path.ends_with(".rs") && !files::is_test_file(&path) {
            complaints.extend(bans::check_source(&path, &text));
        }
    }
    complaints.extend(options::check(&read(options::TABLE), &literals));
    complaints.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(complaints)
}

/// The files that are ours to keep tidy, as paths from the root: sources, manifests and scripts.
fn sources(root: &Path) -> Result<Vec<String>> {
    const KINDS: [&str; 5] = ["rs", "toml", "py", "sh", "yml"];
    const NOT_OURS: [&str; 5] = ["target", "corpus", "artifacts", "__pycache__", "demo"];
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                let skipped = NOT_OURS.contains(&name) || (name.starts_with('.') && name != ".ci" && name != ".cargo");
                if !skipped {
                    open.push(path);
                }
            } else if path.extension().and_then(|kind| kind.to_str()).is_some_and(|kind| KINDS.contains(&kind)) {
                let relative = path.strip_prefix(root).expect("the walk stays below the root");
                found.push(relative.to_str().context("a path that is not UTF-8")?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_tree_is_tidy() {
        let complaints = super::tidy(&crate::run::workspace_root()).expect("the tree can be read");
        let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
