//! What holds for single files: headers, length, length of functions, words that mean unfinished work, names.

use super::Complaint;
use super::source::{blank, functions, tests_line};

/// More lines need a reason in the header.
const LINES_REASON: usize = 800;
/// More lines are refused.
const LINES_MAX: usize = 1200;
/// The longest function.
const FUNCTION_LINES_MAX: usize = 70;
/// What begins the line that gives a reason for length, after `//` or `//!`.
const REASON: &str = "Long because";
/// Words for work that is not done, spelt so that this file may hold them.
const UNFINISHED: [&str; 3] = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X:")];
/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "misc", "common", "helpers", "manager"];

/// Whether the whole file is tests or measurements.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || ["/tests/", "/benches/", "/examples/"].iter().any(|dir| path.contains(dir))
}

/// Complaints about one file.
pub(crate) fn check(path: &str, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = || line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        for word in UNFINISHED
            .iter()
            .filter(|word| words().any(|found| found.trim_end_matches(':') == word.trim_end_matches(':')))
        {
            complaints.push(Complaint::new(path, at + 1, format!("{word}: finish it, or open an issue for it")));
        }
    }
    if !path.ends_with(".rs") {
        return complaints;
    }
    if !text.starts_with("//!") {
        complaints.push(Complaint::new(
            path,
            1,
            "must open with //!: what it owns, what it refuses, what to read next",
        ));
    }
    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&stem) {
        complaints.push(Complaint::new(path, 0, format!("'{stem}' says nothing: name the file after what it holds")));
    }
    let is_crate_root = stem == "lib" && path.starts_with("crates/") && path.ends_with("/src/lib.rs");
    if is_crate_root && !text.contains("#![forbid(unsafe_code)]") && !path.starts_with("crates/rt/") {
        complaints.push(Complaint::new(path, 0, "must say #![forbid(unsafe_code)]"));
    }
    if !is_test_file(path) {
        check_lengths(path, text, &mut complaints);
    }
    complaints
}

fn check_lengths(path: &str, text: &str, complaints: &mut Vec<Complaint>) {
    let blanked = blank(text);
    let lines: Vec<&str> = text.lines().collect();
    let own_lines = tests_line(&blanked).map_or(lines.len(), |line| line - 1);
    let header = lines.iter().take_while(|line| line.starts_with("//!"));
    let has_reason = header.clone().any(|line| line.contains(REASON));
    if own_lines > LINES_MAX {
        complaints.push(Complaint::new(
            path,
            0,
            format!("{own_lines} lines, tests apart; {LINES_MAX} is the limit: split it"),
        ));
    } else if own_lines > LINES_REASON && !has_reason {
        let text = format!("{own_lines} lines, tests apart: split it, or let the header say `{REASON} ...`");
        complaints.push(Complaint::new(path, 0, text));
    }
    for function in functions(&blanked).into_iter().filter(|function| function.first_line <= own_lines) {
        let len = function.last_line - function.first_line + 1;
        // The reason stands right above the signature, or right below it.
        let around = lines[function.first_line.saturating_sub(4)..].iter().take(6);
        if len > FUNCTION_LINES_MAX
            && !around.clone().any(|line| line.trim_start().starts_with(&format!("// {REASON}")))
        {
            let text = format!(
                "{} has {len} lines; {FUNCTION_LINES_MAX} is the limit: split it, or say `// {REASON} ...`",
                function.name
            );
            complaints.push(Complaint::new(path, function.first_line, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().map(ToString::to_string).collect()
    }

    fn lines(count: usize) -> String {
        "// line\n".repeat(count)
    }

    #[test]
    fn a_good_file_has_nothing_to_complain_of() {
        let text = "//! Owns x.\n#![forbid(unsafe_code)]\nfn a() {\n}\n";
        assert_eq!(found("crates/x/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn headers_names_and_unfinished_work_are_seen() {
        let unfinished = format!("fn a() {{}} // {}: later\nlet {}_count = 0;\n", UNFINISHED[1], UNFINISHED[1]);
        let complaints = found("crates/x/src/util.rs", &unfinished);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].starts_with("crates/x/src/util.rs:1: "), "{complaints:?}");
        assert!(complaints[1].contains("must open with //!") && complaints[2].contains("says nothing"));
        assert_eq!(found("tests/a.py", &format!("# {} this\n", UNFINISHED[0])).len(), 1);
        assert!(found("crates/x/src/lib.rs", "//! X.\n")[0].contains("forbid"));
    }

    #[test]
    fn long_files_need_a_reason_and_very_long_ones_have_none() {
        let long = |header: &str, count| found("crates/x/src/a.rs", &format!("//! X.\n{header}{}", lines(count)));
        assert_eq!(long("", 799), [""; 0]);
        assert!(long("", 800)[0].contains("801 lines"));
        assert_eq!(long("//! Long because it is a table.\n", 900), [""; 0]);
        assert!(long("//! Long because it is a table.\n", 1200)[0].contains("is the limit"));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(2000));
        assert_eq!(found("crates/x/src/a.rs", &format!("//! X.\n{tests}")), [""; 0]);
        assert_eq!(found("crates/x/tests/a.rs", &format!("//! X.\n{}", lines(2000))), [""; 0]);
    }

    #[test]
    fn long_functions_need_a_reason() {
        let function = |above: &str, body| format!("//! X.\n\n\n{above}fn a() {{\n{}}}\n", lines(body));
        assert_eq!(found("crates/x/src/a.rs", &function("", 68)), [""; 0]);
        assert!(found("crates/x/src/a.rs", &function("", 69))[0].starts_with("crates/x/src/a.rs:4: a has 71 lines"));
        assert_eq!(found("crates/x/src/a.rs", &function("// Long because it is one table.\n", 100)), [""; 0]);
    }
}
