//! Latencies: their distribution, and their mean over time.

use base::Duration;
use hdrhistogram::Histogram;

/// Latencies up to an hour, in steps of a microsecond, true to 0.1%.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { histogram: Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("bounds in order") }
    }
}

impl Latencies {
    /// Adds one; what is longer than an hour counts as an hour.
    pub fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record((latency.as_nanos() / 1000) as u64);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean in milliseconds; 0 for none.
    pub fn mean_ms(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.histogram.mean() / 1e3 }
    }

    /// In milliseconds, what `percent` of them are not above; 0 for none.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        if self.count() == 0 { 0.0 } else { self.histogram.value_at_quantile(percent / 100.0) as f64 / 1e3 }
    }
}

/// The mean of something over time, window by window.
#[derive(Clone, Debug)]
pub struct OverTime {
    window: Duration,
    windows: Vec<(f64, u64)>,
}

impl OverTime {
    /// Windows of that length.
    pub fn new(window: Duration) -> OverTime {
        OverTime { window: window.max(Duration::from_millis(1)), windows: Vec::new() }
    }

    /// Adds a value `since` the beginning.
    pub fn record(&mut self, since: Duration, value: f64) {
        let place = (since.as_nanos() / self.window.as_nanos()) as usize;
        if place >= self.windows.len() {
            self.windows.resize(place + 1, (0.0, 0));
        }
        let window = &mut self.windows[place];
        *window = (window.0 + value, window.1 + 1);
    }

    /// Pairs of seconds (the middle of a window) and the mean in it; windows without values are left out.
    pub fn means(&self) -> Vec<(f64, f64)> {
        let middle = |place: usize| (place as f64 + 0.5) * self.window.as_secs_f64();
        let filled = self.windows.iter().enumerate().filter(|(_, (_, count))| *count > 0);
        filled.map(|(place, (sum, count))| (middle(place), sum / *count as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.mean_ms(), latencies.percentile_ms(99.0)), (0.0, 0.0));
        (1..=10_000).for_each(|n| latencies.record(Duration::from_micros(n * 10)));
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.002, "{found} {expected}");
        near(latencies.mean_ms(), 50.005);
        near(latencies.percentile_ms(95.0), 95.0);
        near(latencies.percentile_ms(99.5), 99.5);
        latencies.record(Duration::from_secs(1 << 20));
        assert!(latencies.percentile_ms(100.0) <= 3_700_000.0);
    }

    #[test]
    fn a_series_has_the_mean_of_each_window() {
        let mut series = OverTime::new(Duration::from_secs(2));
        for (at_ms, value) in [(0, 1.0), (1999, 3.0), (4000, 7.0)] {
            series.record(Duration::from_millis(at_ms), value);
        }
        assert_eq!(series.means(), [(1.0, 2.0), (5.0, 7.0)]);
    }
}
