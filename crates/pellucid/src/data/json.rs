//! Splits JSON text into its parts without changing them: numbers keep their digits, and objects
//! keep the order of their attributes. The text must come from a server: separators are not fully
//! checked.

use serde::de::IgnoredAny;

/// The elements of an array, in order; `None` if the text is no array.
pub(crate) fn elements(array: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = array.trim_ascii().strip_prefix(b"[")?.trim_ascii_start();
    let mut elements = Vec::new();
    while rest != b"]" {
        let (value, after) = first_value(rest)?;
        elements.push(value);
        rest = after.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        }
    }
    Some(elements)
}

/// An attribute of an object as it is written; the name includes its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The attributes of an object, in order; `None` if the text is no object.
pub(crate) fn members(object: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut rest = object.trim_ascii().strip_prefix(b"{")?.trim_ascii_start();
    let mut members = Vec::new();
    while rest != b"}" {
        let (name, after) = first_value(rest)?;
        let (value, after) = first_value(after.trim_ascii_start().strip_prefix(b":")?)?;
        let after = after.trim_ascii_start();
        rest = after.strip_prefix(b",").unwrap_or(after).trim_ascii_start();
        members.push(Member { name, value });
    }
    Some(members)
}

/// The value of the attribute with this name. `name` includes its quotes.
pub(crate) fn attribute<'a>(members: &[Member<'a>], name: &str) -> Option<&'a [u8]> {
    let found = members.iter().find(|member| member.name == name.as_bytes());
    found.map(|member| member.value)
}

/// Returns true if the text is exactly one JSON value, without white space around it.
pub(crate) fn is_json(text: &[u8]) -> bool {
    text.trim_ascii().len() == text.len() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Splits the text into the JSON value that it begins with, and the rest.
fn first_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let (value, rest) = text.split_at(values.byte_offset());
    Some((value.trim_ascii(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_returned_unchanged() {
        let text =
            br#" {"id" : "7", "result": [1.50, {"b":1,"a":[]}, "x,]" ,null],"hasMore":true}"#;
        let of_text = members(text).unwrap();
        let parts = elements(attribute(&of_text, r#""result""#).unwrap()).unwrap();
        assert_eq!(parts, [&b"1.50"[..], br#"{"b":1,"a":[]}"#, br#""x,]""#, b"null"]);
        assert_eq!(attribute(&of_text, r#""hasMore""#), Some(&b"true"[..]));
        assert_eq!(attribute(&of_text, r#""count""#), None);
        assert_eq!(elements(b"[ ]").unwrap().len(), 0);
        for broken in [&b"[1"[..], b"[1 2", b"{}", b"", b"[,]x"] {
            assert_eq!(elements(broken), None, "{broken:?}");
        }
        let of = |name, value| Member { name, value };
        let all = [of(&br#""\"}""#[..], &b"{}"[..]), of(br#""b""#, b"1e5")];
        assert_eq!(members(br#"{"\"}" :{} , "b":1e5}"#).unwrap(), all);
        for broken in [&b"{"[..], b"[]", br#"{"a"}"#, br#"{"a":1"#, br#"{"a":}"#] {
            assert_eq!(members(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn json_values_are_told_from_plain_text() {
        for json in ["0", "-1.5e3", "true", "null", "\"\"", "[1, {}]", "{\"a\":[[]]}"] {
            assert!(is_json(json.as_bytes()), "{json}");
        }
        for text in ["", " 1", "1 ", "01", "1,2", "True", "nan", "+1", "a", "\"", "1 2", "{"] {
            assert!(!is_json(text.as_bytes()), "{text}");
        }
    }
}
