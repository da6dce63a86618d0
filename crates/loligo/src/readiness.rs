//! When `loligo up` has done its work: how a cluster that was just started is, and how long it is waited for.
//!
//! A new cluster is to become well. One that is resumed may be ill for reasons that only its operator can do something about,
//! and only while it runs: once its monitor answers, it is never stopped for its health.

use crate::cluster_dir::ClusterDir;
use crate::daemons::{self, ClusterConfig};
use anyhow::bail;
use rt::ask::Asker;
use rt::signals::StopSignals;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a cluster may take to become HEALTH_OK.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long a resumed cluster whose OSDs are all up may stay as it is until nothing more is waited for: OSDs report every 5 s
/// at the latest, so that whatever still peers or recovers has shown it, and twice more.
const SETTLED_LIMIT: Duration = Duration::from_secs(15);
/// How often a start-up that waits looks whether its servers still live.
const LIVENESS_PERIOD: Duration = Duration::from_millis(250);
/// How often a monitor is asked whether it still speaks of OSDs that were there before.
const STALE_PERIOD: Duration = Duration::from_millis(20);
/// How long the monitor may take to say which OSDs it knows.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The OSDs that were started, and of each the nonce of its address in this life.
pub(crate) type Lives = BTreeMap<i32, u32>;

/// A cluster that was just started.
pub(crate) struct Started<'a> {
    pub(crate) dir: &'a ClusterDir,
    pub(crate) cluster: &'a ClusterConfig,
    pub(crate) asker: &'a Asker,
    /// It has been there before.
    pub(crate) resumed: bool,
    /// Each daemon is a process, with a log of its own.
    pub(crate) processes: bool,
}

/// How it is when nothing more is waited for.
pub(crate) struct Condition {
    /// The health to show.
    pub(crate) health: String,
    /// Of each OSD that was started and is not up, a line that says so.
    pub(crate) not_up: Vec<String>,
}

impl Started<'_> {
    /// Waits until the cluster is well: HEALTH_OK, or, where an operator's own doing warrants a warning (a pool without an
    /// application), its OSDs up and all placement groups active+clean. One that still recovers when the time is up, and
    /// serves meanwhile, will do; as will any that is resumed.
    pub(crate) fn wait(
        &self,
        lives: &Lives,
        signals: &mut StopSignals,
        mut failure: impl FnMut() -> Option<String>,
    ) -> anyhow::Result<Condition> {
        let (began, started, resumed) = (Instant::now(), self.cluster.osds.len(), self.resumed);
        let mut last: Option<Readiness> = None;
        let (mut silence, mut changed) = ("no answer from the monitor".to_owned(), began);
        // Whether it speaks of this life of its OSDs: what it said of the one before is no answer.
        let mut current = !resumed;
        let settled = |last: &Option<Readiness>, changed: Instant| {
            resumed && changed.elapsed() >= SETTLED_LIMIT && last.as_ref().is_some_and(|last| last.up)
        };
        while began.elapsed() < READY_LIMIT && !settled(&last, changed) {
            let question = r#"{"prefix":"status","format":"json"}"#;
            let is_ready = move |output: &[u8]| Readiness::of(output, started, resumed).ready;
            match self.asker.ask_until(question, LIVENESS_PERIOD, move |answer| is_ready(&answer.output)) {
                Ok(answer) => {
                    let now = Readiness::of(&answer.output, started, resumed);
                    if now.ready {
                        // The monitor of a cluster that is resumed may speak of what was: those that failed at once spoil it.
                        if let Some(failure) = failure() {
                            bail!("{failure}");
                        }
                        if current {
                            return Ok(self.condition(now));
                        }
                        current = self.osd_dump().is_some_and(|dump| speaks_of(&dump, lives));
                        if !current {
                            std::thread::sleep(STALE_PERIOD);
                        }
                    }
                    if last.as_ref() != Some(&now) {
                        changed = Instant::now();
                    }
                    last = Some(now);
                }
                Err(error) => silence = error.to_string(),
            }
            if let Some(failure) = failure() {
                bail!("{failure}");
            }
            if signals.asked() {
                bail!("stopped while starting");
            }
        }
        match last {
            Some(last) if resumed || last.serves => Ok(self.condition(last)),
            last => {
                let last = last.map_or(silence, |last| last.health);
                bail!("the cluster did not become healthy within {} s: {last}", READY_LIMIT.as_secs())
            }
        }
    }

    fn condition(&self, last: Readiness) -> Condition {
        let all_up = last.osds_up >= self.cluster.osds.len() as u64;
        // Who is not up is a help and no condition: a monitor that does not say it is left alone.
        let dump = (!all_up).then(|| self.osd_dump()).flatten();
        let not_up = dump.map_or_else(Vec::new, |dump| {
            let log = |name: &str| self.dir.log(if self.processes { name } else { daemons::EMBEDDED });
            let line = |id: &i32| {
                let name = format!("osd.{id}");
                let (data, log) = (self.dir.data(&name), log(&name));
                match is_up(&dump, *id)? {
                    Osd::Up => None,
                    Osd::Down => Some(format!("{name} is not up: see {}", log.display())),
                    Osd::Unknown => Some(format!(
                        "{name} is not up: the monitor has no such OSD (removed with `ceph osd purge`? then delete {})",
                        data.display()
                    )),
                }
            };
            self.cluster.osds.iter().filter_map(line).collect()
        });
        Condition { health: last.health, not_up }
    }

    fn osd_dump(&self) -> Option<Value> {
        let answer = self.asker.ask(r#"{"prefix":"osd dump","format":"json"}"#, ANSWER_LIMIT).ok()?;
        serde_json::from_slice(&answer.output).ok()
    }
}

