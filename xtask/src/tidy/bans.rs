//! What the crates of layers 0 to 3 must not touch, as engines get time, randomness, files and sockets from outside.
//!
//! Clippy finds clocks, threads, sockets and maps of random order, in tests too; this sees to it that nobody's
//! clippy.toml forgets one (`crates/base/clippy.toml` is the one to copy). Files, processes and the environment are free
//! to tests, which clippy cannot tell apart, so these are looked for here.

use super::Complaint;
use super::source::{blank, tests_line};

/// What a pure crate's sources may not name outside tests.
const TESTS_ONLY: [&str; 4] = ["std::fs", "std::env", "std::process", "tokio::"];

/// Complaints about one source file of a pure crate.
pub(crate) fn check_source(path: &str, text: &str) -> Vec<Complaint> {
    let blanked = blank(text);
    let own_lines = tests_line(&blanked).unwrap_or(usize::MAX);
    let lines = (1..own_lines).zip(blanked.lines());
    lines
        .flat_map(|(at, line)| {
            TESTS_ONLY.iter().filter(move |banned| line.contains(**banned)).map(move |banned| (at, banned))
        })
        .map(|(at, banned)| {
            Complaint::new(path, at, format!("{banned} is for layers 4 and 5: take what it gives as an argument"))
        })
        .collect()
}

/// What layers 0 to 3 must not call or name.
const BANNED: [&str; 14] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::thread::Builder::spawn",
    "tokio::spawn",
    "tokio::time::sleep",
    "rand::thread_rng",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map::RandomState",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
];

/// Complaints about one crate's settings.
pub(crate) fn check(path: &str, text: Option<&str>) -> Vec<Complaint> {
    let Some(text) = text else {
        return vec![Complaint::new(path, 0, "is missing: copy crates/base/clippy.toml")];
    };
    let lacks = |banned: &&&str| !text.contains(&format!("\"{banned}\""));
    BANNED.iter().filter(lacks).map(|banned| Complaint::new(path, 0, format!("does not ban {banned}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_environment_are_for_tests_only() {
        let text = "// std::fs is fine here\nuse std::fs;\n#[cfg(test)]\nmod tests {\n    use std::env;\n}\n";
        let found: Vec<usize> = check_source("p", text).iter().map(|complaint| complaint.line).collect();
        assert_eq!(found, [2]);
    }

    #[test]
    fn forgotten_bans_and_missing_settings_are_named() {
        assert_eq!(check("p", None).len(), 1);
        let all: String = BANNED.iter().map(|banned| format!("{{ path = \"{banned}\" }},\n")).collect();
        assert_eq!(check("p", Some(&all)), []);
        let found = check("p", Some(&all.replace("std::thread::sleep", "std::thread::slumber")));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["p: does not ban std::thread::sleep"]);
    }
}
