//! `baseline` and `recovery` on a cluster that runs: one that the study starts, or any.
//!
//! What it changes it puts back, or says what is left: pools, options, flags. An OSD goes down by the monitor's word (`noup`, `osd down`,
//! `osd out`), so that nobody has to reach its process.

use super::cluster::{Cluster, OwnCluster};
use super::configuration::Configuration;
use super::hardware::HDD_WITH_FLASH;
use super::load::{self, Load};
use super::undo::{Undo, refuse_pools, restart_all};
use super::{charts, metrics};
use crate::conduct::Study;
use crate::error::StudyError;
use crate::measurement::{Measurement, Metric};
use crate::progress::Progress;
use crate::results::{ChartOf, Results};
use crate::stop::Stop;
use crate::target::Target;
use crate::tool;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The pool that is filled while an OSD is away.
const RECOVERY_POOL: &str = "study-recovery";
pub(super) const OSDS: usize = 4;
/// fio connects and opens the image.
const FIO_STARTS: Duration = Duration::from_secs(1);
/// How long nothing may be seen of a recovery before it counts as over: OSDs report every 5 s at the latest.
const SETTLED_SECONDS: f64 = 6.0;
/// The longest that recovery may take.
const RECOVERY_SECONDS_MAX: u64 = 24 * 3600;
/// The name of the configuration without recovery.
const ALONE: &str = "client alone";

/// What can be chosen on a cluster.
#[derive(Clone, Debug)]
pub struct OnClusterOptions {
    /// `Live`, or a cluster.
    pub on: Target,
    /// Only the client alone: the study `baseline`.
    pub baseline: bool,
    /// The program that starts a cluster of its own.
    pub binary: PathBuf,
    /// The device that disks of a cluster of its own behave like; or what they are made of: `hdd with log and metadata on
    /// flash`.
    pub device_model: Option<String>,
    /// The monitor's port of such a cluster; any free one for none.
    pub port: Option<u16>,
    /// Objects of 4 MiB in the recovery pool.
    pub objects: u32,
    /// Seconds that the client works, at the least.
    pub seconds: u32,
    /// The client's writes under way.
    pub depth: u32,
    /// The image's size in MiB.
    pub image_mib: u32,
    /// Placement groups of each pool.
    pub pgs: u32,
    /// 4 KiB writes a second that mClock is told an OSD does; measured by the OSD for none.
    pub capacity_iops: Option<u32>,
    /// A shell command that restarts all OSDs, where a scheduler does not change without.
    pub restart: Option<String>,
    /// Where a cluster of its own and logs go.
    pub scratch: PathBuf,
    /// When to stop.
    pub stop: Stop,
}

/// `baseline` or `recovery` on a cluster.
#[derive(Debug)]
pub struct OnCluster {
    options: OnClusterOptions,
    own: Option<OwnCluster>,
    capacity: Option<f64>,
}

impl OnCluster {
    /// The study with those options.
    pub fn new(mut options: OnClusterOptions) -> Result<OnCluster, StudyError> {
        if let Target::Cluster(conf) = &options.on
            && !conf.is_file()
        {
            let why = format!("'{}' is neither sim nor live nor a ceph.conf", conf.display());
            return Err(StudyError::Option { option: "on", why });
        }
        // A kind of hardware may be named by its beginning, as on sim; by `hdd` the device is meant.
        let is_with_flash = |name: &String| name.len() > "hdd ".len() && HDD_WITH_FLASH.starts_with(&name[..]);
        if options.device_model.as_ref().is_some_and(is_with_flash) {
            options.device_model = Some(HDD_WITH_FLASH.to_owned());
        }
        Ok(OnCluster { options, own: None, capacity: None })
    }

    /// The cluster, started if it is the study's own.
    fn cluster(&mut self) -> Result<Cluster, StudyError> {
        if let Target::Cluster(conf) = &self.options.on {
            return Ok(Cluster { conf: conf.clone(), stop: self.options.stop.clone() });
        }
        if self.own.is_none() {
            let o = &self.options;
            let dir = o.scratch.join("cluster");
            let model = o.device_model.as_deref();
            self.own = Some(OwnCluster::start(&o.binary, dir, OSDS as u32, model, o.port, &o.stop)?);
        }
        let conf = self.own.as_ref().expect("just started").conf();
        Ok(Cluster { conf, stop: self.options.stop.clone() })
    }

