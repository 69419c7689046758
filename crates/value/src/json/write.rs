//! Writing of JSON text in the format that ArangoDB's drivers expect: no white space, attributes in
//! the order of insertion, whole doubles without a fraction.

use super::scalar::{number_length, string_length, write_number, write_string};
use crate::packed::{node_length, write_json};
use crate::walk::{Step, Walk};
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
    packed.unwrap_or_else(|| length_of_steps(value))
}

/// As [`length`], for values of any depth.
fn length_of_steps(value: Ref<'_>) -> usize {
    let mut length = 0;
    for step in Walk::new(value) {
        length += match step {
            // The name with its colon.
            Step::Name(name) => string_length(name.as_bytes()) + 1,
            Step::Value(Ref::Null | Ref::Bool(true)) => 4,
            Step::Value(Ref::Bool(false)) => 5,
            Step::Value(Ref::Number(number)) => number_length(number),
            Step::Value(Ref::String(text)) => string_length(text.as_bytes()),
            // The brackets, and a comma before all elements but the first.
            Step::Value(Ref::Array(array)) => 1 + array.len().max(1),
            Step::Value(Ref::Object(object)) => 1 + object.len().max(1),
            Step::EndArray | Step::EndObject => 0,
        };
    }
    length
}

/// Appends the value.
pub fn write(value: Ref<'_>, out: &mut Vec<u8>) {
    let node = match value {
        Ref::Array(ArrayRef::Packed(array)) => array.node(),
        Ref::Object(ObjectRef::Packed(object)) => object.node(),
        _ => return write_parts(value, out),
    };
    let begin = out.len();
    if write_json(node, out).is_none() {
        // It is damaged or deeper than the limit: write as much of it as can be read.
        out.truncate(begin);
        write_steps(value, usize::MAX, out);
    }
}

/// The beginning of the value as JSON text: all of it, or at least `bytes` bytes and not many more.
#[must_use]
pub fn to_string_up_to(value: Ref<'_>, bytes: usize) -> String {
    let mut out = Vec::new();
    write_steps(value, bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// As [`write`], for values of any depth. It stops once `out` has `most` bytes.
fn write_steps(value: Ref<'_>, most: usize, out: &mut Vec<u8>) {
    // A comma stands before all values but the first of an array, and before all names but the
    // first of an object.
    let (mut has_before, mut is_named) = (false, false);
    for step in Walk::new(value) {
        if out.len() >= most {
            return;
        }
        match step {
            Step::Name(name) => {
                if has_before {
                    out.push(b',');
                }
                write_string(beginning(name, most), out);
                out.push(b':');
                is_named = true;
            }
            Step::Value(value) => {
                if has_before && !std::mem::take(&mut is_named) {
                    out.push(b',');
                }
                is_named = false;
                has_before = true;
                match value {
                    Ref::Array(_) => out.push(b'['),
                    Ref::Object(_) => out.push(b'{'),
                    Ref::String(text) => write_string(beginning(text, most), out),
                    scalar => write_parts(scalar, out),
                }
                if matches!(value, Ref::Array(_) | Ref::Object(_)) {
                    has_before = false;
                }
            }
            Step::EndArray => {
                out.push(b']');
                has_before = true;
            }
            Step::EndObject => {
                out.push(b'}');
                has_before = true;
            }
        }
    }
}

/// As [`write`], part by part through [`Ref`].
fn write_parts(value: Ref<'_>, out: &mut Vec<u8>) {
    match value {
        Ref::Null => out.extend_from_slice(b"null"),
        Ref::Bool(true) => out.extend_from_slice(b"true"),
        Ref::Bool(false) => out.extend_from_slice(b"false"),
        Ref::Number(number) => write_number(number, out),
        Ref::String(text) => write_string(text, out),
        Ref::Array(array) => {
            out.push(b'[');
            for (place, element) in array.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write(element, out);
            }
            out.push(b']');
        }
        Ref::Object(object) => {
            out.push(b'{');
            for (place, (name, member)) in object.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
    }
}
