//! A running cluster as an operator's tools show it: `ceph`, `rbd`, `rados`, by a `ceph.conf`.

use super::hardware::HDD_WITH_FLASH;
use crate::conversation::Conversation;
use crate::error::StudyError;
use crate::stop::Stop;
use crate::tool;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long to wait for what an operator would wait for.
const PATIENCE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(500);

/// A cluster.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) conf: PathBuf,
    /// When to wait for its tools no longer.
    pub(super) stop: Stop,
}

/// What `ceph -s` says of placement groups.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Health {
    /// All are `active+clean`.
    pub(super) clean: bool,
    /// Copies of objects that are misplaced or degraded.
    pub(super) objects: f64,
}

impl Health {
    fn of(status: &Value) -> Health {
        let groups = &status["pgmap"];
        let count = |value: &Value| value.as_f64().unwrap_or(0.0);
        let states = groups["pgs_by_state"].as_array().cloned().unwrap_or_default();
        let is_clean = |state: &&Value| {
            let name = state["state_name"].as_str().unwrap_or_default();
            name == "active+clean" || name.starts_with("active+clean+scrubbing") || name == "active+clean+snaptrim"
        };
        let clean: f64 = states.iter().filter(is_clean).map(|state| count(&state["count"])).sum();
        let objects = count(&groups["misplaced_objects"]) + count(&groups["degraded_objects"]);
        Health { clean: clean > 0.0 && clean == count(&groups["num_pgs"]), objects }
    }
}

/// Looks at a cluster again and again.
pub(super) struct Watch(Conversation);

impl Watch {
    pub(super) fn health(&mut self) -> Result<Health, StudyError> {
        Ok(Health::of(&self.0.ask("status")?))
    }

    /// The ids of the OSDs that are up.
    pub(super) fn osds_up(&mut self) -> Result<Vec<i64>, StudyError> {
        Ok(osds_up(&self.0.ask("osd dump")?))
    }
}

fn osds_up(dump: &Value) -> Vec<i64> {
    let osds = dump["osds"].as_array().cloned().unwrap_or_default();
    osds.iter().filter(|osd| osd["up"] == 1).filter_map(|osd| osd["osd"].as_i64()).collect()
}

