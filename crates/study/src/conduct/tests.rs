//! The house with a study of two configurations that counts its runs.

use super::*;

struct Counting {
    ran: Vec<(String, u64)>,
    fail_at: usize,
    depth: u32,
}

impl Counting {
    fn new() -> Counting {
        Counting { ran: Vec::new(), fail_at: usize::MAX, depth: 1 }
    }
}

impl Study for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }
    fn about(&self) -> Vec<String> {
        vec!["Counts <its> runs.".to_owned()]
    }
    fn options(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("depth".to_owned(), self.depth.to_string())])
    }
    fn configurations(&self) -> Vec<String> {
        vec!["one/a".to_owned(), "two b".to_owned()]
    }
    fn metrics(&self) -> Vec<Metric> {
        let metric = |key, name| Metric { key, name, decimals: 1 };
        vec![metric("rate_iops", "IOPS"), metric("never_ms", "never measured")]
    }
    fn charts(&self) -> Vec<ChartOf> {
        vec![
            ChartOf::Metrics { title: "Rate", unit: "IOPS", keys: vec!["rate_iops"] },
            ChartOf::Series { title: "Over time", unit: "ms", key: "latency" },
        ]
    }
    fn run(&mut self, configuration: &str, seed: u64, _progress: &Progress) -> Result<Measurement, StudyError> {
        if self.ran.len() == self.fail_at {
            return Err(StudyError::Machine("it is Sunday".to_owned()));
        }
        self.ran.push((configuration.to_owned(), seed));
        let mut measurement = Measurement::default();
        measurement.put("rate_iops", 100.0 * configuration.len() as f64 + seed as f64);
        measurement.series.insert("latency".to_owned(), vec![(0.0, 1.0), (1.0, seed as f64)]);
        measurement.notes.push("a note".to_owned());
        Ok(measurement)
    }
    fn published(&self) -> Vec<(String, &'static str, f64)> {
        vec![("two b".to_owned(), "rate_iops", 1000.0)]
    }
    fn findings(&self, results: &Results) -> Vec<String> {
        vec![format!("{} runs", results.configurations.iter().map(|(_, runs)| runs.len()).sum::<usize>())]
    }
}

fn how(out: &Path) -> Conduct {
    Conduct { on: Target::Sim, out: out.to_owned(), runs: 2, seed: 7, only: None, version: "0".to_owned() }
}

#[test]
fn an_interrupted_study_goes_on_where_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = Counting { fail_at: 3, ..Counting::new() };
    let error = conduct(&mut first, &how(dir.path())).expect_err("the fourth run fails");
    assert_eq!(error.to_string(), "not possible on this machine: it is Sunday");
    assert!(!dir.path().join("report.html").exists());
    let mut second = Counting::new();
    let results = conduct(&mut second, &how(dir.path())).expect("it ends");
    let of = |names: &[(&str, u64)]| names.iter().map(|(n, seed)| ((*n).to_owned(), *seed)).collect::<Vec<_>>();
    assert_eq!(first.ran, of(&[("one/a", 7), ("two b", 7), ("one/a", 8)]));
    assert_eq!(second.ran, of(&[("two b", 8)]));
    let spread = results.spread("two b", "rate_iops").expect("measured");
    assert_eq!((spread.mean, spread.count), (507.5, 2));
    assert_eq!(results.findings, ["4 runs"]);
}

#[test]
fn the_same_figures_give_the_same_files() {
    let files = ["table.txt", "results.json", "report.html"];
    let made = || {
        let dir = tempfile::tempdir().expect("a directory");
        conduct(&mut Counting::new(), &how(dir.path())).expect("it ends");
        files.map(|file| fs::read_to_string(dir.path().join(file)).expect(file))
    };
    let [table, json, html] = made();
    assert_eq!([table.clone(), json.clone(), html.clone()], made());
    assert!(table.contains("507.5 ± 0.7 [1,000.0, -49%]") && !table.contains("never"), "{table}");
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(parsed["configurations"][1]["figures"]["rate_iops"]["mean"], 507.5);
    assert_eq!(parsed["record"]["seed"], 7);
    assert!(html.contains("Counts &lt;its&gt; runs.") && html.contains("<polyline") && html.contains("a note"));
    for outside in ["<script", "src=", "href=", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn configurations_can_be_chosen_by_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut study = Counting::new();
    let how = Conduct { only: Some("two".to_owned()), ..how(dir.path()) };
    conduct(&mut study, &how).expect("it ends");
    assert_eq!(study.ran, [("two b".to_owned(), 7), ("two b".to_owned(), 8)]);
    let how = Conduct { only: Some("three".to_owned()), ..how };
    let line = conduct(&mut study, &how).expect_err("there is none").to_string();
    assert_eq!(line, "--only: no configuration's name contains 'three'; there are: one/a; two b");
}

#[test]
fn a_directory_is_for_one_set_of_options() {
    let dir = tempfile::tempdir().expect("a directory");
    conduct(&mut Counting::new(), &how(dir.path())).expect("it ends");
    let error = conduct(&mut Counting { depth: 2, ..Counting::new() }, &how(dir.path())).expect_err("refused");
    let line = error.to_string();
    assert!(line.ends_with("(option depth: 1 there, 2 here): choose another --out"), "{line}");
    fs::write(dir.path().join("runs/one-a-1.json"), "{").expect("written");
    let line = conduct(&mut Counting::new(), &how(dir.path())).expect_err("broken").to_string();
    assert!(line.contains("one-a-1.json: not a run's record"), "{line}");
}
