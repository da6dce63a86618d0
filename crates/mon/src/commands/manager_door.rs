//! What is answered at the manager's door: the monitor's commands that are a manager's with Ceph, and `ceph tell mgr`.
//!
//! Follows Ceph v16.2 `src/mgr/MgrCommands.h` and the commands of the Python modules that are always on. The monitor
//! answers the same commands at its own door, as Ceph's does by passing them on.

use super::{CommandTable, MODULES};
use crate::manager_door::Manager;
use admin::{Answer, Call, CommandSpec, Common, Reply, object, spec};
use std::sync::LazyLock;

/// The commands that are a manager's. Whole families end in a star.
const OF_THE_MANAGER: &[&str] = &[
    "balancer *",
    "config show",
    "config show-with-defaults",
    "crash *",
    "device *",
    "fs status",
    "iostat",
    "osd blocked-by",
    "osd deep-scrub",
    "osd destroy",
    "osd df",
    "osd ok-to-stop",
    "osd perf",
    "osd pool autoscale-status",
    "osd pool cancel-force-backfill",
    "osd pool cancel-force-recovery",
    "osd pool deep-scrub",
    "osd pool force-backfill",
    "osd pool force-recovery",
    "osd pool repair",
    "osd pool scrub",
    "osd pool stats",
    "osd purge",
    "osd repair",
    "osd reweight-by-pg",
    "osd reweight-by-utilization",
    "osd safe-to-destroy",
    "osd scrub",
    "osd status",
    "osd test-reweight-by-pg",
    "osd test-reweight-by-utilization",
    "pg cancel-force-backfill",
    "pg cancel-force-recovery",
    "pg debug",
    "pg deep-scrub",
    "pg dump",
    "pg dump_json",
    "pg dump_pools_json",
    "pg dump_stuck",
    "pg force-backfill",
    "pg force-recovery",
    "pg getmap",
    "pg ls",
    "pg ls-by-osd",
    "pg ls-by-pool",
    "pg ls-by-primary",
    "pg repair",
    "pg scrub",
    "pg stat",
    "progress",
    "progress json",
    "progress clear",
    "service dump",
    "service status",
    "telemetry *",
];

fn is_of_the_manager(prefix: &str) -> bool {
    OF_THE_MANAGER.iter().any(|name| match name.strip_suffix('*') {
        Some(family) => prefix.starts_with(family),
        None => prefix == *name,
    })
}

/// The monitor's commands that the manager answers.
pub(crate) fn manager_table() -> CommandTable {
    CommandTable::of_chosen(MODULES, is_of_the_manager)
}

const COMMANDS: &[CommandSpec<Manager>] = &[spec("mgr_status", "show how the manager is", "mgr", "r", mgr_status)];

/// The commands that `ceph tell mgr` reaches.
pub(crate) fn manager_tell_table() -> &'static admin::CommandTable<Manager> {
    static TABLE: LazyLock<admin::CommandTable<Manager>> =
        LazyLock::new(|| admin::CommandTable::of_daemon(&[COMMANDS], Common::<Manager>::COMMANDS));
    &TABLE
}

fn mgr_status(manager: &mut Manager, call: &Call) -> Answer {
    let value = object! { "mgrmap_epoch" => manager.map_epoch, "initialized" => true };
    Ok(Reply::value(call, &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table;

    #[test]
    fn the_managers_commands_are_some_of_the_monitors() {
        let (all, ours) = (table(), manager_table());
        assert!(ours.iter().count() > 30 && ours.iter().count() < all.iter().count());
        for prefix in ["pg dump", "osd df", "balancer status"] {
            assert!(ours.iter().any(|(_, signature)| signature.prefix == prefix), "{prefix}");
        }
        assert!(ours.iter().all(|(_, s)| s.prefix != "osd tree" && s.prefix != "pg map"));
        assert!(manager_tell_table().iter().any(|(_, s)| s.prefix == "config show"));
    }
}