impl Cluster {
    /// A tool against this cluster.
    pub(super) fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("CEPH_CONF", &self.conf).env("CEPH_ARGS", "");
        command
    }

    /// What a tool against this cluster prints.
    pub(super) fn output(&self, command: &mut Command) -> Result<String, StudyError> {
        tool::output(command, &self.stop)
    }

    /// Runs `ceph` with these words.
    pub(super) fn ceph(&self, words: &[&str]) -> Result<String, StudyError> {
        self.output(self.tool("ceph").args(words))
    }

    /// Its answer as JSON.
    pub(super) fn ask(&self, words: &[&str]) -> Result<Value, StudyError> {
        let text = self.ceph(&[words, &["--format", "json"]].concat())?;
        serde_json::from_str(text.trim())
            .map_err(|_| StudyError::Answer { command: format!("ceph {}", words.join(" ")), what: "JSON".to_owned() })
    }

    /// The ids of its OSDs, those that are up.
    pub(super) fn osds_up(&self) -> Result<Vec<i64>, StudyError> {
        Ok(osds_up(&self.ask(&["osd", "dump"])?))
    }

    /// The names of its pools.
    pub(super) fn pools(&self) -> Result<Vec<String>, StudyError> {
        let lacks =
            || StudyError::Answer { command: "ceph osd pool ls".to_owned(), what: "a list of names".to_owned() };
        serde_json::from_value(self.ask(&["osd", "pool", "ls"])?).map_err(|_| lacks())
    }

    /// Somebody to look at it often.
    pub(super) fn watch(&self) -> Result<Watch, StudyError> {
        Ok(Watch(Conversation::begin(&mut self.tool("ceph"), &self.stop)?))
    }

    /// Waits until `is_so`.
    pub(super) fn wait(
        &self,
        what: &str,
        mut is_so: impl FnMut(&Cluster) -> Result<bool, StudyError>,
    ) -> Result<(), StudyError> {
        let began = Instant::now();
        while !is_so(self)? {
            if began.elapsed() > PATIENCE {
                return Err(StudyError::Late { what: what.to_owned(), seconds: PATIENCE.as_secs() });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    pub(super) fn wait_until_clean(&self) -> Result<(), StudyError> {
        let mut watch = self.watch()?;
        self.wait("all placement groups active+clean", |_| Ok(watch.health()?.clean))
    }

    /// The scheduler that an OSD says it works with. Loligo's do; v16.2's give no sign of it.
    pub(super) fn scheduler(&self, osd: i64) -> Result<Option<String>, StudyError> {
        let state = self.ask(&["tell", &format!("osd.{osd}"), "dump_op_pq_state"])?;
        let shard = state.as_object().and_then(|shards| shards.values().next());
        Ok(shard.and_then(|shard| shard["scheduler"].as_str()).map(str::to_owned))
    }

    /// An option as an OSD has it.
    pub(super) fn option(&self, osd: i64, name: &str) -> Result<String, StudyError> {
        let answer = self.ask(&["tell", &format!("osd.{osd}"), "config", "get", name])?;
        Ok(answer[name].as_str().unwrap_or_default().to_owned())
    }

    /// Objects that an OSD has of a pool.
    pub(super) fn objects_on(&self, osd: i64, pool: &str) -> Result<f64, StudyError> {
        let groups = self.ask(&["pg", "ls-by-pool", pool])?;
        let groups = groups["pg_stats"].as_array().cloned().unwrap_or_default();
        let here = |group: &&Value| group["acting"].as_array().is_some_and(|ids| ids.iter().any(|id| *id == osd));
        Ok(groups.iter().filter(here).filter_map(|group| group["stat_sum"]["num_objects"].as_f64()).sum())
    }

    /// 4 KiB writes a second that an OSD's own measurement finds, as Ceph's documentation of mClock advises to take it.
    pub(super) fn measured_capacity(&self, osd: i64) -> Result<f64, StudyError> {
        let words = ["tell", &format!("osd.{osd}"), "bench", "12288000", "4096", "4194304", "100"];
        let bench = self.ask(&words)?;
        let lacks = || StudyError::Answer { command: format!("ceph {}", words.join(" ")), what: "iops".to_owned() };
        bench["iops"].as_f64().filter(|iops| *iops >= 1.0).map(f64::round).ok_or_else(lacks)
    }

    /// What the OSDs say they are.
    pub(super) fn version(&self) -> Result<String, StudyError> {
        Ok(self.ceph(&["tell", "osd.0", "version", "--format", "json"])?.trim().to_owned()).map(|text| {
            let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
            parsed["version"].as_str().map_or(text, str::to_owned)
        })
    }
}

/// A Loligo cluster that a study has started; gone when dropped.
#[derive(Debug)]
pub(super) struct OwnCluster {
    binary: PathBuf,
    dir: PathBuf,
}

impl OwnCluster {
    /// Starts one with `osds` OSDs on disks that behave like `model`, or are of that kind of hardware.
    pub(super) fn start(
        binary: &Path,
        dir: PathBuf,
        osds: u32,
        model: Option<&str>,
        port: Option<u16>,
        stop: &Stop,
    ) -> Result<OwnCluster, StudyError> {
        // Left behind by a study that was killed.
        let left = OwnCluster { binary: binary.to_owned(), dir: dir.clone() };
        drop(left);
        let cluster = OwnCluster { binary: binary.to_owned(), dir };
        let mut up = Command::new(binary);
        up.args(["up", "--detach", "--processes", "--osds", &osds.to_string(), "--dir"]).arg(&cluster.dir);
        match model {
            Some(HDD_WITH_FLASH) => put_on_flash(&mut up, &cluster.dir)?,
            Some(model) => drop(up.args(["--device-model", model])),
            None => {}
        }
        up.args(["--port", &port.map_or_else(free_port, Ok)?.to_string()]);
        tool::output(&mut up, stop)?;
        Ok(cluster)
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }
}

/// Where such a cluster's flash lies, beside it.
fn flash_of(dir: &Path) -> PathBuf {
    dir.with_extension("flash")
}

/// Disks for data; logs and metadata on flash as published (`Hardware`).
fn put_on_flash(up: &mut Command, dir: &Path) -> Result<(), StudyError> {
    let flash = flash_of(dir);
    let failed = |error| StudyError::Machine(format!("{}: {error}", flash.display()));
    std::fs::create_dir_all(&flash).map_err(failed)?;
    up.args(["--device-model", "hdd", "--set", "osd_log_device_model=nvme", "--set", "osd_meta_device_model=nvme"]);
    up.arg("--log-device").arg(&flash).arg("--meta-device").arg(&flash);
    Ok(())
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        if self.conf().exists() {
            let mut down = Command::new(&self.binary);
            let _ = tool::output(down.args(["down", "--dir"]).arg(&self.dir), &Stop::default());
            let _ = std::fs::remove_dir_all(&self.dir);
            let _ = std::fs::remove_dir_all(flash_of(&self.dir));
        }
    }
}

fn free_port() -> Result<u16, StudyError> {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    probe.map(|address| address.port()).map_err(|error| StudyError::Machine(format!("no free port: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_metadata_go_to_flash_beside_the_cluster() {
        let scratch = std::env::temp_dir().join(format!("loligo-study-flash-{}", std::process::id()));
        let mut up = Command::new("loligo");
        put_on_flash(&mut up, &scratch.join("cluster")).expect("it can be made");
        let flash = scratch.join("cluster.flash");
        let is_there = flash.is_dir();
        std::fs::remove_dir_all(&scratch).expect("it was made");
        assert!(is_there, "up takes a directory for several OSDs only where there is one");
        let words: Vec<_> = up.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let flash = flash.to_string_lossy().into_owned();
        for pair in [
            ["--device-model", "hdd"],
            ["--set", "osd_log_device_model=nvme"],
            ["--set", "osd_meta_device_model=nvme"],
            ["--log-device", &flash],
            ["--meta-device", &flash],
        ] {
            assert!(words.chunks(2).any(|words| words == pair), "{pair:?} in {words:?}");
        }
    }
}