/// What the monitor's map of OSDs says of one.
#[derive(Debug, PartialEq, Eq)]
enum Osd {
    Up,
    Down,
    Unknown,
}

/// None where the answer is no map.
fn is_up(dump: &Value, id: i32) -> Option<Osd> {
    let osd = dump["osds"].as_array()?.iter().find(|osd| osd["osd"] == id);
    Some(osd.map_or(Osd::Unknown, |osd| if osd["up"] == 1 { Osd::Up } else { Osd::Down }))
}

/// Whether all that are up in the monitor's map of OSDs are so in this life: after a kill it takes those before for up.
fn speaks_of(dump: &Value, lives: &Lives) -> bool {
    let nonces = |osd: &Value| -> Option<(i32, u64)> {
        let id = osd["osd"].as_i64().and_then(|id| i32::try_from(id).ok())?;
        Some((id, osd["public_addrs"]["addrvec"][0]["nonce"].as_u64()?))
    };
    let up = |osd: &&Value| osd["up"] == 1;
    let fits = |(id, nonce): (i32, u64)| lives.get(&id).is_none_or(|life| u64::from(*life) == nonce);
    dump["osds"].as_array().is_some_and(|osds| osds.iter().filter(up).filter_map(nonces).all(fits))
}

/// What a cluster's status says about its readiness.
#[derive(Debug, PartialEq, Eq)]
struct Readiness {
    ready: bool,
    /// All OSDs that can be up are.
    up: bool,
    /// They are, and all placement groups are active.
    serves: bool,
    osds_up: u64,
    health: String,
    /// Its placement groups by state, and copies of objects to be recovered: what changes while something is under way.
    groups: Vec<String>,
}

