//! `health`: what is wrong, and what nobody wants to hear of.
//!
//! Follows Ceph v16.2 `src/mon/HealthMonitor.cc`.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::mon::Mon;
use crate::services::health::{Checks, Severity};
use base::{Duration, Errno};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("health name=detail,type=CephChoices,strings=detail,req=false", "show what is wrong", "mon", "r", health),
    spec(
        "health mute name=code,type=CephString name=ttl,type=CephString,req=false name=sticky,type=CephBool,req=false",
        "do not mention a health check",
        "mon",
        "w",
        mute,
    ),
    spec(
        "health unmute name=code,type=CephString,req=false",
        "mention a muted health check again, or all",
        "mon",
        "w",
        unmute,
    ),
];

fn health(mon: &mut Mon, call: &Call) -> Answer {
    let checks = mon.health_checks(call.now);
    let detail = call.text_opt("detail")?.is_some();
    Ok(Reply::either(call, || mon.health.value(&checks, detail), || plain(mon, &checks, detail)))
}

fn plain(mon: &Mon, checks: &Checks, detail: bool) -> String {
    let (status, heard) = mon.health.overall(checks);
    let summaries: Vec<&str> = heard.iter().map(|(_, check)| check.summary.as_str()).collect();
    let muted = muted_text(mon);
    let mut text = [status.name(), &summaries.join("; ")].join(" ").trim_end().to_owned() + &muted + "\n";
    if detail {
        for (code, check) in checks {
            let muted = if mon.health.mutes().contains_key(*code) { "(MUTED) " } else { "" };
            text += &format!("{muted}{} {code}: {}\n", check.severity.tag(), check.summary);
            text.extend(check.detail.iter().map(|line| format!("    {line}\n")));
        }
    }
    text
}

/// ` (muted: A B)` where something is muted.
pub(super) fn muted_text(mon: &Mon) -> String {
    let codes: Vec<&str> = mon.health.mutes().keys().map(String::as_str).collect();
    if codes.is_empty() { String::new() } else { format!(" (muted: {})", codes.join(" ")) }
}

/// The lines of `ceph -s`.
pub(super) fn status_lines(mon: &Mon, checks: &Checks) -> (Severity, Vec<String>) {
    let (status, heard) = mon.health.overall(checks);
    (status, heard.into_iter().map(|(_, check)| check.summary.clone()).collect())
}

/// Reads `5m`, `2h`, `30`: seconds unless a unit follows.
fn parse_span(text: &str) -> Result<Duration, Refused> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "" | "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hr" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "wk" | "week" | "weeks" => 7 * 86_400,
        _ => 0,
    };
    let secs = number.parse::<u64>().ok().filter(|_| scale > 0).and_then(|n| n.checked_mul(scale));
    secs.map(Duration::from_secs).ok_or_else(|| Refused::new(Errno::EINVAL, format!("not a valid duration: {text}")))
}

fn mute(mon: &mut Mon, call: &Call) -> Answer {
    let code = call.text("code")?;
    let ttl = call.text_opt("ttl")?.map(|text| parse_span(&text)).transpose()?;
    let checks = mon.health_checks(call.now);
    let check = checks.get(code.as_str());
    if check.is_none() && !call.flag("sticky") {
        return refuse(Errno::ENOENT, format!("health alert {code} is not currently raised"));
    }
    mon.health.mute(call.now, &code, ttl, call.flag("sticky"), check);
    Ok(Reply::empty())
}

fn unmute(mon: &mut Mon, call: &Call) -> Answer {
    mon.health.unmute(call.text_opt("code")?.as_deref());
    Ok(Reply::empty())
}
