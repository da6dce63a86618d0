//! Histograms of two quantities: how many operations took how long and were how large.
//!
//! Owns the buckets and the shapes of `perf histogram dump` and `perf histogram schema` (v16.2
//! `src/common/perf_histogram.cc`, `perf_counters.cc`). An axis is logarithmic: bucket 0 holds what is below its least
//! value, bucket 1 less than one quantum, each further one twice as much, the last all the rest. Counting is two
//! logarithms and an addition.

use crate::format::Value;
use crate::object;

/// Buckets on either axis.
pub const BUCKETS: usize = 32;

/// What one axis is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Its name with its unit, as Ceph has it.
    pub name: &'static str,
    /// The width of the first bucket.
    pub quantum: u64,
}

impl Axis {
    /// The bucket of a value.
    pub fn bucket(&self, value: u64) -> usize {
        let quanta = value / self.quantum.max(1);
        let bits = (u64::BITS - quanta.leading_zeros()) as usize;
        (bits + 1).min(BUCKETS - 1)
    }

    fn value(&self) -> Value {
        let (mut ranges, mut low, mut width) = (vec![object! { "max" => -1 }], 0_u64, self.quantum);
        for _ in 1..BUCKETS - 1 {
            ranges.push(object! { "min" => low, "max" => low + width - 1 });
            (low, width) = (low + width, if low == 0 { width } else { width * 2 });
        }
        ranges.push(object! { "min" => low });
        object! {
            "name" => self.name,
            "min" => 0,
            "quant_size" => self.quantum,
            "buckets" => BUCKETS,
            "scale_type" => "log2",
            "ranges" => Value::Array(ranges),
        }
    }
}

/// How long operations took, in nanoseconds: the quantum is a tenth of a millisecond.
pub const LATENCY: Axis = Axis { name: "Latency (usec)", quantum: 100_000 };

/// How many bytes they carried.
pub const REQUEST_SIZE: Axis = Axis { name: "Request size (bytes)", quantum: 512 };

/// Operations by latency and size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: Box<[[u64; BUCKETS]; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([[0; BUCKETS]; BUCKETS]) }
    }
}

impl Histogram {
    /// Counts an operation: its nanoseconds and its bytes.
    pub fn add(&mut self, nanos: u64, bytes: u64) {
        self.counts[LATENCY.bucket(nanos)][REQUEST_SIZE.bucket(bytes)] += 1;
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        *self = Histogram::default();
    }

    /// How many operations were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// As `perf histogram dump` shows it.
    pub fn value(&self) -> Value {
        let rows = self.counts.iter().map(|row| Value::array(row.iter().copied()));
        object! { "axes" => vec![LATENCY.value(), REQUEST_SIZE.value()], "values" => Value::Array(rows.collect()) }
    }
}

/// A histogram's declaration, as `perf histogram schema` shows it.
pub fn schema_value(help: &str) -> Value {
    object! {
        // A counter (8) of numbers (2) that is a histogram (16).
        "type" => 26,
        "metric_type" => "counter",
        "value_type" => "integer-2d-histogram",
        "description" => help,
        "nick" => "",
        "priority" => 5,
        "units" => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges and buckets as Ceph 16.2.15 prints and fills them.
    #[test]
    fn buckets_are_cephs() {
        let text = LATENCY.value().to_json();
        for range in [
            r#""ranges":[{"max":-1},{"min":0,"max":99999},{"min":100000,"max":199999},{"min":200000,"max":399999}"#,
            r#"{"min":26843545600000,"max":53687091199999},{"min":53687091200000}]"#,
        ] {
            assert!(text.contains(range), "{text}");
        }
        assert!(REQUEST_SIZE.value().to_json().ends_with(r#"{"min":274877906944}]}"#));
        for (value, bucket) in [(0, 1), (99_999, 1), (100_000, 2), (200_000, 3), (399_999, 3), (400_000, 4)] {
            assert_eq!(LATENCY.bucket(value), bucket, "{value}");
        }
        assert_eq!((LATENCY.bucket(53_687_091_199_999), LATENCY.bucket(53_687_091_200_000)), (30, 31));
        assert_eq!(LATENCY.bucket(u64::MAX), 31);
    }

    #[test]
    fn operations_are_counted_where_they_belong() {
        let mut histogram = Histogram::default();
        histogram.add(150_000, 4096);
        histogram.add(150_000, 4096);
        histogram.add(0, 0);
        assert_eq!((histogram.total(), histogram.counts[2][5], histogram.counts[1][1]), (3, 2, 1));
        histogram.reset();
        assert_eq!(histogram, Histogram::default());
    }
}
