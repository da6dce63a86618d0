//! `ceph.conf`: the few values Loligo needs from it, and the file it writes for clients.
//!
//! Owns the file's syntax as far as both directions need it: sections, `key = value`, comments, and Ceph's rule that
//! spaces, dashes and underscores in a key are the same. Refuses to know what the values mean beyond that.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A parsed configuration file: section, normalised key, value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conf {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

fn normalise(key: &str) -> String {
    key.trim().replace([' ', '-'], "_")
}

impl Conf {
    /// Parses the text of a file. The error names the line.
    pub(crate) fn parse(text: &str) -> Result<Conf, String> {
        let mut conf = Conf::default();
        let mut section = "global".to_owned();
        for (number, line) in text.lines().enumerate() {
            let line = line.split(['#', ';']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = name.trim().to_owned();
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(format!("line {}: expected `key = value`, found `{line}`", number + 1));
            };
            conf.set(&section, key, value.trim());
        }
        Ok(conf)
    }

    /// The value for an entity such as `osd.0`: its own section first, then its type's, then `global`.
    pub(crate) fn get(&self, entity: &str, key: &str) -> Option<&str> {
        let kind = entity.split('.').next().unwrap_or(entity);
        let key = normalise(key);
        [entity, kind, "global"].iter().find_map(|s| self.sections.get(*s)?.get(&key)).map(String::as_str)
    }

    /// Sets a value.
    pub(crate) fn set(&mut self, section: &str, key: &str, value: &str) {
        self.sections.entry(section.to_owned()).or_default().insert(normalise(key), value.to_owned());
    }

    /// Every value an entity sees, least specific first overwritten by more specific.
    pub(crate) fn values_for(&self, entity: &str) -> BTreeMap<String, String> {
        let kind = entity.split('.').next().unwrap_or(entity);
        let sections = ["global", kind, entity];
        sections.iter().filter_map(|s| self.sections.get(*s)).flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The text of a file with these values, `[global]` first.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        let global = self.sections.get_key_value("global");
        for (name, values) in global.into_iter().chain(self.sections.iter().filter(|(n, _)| *n != "global")) {
            let _ = writeln!(out, "{}[{name}]", if out.is_empty() { "" } else { "\n" });
            for (key, value) in values {
                let _ = writeln!(out, "{key} = {value}");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_override_and_keys_are_normalised() {
        let text = "fsid = x # the cluster\n[osd]\nosd max backfills = 3\n[osd.1]\nosd-max-backfills=5\n";
        let conf = Conf::parse(text).expect("a well-formed file");
        assert_eq!(conf.get("osd.0", "osd_max_backfills"), Some("3"));
        assert_eq!(conf.get("osd.1", "osd_max_backfills"), Some("5"));
        assert_eq!(conf.get("osd.1", "fsid"), Some("x"));
        assert_eq!(conf.get("client.admin", "osd_max_backfills"), None);
        assert_eq!(conf.values_for("osd.1").get("osd_max_backfills").map(String::as_str), Some("5"));
        assert_eq!(Conf::parse(&conf.render()), Ok(conf));
    }

    #[test]
    fn a_broken_line_is_named() {
        assert_eq!(Conf::parse("a = 1\nb\n"), Err("line 2: expected `key = value`, found `b`".to_owned()));
    }
}
