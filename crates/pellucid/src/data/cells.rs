//! Converts JSON values to cells of a table and back without loss.
//!
//! A cell that is a JSON value holds that value; any other cell holds a string. So a string that
//! looks like JSON, such as `5` or `true`, is written with its JSON quotes. So is the empty string,
//! because an empty cell means that the attribute is missing. Attributes that are always strings,
//! such as `_key`, are written without quotes.

use std::borrow::Cow;

use serde_json::Value;

use super::json::is_json;

/// Attributes that are always strings.
const TEXTS: [&str; 5] = ["_key", "_id", "_rev", "_from", "_to"];

/// True if the text is a JSON value. A number that no server can store, such as `1e999`, is none;
/// within an array or object it is not looked for.
fn is_value(text: &str) -> bool {
    is_json(text.as_bytes()) && !text.trim_ascii().parse::<f64>().is_ok_and(f64::is_infinite)
}

/// Converts the value of the attribute `name` to a cell; `None` if `value` is not valid JSON.
pub(super) fn cell_of<'a>(name: &str, value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    if !value.starts_with(b"\"") {
        return Some(Cow::Borrowed(value));
    }
    let text = serde_json::from_slice::<String>(value).ok()?;
    let is_plain = TEXTS.contains(&name) || !text.is_empty() && !is_value(&text);
    Some(if is_plain { Cow::Owned(text.into_bytes()) } else { Cow::Borrowed(value) })
}

/// Appends the JSON value of the attribute `name` to `out`. `cell` must not be empty. If `infers`,
/// a cell that is a JSON value is that value; otherwise every cell is a string.
pub(super) fn write_value(
    name: &str,
    cell: &[u8],
    infers: bool,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let text = std::str::from_utf8(cell).map_err(|_| format!("`{name}` is no UTF-8"))?;
    if !infers || TEXTS.contains(&name) || !is_value(text) {
        out.extend_from_slice(Value::from(text).to_string().as_bytes());
        return Ok(());
    }
    // A value may contain line ends between its tokens, but a document has to be one line.
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    out.extend(cell.iter().map(|byte| if is_line_end(byte) { b' ' } else { *byte }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_through_cells() {
        for (value, cell) in [
            ("1.50", "1.50"),
            ("null", "null"),
            (r#"{"a":[1,"x"]}"#, r#"{"a":[1,"x"]}"#),
            (r#""plain""#, "plain"),
            (r#""a\nb""#, "a\nb"),
            (r#""0123""#, "0123"),
            (r#""12""#, r#""12""#),
            (r#""true""#, r#""true""#),
            (r#""""#, r#""""#),
            (r#""[]""#, r#""[]""#),
            (r#""1e999""#, "1e999"),
            (r#""-1e999""#, "-1e999"),
            (r#"" 12""#, " 12"),
            (r#""\"x\"""#, r#""\"x\"""#),
        ] {
            let made = cell_of("a", value.as_bytes()).unwrap();
            assert_eq!(&*made, cell.as_bytes(), "{value}");
            let mut read = Vec::new();
            write_value("a", &made, true, &mut read).unwrap();
            assert_eq!(read, value.as_bytes(), "{cell}");
        }
        assert_eq!(&*cell_of("_key", br#""12""#).unwrap(), b"12");
    }

    #[test]
    fn cells_are_strings_unless_inference_is_on() {
        let read = |name: &str, cell: &[u8], infers| {
            let mut out = b",".to_vec();
            write_value(name, cell, infers, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(read("a", b"5", false).unwrap(), r#","5""#);
        assert_eq!(read("a", b"5", true).unwrap(), ",5");
        assert_eq!(read("_key", b"5", true).unwrap(), r#","5""#);
        assert_eq!(read("a", b"[1,\n2]", true).unwrap(), ",[1, 2]");
        assert!(read("a", b"\xff", true).unwrap_err().contains("`a` is no UTF-8"));
    }
}
