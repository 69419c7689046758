//! Decodes single lines of NDJSON bodies.

use serde::Deserialize;

/// Decodes a line as a JSON object of type `T`.
///
/// # Errors
/// If the line is not a JSON object, or does not fit `T`. An array is refused, although serde would
/// accept one with the fields in their order.
pub(super) fn object<'line, T: Deserialize<'line>>(line: &'line [u8]) -> Result<T, String> {
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("a line is an object of JSON".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| error.to_string())
}
