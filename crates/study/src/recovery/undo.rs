//! What a study changes on a cluster, and how all of it is put back: pools, options, flags.
//!
//! Invariant: what may have been changed is noted before or with the change, so that an interrupted one is undone as well.

use super::cluster::Cluster;
use super::on_cluster::OSDS;
use crate::error::StudyError;
use crate::stop::Stop;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// Copies of each object in the study's pools.
const SIZE: &str = "3";
/// How long putting back may take: a cluster that has gone meanwhile answers no tool, and those wait for it.
const PUT_BACK_PATIENCE: Duration = Duration::from_secs(600);

/// What has to be put back.
pub(super) struct Undo {
    cluster: Cluster,
    osd: String,
    pools: Vec<&'static str>,
    /// The central configuration as it was.
    before: Value,
    /// Whose, which, and its value before.
    options: Vec<(String, &'static str, Option<String>)>,
    /// Whether the OSD has been taken away.
    pub(super) away: bool,
    /// How OSDs were restarted, if they were.
    pub(super) restart: Option<String>,
}

impl Undo {
    pub(super) fn new(cluster: &Cluster, osd: i64) -> Result<Undo, StudyError> {
        let before = cluster.ask(&["config", "dump"])?;
        let (cluster, osd) = (cluster.clone(), osd.to_string());
        Ok(Undo { cluster, osd, pools: Vec::new(), before, options: Vec::new(), away: false, restart: None })
    }

    /// Sets options; gives a note of each that the cluster does not have. Where one would not be in force everywhere, none is
    /// set.
    pub(super) fn set_options(&mut self, options: &BTreeMap<&'static str, String>) -> Result<Vec<String>, StudyError> {
        // OSDs write what they measured themselves under their own names, which are stronger than all OSDs'.
        let is_own = |name: &str| name.starts_with("osd_mclock_max_capacity_iops");
        let names = options.keys().copied().filter(|name| !is_own(name));
        if let Some(why) = names.filter_map(|name| stronger(&self.before, name)).next() {
            return Err(StudyError::Option { option: "on", why });
        }
        let mut notes = Vec::new();
        for (name, value) in options {
            let own = is_own(name);
            let osds = if own { self.cluster.osds_up()? } else { Vec::new() };
            let whose = osds.iter().map(|osd| format!("osd.{osd}")).chain((!own).then(|| "osd".to_owned()));
            for who in whose {
                match self.set_option(&who, name, value) {
                    Err(StudyError::Failed { words, .. }) if words.contains("unrecognized config option") => {
                        notes.push(format!("the cluster has no option {name}"));
                    }
                    set => set?,
                }
            }
        }
        // Where there are such options they would stand in the way: an OSD that is often marked down gives up, and
        // releases from 17.2 on refuse other limits under mClock.
        for (name, value) in [("osd_max_markdown_count", "1000"), ("osd_mclock_override_recovery_settings", "true")] {
            let _ = self.set_option("osd", name, value);
        }
        Ok(notes)
    }

    fn set_option(&mut self, who: &str, name: &'static str, value: &str) -> Result<(), StudyError> {
        let before = value_before(&self.before, who, name).map(str::to_owned);
        let set = self.cluster.ceph(&["config", "set", who, name, value]);
        if is_to_be_undone(&set) {
            self.options.push((who.to_owned(), name, before));
        }
        set.map(drop)
    }

    pub(super) fn make_pool(&mut self, name: &'static str, pgs: u32) -> Result<(), StudyError> {
        // Somebody may have made it since the study began.
        refuse_pools(&self.cluster, &[name])?;
        let pgs = pgs.to_string();
        let created = self.cluster.ceph(&["osd", "pool", "create", name, &pgs, &pgs, "replicated"]);
        if is_to_be_undone(&created) {
            self.pools.push(name);
        }
        created?;
        // A release that does not scale pools by itself need not be told not to.
        let _ = self.cluster.ceph(&["osd", "pool", "set", name, "pg_autoscale_mode", "off"]);
        self.cluster.ceph(&["osd", "pool", "set", name, "size", SIZE])?;
        self.cluster.ceph(&["osd", "pool", "application", "enable", name, "rbd"])?;
        Ok(())
    }

    /// Lets the OSD come back.
    pub(super) fn back(&mut self) -> Result<(), StudyError> {
        self.cluster.ceph(&["osd", "in", &self.osd])?;
        self.cluster.ceph(&["osd", "unset", "noup"])?;
        self.away = false;
        Ok(())
    }

