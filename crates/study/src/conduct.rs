//! Conducting a study: every run of every configuration that is not recorded yet, then the report.
//!
//! The output directory holds `study.json` (what decides the results), `runs/CONFIGURATION-RUN.json` (one run each,
//! written whole or not at all), and the report: `table.txt`, `results.json`, `report.html`.

use crate::error::StudyError;
use crate::measurement::{Measurement, Metric};
use crate::progress::Progress;
use crate::record::{self, Record};
use crate::results::{ChartOf, Detail, Results};
use crate::target::Target;
use crate::{report, table};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What can be studied.
pub trait Study {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it is about, in paragraphs.
    fn about(&self) -> Vec<String>;
    /// Everything that decides the results, by name.
    fn options(&self) -> BTreeMap<String, String>;
    /// Programs beside this one that take part, with their versions.
    fn versions(&self) -> Result<BTreeMap<String, String>, StudyError> {
        Ok(BTreeMap::new())
    }
    /// The configurations in the order of the report.
    fn configurations(&self) -> Vec<String>;
    /// What is measured.
    fn metrics(&self) -> Vec<Metric>;
    /// Charts of the report.
    fn charts(&self) -> Vec<ChartOf>;
    /// Runs a configuration once.
    fn run(&mut self, configuration: &str, seed: u64, progress: &Progress) -> Result<Measurement, StudyError>;
    /// Figures that others published: configuration, metric, value.
    fn published(&self) -> Vec<(String, &'static str, f64)> {
        Vec::new()
    }
    /// What the figures say.
    fn findings(&self, results: &Results) -> Vec<String>;
    /// Figures one by one, where the table has only what they come to.
    fn details(&self, _results: &Results) -> Vec<Detail> {
        Vec::new()
    }
}

/// How a study is conducted.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// Where it runs.
    pub on: Target,
    /// Where its files go.
    pub out: PathBuf,
    /// Runs of each configuration.
    pub runs: u32,
    /// The seed of the first run; each further one's is one more.
    pub seed: u64,
    /// Only configurations whose names contain this.
    pub only: Option<String>,
    /// The version of the program.
    pub version: String,
}

/// Conducts a study to its end, or on from where an earlier one in the same directory was interrupted.
pub fn conduct(study: &mut dyn Study, how: &Conduct) -> Result<Results, StudyError> {
    let mut versions = study.versions()?;
    versions.insert("loligo".to_owned(), how.version.clone());
    let record = Record {
        study: study.name().to_owned(),
        on: how.on.name().to_owned(),
        seed: how.seed,
        options: study.options(),
        versions,
        machine: record::machine(),
    };
    let configurations = chosen(study, how.only.as_deref())?;
    claim(&how.out, &record)?;
    let mut done: Vec<(String, Vec<Measurement>)> = configurations.iter().map(|c| (c.clone(), Vec::new())).collect();
    let mut progress = Progress::new(u64::from(how.runs) * configurations.len() as u64);
    // Run by run rather than configuration by configuration: what drifts on a machine then drifts for all alike.
    for run in 0..how.runs {
        for (configuration, runs) in &mut done {
            progress.say(&format!("{configuration}, run {} of {}", run + 1, how.runs));
            let path = run_path(&how.out, configuration, run);
            let measurement = match recorded(&path)? {
                Some(measurement) => measurement,
                None => {
                    let measurement = study.run(configuration, how.seed + u64::from(run), &progress)?;
                    write_whole(&path, serde_json::to_string_pretty(&measurement).expect("plain figures").as_bytes())?;
                    measurement
                }
            };
            runs.push(measurement);
            progress.run_done();
        }
    }
    progress.clear();
    let mut results = Results {
        record,
        about: study.about(),
        metrics: study.metrics(),
        configurations: done,
        published: study.published(),
        charts: study.charts(),
        findings: Vec::new(),
        details: Vec::new(),
    };
    results.findings = study.findings(&results);
    results.details = study.details(&results);
    write_report(&how.out, &results)?;
    Ok(results)
}

fn chosen(study: &dyn Study, only: Option<&str>) -> Result<Vec<String>, StudyError> {
    let all = study.configurations();
    let Some(only) = only else { return Ok(all) };
    let chosen: Vec<String> = all.iter().filter(|name| name.contains(only)).cloned().collect();
    if chosen.is_empty() {
        let why = format!("no configuration's name contains '{only}'; there are: {}", all.join("; "));
        return Err(StudyError::Option { option: "only", why });
    }
    Ok(chosen)
}

impl Results {
    /// The table with findings and notes, as the terminal shows it.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// Everything, as `results.json` has it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.json()).expect("plain figures")
    }
}

fn write_report(out: &Path, results: &Results) -> Result<(), StudyError> {
    write_whole(&out.join("table.txt"), results.table().as_bytes())?;
    write_whole(&out.join("results.json"), results.to_json().as_bytes())?;
    write_whole(&out.join("report.html"), report::render(results).as_bytes())
}

/// Makes the directory this study's, or finds that it is.
fn claim(out: &Path, record: &Record) -> Result<(), StudyError> {
    let path = out.join("study.json");
    fs::create_dir_all(out.join("runs")).map_err(StudyError::file(out.join("runs")))?;
    match fs::read(&path) {
        Ok(bytes) => {
            let there: Record = serde_json::from_slice(&bytes)
                .map_err(|why| StudyError::Record { path: path.clone(), why: why.to_string() })?;
            match record.differs(&there) {
                None => Ok(()),
                Some((what, found, wanted)) => {
                    Err(StudyError::OtherOptions { dir: out.to_owned(), what, found, wanted })
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_whole(&path, serde_json::to_string_pretty(record).expect("plain text").as_bytes())
        }
        Err(error) => Err(StudyError::File { path, source: error }),
    }
}

fn run_path(out: &Path, configuration: &str, run: u32) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = configuration.chars().map(plain).collect();
    out.join("runs").join(format!("{name}-{}.json", run + 1))
}

fn recorded(path: &Path) -> Result<Option<Measurement>, StudyError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|why| StudyError::Record { path: path.to_owned(), why: why.to_string() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StudyError::File { path: path.to_owned(), source: error }),
    }
}

/// Writes a file so that it is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StudyError> {
    let aside = path.with_extension("partial");
    fs::write(&aside, bytes).map_err(StudyError::file(&aside))?;
    fs::rename(&aside, path).map_err(StudyError::file(path))
}

#[cfg(test)]
mod tests;
