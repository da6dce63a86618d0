//! Byte counts, object counts, ages and timestamps as Ceph prints them.
//!
//! Follows Ceph v16.2 `src/include/types.h` (`byte_u_t`, `si_u_t`), `src/include/utime.h` (local time is UTC here) and
//! `src/common/ceph_time.cc` (`timespan_str`).

use super::value::percent_g;
use base::{Duration, Instant};

/// A byte count in at most seven characters: `49 KiB`, `4.0 GiB`.
pub fn bytes(count: u64) -> String {
    scaled(count, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// A count of things: `6`, `1.23k`.
pub fn count(count: u64) -> String {
    scaled(count, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(value: u64, step: u64, units: &[&str; 7]) -> String {
    let (mut whole, mut index, mut unit_size) = (value, 0, 1u64);
    while whole >= step && index < 6 {
        whole /= step;
        index += 1;
        unit_size *= step;
    }
    if index == 0 || value.is_multiple_of(unit_size) {
        return format!("{whole}{}", units[index]);
    }
    let exact = value as f64 / unit_size as f64;
    let text = |decimals: usize| format!("{exact:.decimals$}{}", units[index]);
    [2, 1].into_iter().map(text).find(|t| t.len() <= 7).unwrap_or_else(|| text(0))
}

/// An age in one unit: `67s`, `3m`, `5h`, `2d`, `3w`, `4M`, `2y`.
pub fn age(span: Duration) -> String {
    let secs = span.as_secs();
    if span < Duration::from_secs(2) {
        return format!("{}s", percent_g(f64::from(span.as_nanos() as f32 / 1e9), 6));
    }
    let (minutes, hours, days) = (secs / 60, secs / 3600, secs / 86400);
    match () {
        () if secs < 120 => format!("{secs}s"),
        () if minutes < 120 => format!("{minutes}m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 14 => format!("{days}d"),
        () if days / 7 < 12 => format!("{}w", days / 7),
        () if days / 30 < 24 => format!("{}M", days / 30),
        () => format!("{}y", days / 365),
    }
}

/// Times before this are shown as seconds: they are spans, or no time at all.
const TEN_YEARS_SECS: u64 = 60 * 60 * 24 * 365 * 10;

/// A timestamp with its zone: `2026-11-21T19:58:30.236206+0000`.
pub fn local_time(at: Instant) -> String {
    time_with(at, "+0000")
}

/// A timestamp in universal time: `2026-11-21T19:56:47.005992Z`.
pub fn utc_time(at: Instant) -> String {
    time_with(at, "Z")
}

fn time_with(at: Instant, zone: &str) -> String {
    let micros = at.subsec_nanos() / 1000;
    if at.secs() < TEN_YEARS_SECS {
        return format!("{}.{micros:06}", at.secs());
    }
    let (year, month, day) = civil_date(at.secs() / 86400);
    let second = at.secs() % 86400;
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}{zone}")
}

/// A timestamp as C's `ctime` has it, in universal time: `Sat Nov 21 19:58:30 2026`.
pub fn c_time(at: Instant) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (at.secs() / 86400, at.secs() % 86400);
    let (year, month, day) = civil_date(days);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[(month - 1) as usize]);
    format!("{weekday} {month} {day:2} {:02}:{:02}:{:02} {year}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // Whole cycles of 400 years (146097 days) first, so that the loops below are short for any input.
    let (mut year, mut rest) = (1970 + 400 * (days / 146_097), days % 146_097);
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if rest < length {
            break;
        }
        rest -= length;
        year += 1;
    }
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, length) in (1..).zip(lengths) {
        if rest < length {
            return (year, month, rest + 1);
        }
        rest -= length;
    }
    unreachable!("the months of a year have all its days")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_as_captured() {
        for (count, text) in [
            (0, "0 B"),
            (19, "19 B"),
            (50_015, "49 KiB"),
            (384_057, "375 KiB"),
            (4_294_967_296, "4 GiB"),
            (4_294_839_729, "4.0 GiB"),
            (12_884_517_831, "12 GiB"),
            (4_080_089_856, "3.8 GiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(count(1_234), "1.23k");
        assert_eq!(bytes(u64::MAX), "16 EiB");
    }

    #[test]
    fn times_as_captured() {
        let at = Instant(1_795_291_110_236_206_000);
        assert_eq!(local_time(at), "2026-11-21T19:58:30.236206+0000");
        assert_eq!(utc_time(Instant::ZERO), "0.000000");
        assert_eq!(c_time(at), "Sat Nov 21 19:58:30 2026");
        assert_eq!(c_time(Instant::ZERO), "Thu Jan  1 00:00:00 1970");
        assert_eq!(local_time(Instant::from_secs(951_782_400)), "2000-02-29T00:00:00.000000+0000");
        assert_eq!(local_time(Instant::from_secs(4_107_542_399)), "2100-02-28T23:59:59.000000+0000");
    }

    #[test]
    fn ages() {
        for (secs, text) in [(2, "2s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d"), (100_000_000, "3y")]
        {
            assert_eq!(age(Duration::from_secs(secs)), text);
        }
        assert_eq!(age(Duration::from_millis(1500)), "1.5s");
    }
}
