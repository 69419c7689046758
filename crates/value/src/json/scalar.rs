//! Numbers and strings as JSON text.

use std::io::Write as _;

use super::string::plain_bytes;
use crate::Number;

/// 2^53. From here on, doubles do not distinguish all whole numbers, and whole doubles are written
/// with `.0`.
const FRACTION_BEGIN: f64 = 9_007_199_254_740_992.0;
/// The size from which on doubles are written with an exponent.
const EXPONENT_BEGIN: f64 = 18_446_744_073_709_551_616.0 * 100.0;
/// The size below which doubles are written with an exponent.
const EXPONENT_END: f64 = 1e-7;
/// 2^64. From here on, whole doubles are written without `.0` again.
const FRACTION_END: f64 = 18_446_744_073_709_551_616.0;

/// The number of bytes that [`write_number`] appends.
pub(crate) fn number_length(number: Number) -> usize {
    let digits = |size: u64| size.checked_ilog10().unwrap_or(0) as usize + 1;
    match number {
        Number::Int(value) => usize::from(value < 0) + digits(value.unsigned_abs()),
        Number::Uint(value) => digits(value),
        Number::Double(value) => match short(value + 0.0) {
            Some((whole, _, places)) => {
                let point_and_places = if places == 0 { 0 } else { 1 + places };
                usize::from(value < 0.0) + digits(whole) + point_and_places
            }
            None => {
                let mut text = Vec::with_capacity(32);
                write_number(number, &mut text);
                text.len()
            }
        },
    }
}

/// The number of bytes that [`write_string`] appends for a text with these bytes.
pub(crate) fn string_length(bytes: &[u8]) -> usize {
    let (mut at, mut length) = (0, 2);
    loop {
        let plain = plain_bytes(&bytes[at..]);
        (at, length) = (at + plain, length + plain);
        let Some(byte) = bytes.get(at) else { return length };
        at += 1;
        length += match byte {
            b'"' | b'\\' | 0x08 | 0x0c | b'\n' | b'\r' | b'\t' => 2,
            _ => 6,
        };
    }
}

/// Appends a number; null for a NaN or an infinite double.
pub fn write_number(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Int(value) => write_whole(value, out),
        Number::Uint(value) => write_whole(value, out),
        Number::Double(value) => write_double(value, out),
    }
}

/// Appends a whole number. It avoids the formatting machinery, because short numbers are frequent.
fn write_whole(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn write_double(value: f64, out: &mut Vec<u8>) {
    // This turns -0.0 into 0.0.
    let value = value + 0.0;
    let size = value.abs();
    if write_short(value, out) {
        return;
    }
    // Writing to memory cannot fail.
    let _ = if !value.is_finite() {
        write!(out, "null")
    } else if size >= EXPONENT_BEGIN || (size < EXPONENT_END && size > 0.0) {
        let text = format!("{value:e}");
        // A positive exponent is written with its sign, as ArangoDB does.
        let signed = if text.contains("e-") { text } else { text.replace('e', "e+") };
        write!(out, "{signed}")
    } else if (FRACTION_BEGIN..FRACTION_END).contains(&size) && value.fract() == 0.0 {
        write!(out, "{value}.0")
    } else {
        write!(out, "{value}")
    };
}

/// The bound of short doubles: below it, the digits before the decimal point and six behind it are
/// at most 15, which a double always holds.
const SHORT_END: f64 = 1e9;

/// The most digits behind the decimal point of a short double.
const PLACES_MAX: usize = 6;

/// Splits a short double, which has few digits behind the decimal point, as most in documents have.
/// Returns the number before the point, the digits behind it as a number, and the count of those
/// digits, without the sign; `None` for other doubles. Of all decimals with at most 15 digits and
/// the same number of places, only one rounds to a given double.
fn short(value: f64) -> Option<(u64, u64, usize)> {
    let size = value.abs();
    if size.is_nan() || size >= SHORT_END {
        return None;
    }
    let mut power: u64 = 1;
    for places in 0..=PLACES_MAX {
        // The nearest whole number. Where rounding gives a neighbour, the comparison below fails
        // for all whole numbers.
        let scaled = (size * power as f64 + 0.5) as i64;
        if scaled as f64 / power as f64 == size {
            let scaled = scaled.unsigned_abs();
            return Some((scaled / power, scaled % power, places));
        }
        power *= 10;
    }
    None
}

/// Appends a short double. Returns false, and appends nothing, for other doubles.
fn write_short(value: f64, out: &mut Vec<u8>) -> bool {
    let Some((whole, behind, places)) = short(value) else { return false };
    if value < 0.0 {
        out.push(b'-');
    }
    write_whole(whole, out);
    if places > 0 {
        let begin = out.len();
        // A leading one keeps the zeros behind it; the point then replaces it.
        write_whole(10_u64.pow(places as u32) + behind, out);
        out[begin] = b'.';
    }
    true
}

/// Appends a string with its quotes.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let plain = plain_bytes(&bytes[at..]);
        out.extend_from_slice(&bytes[at..at + plain]);
        at += plain;
        let Some(byte) = bytes.get(at) else { break };
        at += 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                let _ = write!(out, "\\u{control:04X}");
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn short_decimals_are_written_as_the_shortest_that_round_trips(
            digits in -2_000_000_000_i64..2_000_000_000,
            places in 0_i32..9,
            noise in -2_i64..=2,
        ) {
            let value = digits as f64 / 10_f64.powi(places);
            // Neighbours of short decimals have many digits.
            let near = f64::from_bits(value.to_bits().wrapping_add_signed(noise));
            for value in [value, near] {
                let is_plain = value.abs() >= EXPONENT_END || value == 0.0;
                if is_plain && value.is_finite() {
                    let mut text = Vec::new();
                    write_number(Number::Double(value), &mut text);
                    prop_assert_eq!(text, format!("{}", value + 0.0).into_bytes());
                }
            }
        }
    }
}
