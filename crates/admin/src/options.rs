//! Configuration options: what exists, of which type, with which default and bounds.
//!
//! Owns the one table that `config set` checks values against and that `config help|ls|get` show. Names, types and
//! defaults are Ceph's (v16.2 `src/common/options.cc`); what Loligo adds is named in the same manner. Values are
//! normalized on entry as `Option::parse_value` does, so that the same setting always reads the same.
//!
//! Read next: `options_table`, the table itself; `settings`, what a daemon's options are.

use crate::format::Value;
pub use crate::options_table::OPTIONS;
use core::fmt::Display;

/// The type of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// An unsigned integer; decimal prefixes (`4K`) are taken.
    Uint,
    /// A signed integer.
    Int,
    /// A byte count; binary prefixes (`4K` is 4096) are taken.
    Size,
    /// A floating-point number.
    Float,
    /// `true` or `false`.
    Bool,
    /// Any text.
    Text,
    /// Whole seconds.
    Secs,
}

impl OptionKind {
    /// The name in `config help`.
    pub fn name(self) -> &'static str {
        match self {
            OptionKind::Uint => "uint",
            OptionKind::Int => "int",
            OptionKind::Size => "size",
            OptionKind::Float => "float",
            OptionKind::Bool => "bool",
            OptionKind::Text => "str",
            OptionKind::Secs => "secs",
        }
    }
}

/// Who is meant to touch an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Everybody.
    Basic,
    /// Those who know why.
    Advanced,
    /// Developers.
    Dev,
}

impl Level {
    /// The name in `config dump`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Basic => "basic",
            Level::Advanced => "advanced",
            Level::Dev => "dev",
        }
    }
}

/// Who heeds an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heeded {
    /// A daemon, or `loligo` when it makes one.
    Here,
    /// Clients, which are sent it by the monitor.
    ByClients,
    /// Nobody: it is known so that tools which set it go on.
    Nowhere,
}

impl Heeded {
    /// What `config help` adds.
    fn note(self) -> &'static str {
        match self {
            Heeded::Here => "",
            Heeded::ByClients => "Heeded by clients, which are sent it by the monitor.",
            Heeded::Nowhere => "Has no effect here; it is known so that tools which set it go on.",
        }
    }
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: OptionKind,
    /// Its level.
    pub level: Level,
    /// Its default, normalized.
    pub default: &'static str,
    /// The smallest and largest value, for numbers that have them.
    pub range: (Option<f64>, Option<f64>),
    /// The values a text may have; empty for any.
    pub choices: &'static [&'static str],
    /// The words of which a text has to have some; empty for any text.
    pub words: &'static [&'static str],
    /// Whether daemons take a new value without a restart.
    pub runtime: bool,
    /// Who heeds it.
    pub heeded: Heeded,
    /// What it does, in one line.
    pub about: &'static str,
}

/// Looks an option up by name.
pub fn find(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|o| o.name == name)
}

