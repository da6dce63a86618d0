//! What a daemon's options are: the layers a value may come from, and which wins.
//!
//! Owns precedence (v16.2 `src/common/config.h`: what was set at run time, then the configuration file, then the
//! monitor, then the table's default) and the shapes of `config show`, `get` and `diff`. Refuses to fetch anything: the
//! file's values are given at start, the monitor's whenever they change.

use crate::format::Value;
use crate::options::{OPTIONS, OptionKind, OptionSpec, normalize_name};
use std::collections::BTreeMap;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// The central configuration.
    Mon,
    /// The configuration file.
    File,
    /// Set at run time, until the daemon stops.
    Override,
}

/// All layers, the weakest first.
pub const LAYERS: [Layer; 3] = [Layer::Mon, Layer::File, Layer::Override];

impl Layer {
    /// The name in `config diff`.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Mon => "mon",
            Layer::File => "file",
            Layer::Override => "override",
        }
    }
}

/// A daemon's options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    layers: [BTreeMap<String, String>; 3],
}

impl Settings {
    /// Options of which only the file's values are known.
    pub fn from_file(values: BTreeMap<String, String>) -> Settings {
        Settings { layers: [BTreeMap::new(), values, BTreeMap::new()] }
    }

    /// What the central configuration says now: all of it.
    pub fn replace_central(&mut self, values: BTreeMap<String, String>) {
        self.layers[Layer::Mon as usize] = values;
    }

    /// Sets or unsets a value until the daemon stops.
    pub fn set_override(&mut self, name: &str, value: Option<String>) {
        let layer = &mut self.layers[Layer::Override as usize];
        match value {
            Some(value) => drop(layer.insert(name.to_owned(), value)),
            None => drop(layer.remove(name)),
        }
    }

    /// All that a layer has, as it was given.
    pub fn given(&self, layer: Layer) -> impl Iterator<Item = (&str, &str)> {
        self.layers[layer as usize].iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value that a layer has, as it was given.
    pub fn layer(&self, layer: Layer, name: &str) -> Option<&str> {
        self.layers[layer as usize].get(name).map(String::as_str)
    }

    /// Whether anybody gave an option a value; else its default is in force.
    pub fn is_given(&self, name: &str) -> bool {
        LAYERS.iter().any(|layer| self.layer(*layer, name).is_some())
    }

    /// The value in force; empty for an option that the table lacks.
    pub fn value(&self, name: &str) -> String {
        crate::options::find(name).map_or_else(String::new, |option| {
            effective(option, |layer| self.layer(layer, option.name).map(str::to_owned))
        })
    }

    /// The value in force, as a number; what is none counts as 0.
    pub fn number(&self, name: &str) -> f64 {
        self.value(name).parse().unwrap_or(0.0)
    }
}

/// The value in force: the strongest layer's that the option can have.
pub fn effective(option: &OptionSpec, layer: impl Fn(Layer) -> Option<String>) -> String {
    let set = LAYERS.iter().rev().find_map(|l| option.normalize(&layer(*l)?).ok());
    set.unwrap_or_else(|| option.default.to_owned())
}

/// Fills in what stands for the daemon itself (`$name`, `$type`, `$id`, `$cluster`), as in paths.
pub fn expand(text: &str, entity: &str) -> String {
    let (kind, id) = entity.split_once('.').unwrap_or((entity, ""));
    let mut text = text.to_owned();
    for (variable, value) in [("cluster", "ceph"), ("name", entity), ("type", kind), ("id", id)] {
        text = text.replace(&format!("${{{variable}}}"), value).replace(&format!("${variable}"), value);
    }
    text
}

/// A value as `config diff` shows it: of its own type where JSON has that, but sizes, which are text.
fn typed(option: &OptionSpec, text: &str) -> Value {
    let text = option.normalize(text).unwrap_or_else(|_| text.to_owned());
    match option.kind {
        OptionKind::Bool => Value::Bool(text == "true"),
        OptionKind::Int | OptionKind::Uint => text.parse::<i64>().map_or_else(|_| Value::Text(text), Value::Int),
        OptionKind::Float => text.parse::<f64>().map_or_else(|_| Value::Text(text), Value::Float),
        OptionKind::Size | OptionKind::Secs | OptionKind::Text => Value::Text(text),
    }
}

/// What differs from the table's defaults, by layer, for `config diff`; of one option only where `one` names it.
pub fn difference(entity: &str, one: Option<&str>, layer: impl Fn(Layer, &str) -> Option<String>) -> Value {
    let one = one.map(normalize_name);
    let mut options: Vec<&OptionSpec> = OPTIONS.iter().filter(|o| one.as_deref().is_none_or(|n| n == o.name)).collect();
    options.sort_unstable_by_key(|option| option.name);
    let differing = options.into_iter().filter_map(|option| {
        let given: Vec<(Layer, String)> = LAYERS.iter().filter_map(|l| Some((*l, layer(*l, option.name)?))).collect();
        if given.is_empty() {
            return None;
        }
        let mut shown = Value::members([("default", typed(option, option.default))]);
        given.iter().for_each(|(l, text)| shown.push(l.name(), typed(option, text)));
        let last = effective(option, |l| layer(l, option.name));
        shown.push("final", typed(option, &expand(&last, entity)));
        Some((option.name, shown))
    });
    Value::members([("diff", Value::members(differing))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_layer_with_a_sound_value_wins() {
        let file = [("osd_max_backfills", "2"), ("debug_osd", "5")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let mut settings = Settings::from_file(file.into());
        assert_eq!(settings.value("osd_max_backfills"), "2");
        settings.replace_central([("osd_max_backfills".to_owned(), "7".to_owned())].into());
        assert_eq!(settings.value("osd_max_backfills"), "2", "the file wins over the monitor");
        settings.set_override("osd_max_backfills", Some("9".to_owned()));
        assert_eq!(settings.number("osd_max_backfills"), 9.0);
        settings.set_override("osd_max_backfills", Some("nonsense".to_owned()));
        assert_eq!(settings.value("osd_max_backfills"), "2");
        settings.set_override("osd_max_backfills", None);
        let shown = difference("osd.0", Some("osd-max-backfills"), |l, n| settings.layer(l, n).map(str::to_owned));
        let text = r#"{"diff":{"osd_max_backfills":{"default":1,"mon":7,"file":2,"final":2}}}"#;
        assert_eq!(shown.to_json(), text);
        assert_eq!(settings.value("nosuch"), "");
    }

    #[test]
    fn variables_stand_for_the_daemon() {
        assert_eq!(expand("/run/$cluster-$name.asok", "osd.3"), "/run/ceph-osd.3.asok");
        assert_eq!(expand("${type}/${id}/$none", "mon.a"), "mon/a/$none");
    }
}
