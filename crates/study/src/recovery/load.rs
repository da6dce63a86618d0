//! A stock client's load: fio's rbd engine, and what it says of it.

use super::cluster::Cluster;
use crate::error::StudyError;
use crate::latency::OverTime;
use crate::measurement::Measurement;
use crate::tool;
use base::Duration;
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The client's pool and image.
pub(super) const POOL: &str = "study-client";
pub(super) const IMAGE: &str = "image";

/// Random 4 KiB writes under way until they are ended; killed when dropped.
#[derive(Debug)]
pub(super) struct Load {
    fio: Option<Child>,
    log: PathBuf,
}

/// fio on the image, as far as all uses agree.
fn fio(cluster: &Cluster) -> Command {
    let mut fio = cluster.tool("fio");
    fio.args(["--name=study", "--ioengine=rbd", "--clientname=admin", "--output-format=json"])
        .args([format!("--pool={POOL}"), format!("--rbdname={IMAGE}")]);
    fio
}

/// Makes the image, whose clients cache nothing, and writes all of it once.
pub(super) fn prefill(cluster: &Cluster, mib: u32) -> Result<(), StudyError> {
    let image = format!("{POOL}/{IMAGE}");
    cluster.output(cluster.tool("rbd").args(["create", &image, "--size", &format!("{mib}M")]))?;
    // A client's cache would answer writes before any OSD has seen them, and send many as one.
    cluster.output(cluster.tool("rbd").args(["config", "image", "set", &image, "rbd_cache", "false"]))?;
    cluster.output(fio(cluster).args(["--rw=write", "--bs=1m", "--iodepth=8", &format!("--size={mib}m")]))?;
    Ok(())
}

impl Load {
    /// Begins; ends by itself after `seconds`.
    pub(super) fn begin(cluster: &Cluster, depth: u32, seconds: u64, scratch: &Path) -> Result<Load, StudyError> {
        let log = scratch.join("fio");
        let mut fio = fio(cluster);
        fio.args(["--rw=randwrite", "--bs=4k", "--time_based", "--percentile_list=95:99:99.5", "--log_avg_msec=500"])
            .args([format!("--iodepth={depth}"), format!("--runtime={seconds}")])
            .arg(format!("--write_lat_log={}", log.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Ok(Load { fio: Some(tool::start(&mut fio)?), log })
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.fio.as_mut().is_none_or(|fio| !matches!(fio.try_wait(), Ok(None)))
    }

    /// Ends it as Ctrl-C would, and adds what it says to a measurement.
    pub(super) fn end(mut self, measurement: &mut Measurement) -> Result<(), StudyError> {
        let ended = self.has_ended();
        let fio = self.fio.take().expect("ended once");
        if !ended {
            tool::signal(&fio, Signal::INT);
        }
        let done = fio.wait_with_output().map_err(StudyError::file("fio"))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let lacks = |what: &str| StudyError::Answer { command: "fio".to_owned(), what: what.to_owned() };
        let json: Value = text
            .find('{')
            .and_then(|at| serde_json::from_str(&text[at..]).ok())
            .ok_or_else(|| lacks("a report in JSON"))?;
        let write = &json["jobs"][0]["write"];
        let figure = |path: &str| write.pointer(path).and_then(Value::as_f64).ok_or_else(|| lacks(path));
        measurement.put("client_iops", figure("/iops")?);
        measurement.put("client_mean_ms", figure("/clat_ns/mean")? / 1e6);
        let percentiles =
            [("client_p95_ms", "95.000000"), ("client_p99_ms", "99.000000"), ("client_p99_5_ms", "99.500000")];
        for (key, percent) in percentiles {
            measurement.put(key, figure(&format!("/clat_ns/percentile/{percent}"))? / 1e6);
        }
        measurement.series.insert("client_latency_ms".to_owned(), self.over_time());
        Ok(())
    }

    /// The log's lines: milliseconds, nanoseconds, and what does not matter here.
    fn over_time(&self) -> Vec<(f64, f64)> {
        let path = PathBuf::from(format!("{}_clat.1.log", self.log.display()));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut series = OverTime::new(Duration::from_millis(500));
        for line in text.lines() {
            let mut fields = line.split(',').map(|field| field.trim().parse::<f64>().ok());
            if let (Some(Some(ms)), Some(Some(ns))) = (fields.next(), fields.next()) {
                series.record(Duration::from_secs_f64(ms.max(0.0) / 1e3), ns / 1e6);
            }
        }
        series.means()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(fio) = &mut self.fio {
            tool::kill(fio);
        }
        for kind in ["clat", "slat", "lat"] {
            let _ = std::fs::remove_file(format!("{}_{kind}.1.log", self.log.display()));
        }
    }
}
