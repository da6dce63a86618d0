//! Answers as trees, and their JSON text.
//!
//! Follows the output of Ceph v16.2's `JSONFormatter`: keys in the order given, floats with 17 significant digits as
//! C's `%g` prints them, four spaces of indentation when pretty, a line end after a pretty document only.

use core::fmt::Write;

/// A node of an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// A number whose digits are given, as Ceph writes times: `0.000000000`.
    Digits(String),
    /// Text.
    Text(String),
    /// A list.
    Array(Vec<Value>),
    /// Named members in the order given.
    Object(Vec<(String, Value)>),
}

/// Builds an object: `object! { "epoch": 3, "name": name }`.
#[macro_export]
macro_rules! object {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::format::Value::Object(vec![$(($key.to_string(), $crate::format::Value::from($value))),*])
    };
}

macro_rules! from_number {
    ($($from:ty => $variant:ident as $inner:ty;)*) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Value { Value::$variant(value as $inner) }
        })*
    };
}
from_number! {
    u8 => Uint as u64;
    u16 => Uint as u64;
    u32 => Uint as u64;
    u64 => Uint as u64;
    usize => Uint as u64;
    i32 => Int as i64;
    i64 => Int as i64;
    f64 => Float as f64;
    f32 => Float as f64;
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Value {
        Value::Text(value.clone())
    }
}

impl From<&&String> for Value {
    fn from(value: &&String) -> Value {
        Value::Text((*value).clone())
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Value {
        Value::Array(values.into_iter().map(Into::into).collect())
    }
}

impl Value {
    /// An object without members.
    pub fn object() -> Value {
        Value::Object(Vec::new())
    }

    /// A list of what `items` turn into.
    pub fn array<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
        Value::Array(items.into_iter().map(Into::into).collect())
    }

    /// An object from named members.
    pub fn members<K: Into<String>, V: Into<Value>>(items: impl IntoIterator<Item = (K, V)>) -> Value {
        Value::Object(items.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// Appends a member; `self` must be an object.
    pub fn push(&mut self, key: &str, value: impl Into<Value>) {
        match self {
            Value::Object(members) => members.push((key.to_owned(), value.into())),
            _ => unreachable!("members are pushed to objects only"),
        }
    }

    /// Appends another object's members; both must be objects.
    pub fn extend(&mut self, other: Value) {
        match (self, other) {
            (Value::Object(members), Value::Object(more)) => members.extend(more),
            _ => unreachable!("members are moved between objects only"),
        }
    }

    /// The member of that name, if this is an object that has it.
    pub fn member(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// JSON without white space and without a line end.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// Indented JSON with a line end.
    pub fn to_pretty_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, depth: Option<usize>) {
        match self {
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Value::Int(i) => push(out, format_args!("{i}")),
            Value::Uint(u) => push(out, format_args!("{u}")),
            Value::Float(f) => out.push_str(&percent_g(*f, 17)),
            Value::Digits(digits) => out.push_str(digits),
            Value::Text(text) => write_string(out, text),
            Value::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    separate(out, i, depth);
                    item.write(out, depth.map(|d| d + 1));
                }
                close(out, items.is_empty(), depth, ']');
            }
            Value::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    separate(out, i, depth);
                    write_string(out, key);
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    value.write(out, depth.map(|d| d + 1));
                }
                close(out, members.is_empty(), depth, '}');
            }
        }
    }
}

fn push(out: &mut String, text: core::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

fn separate(out: &mut String, index: usize, depth: Option<usize>) {
    if index > 0 {
        out.push(',');
    }
    if let Some(depth) = depth {
        out.push('\n');
        out.extend(core::iter::repeat_n(' ', 4 * (depth + 1)));
    }
}

fn close(out: &mut String, empty: bool, depth: Option<usize>, bracket: char) {
    if let (Some(depth), false) = (depth, empty) {
        out.push('\n');
        out.extend(core::iter::repeat_n(' ', 4 * depth));
    }
    out.push(bracket);
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => push(out, format_args!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A number as C's `%.{digits}g` prints it: `digits` significant digits, trailing zeros dropped, an exponent where it
/// is below -4 or at least `digits`. What JSON has no word for becomes 0.
pub fn percent_g(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trim(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_like_cephs() {
        // Values seen in `osd dump`, `osd df` and `df` of a real cluster.
        for (value, text) in [
            (f64::from(0.95f32), "0.94999998807907104"),
            (0.0038909912109375, "0.0038909912109375"),
            (1.1239159602905076e-05, "1.1239159602905076e-05"),
            (1.0, "1"),
            (0.0, "0"),
            (1.5522534368983543e-09, "1.5522534368983543e-09"),
        ] {
            assert_eq!(percent_g(value, 17), text);
        }
        assert_eq!(percent_g(5.71548, 6), "5.71548");
        assert_eq!(percent_g(1234567.0, 6), "1.23457e+06");
        assert_eq!(percent_g(f64::NAN, 6), "0");
    }

    #[test]
    fn both_layouts() {
        let value =
            object! { "a" => 1u32, "b" => vec!["x\n\"", "y"], "c" => Value::object(), "d" => Value::Array(vec![]) };
        assert_eq!(value.to_json(), r#"{"a":1,"b":["x\n\"","y"],"c":{},"d":[]}"#);
        assert_eq!(
            value.to_pretty_json(),
            "{\n    \"a\": 1,\n    \"b\": [\n        \"x\\n\\\"\",\n        \"y\"\n    ],\n    \"c\": {},\n    \"d\": []\n}\n"
        );
    }
}
