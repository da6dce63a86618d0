//! The commands of Ceph's manager modules `iostat`, `crash`, `devicehealth` and `balancer`.
//!
//! There are no crash reports, no devices known by name and no balancer here: what asks for them finds none, in the words
//! and shapes of Ceph 16.2.15's modules (v16.2 `src/pybind/mgr`).

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::{Align, Table, Value, quantity};
use crate::mon::Mon;
use crate::object;
use base::Errno;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "iostat name=width,type=CephInt,req=false name=print_header,type=CephBool,req=false",
        "show what clients read and write a second",
        "mgr",
        "r",
        iostat,
    )
    .polled(),
    spec("crash ls", "list crash reports", "mgr", "r", no_lines),
    spec("crash ls-new", "list crash reports that nobody has looked at", "mgr", "r", no_lines),
    spec("crash stat", "count crash reports", "mgr", "r", crash_stat),
    spec("crash info name=id,type=CephString", "show a crash report", "mgr", "r", no_crash),
    spec("crash archive name=id,type=CephString", "note that a crash report was looked at", "mgr", "w", no_crash),
    spec("crash archive-all", "note that all crash reports were looked at", "mgr", "w", nothing_to_do),
    spec("crash rm name=id,type=CephString", "remove a crash report", "mgr", "rw", nothing_to_do),
    spec("crash prune name=keep,type=CephString", "remove crash reports older than days", "mgr", "rw", nothing_to_do),
    spec("device ls", "list devices", "mgr", "r", device_ls),
    spec("device ls-by-daemon name=who,type=CephString", "list a daemon's devices", "mgr", "r", device_ls_by_daemon),
    spec("device ls-by-host name=host,type=CephString", "list a host's devices", "mgr", "r", device_ls_by_host),
    spec("device info name=devid,type=CephString", "show a device", "mgr", "r", no_device),
    spec("device check-health", "look at the health of all devices", "mgr", "rw", nothing_to_do),
    spec("balancer status", "show what the balancer does", "mgr", "r", balancer_status),
    spec("balancer on", "there is no balancer", "mgr", "rw", no_balancer),
    spec("balancer off", "let nothing be balanced", "mgr", "rw", nothing_to_do),
    spec(
        "balancer mode name=mode,type=CephChoices,strings=none|crush-compat|upmap",
        "there is no balancer",
        "mgr",
        "rw",
        no_balancer,
    ),
    spec("balancer pool ls", "list the pools that alone are balanced", "mgr", "r", no_lines),
    spec("balancer ls", "list plans", "mgr", "r", empty_list),
    spec("balancer show name=plan,type=CephString", "show a plan", "mgr", "r", no_plan),
    spec("balancer dump name=plan,type=CephString", "show a plan whole", "mgr", "r", no_plan),
    spec("balancer execute name=plan,type=CephString", "carry a plan out", "mgr", "rw", no_plan),
    spec("balancer rm name=plan,type=CephString", "forget a plan", "mgr", "rw", nothing_to_do),
    spec(
        "balancer optimize name=plan,type=CephString name=pools,type=CephString,n=N,req=false",
        "make a plan",
        "mgr",
        "rw",
        no_mode,
    ),
];

/// The width of `iostat`'s table where nobody says.
const IOSTAT_WIDTH: usize = 80;
/// No terminal is wider.
const IOSTAT_WIDTH_MAX: i64 = 1000;

/// One line for the rates of now, below headings where these are asked for.
fn iostat(mon: &mut Mon, call: &Call) -> Answer {
    let width = call.int_opt("width")?.map_or(IOSTAT_WIDTH, |width| width.clamp(0, IOSTAT_WIDTH_MAX) as usize);
    let headings = ["Read", "Write", "Total", "Read IOPS", "Write IOPS", "Total IOPS"];
    let column = (width / headings.len()).saturating_sub(1);
    let line = |cells: [String; 6]| {
        let cells = cells.map(|cell| format!("{cell:>0$} |", column.saturating_sub(1)));
        format!("|{}\n", cells.concat())
    };
    let [read, written, reads, writes] = mon.stats.total_rates().client().unwrap_or_default();
    let rate = |bytes: u64| quantity::bytes(bytes) + "/s";
    let mut text = String::new();
    if call.flag("print_header") {
        let rule = format!("+{}\n", format!("{}+", "-".repeat(column)).repeat(headings.len()));
        text += &(rule.clone() + &line(headings.map(str::to_owned)) + &rule);
    }
    text += &line([
        rate(read),
        rate(written),
        rate(read.saturating_add(written)),
        reads.to_string(),
        writes.to_string(),
        reads.saturating_add(writes).to_string(),
    ]);
    Ok(Reply::data(text))
}

fn crash_stat(_: &mut Mon, _: &Call) -> Answer {
    Ok(Reply::data("0 crashes recorded\n"))
}

/// Ceph's module gives its errno without a sign, so that the CLI ends well.
fn no_crash(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::status(format!("crash info: {} not found", call.text("id")?)))
}

fn no_devices(call: &Call, headings: &[&str]) -> Answer {
    let plain = || {
        let mut table = Table::new();
        headings.iter().for_each(|heading| table.column(heading, Align::Left));
        table.render()
    };
    Ok(Reply::either(call, || Value::Array(vec![]), plain))
}

fn device_ls(_: &mut Mon, call: &Call) -> Answer {
    no_devices(call, &["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"])
}

fn device_ls_by_daemon(_: &mut Mon, call: &Call) -> Answer {
    no_devices(call, &["DEVICE", "HOST:DEV", "EXPECTED FAILURE"])
}

fn device_ls_by_host(_: &mut Mon, call: &Call) -> Answer {
    no_devices(call, &["DEVICE", "DEV", "DAEMONS", "EXPECTED FAILURE"])
}

fn no_device(_: &mut Mon, call: &Call) -> Answer {
    refuse(Errno::ENOENT, format!("device {} not found", call.text("devid")?))
}

fn balancer_status(_: &mut Mon, call: &Call) -> Answer {
    let value = object! {
        "active" => false,
        "last_optimize_duration" => "",
        "last_optimize_started" => "",
        "mode" => "none",
        "no_optimization_needed" => true,
        "optimize_result" => "there is no balancer here",
        "plans" => Value::Array(vec![]),
    };
    Ok(Reply::value(call, &value))
}

fn no_balancer(_: &mut Mon, call: &Call) -> Answer {
    if call.text_opt("mode")?.as_deref() == Some("none") {
        return Ok(Reply::empty());
    }
    refuse(Errno::EOPNOTSUPP, "there is no balancer: move placement groups by `osd pg-upmap-items` or weights")
}

fn no_plan(_: &mut Mon, call: &Call) -> Answer {
    refuse(Errno::ENOENT, format!("plan {} not found", call.text("plan")?))
}

/// What Ceph's says where no mode is chosen, and here none can be.
fn no_mode(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::ENOEXEC, "Please do \"ceph balancer mode\" to choose a valid mode first")
}

fn no_lines(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::either(call, || Value::Array(vec![]), String::new))
}

fn empty_list(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::Array(vec![])))
}

fn nothing_to_do(_: &mut Mon, _: &Call) -> Answer {
    Ok(Reply::empty())
}
