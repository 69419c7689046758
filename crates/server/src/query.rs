//! The parameters of a URL's query (the text after `?`), percent-decoded.

use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Characters of an unknown parameter's name that its refusal shows.
const NAME_SHOWN_MAX: usize = 64;

/// The value of parameter `name`: the bytes between its `=` and the next `&`, percent-decoded;
/// empty if it has no `=`. A `+` is a plus sign.
///
/// # Errors
/// If the parameter occurs twice or its encoding is malformed; the text says which of the two.
pub(crate) fn parameter<'q>(
    query: Option<&'q str>,
    name: &str,
) -> Result<Option<Cow<'q, [u8]>>, String> {
    let Some(query) = query else { return Ok(None) };
    if !query.bytes().any(|byte| byte == b'&') {
        // Most requests have one parameter: a plain loop over its few bytes is faster than a
        // general text search.
        let end = query.bytes().position(|byte| byte == b'=').unwrap_or(query.len());
        if &query[..end] != name || query.is_empty() {
            return Ok(None);
        }
        return decoded(name, query.get(end + 1..).unwrap_or("")).map(Some);
    }
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name || pair.is_empty() {
            continue;
        }
        if found.is_some() {
            return Err(format!("the parameter `{name}` is given twice"));
        }
        found = Some(decoded(name, value)?);
    }
    Ok(found)
}

fn decoded<'q>(name: &str, value: &'q str) -> Result<Cow<'q, [u8]>, String> {
    let not_encoded = || format!("the parameter `{name}` is not percent-encoded as it must be");
    percent_decode(value).ok_or_else(not_encoded)
}

/// Refuses unknown parameters: without this check, a misspelt one would be ignored silently.
///
/// # Errors
/// If a parameter is not in `known`; the text names it.
pub(crate) fn check_parameters<'k>(
    query: Option<&str>,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Result<(), String> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    let mut names = pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    let is_unknown = |name: &str| !name.is_empty() && !known.clone().any(|known| known == name);
    let Some(other) = names.find(|name| is_unknown(name)) else {
        return Ok(());
    };
    let shown: String = other.chars().take(NAME_SHOWN_MAX).collect();
    match known.collect::<Vec<_>>().join("`, `") {
        none if none.is_empty() => {
            Err(format!("there is no parameter `{shown}` here, and no other one"))
        }
        known => Err(format!("there is no parameter `{shown}` here; there are `{known}`")),
    }
}

/// As [`parameter`], for a parameter that must be UTF-8.
pub(crate) fn text_parameter<'q>(
    query: Option<&'q str>,
    name: &str,
) -> Result<Option<Cow<'q, str>>, String> {
    let not_text = || format!("the parameter `{name}` is not text");
    match parameter(query, name)? {
        None => Ok(None),
        Some(Cow::Borrowed(bytes)) => {
            std::str::from_utf8(bytes).map(|text| Some(Cow::Borrowed(text))).map_err(|_| not_text())
        }
        Some(Cow::Owned(bytes)) => {
            String::from_utf8(bytes).map(|text| Some(Cow::Owned(text))).map_err(|_| not_text())
        }
    }
}

/// As [`parameter`], for a whole number.
pub(crate) fn number_parameter(query: Option<&str>, name: &str) -> Result<Option<u64>, String> {
    let not_number = |_| format!("the parameter `{name}` is not a whole number");
    text_parameter(query, name)?.map(|text| text.parse().map_err(not_number)).transpose()
}

/// As [`number_parameter`], for a number within `range`.
pub(crate) fn number_within(
    query: Option<&str>,
    name: &str,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    match number_parameter(query, name)? {
        Some(number) if !range.contains(&number) => {
            Err(format!("`{name}` is from {} to {}", range.start(), range.end()))
        }
        number => Ok(number),
    }
}

/// As [`parameter`], for a flag: false if it is absent, true if it has no value.
pub(crate) fn flag_parameter(query: Option<&str>, name: &str) -> Result<bool, String> {
    match text_parameter(query, name)?.as_deref() {
        None | Some("false" | "0") => Ok(false),
        Some("" | "true" | "1") => Ok(true),
        Some(_) => Err(format!("`{name}` is neither true nor false")),
    }
}

/// The value of a flag in the spelling that ArangoDB accepts. `undefined` and `null`, which the
/// driver arangojs sends, mean that the flag is not set (`None`).
///
/// # Errors
/// If ArangoDB has no such word.
pub(crate) fn flag_of_word(word: &str) -> Result<Option<bool>, ()> {
    let is_one_of = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    match word {
        "undefined" | "null" => Ok(None),
        _ if is_one_of(&["true", "yes", "on", "y", "1"]) => Ok(Some(true)),
        _ if is_one_of(&["false", "no", "off", "n", "0"]) => Ok(Some(false)),
        _ => Err(()),
    }
}

/// Decodes `text`; `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(text: &str) -> Option<Cow<'_, [u8]>> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'%') {
        return Some(Cow::Borrowed(bytes));
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let [high, low, after @ ..] = after else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            decoded.push((digit(*high)? * 16 + digit(*low)?) as u8);
            rest = after;
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(query: &str) -> Result<Option<Vec<u8>>, String> {
        parameter(Some(query), "id").map(|value| value.map(Cow::into_owned))
    }

    #[test]
    fn values_are_percent_decoded_bytes() {
        assert_eq!(id("id=7").unwrap().unwrap(), b"7");
        assert_eq!(id("x=1&id=a%20b%00%ff%0A&y").unwrap().unwrap(), b"a b\0\xff\n");
        assert_eq!(id("id=a+b=c").unwrap().unwrap(), b"a+b=c");
        assert_eq!(id("id=").unwrap().unwrap(), b"");
        assert_eq!(id("id").unwrap().unwrap(), b"");
        assert_eq!(id("idx=1&xid=2").unwrap(), None);
        assert_eq!(parameter(None, "id").unwrap(), None);
    }

    #[test]
    fn a_malformed_parameter_is_named() {
        for query in ["id=%", "id=%4", "id=%zz", "id=1&id=2"] {
            assert!(id(query).unwrap_err().contains("`id`"), "{query}");
        }
        assert!(number_parameter(Some("limit=-1"), "limit").unwrap_err().contains("`limit`"));
        assert!(text_parameter(Some("sync=%ff"), "sync").is_err());
    }
}
