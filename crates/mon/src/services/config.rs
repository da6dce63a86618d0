//! The central configuration: what was set for whom, and what that makes of an entity's options.
//!
//! Owns sections, masks and their precedence (v16.2 `src/mon/ConfigMap.{h,cc}`): global, then the entity's type, then
//! its name by dotted parts; within one section an option without a mask yields to one with; a device class is more
//! specific than a location. Refuses to check values: `options` does.
//!
//! Read next: `commands::config`.

use crate::limits::CONFIG_HISTORY_MAX;
use crate::store::{BadStore, Batch, Image, decode_value};
use base::Instant;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::EntityType;

/// To whom a setting applies, beyond its section.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Mask {
    /// Only OSDs of this device class.
    pub device_class: String,
    /// Only entities below the bucket `value` of type `kind`, as (kind, value).
    pub location: Option<(String, String)>,
}

impl Mask {
    /// How specific it is: what is more specific wins.
    fn precision(&self) -> u8 {
        u8::from(self.location.is_some()) + 2 * u8::from(!self.device_class.is_empty())
    }
}

impl core::fmt::Display for Mask {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some((kind, value)) = &self.location {
            write!(f, "{kind}:{value}")?;
        }
        if !self.device_class.is_empty() {
            let slash = if self.location.is_some() { "/" } else { "" };
            write!(f, "{slash}class:{}", self.device_class)?;
        }
        Ok(())
    }
}

/// A section with a mask: the WHO of `config set`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Target {
    /// `global`, `osd`, `osd.1`, `client.admin`.
    pub section: String,
    /// Who of them.
    pub mask: Mask,
}

impl Target {
    /// Reads `osd/class:hdd`, `host:a`, `global`; `None` where a part is no type and no entity.
    pub fn parse(who: &str) -> Option<Target> {
        let mut target = Target { section: "global".to_owned(), mask: Mask::default() };
        for part in who.split('/') {
            if part == "global" {
                continue;
            }
            if let Some((kind, value)) = part.split_once(':') {
                match kind {
                    "class" => target.mask.device_class = value.to_owned(),
                    kind => target.mask.location = Some((kind.to_owned(), value.to_owned())),
                }
                continue;
            }
            let kind = part.split_once('.').map_or(part, |(kind, _)| kind);
            EntityType::from_name(kind)?;
            target.section = part.to_owned();
        }
        Some(target)
    }

    /// The text that `parse` reads.
    pub fn who(&self) -> String {
        let mask = self.mask.to_string();
        if mask.is_empty() { self.section.clone() } else { format!("{}/{mask}", self.section) }
    }
}

/// Who asks for its options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entity {
    /// `osd.1`.
    pub name: String,
    /// Its place in the CRUSH tree, type to bucket.
    pub location: BTreeMap<String, String>,
    /// Its device class; empty where it has none.
    pub device_class: String,
}

impl Entity {
    fn sections(&self) -> Vec<String> {
        let mut sections = vec!["global".to_owned()];
        let ends = self.name.match_indices('.').map(|(i, _)| i).chain([self.name.len()]);
        sections.extend(ends.map(|end| self.name[..end].to_owned()));
        sections
    }

    fn matches(&self, mask: &Mask) -> bool {
        let here = mask.location.as_ref().is_none_or(|(kind, value)| self.location.get(kind) == Some(value));
        here && (mask.device_class.is_empty() || mask.device_class == self.device_class)
    }
}

/// One changed setting in the history: what it was and what it became.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// `osd/osd_max_backfills`, as in the store.
    pub key: String,
    /// The value before.
    pub before: Option<String>,
    /// The value after.
    pub after: Option<String>,
}

/// One version of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// When it was made.
    pub at: Instant,
    /// What it was made by.
    pub title: String,
    /// What it changed.
    pub changes: Vec<Change>,
}

impl Encode for Version {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u64(self.at.0);
            e.string(&self.title);
            e.len(self.changes.len());
            for change in &self.changes {
                e.string(&change.key);
                e.put(&change.before);
                e.put(&change.after);
            }
        });
    }
}