    /// Puts back what was changed; gives what could not be. Whoever is asked to stop does this nevertheless.
    pub(super) fn put_back(mut self) -> Vec<String> {
        self.cluster.stop = Stop::after(PUT_BACK_PATIENCE);
        let mut left = Vec::new();
        let mut note = |what: String, done: Result<(), StudyError>| {
            left.extend(done.err().map(|error| format!("{what} ({error})")));
        };
        if self.away {
            note(format!("osd.{} down, out, and the flag noup", self.osd), self.back());
        }
        for pool in &self.pools {
            let removed = self.cluster.ceph(&["osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"]);
            note(format!("the pool {pool}"), removed.map(drop));
        }
        for (who, name, before) in &self.options {
            let reset = match before {
                Some(value) => self.cluster.ceph(&["config", "set", who, name, value]),
                None => self.cluster.ceph(&["config", "rm", who, name]),
            };
            note(format!("the option {name} of {who}"), reset.map(drop));
        }
        if let Some(command) = &self.restart {
            note("OSDs that may work with another scheduler".to_owned(), restart_all(&self.cluster, command));
        }
        left
    }
}

/// Restarts all OSDs as the operator says.
pub(super) fn restart_all(cluster: &Cluster, command: &str) -> Result<(), StudyError> {
    cluster.output(Command::new("sh").args(["-c", command]))?;
    cluster.wait("all OSDs up after their restart", |c| Ok(c.osds_up()?.len() >= OSDS))?;
    cluster.wait_until_clean()
}

/// Refuses a cluster that has one of these pools: `osd pool create` is content with a pool that is there, and putting back
/// would remove it with all that somebody else has in it.
pub(super) fn refuse_pools(cluster: &Cluster, wanted: &[&str]) -> Result<(), StudyError> {
    match taken(&cluster.pools()?, wanted) {
        Some(pool) => Err(StudyError::PoolExists(pool.to_owned())),
        None => Ok(()),
    }
}

fn taken<'a>(there: &[String], wanted: &[&'a str]) -> Option<&'a str> {
    wanted.iter().copied().find(|name| there.iter().any(|pool| pool == name))
}

/// The value of an option in an answer of `config dump`. An entry with a mask is another one, of only some OSDs, which
/// `config set WHO` does not replace.
fn value_before<'a>(dump: &'a Value, who: &str, name: &str) -> Option<&'a str> {
    let is_masked = |entry: &Value| entry["mask"].as_str().is_some_and(|mask| !mask.is_empty());
    let same = |entry: &&Value| entry["section"] == who && entry["name"] == name && !is_masked(entry);
    dump.as_array()?.iter().find(same)?["value"].as_str()
}

/// Why an option that is set for all OSDs is not in force on some: they have one of their own.
fn stronger(dump: &Value, name: &str) -> Option<String> {
    let of_some = |entry: &&Value| {
        let (section, mask) =
            (entry["section"].as_str().unwrap_or_default(), entry["mask"].as_str().unwrap_or_default());
        entry["name"] == name && (section.starts_with("osd.") || (section == "osd" && !mask.is_empty()))
    };
    let entry = dump.as_array()?.iter().find(of_some)?;
    let (section, mask) = (entry["section"].as_str()?, entry["mask"].as_str().unwrap_or_default());
    let who = if mask.is_empty() { section.to_owned() } else { format!("{section}/{mask}") };
    let value = entry["value"].as_str().unwrap_or_default();
    Some(format!(
        "{name} is {value} for {who}, which the study's own value for all OSDs would not change there; `ceph config rm {who} \
         {name}` takes it away"
    ))
}

/// Whether a command may have changed something: also one that was interrupted before it had its answer.
fn is_to_be_undone(asked: &Result<String, StudyError>) -> bool {
    matches!(asked, Ok(_) | Err(StudyError::Interrupted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pool that somebody had named like the study's was taken for the study's own, and removed at its end.
    #[test]
    fn a_pool_that_is_there_is_named() {
        let there = ["rbd", "study-recovery"].map(str::to_owned);
        assert_eq!(taken(&there, &["study-client", "study-recovery"]), Some("study-recovery"));
        assert_eq!(taken(&there, &["study-client"]), None);
        let line = StudyError::PoolExists("study-client".to_owned()).to_string();
        assert!(line.contains("study-client") && !line.contains('\n'), "{line}");
    }

    /// The value of SSDs was once put back as that of all OSDs.
    #[test]
    fn an_option_with_a_mask_is_not_what_was_there() {
        let dump = json!([
            { "section": "osd", "name": "osd_max_backfills", "value": "7", "mask": "class:ssd" },
            { "section": "osd", "name": "osd_max_backfills", "value": "3", "mask": "" },
            { "section": "osd", "name": "osd_op_queue", "value": "wpq", "mask": "host:a" },
            { "section": "osd.1", "name": "osd_recovery_sleep", "value": "1" },
        ]);
        assert_eq!(value_before(&dump, "osd", "osd_max_backfills"), Some("3"));
        assert_eq!(value_before(&dump, "osd", "osd_op_queue"), None);
        assert_eq!(value_before(&dump, "osd.1", "osd_recovery_sleep"), Some("1"));
        assert_eq!(value_before(&dump, "osd", "osd_recovery_sleep"), None);
    }

    /// A study waited ten minutes for a scheduler to be in force that one OSD had been told not to use.
    #[test]
    fn what_would_not_be_in_force_everywhere_is_named() {
        let dump = json!([
            { "section": "osd", "name": "osd_op_queue", "value": "wpq", "mask": "" },
            { "section": "osd.1", "name": "osd_recovery_sleep", "value": "1", "mask": "" },
            { "section": "osd", "name": "osd_max_backfills", "value": "7", "mask": "class:ssd" },
        ]);
        assert_eq!(stronger(&dump, "osd_op_queue"), None);
        let why = stronger(&dump, "osd_recovery_sleep").expect("one OSD's");
        assert!(
            why.starts_with("osd_recovery_sleep is 1 for osd.1, ") && why.contains("rm osd.1 osd_recovery_sleep"),
            "{why}"
        );
        let why = stronger(&dump, "osd_max_backfills").expect("some OSDs'");
        assert!(why.contains("`ceph config rm osd/class:ssd osd_max_backfills`"), "{why}");
    }
}
