//! Performance counters: plain integers in an engine's state, declared once with what they mean.
//!
//! Owns the kinds of counters, the `counters!` declaration and the JSON of `perf dump` and `perf schema` (v16.2
//! `src/common/perf_counters.cc`). A counter is a field: counting is an addition, and nothing is looked up by name but
//! when somebody asks.

use crate::format::Value;
use base::Duration;

/// A number that only grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter(pub u64);

/// A number that goes up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauge(pub u64);

/// A mean of plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    sum: u64,
    count: u64,
}

/// A mean of time spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    sum_ns: u64,
    count: u64,
}

/// A sum of time spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Time(pub u64);

impl Counter {
    /// One more.
    pub fn inc(&mut self) {
        self.0 += 1;
    }

    /// So many more.
    pub fn add(&mut self, count: u64) {
        self.0 += count;
    }
}

impl Average {
    /// One more number.
    pub fn add(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }
}

impl Latency {
    /// One more span; beyond five centuries the sum stays where it is.
    pub fn add(&mut self, span: Duration) {
        self.sum_ns = self.sum_ns.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        self.count += 1;
    }

    /// How many spans, and their sum in nanoseconds.
    pub fn totals(&self) -> (u64, u64) {
        (self.count, self.sum_ns)
    }
}

/// What a counter says now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// A counter's or a gauge's number.
    Number(u64),
    /// Nanoseconds.
    Time(u64),
    /// A mean of numbers: count and sum.
    Average(u64, u64),
    /// A mean of time spans: count and sum in nanoseconds.
    Latency(u64, u64),
}

/// A kind of counter.
pub trait Kind: Default {
    /// Ceph's `perfcounter_type_d` bits.
    const BITS: u8;
    /// What it says now.
    fn reading(&self) -> Reading;
}

impl Kind for Counter {
    const BITS: u8 = 10;
    fn reading(&self) -> Reading {
        Reading::Number(self.0)
    }
}

impl Kind for Gauge {
    const BITS: u8 = 2;
    fn reading(&self) -> Reading {
        Reading::Number(self.0)
    }
}

impl Kind for Average {
    const BITS: u8 = 6;
    fn reading(&self) -> Reading {
        Reading::Average(self.count, self.sum)
    }
}

impl Kind for Latency {
    const BITS: u8 = 5;
    fn reading(&self) -> Reading {
        Reading::Latency(self.count, self.sum_ns)
    }
}

impl Kind for Time {
    const BITS: u8 = 1;
    fn reading(&self) -> Reading {
        Reading::Time(self.0)
    }
}

/// What a counter counts in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things, or seconds for latencies.
    None,
    /// Bytes.
    Bytes,
}

/// A counter's declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterSpec {
    /// Its name within its set.
    pub name: &'static str,
    /// Ceph's `perfcounter_type_d` bits: 1 time, 2 number, 4 mean, 8 counter.
    pub bits: u8,
    /// A short name for columns; often empty.
    pub nick: &'static str,
    /// How much it matters (`PRIO_*`): 10 critical, 8 interesting, 5 useful, 0 for debugging.
    pub priority: u8,
    /// What it counts in.
    pub unit: Unit,
    /// What it counts.
    pub help: &'static str,
}

/// A set of counters.
pub trait CounterSet {
    /// Shows every counter in the order of declaration.
    fn visit(&self, see: &mut dyn FnMut(&CounterSpec, Reading));

    /// Sets counters and means back to 0; gauges stay what they are.
    fn reset(&mut self);
}

