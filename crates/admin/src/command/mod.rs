//! Commands of a daemon: how one is described, found and run.
//!
//! Owns the table type that the monitor's commands, `ceph tell` and `ceph daemon` share. What each command does is the
//! engine's; who may run it is decided by whoever owns the door it came through.
//!
//! Read next: `call`, `answer`, `signature`.

mod answer;
mod call;
mod descriptions;
mod signature;

pub use answer::{Answer, Refused, Reply, refuse};
pub use call::{COMMAND_JSON_BYTES_MAX, Call, parse_osd};
pub use signature::{Parameter, Signature};

use crate::Value;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The flag of commands that `help` leaves out.
const HIDDEN: u32 = 32;

/// What a handler is.
pub type Handler<E> = fn(&mut E, &Call) -> Answer;

/// One command of the engine `E`.
pub struct CommandSpec<E: 'static> {
    /// Its signature in Ceph's notation.
    pub sig: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The module whose capability it needs.
    pub module: &'static str,
    /// The permissions it needs, of `r`, `w` and `x`.
    pub perm: &'static str,
    /// `Flag` bits; 4 is deprecated, 16 asked again and again, 32 hidden from help.
    pub flags: u32,
    /// What carries it out.
    pub run: Handler<E>,
}

/// A command with the usual flags.
pub const fn spec<E>(
    sig: &'static str,
    help: &'static str,
    module: &'static str,
    perm: &'static str,
    run: Handler<E>,
) -> CommandSpec<E> {
    CommandSpec { sig, help, module, perm, flags: 0, run }
}

impl<E> CommandSpec<E> {
    /// The same, marked as one that the CLI asks again and again.
    pub const fn polled(mut self) -> CommandSpec<E> {
        self.flags = 16;
        self
    }

    /// The same, marked as one that should not be used any more.
    pub const fn deprecated(mut self) -> CommandSpec<E> {
        self.flags = 4;
        self
    }
}

/// A set of commands, indexed.
pub struct CommandTable<E: 'static> {
    commands: Vec<(&'static CommandSpec<E>, Signature)>,
    by_prefix: BTreeMap<String, Vec<usize>>,
    descriptions: Bytes,
}

impl<E> CommandTable<E> {
    /// The commands of these modules.
    pub fn of(modules: &[&'static [CommandSpec<E>]]) -> CommandTable<E> {
        let specs = modules.iter().flat_map(|module| module.iter());
        CommandTable::index(specs.map(|spec| (spec, Signature::parse(spec.sig))).collect())
    }

    /// Those commands of the modules whose prefix `chosen` takes.
    pub fn of_chosen(modules: &[&'static [CommandSpec<E>]], chosen: impl Fn(&str) -> bool) -> CommandTable<E> {
        let specs = modules.iter().flat_map(|module| module.iter()).map(|spec| (spec, Signature::parse(spec.sig)));
        CommandTable::index(specs.filter(|(_, signature)| chosen(&signature.prefix)).collect())
    }

    /// A daemon's own commands, and of the common ones those that it has none of its own for.
    pub fn of_daemon(own: &[&'static [CommandSpec<E>]], common: &'static [CommandSpec<E>]) -> CommandTable<E> {
        let own = CommandTable::of(own);
        let common = common.iter().map(|spec| (spec, Signature::parse(spec.sig)));
        let lacking = common.filter(|(_, signature)| !own.by_prefix.contains_key(&signature.prefix));
        let mut commands: Vec<_> = lacking.collect();
        commands.extend(own.commands);
        commands.sort_by(|(_, a), (_, b)| a.prefix.cmp(&b.prefix));
        CommandTable::index(commands)
    }

    fn index(commands: Vec<(&'static CommandSpec<E>, Signature)>) -> CommandTable<E> {
        let mut by_prefix: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, (_, signature)) in commands.iter().enumerate() {
            by_prefix.entry(signature.prefix.clone()).or_default().push(i);
        }
        let descriptions = descriptions::describe(commands.iter().map(|(spec, s)| (*spec, s))).into();
        CommandTable { commands, by_prefix, descriptions }
    }

    /// The command a call means: of those with its prefix the first whose required arguments are all there.
    pub fn find(&self, call: &Call) -> Option<&'static CommandSpec<E>> {
        let candidates = self.by_prefix.get(&call.prefix)?;
        let complete = |i: &&usize| self.commands[**i].1.parameters.iter().all(|p| !p.required() || call.has(p.name()));
        let chosen = candidates.iter().find(complete).or(candidates.first())?;
        Some(self.commands[*chosen].0)
    }

    /// What the table itself answers: what there is.
    pub fn answer_of_itself(&self, call: &Call) -> Option<Answer> {
        match call.prefix.as_str() {
            "get_command_descriptions" => Some(Ok(Reply::data(self.descriptions()))),
            "help" => {
                let shown = self.commands.iter().filter(|(spec, _)| spec.flags & HIDDEN == 0);
                let help = Value::members(shown.map(|(spec, signature)| (signature.prefix.as_str(), spec.help)));
                Some(Ok(Reply::value(call, &help)))
            }
            _ => None,
        }
    }

    /// The commands in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static CommandSpec<E>, &Signature)> {
        self.commands.iter().map(|(spec, signature)| (*spec, signature))
    }

    /// What `get_command_descriptions` answers.
    pub fn descriptions(&self) -> Bytes {
        self.descriptions.clone()
    }
}

impl<E> core::fmt::Debug for CommandTable<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CommandTable({} commands)", self.commands.len())
    }
}