impl Decode for Version {
    const MIN_BYTES: usize = 22;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("configuration version", 1, |d, _| {
            let (at, title) = (Instant(d.u64()?), d.string()?);
            let changes = (0..d.len(6)?)
                .map(|_| Ok(Change { key: d.string()?, before: d.get()?, after: d.get()? }))
                .collect::<Result<_, Malformed>>()?;
            Ok(Version { at, title, changes })
        })
    }
}

/// The service.
#[derive(Debug, Default)]
pub struct ConfigService {
    /// All settings, by whom they are for and option.
    settings: BTreeMap<(Target, String), String>,
    history: BTreeMap<u32, Version>,
    batch: Batch,
    /// Grows with every change: sessions compare it to know whether to look again.
    generation: u64,
}

impl ConfigService {
    /// From the store.
    pub fn load(image: &Image) -> Result<ConfigService, BadStore> {
        let mut service = ConfigService::default();
        for (key, value) in image.prefix("config") {
            let bad = |why| BadStore::Bad("config".to_owned(), key.to_owned(), Malformed::new("setting", why));
            let (target, name) = parse_key(key).ok_or_else(|| bad("is for nobody known"))?;
            let value = core::str::from_utf8(value).map_err(|_| bad("is not UTF-8"))?;
            service.settings.insert((target, name), value.to_owned());
        }
        for (key, value) in image.prefix("config_log") {
            let bad =
                || BadStore::Bad("config_log".to_owned(), key.to_owned(), Malformed::new("version", "is no number"));
            service.history.insert(key.parse().map_err(|_| bad())?, decode_value("config_log", key, value)?);
        }
        Ok(service)
    }

    /// All settings.
    pub fn settings(&self) -> impl Iterator<Item = (&Target, &str, &str)> {
        self.settings.iter().map(|((target, name), value)| (target, name.as_str(), value.as_str()))
    }

    /// Grows with every change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The kept versions, oldest first.
    pub fn history(&self) -> &BTreeMap<u32, Version> {
        &self.history
    }

    /// Makes settings and removals one new version. True if anything changed.
    pub fn change(&mut self, now: Instant, title: &str, edits: Vec<(Target, String, Option<String>)>) -> bool {
        let mut changes = Vec::new();
        for (target, name, value) in edits {
            let key = format!("{}/{name}", target.who());
            let at = (target, name);
            let before = self.settings.get(&at).cloned();
            if before == value {
                continue;
            }
            match &value {
                Some(value) => {
                    self.batch.put("config", key.clone(), Bytes::copy_from_slice(value.as_bytes()));
                    self.settings.insert(at, value.clone());
                }
                None => {
                    self.batch.remove("config", key.clone());
                    self.settings.remove(&at);
                }
            }
            changes.push(Change { key, before, after: value });
        }
        if changes.is_empty() {
            return false;
        }
        self.generation += 1;
        let number = self.history.last_key_value().map_or(1, |(n, _)| n + 1);
        let version = Version { at: now, title: title.to_owned(), changes };
        self.batch.encode("config_log", format!("{number:010}"), &version);
        self.history.insert(number, version);
        while self.history.len() > CONFIG_HISTORY_MAX {
            if let Some((old, _)) = self.history.pop_first() {
                self.batch.remove("config_log", format!("{old:010}"));
            }
        }
        true
    }

    /// The edits that bring back version `number`; `None` where it is not kept.
    pub fn edits_back_to(&self, number: u32) -> Option<Vec<(Target, String, Option<String>)>> {
        if number != 0 && !self.history.contains_key(&number) {
            return None;
        }
        let mut wanted = BTreeMap::new();
        for (_, version) in self.history.range(number + 1..).rev() {
            for change in &version.changes {
                wanted.insert(change.key.clone(), change.before.clone());
            }
        }
        let edit = |(key, value): (String, Option<String>)| parse_key(&key).map(|(t, n)| (t, n, value));
        Some(wanted.into_iter().filter_map(edit).collect())
    }

