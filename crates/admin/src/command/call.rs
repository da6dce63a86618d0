//! A command as it arrives: its JSON text taken apart, and its arguments read with the types handlers want.
//!
//! Owns the conversion of arguments and the texts of what is wrong with them. Follows Ceph v16.2
//! `src/common/cmdparse.cc`: all strings of the message make one JSON object; `prefix` names the command, `format` the
//! output. Integers are taken from numbers and from text that reads as one, as clients in several languages send both.
//!
//! Read next: `table`, which looks the prefix up.

use crate::format::OutputFormat;
use base::{Errno, Instant, OsdId, PgId};
use bytes::Bytes;
use serde_json::{Map, Value as Json};

use super::answer::{Refused, refuse};

/// The longest command: the largest real ones (`osd reweightn` over thousands of OSDs) stay far below.
pub const COMMAND_JSON_BYTES_MAX: usize = 1 << 20;

/// A command with its arguments.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it arrived.
    pub now: Instant,
    /// The words that name it: `osd pool create`.
    pub prefix: String,
    /// The format of the answer.
    pub format: OutputFormat,
    /// The file given with `-i`.
    pub input: Bytes,
    /// Who asks, for the audit log and the rules that depend on it.
    pub entity: String,
    arguments: Map<String, Json>,
}

impl Call {
    /// Takes apart the strings of a command message.
    pub fn parse(now: Instant, entity: &str, parts: &[String], input: Bytes) -> Result<Call, Refused> {
        let text = parts.concat();
        if text.len() > COMMAND_JSON_BYTES_MAX {
            return refuse(Errno::E2BIG, "the command is too long");
        }
        // What follows the object is nobody's: the tool `rbd` sends a quotation mark there, and Ceph's parser stops before.
        let mut values = serde_json::Deserializer::from_str(&text).into_iter();
        let Some(Ok(Json::Object(mut arguments))) = values.next() else {
            return refuse(Errno::EINVAL, "command is not a JSON object");
        };
        let Some(Json::String(prefix)) = arguments.remove("prefix") else {
            return refuse(Errno::EINVAL, "command prefix not found");
        };
        let format = match arguments.remove("format") {
            Some(Json::String(name)) => OutputFormat::from_name(&name),
            _ => OutputFormat::Plain,
        };
        Ok(Call { now, prefix, format, input, entity: entity.to_owned(), arguments })
    }

    /// Whether an argument of that name was given.
    pub fn has(&self, name: &str) -> bool {
        self.arguments.contains_key(name)
    }

