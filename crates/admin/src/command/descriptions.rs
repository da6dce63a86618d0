//! `get_command_descriptions`: the table of commands as the `ceph` CLI reads it.
//!
//! Follows Ceph v16.2 `src/common/cmdparse.cc` (`dump_cmddesc_to_json`): `cmdNNN` in the table's order, a signature of
//! words and parameter objects, and no manager flag anywhere, so that the CLI sends every command to the monitor.

use super::{CommandSpec, Signature};
use crate::format::Value;
use crate::object;

/// The descriptions of `table`, compact as Ceph sends them.
pub(super) fn describe<'a, E: 'static>(table: impl Iterator<Item = (&'a CommandSpec<E>, &'a Signature)>) -> String {
    let commands = table.enumerate().map(|(i, (spec, signature))| {
        let words = signature.prefix.split(' ').map(Value::from);
        let parameters = (signature.parameters.iter()).map(|p| Value::members(p.properties.iter().copied()));
        let description = object! {
            "sig" => Value::Array(words.chain(parameters).collect()),
            "help" => spec.help,
            "module" => spec.module,
            "perm" => spec.perm,
            "flags" => spec.flags,
        };
        (format!("cmd{i:03}"), description)
    });
    Value::members(commands).to_json()
}
