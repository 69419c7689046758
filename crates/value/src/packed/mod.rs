//! The binary form of documents. An attribute is found by a binary search in a table of names,
//! without reading the rest of the document.
//!
//! A packed document is one byte [`FORMAT`] and one node. A node begins with a tag:
//!
//! | tag | node |
//! |---|---|
//! | 0, 1, 2 | null, false, true |
//! | 4, 5, 6, 7 | signed integer of 1, 2, 4, 8 bytes |
//! | 8 | unsigned integer of 8 bytes, for numbers above all signed ones |
//! | 9 | double, 8 bytes |
//! | 10 | string: length in 4 bytes, then UTF-8 bytes |
//! | 16, 17, 18 | array, with a table of entries of 1, 2, 4 bytes |
//! | 24, 25, 26 | object, with a table of entries of 1, 2, 4 bytes |
//! | 64 + n | string of n bytes, n up to 127 |
//!
//! In arrays and objects, the tag is followed by the length of the whole node and the number of
//! entries, 4 bytes each, and then by the entries in the order of their insertion. An entry of an
//! array is a node; an entry of an object is a string node (the name) and a node. Last comes the
//! table with the offset of each entry, counted from the tag. The table of an object is sorted by
//! the bytes of the names. All numbers are little-endian.
//!
//! Readers check every length that they follow: damaged bytes are read as null or as too few
//! entries. [`check`] checks a whole document.

mod build;
mod check;
mod depth;
mod front_members;
mod measure;
mod node;
mod text;

pub use build::Builder;
pub use check::check;
pub(crate) use depth::depth;
pub use front_members::{FRONT_MAX, FrontMember, with_front};
pub use measure::json_length;
pub(crate) use measure::node_length;
pub(crate) use node::{Container, fixed, string_at, tag, text_of};
pub use node::{DEPTH_MAX, Damage, FORMAT, PackedArray, PackedObject, node_of};
pub(crate) use text::write_json;

use crate::Ref;

/// Opens a packed document, without copying it.
///
/// # Errors
/// Those of [`node_of`].
pub fn open(document: &[u8]) -> Result<Ref<'_>, Damage> {
    node_of(document).map(Ref::of_node)
}

#[cfg(test)]
mod tests {
    use super::json_length;
    use crate::json::parse_packed;
    use crate::samples::values;
    use crate::{DuplicateRule, Ref};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_length_as_json_is_that_of_the_text(value in values()) {
            let text = value.to_json();
            let document = parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
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
            let document = parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
            prop_assert_eq!(json_length(&document), Some(text.len()));
        }

        #[test]
        fn damaged_bytes_are_measured_without_a_panic(
            value in values(), at in any::<usize>(), byte in any::<u8>(),
        ) {
            let mut document =
                parse_packed(value.to_json().as_bytes(), DuplicateRule::Refuse).unwrap();
            let at = at % document.len();
            document[at] = byte;
            let _ = json_length(&document);
        }

        #[test]
        fn a_member_is_found_wherever_it_is_looked_for_first(value in values(), at in 0_usize..6) {
            let document = parse_packed(value.to_json().as_bytes(), DuplicateRule::Refuse).unwrap();
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
