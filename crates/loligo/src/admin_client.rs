//! Asking a daemon of this machine by its admin socket, as `ceph daemon` does.

use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a daemon may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The longest answer that is taken: a thousand times a usual one.
const ANSWER_BYTES_MAX: u32 = 64 << 20;

/// Asks; the answer has to be JSON.
pub(crate) fn ask(socket: &Path, prefix: &str) -> anyhow::Result<Value> {
    let command = serde_json::json!({ "prefix": prefix, "format": "json" });
    let at = || socket.display().to_string();
    let mut stream = UnixStream::connect(socket).with_context(at)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("{command}\0").as_bytes()).with_context(at)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).with_context(at)?;
    let length = u32::from_be_bytes(length);
    if length > ANSWER_BYTES_MAX {
        bail!("{}: an answer of {length} bytes", at());
    }
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).with_context(at)?;
    serde_json::from_slice(&answer)
        .with_context(|| format!("{}: {}", at(), String::from_utf8_lossy(&answer).trim_end()))
}
