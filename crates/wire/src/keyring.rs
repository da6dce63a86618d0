//! Keyring files: entities with their keys and caps, as text.
//!
//! Follows Ceph v16.2 `src/auth/KeyRing.cc`: sections named after entities, `key = BASE64` and `caps SERVICE = "TEXT"`
//! inside. Owns reading and writing the text; refuses to touch files. Unknown settings are refused rather than
//! ignored, as Ceph does: a misspelt `caps` would otherwise grant less than it seems to.
//!
//! Invariant: what `to_text` writes, `parse` reads back as the same keyring.

use crate::cephx::{AuthName, BadKey, CryptoKey, EntityAuth};
use core::fmt;
use std::collections::BTreeMap;

/// A keyring's entities, in Ceph's order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keyring {
    /// Each entity's key and caps.
    pub entities: BTreeMap<AuthName, EntityAuth>,
}

/// A keyring that cannot be read: where and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct BadKeyring {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a line of a keyring.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// `[` without `]`.
    #[error("a section's name ends with ]")]
    OpenSection,
    /// A section that is not named after an entity.
    #[error("[{0}] is not an entity's name such as client.admin or osd.0")]
    NotAnEntity(String),
    /// A setting before the first section.
    #[error("a setting before the first [entity]")]
    NoSection,
    /// No `=`.
    #[error("expected key = ... or caps SERVICE = \"...\"")]
    NotASetting,
    /// A setting other than `key` and `caps`.
    #[error("unknown setting '{0}', expected key or caps SERVICE")]
    UnknownSetting(String),
    /// A quote that does not end.
    #[error("a quoted value does not end")]
    OpenQuote,
    /// A key that is none.
    #[error("the key {0}")]
    BadKey(BadKey),
    /// A section that ended without a key.
    #[error("[{0}] has no key")]
    NoKey(String),
}

impl Keyring {
    /// A keyring with one entity.
    pub fn one(name: AuthName, auth: EntityAuth) -> Keyring {
        Keyring { entities: [(name, auth)].into() }
    }

    /// An entity's key and caps.
    pub fn entity(&self, name: &AuthName) -> Option<&EntityAuth> {
        self.entities.get(name)
    }

    /// Reads a keyring. Of an entity that comes twice, later settings win, as with Ceph.
    pub fn parse(text: &str) -> Result<Keyring, BadKeyring> {
        let mut keyring = Keyring::default();
        let mut section: Option<(AuthName, usize)> = None;
        for (line, content) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
            let fail = |fault| BadKeyring { line, fault };
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = content.strip_prefix('[') {
                let (name, rest) = name.split_once(']').ok_or_else(|| fail(Fault::OpenSection))?;
                if !rest.trim().is_empty() && !rest.trim().starts_with(['#', ';']) {
                    return Err(fail(Fault::OpenSection));
                }
                let name = name.trim();
                let name = AuthName::parse(name).ok_or_else(|| fail(Fault::NotAnEntity(name.to_owned())))?;
                keyring.section_done(section.take())?;
                keyring.entities.entry(name.clone()).or_default();
                section = Some((name, line));
                continue;
            }
            let (name, _) = section.as_ref().ok_or_else(|| fail(Fault::NoSection))?;
            let auth = keyring.entities.get_mut(name).expect("made when the section began");
            setting(auth, content).map_err(fail)?;
        }
        keyring.section_done(section)?;
        Ok(keyring)
    }

    fn section_done(&self, section: Option<(AuthName, usize)>) -> Result<(), BadKeyring> {
        match section {
            Some((name, line)) if self.entities.get(&name).is_some_and(|auth| auth.key.is_empty()) => {
                Err(BadKeyring { line, fault: Fault::NoKey(name.to_string()) })
            }
            _ => Ok(()),
        }
    }

    /// The text, as `ceph auth get` and `ceph-authtool` print it.
    pub fn to_text(&self) -> String {
        self.to_string()
    }
}

fn setting(auth: &mut EntityAuth, content: &str) -> Result<(), Fault> {
    let (name, value) = content.split_once('=').ok_or(Fault::NotASetting)?;
    let value = unquote(value.trim())?;
    // Blanks and underscores mean the same in Ceph's option names.
    let words: Vec<&str> = name.split(|c: char| c.is_whitespace() || c == '_').filter(|w| !w.is_empty()).collect();
    match words.as_slice() {
        ["key"] => auth.key = CryptoKey::parse(&value).map_err(Fault::BadKey)?,
        ["caps", service] => {
            auth.caps.insert((*service).to_owned(), value);
        }
        // Once the number of an entity's owner; still found in old files.
        ["auid"] => {}
        _ => return Err(Fault::UnknownSetting(name.trim().to_owned())),
    }
    Ok(())
}

