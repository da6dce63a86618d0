//! Holds the table of options against the sources: what nobody reads says so.

use super::Complaint;

/// Where the table is.
pub(super) const TABLE: &str = "crates/admin/src/options_table.rs";

/// What an option is asked for by, where the device or the class of work decides which one is meant.
const VARIANTS: [&str; 6] = ["_hdd", "_ssd", "_hybrid", "_res", "_wgt", "_lim"];

/// An option as the table has it.
struct Entry<'a> {
    name: &'a str,
    line: usize,
    /// Whether the table says that a part of Loligo heeds it.
    heeded: bool,
}

/// Complaints about a table whose options are not read as it says; `literals` are the texts of all other sources.
pub(super) fn check(table: &str, literals: &[String]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for entry in entries(table) {
        let read = literals.iter().any(|literal| reads(literal, entry.name));
        if entry.heeded && !read {
            complaints.push(Complaint::new(
                TABLE,
                entry.line,
                format!("nobody reads `{}`: it is heeded `.by_clients()`, or `.nowhere()`", entry.name),
            ));
        }
    }
    complaints
}

/// The text literals of a source, comments and unit tests aside.
pub(super) fn literals(source: &str) -> impl Iterator<Item = String> + '_ {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or(source).lines();
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned))
}

fn reads(literal: &str, name: &str) -> bool {
    let base = VARIANTS.iter().find_map(|variant| name.strip_suffix(variant)).unwrap_or(name);
    let begins = || literal.split_once('{').is_some_and(|(begin, _)| begin.len() > 8 && name.starts_with(begin));
    literal == name || literal == base || begins()
}

fn entries(table: &str) -> Vec<Entry<'_>> {
    let starts: Vec<usize> = table.match_indices("\n    option(").map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([table.len()]);
    let entry = |(start, end): (usize, usize)| {
        let text = &table[start..end];
        let name = text.trim_start().strip_prefix("option(")?.trim_start().strip_prefix('"')?.split('"').next()?;
        let heeded = !text.contains(".by_clients()") && !text.contains(".nowhere()");
        Some(Entry { name, line: table[..start].matches('\n').count() + 2, heeded })
    };
    starts.iter().copied().zip(ends).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &str = r#"
    option("osd_one", Uint, "1", "Of one thing"),
    option(
        "osd_two_hdd",
        Uint,
        "1",
        "Of another",
    ),
    option("rbd_three", Uint, "1", "Of a third").min(1.0).by_clients(),
    option("osd_class_recovery_lim", Uint, "1", "Of a class"),
"#;

    fn unread(source: &str) -> Vec<usize> {
        let literals: Vec<String> = literals(source).collect();
        check(OPTIONS, &literals).into_iter().map(|complaint| complaint.line).collect()
    }

    #[test]
    fn options_that_nobody_reads_are_found() {
        assert_eq!(unread(""), [2, 3, 10]);
        assert_eq!(unread(r#"number("osd_one"); by_kind("osd_two");"#), [10]);
        assert_eq!(unread(r#"format!("osd_class_{class}_lim"); f("osd_one", "osd_two_hdd")"#), Vec::<usize>::new());
        assert_eq!(unread(r#"// "osd_one" and "osd_two" and "osd_class_{class}" are spoken of"#), [2, 3, 10]);
    }
}