impl Readiness {
    /// From the monitor's answer, for a cluster of which so many OSDs were started here.
    fn of(status: &[u8], started: usize, resumed: bool) -> Readiness {
        let status: Value = serde_json::from_slice(status).unwrap_or_default();
        let health = status["health"]["status"].as_str().unwrap_or("no status").to_owned();
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let (osds, groups) = (&status["osdmap"], &status["pgmap"]);
        let (osds_up, known) = (count(&osds["num_up_osds"]), count(&osds["num_osds"]));
        // Those that were removed stay away. None at all are known before there is a map.
        let expected = if resumed && known > 0 { known.min(started as u64) } else { started as u64 };
        // Health is silent about OSDs that have never been up.
        let up = osds_up >= expected;
        let states = groups["pgs_by_state"].as_array().map_or(&[][..], Vec::as_slice);
        let under_way = ["misplaced_objects", "degraded_objects"].map(|of| groups[of].to_string());
        let seen = states.iter().map(Value::to_string).chain(under_way).collect();
        if health == "HEALTH_OK" {
            return Readiness { ready: up, up, serves: up, osds_up, health, groups: seen };
        }
        let all_are =
            |fits: fn(&str) -> bool| states.iter().all(|state| state["state_name"].as_str().is_some_and(fits));
        let clean = all_are(|name| name == "active+clean");
        let active = all_are(|name| name.split('+').any(|state| state == "active"));
        let all = states.iter().map(|state| count(&state["count"])).sum::<u64>() == count(&groups["num_pgs"]);
        let checks = status["health"]["checks"].as_object();
        let words = checks.into_iter().flatten().filter_map(|(_, check)| check["summary"]["message"].as_str());
        let health = format!("{health} ({})", words.collect::<Vec<_>>().join("; "));
        let ready = up && clean && all && health.starts_with("HEALTH_WARN");
        Readiness { ready, up, serves: up && active && all, osds_up, health, groups: seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn readiness(known: u64, up: u64, health: &str, state: &str, resumed: bool) -> Readiness {
        let status = json!({
            "health": { "status": health, "checks": {} },
            "osdmap": { "num_osds": known, "num_up_osds": up },
            "pgmap": { "num_pgs": 8, "pgs_by_state": [{ "state_name": state, "count": 8 }] },
        });
        Readiness::of(status.to_string().as_bytes(), 4, resumed)
    }

    /// The directory of an OSD that was purged once made `up` wait for it, give up and stop all.
    #[test]
    fn a_removed_osd_is_not_waited_for() {
        assert!(readiness(3, 3, "HEALTH_OK", "active+clean", true).ready);
        assert!(!readiness(4, 3, "HEALTH_OK", "active+clean", true).ready);
        assert!(!readiness(0, 0, "HEALTH_OK", "active+clean", true).ready, "there is no map yet");
        assert!(!readiness(3, 3, "HEALTH_OK", "active+clean", false).ready, "a new cluster is to be whole");
        let dump = json!({ "osds": [{ "osd": 0, "up": 1 }, { "osd": 1, "up": 0 }] });
        assert_eq!([0, 1, 2].map(|id| is_up(&dump, id)), [Osd::Up, Osd::Down, Osd::Unknown].map(Some));
        assert_eq!(is_up(&Value::Null, 0), None);
    }

    /// A killed cluster was well again, said `up`, before one of its OSDs had booted; then the first of them reported the
    /// others, and they were down for a moment.
    #[test]
    fn osds_that_were_up_before_are_no_answer() {
        let osd = |id: i32, up: u8, nonce: u64| json!({ "osd": id, "up": up, "public_addrs": { "addrvec": [{ "nonce": nonce }] } });
        let lives = Lives::from([(0, 70), (1, 71)]);
        let said = |osds: &[Value]| speaks_of(&json!({ "osds": osds }), &lives);
        assert!(!said(&[osd(0, 1, 70), osd(1, 1, 31)]));
        assert!(said(&[osd(0, 1, 70), osd(1, 1, 71)]));
        assert!(said(&[osd(0, 1, 70), osd(1, 0, 31), osd(2, 1, 5)]), "one is down, one was started elsewhere");
        assert!(!speaks_of(&Value::Null, &lives));
    }

    #[test]
    fn what_changes_is_under_way() {
        let lost = || readiness(4, 4, "HEALTH_WARN", "down", true);
        assert!(lost().up && !lost().serves && !lost().ready);
        assert_eq!(lost(), lost());
        assert_ne!(lost(), readiness(4, 4, "HEALTH_WARN", "peering", true));
        assert!(readiness(4, 4, "HEALTH_WARN", "active+clean", true).ready);
    }
}
