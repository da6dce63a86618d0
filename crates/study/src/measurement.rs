//! What a run measured.

use crate::latency::Latencies;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure that a study measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name in JSON, with its unit at the end.
    pub key: &'static str,
    /// Its heading.
    pub name: &'static str,
    /// Decimals worth showing.
    pub decimals: usize,
}

/// What one run of one configuration measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Figures by the keys of their metrics.
    pub values: BTreeMap<String, f64>,
    /// What changed in the course of the run: pairs of seconds and value.
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Figures of each who took part, where a study is about that: one for each, in an order that the study knows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of_each: BTreeMap<String, Vec<f64>>,
    /// What somebody who reads the figures should know.
    pub notes: Vec<String>,
}

impl Measurement {
    /// Adds a figure.
    pub fn put(&mut self, key: impl Into<String>, value: f64) {
        self.values.insert(key.into(), value);
    }

    /// Adds mean and percentiles of latencies in milliseconds, under keys that begin with `what`.
    pub fn put_latencies(&mut self, what: &str, latencies: &Latencies) {
        self.put(format!("{what}_mean_ms"), latencies.mean_ms());
        for (name, percent) in [("p95", 95.0), ("p99", 99.0), ("p99_5", 99.5)] {
            self.put(format!("{what}_{name}_ms"), latencies.percentile_ms(percent));
        }
    }

    /// A figure, where it was measured.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied()
    }
}
