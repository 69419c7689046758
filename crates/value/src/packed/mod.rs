//! The binary form of documents: an attribute is found by halving a table of names, and nothing
//! else of the document is looked at.
//!
//! A packed document is one byte [`FORMAT`] and one node. A node is a tag and what it says:
//!
//! | tag | node |
//! |---|---|
//! | 0, 1, 2 | null, false, true |
//! | 4, 5, 6, 7 | whole number with sign in 1, 2, 4, 8 bytes |
//! | 8 | whole number without sign, 8 bytes, above all with sign |
//! | 9 | double, 8 bytes |
//! | 10 | string: length in 4 bytes, bytes of UTF-8 |
//! | 16, 17, 18 | array, whose table has entries of 1, 2, 4 bytes |
//! | 24, 25, 26 | object, likewise |
//! | 64 + n | string of n bytes, n up to 127 |
//!
//! Arrays and objects go on with the length of the whole node and the number of entries, 4 bytes
//! each, then the entries in the order of their insertion: nodes, or a string node (the name) and a
//! node. Last is the table: where each entry begins, counted from the tag; for objects ordered by
//! name, byte by byte. All numbers are little-endian.
//!
//! Reading checks every length that it follows: damaged bytes read as null or as too few entries.
//! [`check`] says whether bytes are a document altogether.

mod build;
mod check;
mod depth;
mod front;
mod measure;
mod node;
mod text;

pub use build::Builder;
pub use check::check;
pub(crate) use depth::depth;
pub use front::{FRONT_MAX, Front, with_front};
pub use measure::json_length;
pub(crate) use measure::node_length;
pub use node::{DEPTH_MAX, Damage, FORMAT, PackedArray, PackedObject, node_of};
pub(crate) use node::{Table, fixed, string_at, string_member, tag, text_of};
pub(crate) use text::write_json;

use crate::Ref;

/// A packed document, read where it lies.
///
/// # Errors
/// As [`node_of`].
pub fn open(document: &[u8]) -> Result<Ref<'_>, Damage> {
    node_of(document).map(Ref::of_node)
}

#[cfg(test)]
mod tests {
    use super::json_length;
    use crate::Ref;
    use crate::json::{Limits, parse_packed};
    use crate::samples::values;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_document_is_as_long_as_its_text(value in values()) {
            let text = value.to_json();
            let document = parse_packed(text.as_bytes(), Limits::default()).unwrap();
            prop_assert_eq!(json_length(&document), Some(text.len()));
            prop_assert_eq!(crate::json::length(value.view()), text.len());
            prop_assert_eq!(crate::json::length(super::open(&document).unwrap()), text.len());
            for cut in 0..document.len() {
                let _ = json_length(&document[..cut]);
            }
        }

        #[test]
        fn escapes_count_as_they_are_written(text in "[\u{0}-\u{7f}ü€]{0,40}") {
            let text = crate::Value::from(text).to_json();
            let document = parse_packed(text.as_bytes(), Limits::default()).unwrap();
            prop_assert_eq!(json_length(&document), Some(text.len()));
        }

        #[test]
        fn damaged_bytes_are_measured_without_a_panic(
            value in values(), at in any::<usize>(), byte in any::<u8>(),
        ) {
            let mut document =
                parse_packed(value.to_json().as_bytes(), Limits::default()).unwrap();
            let at = at % document.len();
            document[at] = byte;
            let _ = json_length(&document);
        }

        #[test]
        fn a_member_is_found_wherever_it_is_looked_for_first(value in values(), at in 0_usize..6) {
            let document = parse_packed(value.to_json().as_bytes(), Limits::default()).unwrap();
            let Ok(Ref::Object(object)) = super::open(&document) else { return Ok(()) };
            for name in ["", "a", "b", "ab", "zz", "\u{0}"] {
                let mut place = at;
                let text = |found: Option<Ref<'_>>| found.map(crate::json::to_string);
                prop_assert_eq!(text(object.get_near(name, &mut place)), text(object.get(name)));
                prop_assert_eq!(text(object.get_near(name, &mut place)), text(object.get(name)));
            }
        }
    }
}
