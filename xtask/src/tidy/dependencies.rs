//! DEPENDENCIES.md: a row for each crate of others that ours name.

use super::Complaint;
use super::metadata::Metadata;
use std::collections::BTreeSet;

const FILE: &str = "DEPENDENCIES.md";

/// Complaints about missing and incomplete rows. A row is a table line whose first cell names the crates.
pub(crate) fn check(text: &str, metadata: &Metadata) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut listed = BTreeSet::new();
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| crate "));
    for (at, row) in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        if cells.len() != 5 || cells.iter().any(|cell| cell.is_empty()) {
            complaints.push(Complaint::new(FILE, at + 1, "a row has five cells: crate, where, why, size, alternative"));
        }
        for name in cells[0].split(',').map(str::trim) {
            listed.insert(name.to_owned());
        }
    }
    for (name, users) in metadata.external.iter().filter(|(name, _)| !listed.contains(*name)) {
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        let text = format!("needs a row for {name} (used by {}): why, its size, what else would do", users.join(", "));
        complaints.push(Complaint::new(FILE, 0, text));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_has_its_whole_row() {
        let users: BTreeSet<String> = ["wire".to_owned()].into();
        let external = ["aes", "cbc", "tokio"].map(|name| (name.to_owned(), users.clone())).into();
        let metadata = Metadata { external, ..Metadata::default() };
        let text = "| crate | where | why | size | alternative |\n|---|---|---|---|---|\n\
                    | aes, cbc | wire | tickets | small | none |\n| gone | wire | | small | none |\n";
        let found: Vec<String> = check(text, &metadata).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("five cells") && found[1].contains("row for tokio (used by wire)"), "{found:?}");
    }
}
