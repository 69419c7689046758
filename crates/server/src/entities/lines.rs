//! Lines of NDJSON, as they are sent.

use serde::Deserialize;

/// The object that a line is.
///
/// # Errors
/// If it is none, or another one. An array of the members in their order is none.
pub(super) fn object<'line, T: Deserialize<'line>>(line: &'line [u8]) -> Result<T, String> {
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("a line is an object of JSON".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| error.to_string())
}
