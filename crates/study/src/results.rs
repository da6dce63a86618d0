//! All runs of a study, and what they come to.

use crate::chart::{Bars, Lines};
use crate::measurement::{Measurement, Metric};
use crate::record::Record;
use crate::statistics::Spread;
use serde_json::{Value, json};

/// A chart of a study's report.
#[derive(Clone, Debug)]
pub enum ChartOf {
    /// One bar for each configuration and metric.
    Metrics {
        /// Its heading.
        title: &'static str,
        /// What the length of a bar means.
        unit: &'static str,
        /// Keys of metrics.
        keys: Vec<&'static str>,
    },
    /// One line for each configuration: its first run.
    Series {
        /// Its heading.
        title: &'static str,
        /// What the height of a line means.
        unit: &'static str,
        /// The series' key.
        key: &'static str,
    },
}

/// What the table has a sum of, one by one.
#[derive(Clone, Debug)]
pub struct Detail {
    /// What it is about.
    pub title: String,
    /// What is told of each.
    pub columns: Vec<Metric>,
    /// Each by its name, with a value for every column that has one; what matters most first.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

/// Runs by configuration, in the order of the configurations.
#[derive(Clone, Debug)]
pub struct Results {
    /// Where, with what and how.
    pub record: Record,
    /// What the study is about, in paragraphs.
    pub about: Vec<String>,
    /// What was measured.
    pub metrics: Vec<Metric>,
    /// Each configuration with its runs.
    pub configurations: Vec<(String, Vec<Measurement>)>,
    /// Figures that others published: configuration, key, value.
    pub published: Vec<(String, &'static str, f64)>,
    /// The charts.
    pub charts: Vec<ChartOf>,
    /// What the figures say, in sentences.
    pub findings: Vec<String>,
    /// Figures one by one.
    pub details: Vec<Detail>,
}

impl Results {
    /// The runs of a configuration.
    pub fn runs(&self, configuration: &str) -> &[Measurement] {
        self.configurations.iter().find(|(name, _)| name == configuration).map_or(&[], |(_, runs)| runs)
    }

    /// Mean and spread of a metric over the runs of a configuration, where any measured it.
    pub fn spread(&self, configuration: &str, key: &str) -> Option<Spread> {
        let values: Vec<f64> = self.runs(configuration).iter().filter_map(|run| run.value(key)).collect();
        Spread::of(&values)
    }

    /// What was published of a configuration.
    pub fn published_value(&self, configuration: &str, key: &str) -> Option<f64> {
        self.published.iter().find(|(of, what, _)| of == configuration && *what == key).map(|(.., value)| *value)
    }

    /// Metrics that any run measured.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Metric> {
        let any =
            |key: &str| self.configurations.iter().any(|(_, runs)| runs.iter().any(|run| run.value(key).is_some()));
        self.metrics.iter().filter(move |metric| any(metric.key))
    }

    /// Notes of all runs, each once, in order.
    pub(crate) fn notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = Vec::new();
        for note in self.configurations.iter().flat_map(|(_, runs)| runs).flat_map(|run| &run.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }

    /// Everything, for programs.
    pub(crate) fn json(&self) -> Value {
        let configurations: Vec<Value> = self
            .configurations
            .iter()
            .map(|(name, runs)| {
                let figures: serde_json::Map<String, Value> = self
                    .measured()
                    .filter_map(|metric| Some((metric, self.spread(name, metric.key)?)))
                    .map(|(metric, spread)| {
                        let published = self.published_value(name, metric.key);
                        let figure =
                            json!({ "mean": spread.mean, "deviation": spread.deviation, "published": published });
                        (metric.key.to_owned(), figure)
                    })
                    .collect();
                json!({ "configuration": name, "figures": figures, "runs": runs })
            })
            .collect();
        json!({
            "record": self.record,
            "about": self.about,
            "configurations": configurations,
            "findings": self.findings,
            "notes": self.notes(),
            "details": self.details.iter().map(Detail::json).collect::<Vec<Value>>(),
        })
    }

    /// The charts, as far as there is anything to show.
    pub(crate) fn drawn(&self) -> Vec<String> {
        self.charts.iter().filter_map(|chart| self.draw(chart)).collect()
    }

    fn draw(&self, chart: &ChartOf) -> Option<String> {
        match chart {
            ChartOf::Metrics { title, unit, keys } => {
                let named = |key: &str| self.metrics.iter().find(|m| m.key == key).map_or(key, |m| m.name).to_owned();
                let mut bars = Bars::new(title, unit, keys.iter().map(|key| named(key)).collect());
                for (name, _) in &self.configurations {
                    let values = keys.iter().map(|key| self.spread(name, key));
                    let published = keys.iter().map(|key| self.published_value(name, key)).collect();
                    bars.add(name, values.collect(), published);
                }
                bars.draw()
            }
            ChartOf::Series { title, unit, key } => {
                let mut lines = Lines::new(title, unit);
                for (name, runs) in &self.configurations {
                    if let Some(points) = runs.first().and_then(|run| run.series.get(*key)) {
                        lines.add(name, points.clone());
                    }
                }
                lines.draw()
            }
        }
    }
}

impl Detail {
    fn json(&self) -> Value {
        let row = |(name, values): &(String, Vec<Option<f64>>)| {
            let told = self.columns.iter().zip(values).filter_map(|(column, value)| Some((column, (*value)?)));
            let mut row: serde_json::Map<String, Value> =
                told.map(|(column, value)| (column.key.to_owned(), json!(value))).collect();
            row.insert("name".to_owned(), json!(name));
            Value::Object(row)
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<Value>>() })
    }
}

/// Which published figures the means agree with, within so much of them, and which not: a sentence each.
pub(crate) fn agreement(results: &Results, within: f64) -> Vec<String> {
    let compared: Vec<_> = results
        .published
        .iter()
        .filter_map(|(name, key, value)| Some((name, key, *value, results.spread(name, key)?.off(*value))))
        .collect();
    let agree = compared.iter().filter(|(.., off)| off.abs() <= within).count();
    let percent = 100.0 * within;
    let mut sentences = Vec::new();
    if !compared.is_empty() {
        sentences.push(format!("{agree} of {} published figures are met within {percent:.0}%", compared.len()));
    }
    for (name, key, value, off) in compared.iter().filter(|(.., off)| off.abs() > within) {
        let heading = results.metrics.iter().find(|m| m.key == **key).map_or(**key, |metric| metric.name);
        sentences.push(format!("{name}: {heading} is {:+.0}% from the published {value}", 100.0 * off));
    }
    sentences
}