/// Declares a struct of counters: `name: Kind ["nick", priority, Unit] "what it counts";` a line.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $set:ident {
        $($name:ident: $kind:ident [$nick:literal, $priority:literal, $unit:ident] $help:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        $vis struct $set {
            $(#[doc = $help] pub $name: $crate::counters::$kind,)*
        }

        impl $crate::counters::CounterSet for $set {
            fn visit(
                &self,
                see: &mut dyn FnMut(&$crate::counters::CounterSpec, $crate::counters::Reading),
            ) {
                use $crate::counters::Kind as _;
                $(see(
                    &$crate::counters::CounterSpec {
                        name: stringify!($name),
                        bits: <$crate::counters::$kind as $crate::counters::Kind>::BITS,
                        nick: $nick,
                        priority: $priority,
                        unit: $crate::counters::Unit::$unit,
                        help: $help,
                    },
                    self.$name.reading(),
                );)*
            }

            fn reset(&mut self) {
                $(if <$crate::counters::$kind as $crate::counters::Kind>::BITS != 2 {
                    self.$name = Default::default();
                })*
            }
        }
    };
}

fn seconds(nanos: u64) -> Value {
    Value::Digits(format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000))
}

/// A reading as `perf dump` shows it.
pub fn reading_value(reading: Reading) -> Value {
    match reading {
        Reading::Number(number) => Value::Uint(number),
        Reading::Time(nanos) => seconds(nanos),
        Reading::Average(count, sum) => Value::members([("avgcount", count), ("sum", sum)]),
        Reading::Latency(count, nanos) => Value::members([
            ("avgcount", Value::Uint(count)),
            ("sum", seconds(nanos)),
            ("avgtime", seconds(nanos.checked_div(count).unwrap_or(0))),
        ]),
    }
}

/// A declaration as `perf schema` shows it.
pub fn schema_value(spec: &CounterSpec) -> Value {
    let metric = if spec.bits & 8 != 0 { "counter" } else { "gauge" };
    let value = match (spec.bits & 1 != 0, spec.bits & 4 != 0) {
        (true, true) => "real-integer-pair",
        (true, false) => "real",
        (false, true) => "integer-integer-pair",
        (false, false) => "integer",
    };
    crate::object! {
        "type" => spec.bits,
        "metric_type" => metric,
        "value_type" => value,
        "description" => spec.help,
        "nick" => spec.nick,
        "priority" => spec.priority,
        "units" => if spec.unit == Unit::Bytes { "bytes" } else { "none" },
    }
}

/// A whole set, one member a counter, of one counter only where `one` names it.
pub fn set_value(set: &dyn CounterSet, one: Option<&str>, show: impl Fn(&CounterSpec, Reading) -> Value) -> Value {
    let mut members = Value::object();
    set.visit(&mut |spec, reading| {
        if one.is_none_or(|one| one == spec.name) {
            members.push(spec.name, show(spec, reading));
        }
    });
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// A set to try.
        struct Tried {
            op: Counter ["ops", 10, None] "Requests";
            open: Gauge ["", 5, None] "Open sessions";
            wait: Latency ["l", 9, None] "Time spent";
            keys: Average ["", 0, Bytes] "Keys a batch";
            busy: Time ["", 0, None] "Time at work";
        }
    }

    #[test]
    fn counters_look_like_cephs() {
        let mut tried = Tried::default();
        tried.op.add(2);
        tried.op.inc();
        tried.open.0 = 4;
        tried.wait.add(Duration::from_millis(1500));
        tried.wait.add(Duration::from_millis(500));
        tried.keys.add(7);
        let dump = set_value(&tried, None, |_, reading| reading_value(reading));
        let text = concat!(
            r#"{"op":3,"open":4,"wait":{"avgcount":2,"sum":2.000000000,"avgtime":1.000000000},"#,
            r#""keys":{"avgcount":1,"sum":7},"busy":0.000000000}"#,
        );
        assert_eq!(dump.to_json(), text);
        let schema = set_value(&tried, Some("wait"), |spec, _| schema_value(spec)).to_json();
        let text = concat!(
            r#"{"wait":{"type":5,"metric_type":"gauge","value_type":"real-integer-pair","#,
            r#""description":"Time spent","nick":"l","priority":9,"units":"none"}}"#,
        );
        assert_eq!(schema, text);
        tried.reset();
        assert_eq!((tried.op.0, tried.open.0, tried.wait.totals()), (0, 4, (0, 0)));
    }
}
