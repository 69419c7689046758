//! Lifetimes of entries: `?ttl=SECONDS`, or `Cache-Control: max-age=SECONDS`.

use pellucid_http::Request;

use super::fields::whole_ms;
use crate::query::text_parameter;

/// The lifetime in milliseconds that a PUT asks for; `None` if it asks for none. The parameter has
/// precedence over the header.
///
/// # Errors
/// If the lifetime is not a number of seconds from 0 to [`super::LIFETIME_SECONDS_MAX`].
pub(crate) fn lifetime_ms(request: &Request<'_>) -> Result<Option<u64>, String> {
    if let Some(text) = text_parameter(request.query, "ttl")? {
        return parse_seconds("ttl", &text).map(Some);
    }
    let is_control = |name: &str| name.eq_ignore_ascii_case("cache-control");
    let lines = request.headers.iter().filter(|header| is_control(header.name));
    for item in lines.flat_map(|line| line.value.split(|byte| *byte == b',')) {
        let item = String::from_utf8_lossy(item.trim_ascii());
        let (name, value) = item.split_once('=').unwrap_or((&item, ""));
        if name.trim_end().eq_ignore_ascii_case("max-age") {
            return parse_seconds("max-age", value.trim().trim_matches('"')).map(Some);
        }
    }
    Ok(None)
}

/// Converts a number of seconds to milliseconds. `text` is a decimal number without a sign; it may
/// have a fraction and an exponent.
fn parse_seconds(name: &str, text: &str) -> Result<u64, String> {
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    whole_ms(name, text.parse().ok().filter(|_| is_number))
}

#[cfg(test)]
mod tests {
    use pellucid_http::Header;

    use super::*;

    #[test]
    fn seconds_with_decimals_become_milliseconds() {
        for (text, expected) in [
            ("0", 0),
            ("5", 5_000),
            ("0.5", 500),
            (".25", 250),
            ("0.0001", 1),
            ("1e-7", 1),
            ("1E+3", 1_000_000),
        ] {
            assert_eq!(parse_seconds("ttl", text), Ok(expected), "{text}");
        }
        for text in ["", ".", "-1", "+1", "inf", "NaN", "1.2.3", "5 s", "1e99", "999999999999"] {
            assert!(parse_seconds("ttl", text).unwrap_err().contains("`ttl`"), "{text}");
        }
    }

    /// Regression: only the first of several header lines was read.
    #[test]
    fn lines_of_a_header_are_one_list() {
        let line = |value: &'static str| Header { name: "cache-control", value: value.as_bytes() };
        let headers = [line("no-transform"), line("private, max-age=60")];
        let request =
            Request { method: "PUT", path: "/", query: None, headers: &headers, body: b"" };
        assert_eq!(lifetime_ms(&request), Ok(Some(60_000)));
    }
}
