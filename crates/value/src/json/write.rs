//! Writing of JSON text in the format that ArangoDB's drivers expect: no white space, attributes in
//! the order of insertion, whole doubles without a fraction.

use super::scalar::{number_length, string_length, write_number, write_string};
use crate::packed::{DEPTH_MAX, node_length, write_json};
use crate::{ArrayRef, ObjectRef, Ref, beginning};

/// The value as JSON text.
#[must_use]
pub fn to_string(value: Ref<'_>) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    // All that is written is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// The number of bytes that [`write()`] appends; for a damaged document, only approximately.
#[must_use]
pub fn length(value: Ref<'_>) -> usize {
    let packed = match value {
        Ref::Array(ArrayRef::Packed(array)) => node_length(array.node()),
        Ref::Object(ObjectRef::Packed(object)) => node_length(object.node()),
        _ => None,
    };
    packed.unwrap_or_else(|| length_of_parts(value, 0))
}

/// As [`length`], part by part through [`Ref`]; `depth` levels are around the value.
fn length_of_parts(value: Ref<'_>, depth: usize) -> usize {
    match value {
        Ref::Null | Ref::Bool(true) => 4,
        Ref::Bool(false) => 5,
        Ref::Number(number) => number_length(number),
        Ref::String(text) => string_length(text.as_bytes()),
        Ref::Array(_) | Ref::Object(_) if depth >= DEPTH_MAX => 4,
        // The brackets, and a comma before all parts but the first.
        Ref::Array(array) => {
            let elements = array.iter().map(|element| length_of_parts(element, depth + 1));
            1 + array.len().max(1) + elements.sum::<usize>()
        }
        Ref::Object(object) => {
            let members = object.iter().map(|(name, member)| {
                // The name with its colon.
                string_length(name.as_bytes()) + 1 + length_of_parts(member, depth + 1)
            });
            1 + object.len().max(1) + members.sum::<usize>()
        }
    }
}

/// Appends the value.
pub fn write(value: Ref<'_>, out: &mut Vec<u8>) {
    write_parts(value, 0, usize::MAX, out);
}

/// The beginning of the value as JSON text: all of it, or at least `bytes` bytes and not many more.
#[must_use]
pub fn to_string_up_to(value: Ref<'_>, bytes: usize) -> String {
    let mut out = Vec::new();
    write_parts(value, 0, bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the value, which has `depth` levels around it, and stops once `out` has `most` bytes.
/// Only damaged bytes are deeper than the limit; they are null there, as other damage is.
fn write_parts(value: Ref<'_>, depth: usize, most: usize, out: &mut Vec<u8>) {
    match value {
        Ref::Null => out.extend_from_slice(b"null"),
        Ref::Bool(true) => out.extend_from_slice(b"true"),
        Ref::Bool(false) => out.extend_from_slice(b"false"),
        Ref::Number(number) => write_number(number, out),
        Ref::String(text) => write_string(beginning(text, most), out),
        Ref::Array(_) | Ref::Object(_) if depth >= DEPTH_MAX => out.extend_from_slice(b"null"),
        Ref::Array(ArrayRef::Packed(array)) if write_node(array.node(), depth, most, out) => {}
        Ref::Object(ObjectRef::Packed(object)) if write_node(object.node(), depth, most, out) => {}
        Ref::Array(array) => {
            let most = most_of_parts(most, matches!(array, ArrayRef::Packed(_)));
            out.push(b'[');
            for (place, element) in array.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_parts(element, depth + 1, most, out);
                if out.len() >= most {
                    return;
                }
            }
            out.push(b']');
        }
        Ref::Object(object) => {
            let most = most_of_parts(most, matches!(object, ObjectRef::Packed(_)));
            out.push(b'{');
            for (place, (name, member)) in object.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_string(beginning(name, most), out);
                out.push(b':');
                write_parts(member, depth + 1, most, out);
                if out.len() >= most {
                    return;
                }
            }
            out.push(b'}');
        }
    }
}

/// The limit for the parts of an array or object. Below a packed one that is damaged, no part is
/// tried as a whole: each level would write all before the damage again.
fn most_of_parts(most: usize, is_packed: bool) -> usize {
    if is_packed { most.min(usize::MAX - 1) } else { most }
}

/// Appends a packed array or object if all of it is wanted and it is whole; otherwise appends
/// nothing and returns false.
fn write_node(node: &[u8], depth: usize, most: usize, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let is_written = most == usize::MAX && write_json(node, depth, out).is_some();
    if !is_written {
        out.truncate(begin);
    }
    is_written
}
