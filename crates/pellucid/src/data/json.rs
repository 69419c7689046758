//! Parts of a document of JSON as they are written: numbers keep their digits and objects the order
//! of their attributes.

use serde::de::IgnoredAny;

/// The elements of an array, in order.
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

/// The value of an object's attribute.
pub(crate) fn attribute<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = object.trim_ascii().strip_prefix(b"{")?.trim_ascii_start();
    while rest != b"}" {
        let (key, after) = first_value(rest)?;
        let (value, after) = first_value(after.trim_ascii_start().strip_prefix(b":")?)?;
        if serde_json::from_slice::<String>(key).ok()? == name {
            return Some(value);
        }
        rest = after.trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
    }
    None
}

/// The value that the text begins with, and what is behind it.
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
    fn parts_are_as_they_were_written() {
        let text =
            br#" {"id" : "7", "result": [1.50, {"b":1,"a":[]}, "x,]" ,null],"hasMore":true}"#;
        let parts = elements(attribute(text, "result").unwrap()).unwrap();
        assert_eq!(parts, [&b"1.50"[..], br#"{"b":1,"a":[]}"#, br#""x,]""#, b"null"]);
        assert_eq!(attribute(text, "hasMore"), Some(&b"true"[..]));
        assert_eq!(attribute(text, "count"), None);
        assert_eq!(elements(b"[ ]").unwrap().len(), 0);
        for broken in [&b"[1"[..], b"[1 2", b"{}", b"", b"[,]x"] {
            assert_eq!(elements(broken), None, "{broken:?}");
        }
    }
}