/// The text inside quotes, with `\` taking the next character as it is; an unquoted one up to a comment.
fn unquote(value: &str) -> Result<String, Fault> {
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let end = value.find(['#', ';']).unwrap_or(value.len());
        return Ok(value[..end].trim_end().to_owned());
    };
    let mut out = String::new();
    let mut chars = value.chars().skip(1);
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().ok_or(Fault::OpenQuote)?),
            c if c == quote => {
                let rest: String = chars.collect();
                let rest = rest.trim();
                let clean = rest.is_empty() || rest.starts_with(['#', ';']);
                return if clean { Ok(out) } else { Err(Fault::NotASetting) };
            }
            c => out.push(c),
        }
    }
    Err(Fault::OpenQuote)
}

impl fmt::Display for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, auth) in &self.entities {
            writeln!(f, "[{name}]\n\tkey = {}", auth.key.to_text())?;
            for (service, caps) in &auth.caps {
                let escaped = caps.replace('\\', "\\\\").replace('"', "\\\"");
                writeln!(f, "\tcaps {service} = \"{escaped}\"")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Instant;
    use proptest::prelude::*;

    const KEY: &str = "AQCu9gFrT10SAxAADQhG9FP4RZwJhUXMLM1sVw==";

    #[test]
    fn ceph_authtools_own_output_reads_and_prints_the_same() {
        // Printed by ceph-authtool 16.2.15 for a throw-away cluster.
        let text = include_str!("../tests/golden/keyring.txt");
        let keyring = Keyring::parse(text).expect("a real keyring");
        assert_eq!(keyring.entities.len(), 6);
        let admin = keyring.entity(&AuthName::parse("client.admin").expect("a name")).expect("listed");
        assert_eq!(admin.caps["osd"], "allow *");
        // Ours is sorted by kind and name; the file is in the order of its making.
        let mut printed: Vec<_> = keyring.to_text().lines().map(str::to_owned).collect();
        let mut original: Vec<_> = text.lines().map(str::to_owned).collect();
        printed.sort();
        original.sort();
        assert_eq!(printed, original);
    }

    #[test]
    fn blanks_comments_and_unquoted_values_are_taken() {
        let text = format!(
            "# mine\n\n [client.a] ; comment\nkey={KEY} # why\n caps_mon = allow r\n\tcaps  osd='allow w'\n auid = 0\n"
        );
        let keyring = Keyring::parse(&text).expect("valid");
        let auth = keyring.entity(&AuthName::parse("client.a").expect("a name")).expect("listed");
        assert_eq!((auth.caps["mon"].as_str(), auth.caps["osd"].as_str()), ("allow r", "allow w"));
    }

    #[test]
    fn faults_name_their_line() {
        for (text, line, fault) in [
            ("[client.a", 1, Fault::OpenSection),
            ("\n[admin]", 2, Fault::NotAnEntity("admin".into())),
            ("\n\nkey = x", 3, Fault::NoSection),
            ("[client.a]\nkey", 2, Fault::NotASetting),
            ("[client.a]\nkeys = x", 2, Fault::UnknownSetting("keys".into())),
            ("[client.a]\ncaps mon = \"allow", 2, Fault::OpenQuote),
            ("[client.a]\nkey = AQ!", 2, Fault::BadKey(BadKey::NotBase64)),
            ("[client.a]\ncaps mon = \"\"\n\n[client.b]", 1, Fault::NoKey("client.a".into())),
            ("\n[client.a]", 2, Fault::NoKey("client.a".into())),
        ] {
            assert_eq!(Keyring::parse(text), Err(BadKeyring { line, fault }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ids in proptest::collection::btree_map("[a-z0-9.-]{0,8}", proptest::collection::btree_map("mon|osd|mds|mgr", "[ -~]{0,30}", 0..4), 0..4)) {
            let mut keyring = Keyring::default();
            for (id, caps) in ids {
                let auth = EntityAuth { key: CryptoKey::aes(Instant::from_secs(5), [9; 16]), caps };
                keyring.entities.insert(AuthName::parse(&format!("client.{id}")).expect("a name"), auth);
            }
            prop_assert_eq!(Keyring::parse(&keyring.to_text()), Ok(keyring));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]a-z.=\"'\\\\ #\n]{0,80}") {
            let _ = Keyring::parse(&text);
        }
    }
}
