//! Numbers in JSON text.

use super::JsonProblem;
use crate::Number;

/// Parses the number at the front of `text`. Returns it with its length in bytes, or an error with
/// its offset.
pub(super) fn parse(text: &[u8]) -> Result<(Number, usize), (JsonProblem, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let start = usize::from(is_negative);
    let digits = digits_at(text, start);
    if digits == 0 {
        return Err((JsonProblem::Expected("a digit"), start));
    }
    let mut end = start + digits;
    if digits > 1 && text[start] == b'0' {
        return Err((JsonProblem::Expected("no digit after a leading zero"), start + 1));
    }
    let mut is_whole = true;
    if text.get(end) == Some(&b'.') {
        is_whole = false;
        let fraction = digits_at(text, end + 1);
        end += 1 + fraction;
        if fraction == 0 {
            return Err((JsonProblem::Expected("a digit"), end));
        }
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        is_whole = false;
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits_at(text, end + 1 + sign);
        end += 1 + sign + exponent;
        if exponent == 0 {
            return Err((JsonProblem::Expected("a digit"), end));
        }
    }
    if is_whole && let Some(number) = whole(&text[start..end], is_negative) {
        return Ok((number, end));
    }
    let spelled = std::str::from_utf8(&text[..end]).unwrap_or_default();
    match spelled.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Number::Double(value), end)),
        _ => Err((JsonProblem::NumberRange, 0)),
    }
}

fn digits_at(text: &[u8], at: usize) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The whole number with these digits, if it fits in 64 bits.
fn whole(digits: &[u8], is_negative: bool) -> Option<Number> {
    let mut magnitude: u64 = 0;
    for digit in digits {
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if is_negative {
        0_i64.checked_sub_unsigned(magnitude).map(Number::Int)
    } else {
        Some(i64::try_from(magnitude).map_or(Number::Uint(magnitude), Number::Int))
    }
}
