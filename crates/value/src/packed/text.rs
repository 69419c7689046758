//! Writing of packed documents as JSON directly from their bytes. Nearly all strings are copied
//! unchanged, and the values are not opened one by one.

use super::node::{
    CONTAINER_HEADER_BYTES, Container, DEPTH_MAX, extent, is_container, string_at, tag,
};
use crate::Ref;
use crate::json::{is_plain, write_number, write_string};

/// Appends a node that has `depth` levels around it as JSON, as [`crate::json::write`] does. `None`
/// if the node is damaged or too deep; a part of it may be appended then.
pub(crate) fn write_json(node: &[u8], depth: usize, out: &mut Vec<u8>) -> Option<()> {
    // The JSON is about as long: lengths and tags take as much as quotes, colons and commas.
    out.reserve(node.len());
    write(node, depth, out).map(|_| ())
}

/// Appends the node at the front of `node`, and returns its length in packed form.
fn write(node: &[u8], depth: usize, out: &mut Vec<u8>) -> Option<usize> {
    let first = *node.first()?;
    match first {
        tag::SHORT_STRING..=tag::SHORT_STRING_END | tag::STRING => {
            let (text, end) = string_at(node)?;
            write_text(text, out)?;
            return Some(end);
        }
        tag::NULL => out.extend_from_slice(b"null"),
        tag::TRUE => out.extend_from_slice(b"true"),
        tag::FALSE => out.extend_from_slice(b"false"),
        _ if is_container(first) => return contents(node, depth, out),
        _ => match Ref::of_node(node) {
            Ref::Number(number) => {
                write_number(number, out);
                return extent(node);
            }
            _ => return None,
        },
    }
    Some(1)
}

fn write_text(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if is_plain(text) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
    } else {
        write_string(std::str::from_utf8(text).ok()?, out);
    }
    Some(())
}

fn contents(node: &[u8], depth: usize, out: &mut Vec<u8>) -> Option<usize> {
    let table = Container::open(node)?;
    if depth >= DEPTH_MAX {
        return None;
    }
    out.push(if table.is_object { b'{' } else { b'[' });
    let mut at = CONTAINER_HEADER_BYTES;
    for place in 0..table.count {
        if place > 0 {
            out.push(b',');
        }
        if table.is_object {
            let (name, end) = string_at(table.node.get(at..table.begin)?)?;
            write_text(name, out)?;
            out.push(b':');
            at += end;
        }
        at += write(table.node.get(at..table.begin)?, depth + 1, out)?;
    }
    out.push(if table.is_object { b'}' } else { b']' });
    Some(table.node.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::DuplicateRule;
    use crate::json::{self, parse_packed};
    use crate::packed::open;
    use crate::samples::values;

    proptest! {
        /// A built value is written by other code than a packed one.
        #[test]
        fn packed_values_are_written_as_built_ones(value in values()) {
            let mut built = Vec::new();
            json::write(value.view(), &mut built);
            let packed = parse_packed(&built, DuplicateRule::Refuse).unwrap();
            let mut written = Vec::new();
            json::write(open(&packed).unwrap(), &mut written);
            prop_assert_eq!(String::from_utf8(written), String::from_utf8(built));
        }

        /// The output is valid JSON for any bytes. Damage can give two members one name.
        #[test]
        fn damaged_bytes_are_written_as_what_they_read_as(
            value in values(),
            at in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let text = value.to_json();
            let mut packed = parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
            let at = at.index(packed.len());
            packed[at] = byte;
            if let Ok(value) = open(&packed) {
                let mut written = vec![b'['];
                json::write(value, &mut written);
                written.push(b']');
                let again = parse_packed(&written, DuplicateRule::Last);
                prop_assert!(again.is_ok(), "{written:?}");
            }
        }
    }
}
