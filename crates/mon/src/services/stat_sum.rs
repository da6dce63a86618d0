//! Sums over placement groups and rates between two of them, with the texts and members that several commands show.
//!
//! Follows Ceph v16.2 `src/mon/PGMap.cc` (`recovery_summary`, `recovery_rate_summary`, `client_io_rate_summary`).

use crate::format::{Value, quantity};
use crate::object;
use base::Duration;
use maps::stats::{ObjectStatSum, PgStat, PoolStat, StoreStatfs};

/// Sums over placement groups, in the shape of a pool's statistics.
#[derive(Clone, Debug, Default)]
pub struct StatSum {
    /// The sum.
    pub stat: PoolStat,
    /// How many placement groups it is of.
    pub num_pg: u64,
}

impl StatSum {
    /// The sum of some placement groups.
    pub fn of_pgs<'a>(pgs: impl Iterator<Item = &'a PgStat>) -> StatSum {
        let mut sum = StatSum::default();
        for pg in pgs {
            sum.stat.add(pg);
            sum.num_pg += 1;
        }
        sum
    }

    /// Adds the room that an OSD counts for the pool.
    pub fn add_store(&mut self, statfs: &StoreStatfs) {
        self.stat.store += statfs;
        self.stat.num_store_stats += 1;
    }

    /// The counts over objects.
    pub fn counts(&self) -> &ObjectStatSum {
        &self.stat.stats.sum
    }

    /// Objects; never negative.
    pub fn objects(&self) -> u64 {
        u64::try_from(self.counts().num_objects).unwrap_or(0)
    }

    /// Bytes of data; never negative.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.counts().num_bytes).unwrap_or(0)
    }

    fn troubles(&self) -> [(&'static str, i64, i64); 3] {
        let c = self.counts();
        [
            ("degraded", c.num_objects_degraded, c.num_object_copies),
            ("misplaced", c.num_objects_misplaced, c.num_object_copies),
            ("unfound", c.num_objects_unfound, c.num_objects),
        ]
    }

    /// What is degraded, misplaced and unfound, as members.
    pub fn recovery_value(&self) -> Value {
        let mut value = Value::object();
        for (what, count, total) in self.troubles() {
            if count > 0 && total > 0 {
                value.push(&format!("{what}_objects"), count);
                value.push(&format!("{what}_total"), total);
                value.push(&format!("{what}_ratio"), count as f64 / total as f64);
            }
        }
        value
    }

    /// The same as lines.
    pub fn recovery_lines(&self) -> Vec<String> {
        let lines = self.troubles().into_iter().filter(|(_, count, total)| *count > 0 && *total > 0);
        lines
            .map(|(what, count, total)| {
                let percent = count as f64 * 100.0 / total as f64;
                format!("{count}/{total} objects {what} ({percent:.3}%)")
            })
            .collect()
    }
}

/// What happened between two sums.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    delta: ObjectStatSum,
    span: Duration,
}

impl Rates {
    /// The rates of `delta` over `span`. A sum that shrank (its OSD restarted) counts as none.
    pub fn new(delta: ObjectStatSum, span: Duration) -> Rates {
        Rates { delta, span }
    }

    fn per_second(&self, count: i64) -> u64 {
        let secs = self.span.as_secs_f64();
        if secs <= 0.0 || count <= 0 { 0 } else { (count as f64 / secs) as u64 }
    }

    /// Bytes that clients read and write a second, and how often; none where they do neither.
    pub fn client(&self) -> Option<[u64; 4]> {
        let d = &self.delta;
        let bytes = |kb: i64| self.per_second(kb.saturating_mul(1024));
        let io = d.num_rd > 0 || d.num_wr > 0;
        io.then(|| [bytes(d.num_rd_kb), bytes(d.num_wr_kb), self.per_second(d.num_rd), self.per_second(d.num_wr)])
    }

    /// Clients' reads and writes as members; none where there are none.
    pub fn client_value(&self) -> Value {
        let mut value = Value::object();
        if let Some([rd, wr, rd_ops, wr_ops]) = self.client() {
            if self.delta.num_rd > 0 {
                value.push("read_bytes_sec", rd);
            }
            if self.delta.num_wr > 0 {
                value.push("write_bytes_sec", wr);
            }
            value.push("read_op_per_sec", rd_ops);
            value.push("write_op_per_sec", wr_ops);
        }
        value
    }

    /// Clients' reads and writes as text.
    pub fn client_text(&self) -> Option<String> {
        let [rd, wr, rd_ops, wr_ops] = self.client()?;
        let mut text = String::new();
        if self.delta.num_rd > 0 {
            text += &format!("{}/s rd, ", quantity::bytes(rd));
        }
        if self.delta.num_wr > 0 {
            text += &format!("{}/s wr, ", quantity::bytes(wr));
        }
        Some(text + &format!("{} op/s rd, {} op/s wr", quantity::count(rd_ops), quantity::count(wr_ops)))
    }

    fn recovers(&self) -> bool {
        let d = &self.delta;
        d.num_objects_recovered > 0 || d.num_bytes_recovered > 0 || d.num_keys_recovered > 0
    }

    /// Recovery as members; none where there is none.
    pub fn recovery_value(&self) -> Value {
        let d = &self.delta;
        if !self.recovers() {
            return Value::object();
        }
        object! {
            "recovering_objects_per_sec" => self.per_second(d.num_objects_recovered),
            "recovering_bytes_per_sec" => self.per_second(d.num_bytes_recovered),
            "recovering_keys_per_sec" => self.per_second(d.num_keys_recovered),
            "num_objects_recovered" => d.num_objects_recovered,
            "num_bytes_recovered" => d.num_bytes_recovered,
            "num_keys_recovered" => d.num_keys_recovered,
        }
    }

    /// Recovery as text.
    pub fn recovery_text(&self) -> Option<String> {
        let d = &self.delta;
        if !self.recovers() {
            return None;
        }
        let mut text = format!("{}/s", quantity::bytes(self.per_second(d.num_bytes_recovered)));
        let keys = self.per_second(d.num_keys_recovered);
        if keys > 0 {
            text += &format!(", {} keys/s", quantity::count(keys));
        }
        let objects = self.per_second(d.num_objects_recovered);
        if objects > 0 {
            text += &format!(", {} objects/s", quantity::count(objects));
        }
        Some(text)
    }
}
