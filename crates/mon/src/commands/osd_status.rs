//! `osd status`: what each OSD holds and does.
//!
//! Follows Ceph v16.2 `src/pybind/mgr/status/module.py` (`handle_osd_status`) for columns and names, and
//! `src/pybind/mgr/mgr_util.py` (`format_units`) for numbers that keep to a width.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::{Align, Table, Value};
use crate::mon::Mon;
use crate::object;
use base::{Errno, OsdId};
use std::collections::BTreeSet;

pub(super) const COMMANDS: &[CommandSpec] = &[spec(
    "osd status name=bucket,type=CephString,req=false",
    "show what OSDs hold and do, of one bucket or of all",
    "osd",
    "r",
    status,
)];

/// One OSD's line.
struct Line {
    osd: OsdId,
    host: String,
    used_bytes: u64,
    available_bytes: u64,
    /// Writes a second, their bytes, reads a second, their bytes.
    rates: [u64; 4],
    state: Vec<&'static str>,
}

fn status(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let of_bucket: Option<BTreeSet<OsdId>> = match call.text_opt("bucket")? {
        None => None,
        Some(name) => match map.crush.item_id(&name).filter(|id| *id < 0) {
            Some(id) => Some(crate::crush_view::osds_below(&map.crush, id)),
            None => return refuse(Errno::ENOENT, format!("Bucket '{name}' not found")),
        },
    };
    let shown = map.osd_ids().filter(|osd| of_bucket.as_ref().is_none_or(|of_bucket| of_bucket.contains(osd)));
    let lines: Vec<Line> = shown.map(|osd| line(mon, osd)).collect();
    let value = || object! { "OSDs" => Value::array(lines.iter().map(line_value)) };
    Ok(Reply::either(call, value, || table(&lines)))
}

fn line(mon: &Mon, osd: OsdId) -> Line {
    let stat = mon.stats.osd(osd);
    let bytes = |kb: Option<i64>| kb.and_then(|kb| u64::try_from(kb).ok()).unwrap_or(0).saturating_mul(1024);
    let report = mon.daemon_reports.of(osd);
    let rate = |counter: &str| report.and_then(|r| r.counters.get(counter)).map_or(0, |(_, said)| said.per_second);
    let host = mon.osds.metadata(osd).and_then(|known| known.get("hostname")).cloned().unwrap_or_default();
    Line {
        osd,
        host,
        used_bytes: bytes(stat.map(|stat| stat.kb_used)),
        available_bytes: bytes(stat.map(|stat| stat.kb_avail)),
        rates: [
            rate("osd.op_w").saturating_add(rate("osd.op_rw")),
            rate("osd.op_in_bytes"),
            rate("osd.op_r"),
            rate("osd.op_out_bytes"),
        ],
        state: mon.osds.map().state(osd).names().collect(),
    }
}

fn line_value(line: &Line) -> Value {
    object! {
        "id" => line.osd.0,
        "host name" => line.host.as_str(),
        "kb used" => line.used_bytes,
        "kb available" => line.available_bytes,
        "write ops rate" => line.rates[0],
        "write byte rate" => line.rates[1],
        "read ops rate" => line.rates[2],
        "read byte rate" => line.rates[3],
        "state" => Value::array(line.state.iter().copied()),
    }
}

fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.column("ID", Align::Right);
    table.column("HOST", Align::Left);
    ["USED", "AVAIL", "WR OPS", "WR DATA", "RD OPS", "RD DATA"].iter().for_each(|h| table.column(h, Align::Right));
    table.column("STATE", Align::Left);
    // Ceph's columns have their distance on the right, the last one too.
    table.column("", Align::Left);
    for line in lines {
        let [writes, written, reads, read] = line.rates;
        table.row([
            line.osd.to_string(),
            line.host.clone(),
            in_four(line.used_bytes, 1024),
            in_four(line.available_bytes, 1024),
            in_four(writes, 1000),
            in_four(written, 1024),
            in_four(reads, 1000),
            in_four(read, 1024),
            line.state.join(","),
        ]);
    }
    table.render()
}

/// A number in four characters and a prefix of its unit: `  17 `, `1.46k`, `4095M`.
fn in_four(number: u64, factor: u64) -> String {
    in_digits(number, factor, 4)
}

/// A number in so many characters and a prefix of its unit.
pub(super) fn in_digits(number: u64, factor: u64, digits: usize) -> String {
    let mut prefixes = " kMGTPE".chars();
    let (mut prefix, mut divisor) = (prefixes.next().unwrap_or(' '), 1u64);
    while (number / divisor).to_string().len() > digits {
        let Some(next) = prefixes.next() else { break };
        (prefix, divisor) = (next, divisor * factor);
    }
    if divisor == 1 {
        return format!("{number:>digits$}{prefix}");
    }
    let text: String = format!("{:.6}", number as f64 / divisor as f64).chars().take(digits).collect();
    match text.strip_suffix('.') {
        Some(whole) => format!(" {whole}{prefix}"),
        None => format!("{text}{prefix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As real Ceph printed them, and the edges between.
    #[test]
    fn numbers_keep_to_their_width() {
        let shown = [0, 9_999, 14_336, 4_293_918_720, 16 << 30, 150 << 10].map(|n| in_four(n, 1024));
        assert_eq!(shown, ["   0 ", "9999 ", "14.0k", "4095M", "16.0G", " 150k"]);
        assert_eq!(in_four(12_345, 1000), "12.3k");
        assert_eq!(in_four(u64::MAX, 1024), "16.0E");
    }
}
