//! What a command answers: a status line and data, or a refusal.
//!
//! Owns the two types and the ways of filling them; `Errno` is the only source of return codes.

use super::Call;
use crate::format::Value;
use base::Errno;
use bytes::Bytes;

/// A successful answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// The status line, shown on standard error.
    pub text: String,
    /// The data, shown on standard output.
    pub data: Bytes,
}

/// A refusal: the errno a client gets and the line that says why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The errno.
    pub errno: Errno,
    /// The line.
    pub text: String,
    /// Data sent along; nearly always empty.
    pub data: Bytes,
}

/// What a handler gives back.
pub type Answer = Result<Reply, Refused>;

impl Refused {
    /// A refusal without data.
    pub fn new(errno: Errno, text: impl Into<String>) -> Refused {
        Refused { errno, text: text.into(), data: Bytes::new() }
    }
}

/// A refusal as a result.
pub fn refuse<T>(errno: Errno, text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::new(errno, text))
}

impl Reply {
    /// Nothing but success.
    pub fn empty() -> Reply {
        Reply::default()
    }

    /// A status line.
    pub fn status(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), data: Bytes::new() }
    }

    /// Data as it is.
    pub fn data(data: impl Into<Bytes>) -> Reply {
        Reply { text: String::new(), data: data.into() }
    }

    /// A value in the format asked for, pretty JSON where that is plain.
    pub fn value(call: &Call, value: &Value) -> Reply {
        Reply::data(call.format.render(value))
    }

    /// A value in the format asked for, `plain` where that is plain.
    pub fn either(call: &Call, value: impl FnOnce() -> Value, plain: impl FnOnce() -> String) -> Reply {
        Reply::data(if call.format.is_plain() { plain() } else { call.format.render(&value()) })
    }

    /// The same with a status line.
    pub fn with_status(self, text: impl Into<String>) -> Reply {
        Reply { text: text.into(), ..self }
    }

    /// The same with a line end after the data where `wanted`.
    pub fn with_line_end_if(self, wanted: bool) -> Reply {
        if wanted { self.with_line_end() } else { self }
    }

    /// The same with a line end after the data, as some of Ceph's commands have it.
    pub fn with_line_end(self) -> Reply {
        let mut data = self.data.to_vec();
        data.push(b'\n');
        Reply { data: data.into(), ..self }
    }
}