    /// What an entity's options are where somebody set them: name to value and the setting's target.
    pub fn effective(&self, entity: &Entity) -> BTreeMap<&str, (&str, &Target)> {
        let mut found: BTreeMap<&str, (&str, &Target)> = BTreeMap::new();
        for section in entity.sections() {
            let mut here: Vec<_> = (self.settings.iter())
                .filter(|((target, _), _)| target.section == section && entity.matches(&target.mask))
                .collect();
            here.sort_by_key(|((target, _), _)| target.mask.precision());
            for ((target, name), value) in here {
                found.insert(name, (value, target));
            }
        }
        found
    }

    /// The value that the monitor itself or a type of daemon has, where somebody set it.
    pub fn value_for(&self, entity: &str, option: &str) -> Option<&str> {
        let entity = Entity { name: entity.to_owned(), ..Entity::default() };
        self.effective(&entity).get(option).map(|(value, _)| *value)
    }

    /// Moves the unwritten changes to `batch`.
    pub fn flush(&mut self, batch: &mut Batch) {
        batch.append(&mut self.batch);
    }

    /// Whether there are unwritten changes.
    pub fn dirty(&self) -> bool {
        !self.batch.is_empty()
    }
}

fn parse_key(key: &str) -> Option<(Target, String)> {
    let (who, name) = key.rsplit_once('/')?;
    Some((Target::parse(who)?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(who: &str, name: &str, value: &str) -> (Target, String, Option<String>) {
        (Target::parse(who).expect("a target"), name.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn the_more_specific_setting_wins() {
        let mut config = ConfigService::default();
        let edits = vec![
            set("global", "a", "global"),
            set("osd", "a", "osd"),
            set("osd/class:hdd", "a", "hdd"),
            set("osd/host:x", "a", "host x"),
            set("osd.1", "a", "osd.1"),
            set("client.rbd", "b", "rbd"),
        ];
        assert!(config.change(Instant::ZERO, "t", edits.clone()));
        assert!(!config.change(Instant::ZERO, "t", edits));
        let mut osd = Entity { name: "osd.0".to_owned(), ..Entity::default() };
        let value = |config: &ConfigService, e: &Entity| config.effective(e).get("a").map(|v| v.0.to_owned());
        assert_eq!(value(&config, &osd).as_deref(), Some("osd"));
        osd.location.insert("host".to_owned(), "x".to_owned());
        assert_eq!(value(&config, &osd).as_deref(), Some("host x"));
        osd.device_class = "hdd".to_owned();
        assert_eq!(value(&config, &osd).as_deref(), Some("hdd"));
        osd.name = "osd.1".to_owned();
        assert_eq!(value(&config, &osd).as_deref(), Some("osd.1"));
        assert_eq!(config.value_for("mon", "a"), Some("global"));
        assert_eq!(config.value_for("client.rbd.0", "b"), Some("rbd"));
    }

    #[test]
    fn it_survives_a_restart_and_goes_back_to_a_version() {
        let mut config = ConfigService::default();
        config.change(Instant::ZERO, "one", vec![set("osd/class:hdd", "x", "1")]);
        config.change(Instant::ZERO, "two", vec![set("osd/class:hdd", "x", "2"), set("mon", "y", "3")]);
        let (mut batch, mut image) = (Batch::default(), Image::default());
        config.flush(&mut batch);
        assert!(!config.dirty());
        image.apply(&batch.into_writes());
        let mut again = ConfigService::load(&image).expect("it reads");
        assert_eq!(again.settings, config.settings);
        assert_eq!(again.history, config.history);
        let edits = again.edits_back_to(1).expect("version 1 is kept");
        again.change(Instant::ZERO, "reset", edits);
        assert_eq!(again.settings().map(|(_, n, v)| (n, v)).collect::<Vec<_>>(), [("x", "1")]);
        assert_eq!(again.edits_back_to(77), None);
    }

    #[test]
    fn targets() {
        assert_eq!(Target::parse("nosuch.x"), None);
        for who in ["global", "osd", "osd.1", "osd/class:hdd", "client.admin/host:a", "global/host:a/class:ssd"] {
            assert_eq!(Target::parse(who).map(|t| t.who()).as_deref(), Some(who));
        }
    }
}