    fn capacity(&mut self, cluster: &Cluster, osd: i64) -> Result<f64, StudyError> {
        if let Some(given) = self.options.capacity_iops {
            return Ok(f64::from(given));
        }
        if self.capacity.is_none() {
            self.capacity = Some(cluster.measured_capacity(osd)?);
        }
        Ok(self.capacity.expect("just measured"))
    }

    /// Sees to it that the OSDs work with the scheduler that is now configured instead of the one before.
    fn bring_in_force(
        &self,
        cluster: &Cluster,
        osd: i64,
        (before, wanted): (&str, &str),
        undo: &mut Undo,
    ) -> Result<(), StudyError> {
        if cluster.scheduler(osd)?.is_some() {
            return cluster.wait("the scheduler in force", |c| Ok(c.scheduler(osd)?.as_deref() == Some(wanted)));
        }
        // Whoever does not say what he works with has it from his start.
        match &self.options.restart {
            Some(restart) => {
                undo.restart = Some(restart.clone());
                restart_all(cluster, restart)
            }
            None if before == wanted => Ok(()),
            None => {
                let why =
                    format!("{wanted} takes effect only when OSDs are started again: say how, with a shell command");
                Err(StudyError::Option { option: "restart", why })
            }
        }
    }

    /// The pools that the study makes in one of its runs.
    fn pools(&self) -> &'static [&'static str] {
        if self.options.baseline { &[load::POOL] } else { &[load::POOL, RECOVERY_POOL] }
    }

    fn run_once(
        &mut self,
        configuration: Option<Configuration>,
        progress: &Progress,
    ) -> Result<Measurement, StudyError> {
        let cluster = self.cluster()?;
        let osds = cluster.osds_up()?;
        let Some(&osd) = osds.last().filter(|_| osds.len() >= OSDS || configuration.is_none()) else {
            let why = format!("the study needs {OSDS} OSDs that are up, there are {}", osds.len());
            return Err(StudyError::Option { option: "on", why });
        };
        // Before anything is changed, and not only when its turn comes: all that was measured until then would be lost.
        refuse_pools(&cluster, self.pools())?;
        let mut undo = Undo::new(&cluster, osd)?;
        let measured = self.measure(&cluster, osd, configuration, &mut undo, progress);
        let left = undo.put_back();
        match measured {
            Ok(mut measurement) => {
                measurement.notes.extend(left.into_iter().map(|what| format!("left behind: {what}")));
                Ok(measurement)
            }
            Err(error) if left.is_empty() => Err(error),
            Err(error) => Err(StudyError::LeftBehind { error: Box::new(error), left: left.join("; ") }),
        }
    }

    fn measure(
        &mut self,
        cluster: &Cluster,
        osd: i64,
        configuration: Option<Configuration>,
        undo: &mut Undo,
        progress: &Progress,
    ) -> Result<Measurement, StudyError> {
        let mut measurement = Measurement::default();
        let mut reserved = None;
        if let Some(configuration) = configuration {
            let capacity = self.capacity(cluster, osd)?;
            let options = configuration.options(capacity);
            reserved = configuration.reserved(capacity);
            if configuration.is_mclock() {
                measurement.notes.push(format!("mClock is told that an OSD does {capacity} 4 KiB writes a second"));
            }
            let before = cluster.option(osd, "osd_op_queue")?;
            measurement.notes.extend(undo.set_options(&options)?);
            self.bring_in_force(cluster, osd, (&before, &options["osd_op_queue"]), undo)?;
        }
        progress.say("filling the client's image");
        undo.make_pool(load::POOL, self.options.pgs)?;
        load::prefill(cluster, self.options.image_mib)?;
        match configuration {
            None => self.client_alone(cluster, &mut measurement, progress)?,
            Some(_) => {
                undo.make_pool(RECOVERY_POOL, self.options.pgs)?;
                self.take_away(cluster, osd, undo, progress)?;
                self.bring_back(cluster, osd, undo, &mut measurement, progress)?;
            }
        }
        if let (Some(reserved), Some(iops)) = (reserved, measurement.value("client_iops")) {
            let each = iops / cluster.osds_up()?.len() as f64;
            let note = format!("an OSD served {each:.0} client requests a second, and reserved {reserved:.0} for them");
            measurement.notes.push(note);
        }
        Ok(measurement)
    }

    fn client_alone(
        &self,
        cluster: &Cluster,
        measurement: &mut Measurement,
        progress: &Progress,
    ) -> Result<(), StudyError> {
        cluster.wait_until_clean()?;
        progress.say("the client alone");
        let o = &self.options;
        let mut load = Load::begin(cluster, o.depth, u64::from(o.seconds), &o.scratch)?;
        let began = Instant::now();
        while !load.has_ended() {
            o.stop.check()?;
            progress.part(began.elapsed().as_secs_f64() / f64::from(o.seconds + 2));
            std::thread::sleep(Duration::from_millis(200));
        }
        load.end(measurement)
    }

    /// An OSD goes, and the recovery pool is filled without it.
    fn take_away(&self, cluster: &Cluster, osd: i64, undo: &mut Undo, progress: &Progress) -> Result<(), StudyError> {
        let id = osd.to_string();
        cluster.wait_until_clean()?;
        progress.say("taking an OSD away");
        undo.away = true;
        cluster.ceph(&["osd", "set", "noup"])?;
        cluster.ceph(&["osd", "down", &id])?;
        cluster.ceph(&["osd", "out", &id])?;
        cluster.wait("an OSD down", |c| Ok(!c.osds_up()?.contains(&osd)))?;
        cluster.wait_until_clean()?;
        progress.say("filling the recovery pool");
        let objects = self.options.objects.to_string();
        let mut bench = cluster.tool("rados");
        bench.args(["bench", "86400", "write", "-p", RECOVERY_POOL, "-b", "4194304", "-t", "8", "--no-cleanup"]);
        cluster.output(bench.args(["--max-objects", &objects]))?;
        Ok(())
    }

    /// It comes back, and a client writes until all is clean.
    fn bring_back(
        &self,
        cluster: &Cluster,
        osd: i64,
        undo: &mut Undo,
        measurement: &mut Measurement,
        progress: &Progress,
    ) -> Result<(), StudyError> {
        progress.say("recovery");
        let mut watch = cluster.watch()?;
        watch.health()?;
        let o = &self.options;
        let mut load = Load::begin(cluster, o.depth, RECOVERY_SECONDS_MAX, &o.scratch)?;
        // Before the OSD is let up: a quick recovery would be over before the client has begun.
        std::thread::sleep(FIO_STARTS);
        undo.back()?;
        let began = Instant::now();
        let (mut series, mut most, mut up_at, mut clean_at) = (Vec::new(), 0.0f64, None, None);
        while clean_at.is_none() || began.elapsed().as_secs() < u64::from(o.seconds) {
            if load.has_ended() || began.elapsed().as_secs() > RECOVERY_SECONDS_MAX {
                load.end(measurement)?;
                let what = "all placement groups active+clean before the client ended".to_owned();
                return Err(StudyError::Late { what, seconds: began.elapsed().as_secs() });
            }
            let health = watch.health()?;
            let at = began.elapsed().as_secs_f64();
            series.push((at, health.objects));
            most = most.max(health.objects);
            progress.part(if most > 0.0 { 1.0 - health.objects / most } else { 0.0 });
            if up_at.is_none() && watch.osds_up()?.contains(&osd) {
                up_at = Some(at);
            }
            // Seen to be unclean and clean again, or clean for so long that there is nothing more to see.
            let settled = most > 0.0 || up_at.is_some_and(|up_at| at - up_at > SETTLED_SECONDS);
            if health.clean && up_at.is_some() && settled && clean_at.is_none() {
                clean_at = Some(at);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        load.end(measurement)?;
        let seconds = clean_at.expect("the loop's end").max(0.1);
        if most > 0.0 {
            measurement.put("time_to_clean_s", seconds);
            // All that the pool has was written while the OSD was away.
            let recovered = cluster.objects_on(osd, RECOVERY_POOL)?;
            measurement.put("recovered_objects_per_s", recovered / seconds);
            measurement.put("recovered_mib_per_s", recovered * 4.0 / seconds);
            measurement.series.insert("misplaced_objects".to_owned(), series);
        } else {
            measurement.notes.push("a recovery was over before it was seen: more --objects show it".to_owned());
        }
        if seconds < f64::from(o.seconds) {
            let note =
                "recovery ended before the client's time: its figures are of both (more --objects, or less --seconds)";
            measurement.notes.push(note.to_owned());
        }
        Ok(())
    }
}

impl Study for OnCluster {
    fn name(&self) -> &'static str {
        if self.options.baseline { "baseline" } else { "recovery" }
    }

    fn about(&self) -> Vec<String> {
        let whose = match self.options.on {
            Target::Cluster(_) => "The cluster is one that ran already.",
            _ => "The cluster is Loligo's, a process for each daemon, started by the study on this machine.",
        };
        let mut about = vec![format!(
            "{whose} The client is fio's rbd engine, without a cache of its own: random 4 KiB writes into an image of a pool \
             with three copies. Options are set with ceph config set."
        )];
        if !self.options.baseline {
            let steps = "One of four OSDs is marked down and out, a recovery pool is filled with 4 MiB objects \
                         meanwhile, and the OSD is let up and in again. The client begins to \
                         write a second before that and goes on until all is clean. Limits lifted means \
                         osd_max_backfills and osd_recovery_max_active 1000, osd_async_recovery_min_cost 1.";
            about.push(steps.to_owned());
        }
        about
    }

    fn options(&self) -> BTreeMap<String, String> {
        let o = &self.options;
        let mut all = BTreeMap::from([
            ("seconds".to_owned(), o.seconds.to_string()),
            ("depth".to_owned(), o.depth.to_string()),
            ("image-mib".to_owned(), o.image_mib.to_string()),
            ("pgs".to_owned(), o.pgs.to_string()),
        ]);
        if !o.baseline {
            all.insert("objects".to_owned(), o.objects.to_string());
            let capacity = o.capacity_iops.map_or("measured by the OSD".to_owned(), |iops| iops.to_string());
            all.insert("capacity-iops".to_owned(), capacity);
        }
        if o.on == Target::Live {
            all.insert("device-model".to_owned(), o.device_model.clone().unwrap_or_else(|| "none".to_owned()));
        }
        all
    }

    fn versions(&self) -> Result<BTreeMap<String, String>, StudyError> {
        let stop = &self.options.stop;
        let of =
            |program: &str| tool::output(Command::new(program).arg("--version"), stop).map(|v| v.trim().to_owned());
        let mut versions = BTreeMap::from([("fio".to_owned(), of("fio")?), ("ceph".to_owned(), of("ceph")?)]);
        if let Target::Cluster(conf) = &self.options.on {
            versions.insert("the cluster".to_owned(), Cluster { conf: conf.clone(), stop: stop.clone() }.version()?);
        }
        Ok(versions)
    }

    fn configurations(&self) -> Vec<String> {
        let recovery = Configuration::ALL.iter().filter(|_| !self.options.baseline).map(|c| c.name());
        std::iter::once(ALONE.to_owned()).chain(recovery).collect()
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn charts(&self) -> Vec<ChartOf> {
        charts()
    }

    fn run(&mut self, configuration: &str, _seed: u64, progress: &Progress) -> Result<Measurement, StudyError> {
        self.run_once(Configuration::ALL.into_iter().find(|c| c.name() == configuration), progress)
    }

    fn findings(&self, results: &Results) -> Vec<String> {
        let alone = results.spread(ALONE, "client_iops").map(|spread| spread.mean);
        let share = |configuration: &Configuration| {
            let name = configuration.name();
            let rate = results.spread(&name, "client_iops")?.mean;
            let recovered = results.spread(&name, "recovered_objects_per_s")?.mean;
            let kept = 100.0 * rate / alone.filter(|alone| *alone > 0.0)?;
            Some(format!("{name}: the client keeps {kept:.0}% of its rate while {recovered:.1} objects/s recover"))
        };
        Configuration::ALL.iter().filter_map(share).collect()
    }
}