/// The name as the table has it: spaces and dashes stand for underscores.
pub fn normalize_name(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

impl OptionSpec {
    /// Checks a value and brings it to its normal form; the error is the reason, in Ceph's words.
    pub fn normalize(&self, value: &str) -> Result<String, String> {
        let value = value.trim();
        match self.kind {
            OptionKind::Uint | OptionKind::Size => {
                let number = parse_number(self.kind, value)?;
                self.check_range(number as f64, number)?;
                Ok(number.to_string())
            }
            OptionKind::Int => {
                let number = parse_scaled(value, 1000).map_err(|e| format!("strict_si_cast: {e}"))?;
                let number = i64::try_from(number).map_err(|_| "strict_si_cast: value is too large")?;
                self.check_range(number as f64, number)?;
                Ok(number.to_string())
            }
            OptionKind::Float => {
                let number: f64 = (value.parse().ok().filter(|v: &f64| v.is_finite()))
                    .ok_or_else(|| format!("strict_strtod: expected double, got: '{value}'"))?;
                self.check_range(number, number)?;
                Ok(format!("{number:.6}"))
            }
            OptionKind::Bool => match value.to_ascii_lowercase().as_str() {
                "true" => Ok("true".to_owned()),
                "false" => Ok("false".to_owned()),
                number => match number.parse::<i64>() {
                    Ok(n) => Ok((n != 0).to_string()),
                    Err(_) => Err(format!("Expected option value to be integer, got '{value}'")),
                },
            },
            OptionKind::Secs => {
                let number: u64 =
                    value.trim_end_matches('s').parse().map_err(|_| format!("invalid timespan: '{value}'"))?;
                self.check_range(number as f64, number)?;
                Ok(number.to_string())
            }
            OptionKind::Text => {
                if !self.choices.is_empty() && !self.choices.contains(&value) {
                    return Err(format!("'{value}' is not one of the permitted values: {}", self.choices.join(", ")));
                }
                if self.words.is_empty() { Ok(value.to_owned()) } else { self.normalize_words(value) }
            }
        }
    }

    /// A list of words with any separator that Ceph takes.
    fn normalize_words(&self, value: &str) -> Result<String, String> {
        let words: Vec<&str> = value.split([' ', ',', ';', '=', '\t']).filter(|word| !word.is_empty()).collect();
        if words.is_empty() || words.iter().any(|word| !self.words.contains(word)) {
            return Err(format!("'{value}' has words other than: {}", self.words.join(", ")));
        }
        Ok(words.join(" "))
    }

    /// The option as `config help` describes it.
    pub fn describe(&self) -> Value {
        let bound = |bound: Option<f64>| bound.map(|b| b.to_string()).unwrap_or_default();
        let default = match self.default.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(self.default),
        };
        crate::object! {
            "name" => self.name,
            "type" => self.kind.name(),
            "level" => self.level.name(),
            "desc" => self.about,
            "long_desc" => self.heeded.note(),
            "default" => default,
            "daemon_default" => "",
            "tags" => Value::Array(vec![]),
            "services" => Value::Array(vec![]),
            "see_also" => Value::Array(vec![]),
            "min" => bound(self.range.0),
            "max" => bound(self.range.1),
            "can_update_at_runtime" => self.runtime,
            "flags" => Value::array(self.runtime.then_some("runtime")),
        }
    }

    fn check_range(&self, number: f64, shown: impl Display) -> Result<(), String> {
        match self.range {
            (Some(min), _) if number < min => Err(format!("Value '{shown}' is below minimum {min}")),
            (_, Some(max)) if number > max => Err(format!("Value '{shown}' exceeds maximum {max}")),
            _ => Ok(()),
        }
    }
}

/// Reads a count (`Uint`: decimal prefixes) or a size (`Size`: binary prefixes); the error is the reason, in Ceph's words.
pub fn parse_number(kind: OptionKind, text: &str) -> Result<u64, String> {
    let (step, cast) = if kind == OptionKind::Size { (1024, "strict_iecb_cast") } else { (1000, "strict_si_cast") };
    let number = parse_scaled(text.trim(), step).map_err(|e| format!("{cast}: {e}"))?;
    u64::try_from(number).map_err(|_| format!("{cast}: value should not be negative"))
}

/// Reads an integer with an optional prefix of powers of `step`, with or without `i` and `B` behind it.
fn parse_scaled(text: &str, step: i128) -> Result<i128, &'static str> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() && !unit.is_empty() {
        return Err("unit prefix not recognized");
    }
    let power = match unit.trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return Err("unit prefix not recognized"),
    };
    let number: i64 = number.parse().map_err(|_| "expected integer")?;
    i128::from(number).checked_mul(step.pow(power)).filter(|n| *n <= i128::from(u64::MAX)).ok_or("value is too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (i, option) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..i].iter().all(|o| o.name != option.name), "{} is there twice", option.name);
            if !(option.default.is_empty() && option.kind == OptionKind::Text) {
                assert_eq!(option.normalize(option.default).as_deref(), Ok(option.default), "{}", option.name);
            }
            assert!(!option.about.is_empty());
        }
    }

    #[test]
    fn values_are_normalized_and_refused_in_cephs_words() {
        let backfills = find("osd_max_backfills").expect("it exists");
        assert_eq!(backfills.normalize("3").as_deref(), Ok("3"));
        assert_eq!(backfills.normalize("abc"), Err("strict_si_cast: unit prefix not recognized".to_owned()));
        assert!(backfills.normalize("-1").is_err() && backfills.normalize("99999999999999999999").is_err());
        let sleep = find("osd_recovery_sleep").expect("it exists");
        assert_eq!(sleep.normalize("0.1").as_deref(), Ok("0.100000"));
        assert!(sleep.normalize("nan").is_err());
        let delete = find("mon_allow_pool_delete").expect("it exists");
        assert_eq!(delete.normalize("1").as_deref(), Ok("true"));
        assert!(delete.normalize("maybe").is_err());
        let target = find("osd_memory_target").expect("it exists");
        assert_eq!(target.normalize("4G").as_deref(), Ok("4294967296"));
        let modes = find("ms_service_mode").expect("it exists");
        assert_eq!(modes.normalize("secure, crc").as_deref(), Ok("secure crc"));
        assert!(modes.normalize("secrue").is_err() && modes.normalize("").is_err());
        let debug = find("debug_osd").expect("it exists");
        assert_eq!(debug.normalize("2/3").as_deref(), Ok("2/3"));
    }
}
