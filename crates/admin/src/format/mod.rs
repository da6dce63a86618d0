//! How answers look: JSON as Ceph's formatter writes it, byte counts and times as it prints them.
//!
//! Owns the shapes of text only; what is in an answer is the command handlers' business.
//! Follows the output of Ceph 16.2.15, captured from its CLI.
//!
//! Read next: `value` for building an answer.

pub mod quantity;
pub mod value;

pub use value::Value;

/// The output format a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutputFormat {
    /// Text for people.
    #[default]
    Plain,
    /// JSON without white space.
    Json,
    /// JSON, indented by four spaces.
    JsonPretty,
}

impl OutputFormat {
    /// The format that a name stands for; anything unknown is plain, as with Ceph's `Formatter::create`.
    pub fn from_name(name: &str) -> OutputFormat {
        match name {
            "json" => OutputFormat::Json,
            "json-pretty" => OutputFormat::JsonPretty,
            _ => OutputFormat::Plain,
        }
    }

    /// Whether people read it.
    pub fn is_plain(self) -> bool {
        self == OutputFormat::Plain
    }

    /// Renders `value` in this format; plain means pretty JSON here, for commands that have no other text.
    pub fn render(self, value: &Value) -> String {
        match self {
            OutputFormat::Json => value.to_json(),
            OutputFormat::Plain | OutputFormat::JsonPretty => value.to_pretty_json(),
        }
    }
}