    /// An optional text; numbers are shown as text.
    pub fn text_opt(&self, name: &str) -> Result<Option<String>, Refused> {
        match self.arguments.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(Json::Number(number)) => Ok(Some(number.to_string())),
            Some(Json::Bool(flag)) => Ok(Some(flag.to_string())),
            Some(_) => Err(bad_type(name)),
        }
    }

    /// A text that must be there.
    pub fn text(&self, name: &str) -> Result<String, Refused> {
        self.text_opt(name)?.ok_or_else(|| missing(name))
    }

    /// An optional integer.
    pub fn int_opt(&self, name: &str) -> Result<Option<i64>, Refused> {
        match self.arguments.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Number(number)) => number.as_i64().map(Some).ok_or_else(|| bad_type(name)),
            Some(Json::String(text)) => text.trim().parse().map(Some).map_err(|_| bad_type(name)),
            Some(_) => Err(bad_type(name)),
        }
    }

    /// An integer that must be there.
    pub fn int(&self, name: &str) -> Result<i64, Refused> {
        self.int_opt(name)?.ok_or_else(|| missing(name))
    }

    /// An optional floating-point number; never a NaN or an infinity.
    pub fn float_opt(&self, name: &str) -> Result<Option<f64>, Refused> {
        let value = match self.arguments.get(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(Json::Number(number)) => number.as_f64(),
            Some(Json::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        value.filter(|v: &f64| v.is_finite()).map(Some).ok_or_else(|| bad_type(name))
    }

    /// A floating-point number that must be there.
    pub fn float(&self, name: &str) -> Result<f64, Refused> {
        self.float_opt(name)?.ok_or_else(|| missing(name))
    }

    /// A flag: true when given as `true` or as the option's own text (`--yes-i-really-mean-it`).
    pub fn flag(&self, name: &str) -> bool {
        match self.arguments.get(name) {
            Some(Json::Bool(flag)) => *flag,
            Some(Json::String(text)) => text == "true" || text.trim_start_matches('-').replace('-', "_") == name,
            _ => false,
        }
    }

    /// A list of texts; one text by itself is a list of one, none at all is empty.
    pub fn list(&self, name: &str) -> Result<Vec<String>, Refused> {
        match self.arguments.get(name) {
            None | Some(Json::Null) => Ok(Vec::new()),
            Some(Json::Array(items)) => (items.iter())
                .map(|item| match item {
                    Json::String(text) => Ok(text.clone()),
                    Json::Number(number) => Ok(number.to_string()),
                    _ => Err(bad_type(name)),
                })
                .collect(),
            Some(_) => Ok(vec![self.text(name)?]),
        }
    }

    /// A list of numbers, as `list` takes one of texts.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, Refused> {
        self.list(name)?.iter().map(|text| text.parse().map_err(|_| bad_type(name))).collect()
    }

    /// An OSD, as `3` or `osd.3`.
    pub fn osd(&self, name: &str) -> Result<OsdId, Refused> {
        parse_osd(&self.text(name)?)
    }

    /// An OSD, if given.
    pub fn osd_opt(&self, name: &str) -> Result<Option<OsdId>, Refused> {
        self.text_opt(name)?.map(|text| parse_osd(&text)).transpose()
    }

    /// A placement group, as `3.1f`.
    pub fn pg(&self, name: &str) -> Result<PgId, Refused> {
        let text = self.text(name)?;
        PgId::parse(&text).ok_or_else(|| Refused::new(Errno::EINVAL, format!("invalid pgid '{text}'")))
    }

    /// All arguments as `name=value`, for capabilities that restrict commands by argument.
    pub fn as_pairs(&self) -> Vec<(String, String)> {
        let show = |value: &Json| match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.arguments.iter().map(|(name, value)| (name.clone(), show(value))).collect()
    }

    /// The call as one line of JSON, for the audit log.
    pub fn audit_text(&self) -> String {
        let mut all = Map::new();
        all.insert("prefix".to_owned(), Json::String(self.prefix.clone()));
        all.extend(self.arguments.clone());
        Json::Object(all).to_string()
    }
}

/// Reads `3` or `osd.3`.
pub fn parse_osd(text: &str) -> Result<OsdId, Refused> {
    let number = text.strip_prefix("osd.").unwrap_or(text);
    match number.parse::<i32>() {
        Ok(id) if id >= 0 => Ok(OsdId(id)),
        _ => refuse(Errno::EINVAL, format!("osd id {text} is not valid")),
    }
}

fn missing(name: &str) -> Refused {
    Refused::new(Errno::EINVAL, format!("missing required parameter {name}"))
}

fn bad_type(name: &str) -> Refused {
    Refused::new(Errno::EINVAL, format!("bad or missing field '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Result<Call, Refused> {
        Call::parse(Instant::ZERO, "client.admin", &[text.to_owned()], Bytes::new())
    }

    #[test]
    fn arguments_are_read_by_type() {
        let text = r#"{"prefix":"x","format":"json","n":"7","m":8,"f":0.5,"flag":true,"sure":"--sure","ids":["1",2],"who":"osd.3"}"#;
        let call = call(text).expect("a good command");
        assert_eq!(call.format, OutputFormat::Json);
        assert_eq!((call.int("n"), call.int("m"), call.int_opt("none")), (Ok(7), Ok(8), Ok(None)));
        assert_eq!(call.float("f"), Ok(0.5));
        assert!(call.flag("flag") && call.flag("sure") && !call.flag("n"));
        assert_eq!(call.list("ids"), Ok(vec!["1".to_owned(), "2".to_owned()]));
        assert_eq!(call.osd("who"), Ok(OsdId(3)));
        assert!(call.int("who").is_err() && call.text("none").is_err() && call.osd("f").is_err());
    }

    /// `rbd perf image iostat` of 16.2 ends its command so, and was told that it is no JSON.
    #[test]
    fn what_follows_a_command_is_ignored() {
        let call = call("{\n\"prefix\": \"rbd perf image stats\",\n\"format\": \"json\"\n}\"").expect("a command");
        assert_eq!((call.prefix.as_str(), call.format), ("rbd perf image stats", OutputFormat::Json));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for text in ["", "[]", "{", "7", r#"{"prefix":3}"#, r#"{"pool":"x"}"#] {
            assert_eq!(call(text).map(|_| ()).map_err(|r| r.errno), Err(Errno::EINVAL), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(call(&format!(r#"{{"prefix":"x","y":{deep}"#)).is_err());
    }
}
