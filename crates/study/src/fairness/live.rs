//! fio before the kernel's bfq before a loop device, in real time.
//!
//! Needs root, the bfq elevator and the blkio controller of control groups; says so where one is missing. What it sets
//! up goes away with its guard, also after an error.

use super::{Case, FairnessOptions, Mode, WEIGHTS, put_rates};
use crate::error::StudyError;
use crate::measurement::Measurement;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::tool;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Each reader's part of the device.
const PART_BYTES: u64 = 16 << 20;
/// How long the children of a killed process may take to be gone.
const GONE_PATIENCE: Duration = Duration::from_secs(5);
const CGROUPS: &str = "/sys/fs/cgroup/blkio";

/// The versions of what takes part.
pub(super) fn versions(options: &FairnessOptions) -> Result<BTreeMap<String, String>, StudyError> {
    let fio = tool::output(Command::new("fio").arg("--version"), &options.stop)?;
    Ok(BTreeMap::from([("fio".to_owned(), fio.trim().to_owned())]))
}

/// A loop device, control groups and readers; all gone when dropped.
#[derive(Default)]
struct Rig {
    file: PathBuf,
    device: String,
    groups: Vec<PathBuf>,
    readers: Vec<Child>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        for reader in &mut self.readers {
            tool::kill(reader);
        }
        for group in &self.groups {
            remove_group(group);
        }
        if !self.device.is_empty() {
            let _ = tool::output(Command::new("losetup").args(["-d", &self.device]), &Stop::default());
        }
        let _ = fs::remove_file(&self.file);
    }
}

/// Removes a control group once all who were killed in it are gone.
fn remove_group(group: &Path) {
    let until = Instant::now() + GONE_PATIENCE;
    while fs::remove_dir(group).is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes a value where the kernel takes it.
fn set(path: impl AsRef<Path>, value: &str) -> Result<(), StudyError> {
    let path = path.as_ref();
    let refused = |error| StudyError::Machine(format!("{} does not take '{value}': {error}", path.display()));
    fs::write(path, value).map_err(refused)
}

impl Rig {
    fn set_up(options: &FairnessOptions, case: &Case) -> Result<Rig, StudyError> {
        let mut rig = Rig::default();
        rig.file = options.scratch.join("loop.img");
        let bytes = PART_BYTES * WEIGHTS.len() as u64 * u64::from(case.readers);
        write_file(&rig.file, bytes)?;
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show", "--direct-io=on"]).arg(&rig.file);
        tool::output(&mut attach, &options.stop)?.trim().clone_into(&mut rig.device);
        let queue = PathBuf::from("/sys/block").join(rig.device.trim_start_matches("/dev/")).join("queue");
        // A device without moving parts is not idled for, whatever slice_idle says.
        set(queue.join("rotational"), "1")?;
        set(queue.join("scheduler"), "bfq")?;
        // Heuristics that favour who looks interactive are not what is compared.
        set(queue.join("iosched/low_latency"), "0")?;
        set(queue.join("iosched/slice_idle"), if case.mode == Mode::Time { "8" } else { "0" })?;
        if !Path::new(CGROUPS).join("cgroup.procs").exists() {
            let why = format!("{CGROUPS} is not there: bfq's weights need the blkio controller (cgroup v1)");
            return Err(StudyError::Machine(why));
        }
        for weight in WEIGHTS {
            let group = Path::new(CGROUPS).join(format!("loligo-study-{}-{weight}", std::process::id()));
            fs::create_dir(&group).map_err(StudyError::file(&group))?;
            rig.groups.push(group.clone());
            set(group.join("blkio.bfq.weight"), &weight.to_string())?;
        }
        Ok(rig)
    }

    fn start_readers(&mut self, case: &Case, seconds: u32) -> Result<(), StudyError> {
        for number in 0..WEIGHTS.len() as u64 * u64::from(case.readers) {
            let group = &self.groups[number as usize % WEIGHTS.len()];
            // The shell moves itself into the group and becomes fio there.
            let enter = format!("echo $$ > {}/cgroup.procs && exec fio \"$@\"", group.display());
            let mut fio = Command::new("sh");
            fio.args(["-c", &enter, "fio", "--name=reader", "--ioengine=psync", "--rw=read", "--bs=4k", "--direct=1"])
                .args([format!("--filename={}", self.device), format!("--offset={}", number * PART_BYTES)])
                .args([format!("--size={PART_BYTES}"), format!("--runtime={seconds}")])
                .args(["--time_based", "--ramp_time=2", "--output-format=json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            self.readers.push(tool::start(&mut fio)?);
        }
        Ok(())
    }

    /// Waits for all readers; gives the bytes that each group read and their latencies' mean and 99th percentile.
    fn collect(&mut self) -> Result<([u64; 8], f64, f64), StudyError> {
        let (mut bytes, mut mean, mut p99, mut ios) = ([0; 8], 0.0, 0.0f64, 0.0);
        for (number, reader) in self.readers.drain(..).enumerate() {
            let done = reader.wait_with_output().map_err(StudyError::file("fio"))?;
            let text = String::from_utf8_lossy(&done.stdout);
            let json = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok());
            let read = json.as_ref().map(|json| &json["jobs"][0]["read"]);
            let figure = |path: &str| read.and_then(|read| read.pointer(path)).and_then(Value::as_f64);
            let missing = |what: &str| StudyError::Answer { command: "fio".to_owned(), what: what.to_owned() };
            let rate = figure("/bw_bytes").ok_or_else(|| missing("a rate"))?;
            let runtime = figure("/runtime").ok_or_else(|| missing("its time"))? / 1e3;
            bytes[number % WEIGHTS.len()] += (rate * runtime) as u64;
            let count = figure("/total_ios").unwrap_or(0.0);
            mean += count * figure("/clat_ns/mean").unwrap_or(0.0) / 1e6;
            ios += count;
            p99 = p99.max(figure("/clat_ns/percentile/99.000000").unwrap_or(0.0) / 1e6);
        }
        Ok((bytes, mean / ios.max(1.0), p99))
    }
}

/// One run.
pub(super) fn run(options: &FairnessOptions, case: &Case, progress: &Progress) -> Result<Measurement, StudyError> {
    let mut rig = Rig::set_up(options, case)?;
    rig.start_readers(case, options.seconds)?;
    let began = Instant::now();
    let takes = Duration::from_secs(u64::from(options.seconds) + 3);
    while began.elapsed() < takes {
        options.stop.check()?;
        progress.part(began.elapsed().as_secs_f64() / takes.as_secs_f64());
        std::thread::sleep(Duration::from_millis(100));
    }
    let (bytes, mean_ms, p99_ms) = rig.collect()?;
    let mut measurement = Measurement::default();
    put_rates(&mut measurement, bytes, f64::from(options.seconds));
    measurement.put("read_mean_ms", mean_ms);
    measurement.put("read_p99_ms", p99_ms);
    if case.mode == Mode::Requests {
        let note = "IOPS mode of bfq: a loop device takes more requests at once than there are readers, so that nothing \
                    waits in the scheduler and there is nothing to share out by weight";
        measurement.notes.push(note.to_owned());
    }
    Ok(measurement)
}

/// A file of zeros that is on the disk rather than a hole.
fn write_file(path: &Path, bytes: u64) -> Result<(), StudyError> {
    use std::io::Write as _;
    let mut file = fs::File::create(path).map_err(StudyError::file(path))?;
    let block = vec![0u8; 1 << 20];
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        file.write_all(&block).map_err(StudyError::file(path))?;
    }
    file.sync_all().map_err(StudyError::file(path))
}
