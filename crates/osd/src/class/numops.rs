//! `numops`: arithmetic on decimal numbers that are kept as text in the object's map.
//!
//! Follows Ceph v16.2 `src/cls/numops/cls_numops.cc`: numbers are read as C's `strtod` reads them and written with ten
//! significant digits, as a C++ stream writes them.

use super::{Answer, Ctx, Flags, Method, done, input, method};
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Malformed};

pub(super) const METHODS: &[Method] = &[method("add", Flags::RD_WR, add), method("mul", Flags::RD_WR, multiply)];

const DIGITS: usize = 10;

struct Input {
    key: Bytes,
    number: Bytes,
}

impl Decode for Input {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Input { key: d.get()?, number: d.get()? })
    }
}

fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    change(ctx, given, |value, by| value + by)
}

fn multiply(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    change(ctx, given, |value, by| value * by)
}

fn change(ctx: &mut Ctx<'_, '_>, given: &Bytes, apply: fn(f64, f64) -> f64) -> Answer {
    let Input { key, number } = input(given)?;
    let by = parse(&number).ok_or(Errno::EINVAL)?;
    // A missing entry counts as an empty one, and that as 0.
    let stored = ctx.value(&key)?.unwrap_or_default();
    let value = if stored.is_empty() { 0.0 } else { parse(&stored).ok_or(Errno::EBADMSG)? };
    ctx.set_value(&key, print(apply(value, by)).into())?;
    done()
}

/// The whole text as a number, as `strtod` takes it: spaces in front, then decimal, hexadecimal, `inf` or `nan`. A text
/// with nothing in it is 0. None where something is left over.
fn parse(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    let text = core::str::from_utf8(&text[..end]).ok()?;
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let lower = digits.to_ascii_lowercase();
    let magnitude = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        _ if lower.starts_with("nan") => not_a_number(&lower)?,
        _ if lower.starts_with("0x") => hexadecimal(&lower[2..])?,
        _ if lower.starts_with(|c: char| c.is_ascii_digit() || c == '.') => lower.parse().ok()?,
        _ => return None,
    };
    Some(sign * magnitude)
}

fn not_a_number(text: &str) -> Option<f64> {
    let payload = &text[3..];
    let inner = payload.strip_prefix('(').and_then(|p| p.strip_suffix(')'));
    let valid = payload.is_empty() || inner.is_some_and(|p| p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    valid.then_some(f64::NAN)
}

/// What follows `0x`: digits with at most one point, and a power of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = match text.split_once('p') {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let scale = power.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    Some(value * 2f64.powi(scale))
}

/// Ten significant digits, without zeros at the end; an exponent where the number is very large or small (`%.10g`).
fn print(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let scientific = format!("{value:.*e}", DIGITS - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("this format has an exponent");
    let exponent: i32 = exponent.parse().expect("this format's exponent is a number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= DIGITS as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    } else {
        let decimals = (DIGITS as i32 - 1 - exponent) as usize;
        trimmed(&format!("{value:.decimals$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value) in [
            ("", 0.0),
            ("12", 12.0),
            ("  -1.5e3", -1500.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("0x1.8p1", 3.0),
            ("INF", f64::INFINITY),
            ("7\0rest", 7.0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text:?}");
        }
        for text in ["abc", "1a", "1 ", "--1", "e5", "0x", " "] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert!(parse(b"nan").is_some_and(f64::is_nan));
    }

    #[test]
    fn numbers_are_written_with_ten_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (150.0, "150"),
            (0.1 + 0.2, "0.3"),
            (1234567890.0, "1234567890"),
            (12345678901.0, "1.23456789e+10"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e300, "1e+300"),
            (9999999999.9, "1e+10"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(print(value), text);
        }
    }
}
