//! What `top` shows to be read: a line for each tenant, and what is to be said beside them.

use super::Row;
use std::fmt;

/// See the module.
pub(super) struct Table {
    head: String,
    rows: Vec<String>,
    notes: Vec<String>,
}

impl Table {
    /// What each gets, and OSDs that are not counted.
    pub(super) fn new(rows: &[Row], uncounted: &[i32]) -> Table {
        let all: f64 = rows.iter().map(|row| row.ops).sum();
        let width = rows.iter().map(|row| row.tenant.chars().count()).max().unwrap_or(0).max(10);
        let head = format!(
            "{:width$} {:>9} {:>6} {:>9} {:>9} {:>11} {:>9} {:>9} {:>6}",
            "TENANT", "OPS/S", "SHARE", "MB/S", "LATENCY", "RESERVATION", "LIMIT", "MB LIMIT", "WEIGHT",
        );
        let names: Vec<String> = uncounted.iter().map(|osd| format!("osd.{osd}")).collect();
        let notes = (!names.is_empty()).then(|| format!("not counted, without an answer: {}", names.join(", ")));
        Table { head, rows: rows.iter().map(|row| line(row, width, all)).collect(), notes: notes.into_iter().collect() }
    }

    /// The same in so many columns and lines, where these are known: the least busy are only counted.
    pub(super) fn within(mut self, (columns, lines): (Option<usize>, Option<usize>)) -> Table {
        // The head has one, and so has the cursor.
        let room = lines.map_or(usize::MAX, |lines| lines.saturating_sub(2 + self.notes.len()).max(1));
        if self.rows.len() > room {
            let hidden = self.rows.split_off(room - 1).len();
            self.notes.insert(0, format!("and {hidden} more"));
        }
        let columns = columns.unwrap_or(usize::MAX);
        let lines = core::iter::once(&mut self.head).chain(&mut self.rows).chain(&mut self.notes);
        for line in lines {
            if let Some((end, _)) = line.char_indices().nth(columns) {
                line.truncate(end);
            }
        }
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = core::iter::once(&self.head).chain(&self.rows).chain(&self.notes);
        lines.try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn line(row: &Row, width: usize, all: f64) -> String {
    let share = if all > 0.0 { row.ops / all * 100.0 } else { 0.0 };
    let figure = |name: &str| row.promise[name].as_u64().filter(|value| *value > 0);
    let shown = |name: &str| figure(name).map_or("-".to_owned(), |value| value.to_string());
    let limit_mb = figure("limit_bytes").map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
    format!(
        "{:width$} {:>9.1} {:>5.1}% {:>9.2} {:>6.2} ms {:>11} {:>9} {:>9} {:>6}{}",
        row.tenant,
        row.ops,
        share,
        row.bytes / 1e6,
        row.latency_ms,
        shown("reservation"),
        shown("limit"),
        limit_mb,
        shown("weight"),
        row.image.as_ref().map_or(String::new(), |name| format!("  {name}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn busy(tenant: &str, ops: f64) -> Row {
        Row { tenant: tenant.to_owned(), image: None, promise: json!({}), ops, bytes: 0.0, latency_ms: 0.0 }
    }

    #[test]
    fn a_small_terminal_shows_the_busiest_and_how_many_more_there_are() {
        let rows: Vec<Row> = (0..9).map(|n| busy(&format!("pool:número-{n}"), f64::from(100 - n))).collect();
        let table = || Table::new(&rows, &[3, 7]);
        assert_eq!(table().to_string(), table().within((None, None)).to_string());
        assert_eq!(table().to_string().lines().count(), 11);
        let small = table().within((Some(30), Some(7))).to_string();
        let lines: Vec<&str> = small.lines().collect();
        assert_eq!(lines.len(), 6, "{small}");
        assert!(lines[1].starts_with("pool:número-0") && lines[3].starts_with("pool:número-2"), "{small}");
        assert_eq!(lines[4..], ["and 6 more", "not counted, without an answer"]);
        assert!(lines.iter().all(|line| line.chars().count() <= 30), "{small}");
        // There is no terminal without lines, but who knows.
        assert_eq!(table().within((Some(80), Some(1))).to_string().lines().count(), 3);
    }
}
