//! `POST /v0/batch`: puts and deletes as NDJSON, all or nothing.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_store::{Condition, Operation};
use serde::Deserialize;

use super::fields::{sequence_in, whole_ms};
use super::lines::object;

/// The limit of entries in a batch. It bounds the memory of entries that are parsed before a store,
/// whose own limit may be lower, sees their number.
const ENTRIES_MAX: usize = 65_536;

/// One line of the body. Keys and values are bytes, so they are in base64. Strings are borrowed
/// from the line unless they contain escapes; some encoders write the slash of base64 as `\/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: Option<Cow<'a, str>>,
    /// The ETag that the entry must have, with or without quotes, or `*` if it must only exist.
    #[serde(borrow)]
    if_match: Option<Cow<'a, str>>,
    /// `*` if the entry must not exist.
    #[serde(borrow)]
    if_none_match: Option<Cow<'a, str>>,
    /// The lifetime of a put in seconds, which may have a fraction.
    ttl: Option<serde_json::Number>,
}

/// An entry of a batch, with key and value decoded.
#[derive(Debug)]
pub(crate) struct Entry {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    condition: Condition,
    lifetime_ms: Option<u64>,
}

impl Entry {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn operation(&self) -> Operation<'_> {
        let Entry { key, value, condition, lifetime_ms } = self;
        let (condition, lifetime_ms) = (*condition, *lifetime_ms);
        Operation { key, value: value.as_deref(), condition, lifetime_ms }
    }
}

/// Parses the body of a batch.
///
/// # Errors
/// If a line is invalid, or there are none or too many; the text has the number of the line or the
/// limit.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Entry>, String> {
    let lines = body.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut entries = Vec::new();
    for (index, line) in lines {
        if entries.len() == ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} entries: divide the batch"));
        }
        let entry = parse_line(line);
        entries.push(entry.map_err(|what| format!("line {} of the batch: {what}", index + 1))?);
    }
    if entries.is_empty() { Err("the batch is empty".to_owned()) } else { Ok(entries) }
}

fn parse_line(line: &[u8]) -> Result<Entry, String> {
    let line: Line<'_> = object(line)?;
    let decode = |what: &str, text: &str| {
        STANDARD.decode(text).map_err(|error| format!("`{what}` is not base64: {error}"))
    };
    let value = match (&*line.op, line.value.as_deref()) {
        ("put", Some(value)) => Some(decode("value", value)?),
        ("put", None) => return Err("a put has a `value`".to_owned()),
        ("delete", None) => None,
        ("delete", Some(_)) => return Err("a delete has no `value`".to_owned()),
        _ => return Err("`op` is neither `put` nor `delete`".to_owned()),
    };
    let condition = match (line.if_match.as_deref(), line.if_none_match.as_deref()) {
        (None, None) => Condition::None,
        (Some("*"), None) => Condition::Present,
        (None, Some("*")) => Condition::Absent,
        (Some(etag), None) => Condition::Sequence(
            sequence_in(etag).ok_or("`if_match` is neither `*` nor an ETag of an entity")?,
        ),
        (_, Some(_)) => return Err("`if_none_match` is `*`, without `if_match`".to_owned()),
    };
    let lifetime_ms = match line.ttl {
        None => None,
        Some(_) if value.is_none() => return Err("a delete has no `ttl`".to_owned()),
        Some(seconds) => Some(whole_ms("ttl", seconds.as_f64())?),
    };
    Ok(Entry { key: decode("key", &line.key)?, value, condition, lifetime_ms })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_has_puts_and_deletes() {
        let text = br#"{"op":"put","key":"YQ==","value":"eA=="}

            {"op":"delete","key":"Yg==","if_match":"7"}"#;
        let entries = parse(text).unwrap();
        let operations: Vec<_> = entries.iter().map(Entry::operation).collect();
        assert_eq!((operations[0].key, operations[0].value), (&b"a"[..], Some(&b"x"[..])));
        assert_eq!((operations[1].key, operations[1].value), (&b"b"[..], None));
        assert_eq!(operations[1].condition, Condition::Sequence(7));
    }

    #[test]
    fn puts_may_have_a_lifetime() {
        // Regression: a number with an exponent, as encoders write small ones, was refused.
        for (ttl, lifetime_ms) in
            [("0.25", 250), ("1e-7", 1), ("-0.0", 0), ("1e11", 10_u64.pow(14))]
        {
            let text = format!(r#"{{"op":"put","key":"YQ==","value":"eA==","ttl":{ttl}}}"#);
            let entries = parse(text.as_bytes()).unwrap();
            assert_eq!(entries[0].operation().lifetime_ms, Some(lifetime_ms), "{ttl}");
        }
    }

    /// Regression: a line with an escape was refused, but encoders may escape any character.
    #[test]
    fn strings_may_hold_escapes() {
        let text = br#"{"op":"p\u0075t","key":"YQ\u003d=","value":"\/\/8=","if_match":"\"7\""}"#;
        let entries = parse(text).unwrap();
        let operation = entries[0].operation();
        assert_eq!((operation.key, operation.value), (&b"a"[..], Some(&[0xff, 0xff][..])));
        assert_eq!(operation.condition, Condition::Sequence(7));
    }

    /// Regression: the ETag of a compressed answer was refused, and numbers were accepted that no
    /// ETag has.
    #[test]
    fn an_etag_in_a_line_is_one_in_a_header() {
        let parsed = |etag: &str| {
            let line = json!({ "op": "delete", "key": "YQ==", "if_match": etag });
            parse(line.to_string().as_bytes()).map(|entries| entries[0].operation().condition)
        };
        for etag in ["7", "\"7\"", "7+gzip", "\"7+deflate\""] {
            assert_eq!(parsed(etag), Ok(Condition::Sequence(7)), "{etag}");
        }
        assert_eq!(parsed("*"), Ok(Condition::Present));
        for etag in ["+7", "007", "", "\"7", "\"\"7\"\"", "7+brotli", "W/\"7\""] {
            assert!(parsed(etag).unwrap_err().contains("`if_match`"), "{etag}");
        }
    }

    /// Regression: a batch of any number of entries was parsed whole before it was refused.
    #[test]
    fn a_batch_has_a_limit_of_entries() {
        let mut text = "{\"op\":\"delete\",\"key\":\"YQ==\"}\n".repeat(ENTRIES_MAX);
        assert_eq!(parse(text.as_bytes()).map(|entries| entries.len()), Ok(ENTRIES_MAX));
        text.push_str("nonsense");
        assert!(parse(text.as_bytes()).unwrap_err().contains("more than 65536 entries"));
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (line, what) in [
            ("", "empty"),
            ("nonsense", "line 1"),
            (r#"["put","YQ==","eA==",null,null,null]"#, "an object"),
            (r#"{"op":"put","key":"YQ=="}"#, "`value`"),
            (r#"{"op":"put","key":"!","value":""}"#, "`key`"),
            (r#"{"op":"burn","key":"YQ=="}"#, "`op`"),
            (r#"{"op":"delete","key":"YQ==","value":""}"#, "no `value`"),
            (r#"{"op":"delete","key":"YQ==","more":1}"#, "more"),
            (r#"{"op":"delete","key":"YQ==","ttl":1}"#, "no `ttl`"),
            (r#"{"op":"put","key":"YQ==","value":"","ttl":-1}"#, "`ttl`"),
            (r#"{"op":"put","key":"YQ==","value":"","ttl":"1"}"#, "number"),
            (r#"{"op":"delete","key":"YQ==","if_none_match":"7"}"#, "`if_none_match`"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(what), "{line} got: {error}");
        }
    }
}
