//! Cells of a table, and their conversion to JSON.

use std::io::Write;

use serde::de::IgnoredAny;

use crate::timestamp::{Timestamp, day_text};

/// 2^53. From here on, not every whole number is a double.
const WHOLE_END: f64 = 9_007_199_254_740_992.0;

/// A cell of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Missing,
    /// Bytes of any kind.
    Bytes(&'a [u8]),
    /// A string.
    Text(&'a str),
    /// JSON text; in a cell that was read, it may be invalid.
    Json(&'a [u8]),
    /// True or false.
    Boolean(bool),
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Double(f64),
    /// A date, in days since 1970-01-01.
    Day(i32),
    /// A timestamp.
    Moment(Timestamp),
}

impl Cell<'_> {
    /// Appends the cell as a JSON value on one line. Dates and timestamps become ISO 8601 strings.
    ///
    /// # Errors
    /// If the cell has no JSON value; the text tells why.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), String> {
        match *self {
            Cell::Missing => out.extend_from_slice(b"null"),
            Cell::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => write_text(text, out),
                Err(_) => return Err("it is no UTF-8".to_owned()),
            },
            Cell::Text(text) => write_text(text, out),
            Cell::Json(text) => write_value(text, out)?,
            Cell::Boolean(is) => out.extend_from_slice(if is { b"true" } else { b"false" }),
            Cell::Integer(number) => write(out, format_args!("{number}")),
            Cell::Unsigned(number) => write(out, format_args!("{number}")),
            Cell::Double(number) => write_double(number, out)?,
            Cell::Day(day) => write_date(day_text(i64::from(day)), out)?,
            Cell::Moment(moment) => write_date(moment.text(), out)?,
        }
        Ok(())
    }
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(text);
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn write_value(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if std::str::from_utf8(text).is_err() || serde_json::from_slice::<IgnoredAny>(text).is_err() {
        return Err("it is no JSON".to_owned());
    }
    // Newlines are valid between the tokens of JSON; they become spaces.
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    out.extend(text.iter().map(|byte| if is_line_end(byte) { b' ' } else { *byte }));
    Ok(())
}

/// Writes a double. Whole numbers are written without a decimal point, as Pellucid does, so that 1
/// has the same text in a column of doubles and in one of integers.
fn write_double(number: f64, out: &mut Vec<u8>) -> Result<(), String> {
    if !number.is_finite() {
        return Err(format!("{number} is no number of JSON"));
    }
    if number.abs() < WHOLE_END && number.fract() == 0.0 {
        write(out, format_args!("{}", number as i64));
    } else {
        write(out, format_args!("{}", serde_json::Value::from(number)));
    }
    Ok(())
}

fn write_date(text: Option<String>, out: &mut Vec<u8>) -> Result<(), String> {
    let text = text.ok_or("it is not within the years 0 to 9999")?;
    write_text(&text, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(cell: Cell<'_>) -> Result<String, String> {
        let mut out = Vec::new();
        cell.write_json(&mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn cells_become_json_values() {
        for (cell, text) in [
            (Cell::Missing, "null"),
            (Cell::Bytes("ü\n".as_bytes()), r#""ü\n""#),
            (Cell::Text("a\"\0"), r#""a\"\u0000""#),
            (Cell::Json(b"{\"a\":\r\n[1]}"), "{\"a\":  [1]}"),
            (Cell::Boolean(true), "true"),
            (Cell::Integer(i64::MIN), "-9223372036854775808"),
            (Cell::Unsigned(u64::MAX), "18446744073709551615"),
            (Cell::Double(1.0), "1"),
            (Cell::Double(-0.0), "0"),
            (Cell::Double(0.1), "0.1"),
            (Cell::Double(-2.5e-300), "-2.5e-300"),
            (Cell::Day(0), r#""1970-01-01""#),
            (Cell::Moment(Timestamp::of_unix_ms(1)), r#""1970-01-01T00:00:00.001Z""#),
        ] {
            assert_eq!(json(cell).unwrap(), text);
        }
        for number in [WHOLE_END, f64::MAX, -1e17, 1.7976931348623155e308, 5e-324] {
            let text = json(Cell::Double(number)).unwrap();
            assert!(text.contains(['.', 'e']), "{text} is a double");
            assert_eq!(text.parse(), Ok(number));
        }
    }

    #[test]
    fn cells_without_a_json_value_are_refused() {
        for (cell, what) in [
            (Cell::Bytes(b"\xff"), "no UTF-8"),
            (Cell::Json(b""), "no JSON"),
            (Cell::Json(b"1,\"b\":2"), "no JSON"),
            (Cell::Json(b"\"\xff\""), "no JSON"),
            (Cell::Double(f64::NAN), "NaN is no number"),
            (Cell::Double(f64::NEG_INFINITY), "-inf is no number"),
            (Cell::Day(i32::MAX), "the years 0 to 9999"),
        ] {
            let error = json(cell).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
