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
mod text;

pub use build::Builder;
pub use check::{Damage, check};
pub(crate) use depth::depth;
pub use front::{FRONT_MAX, Front, with_front};
pub use measure::json_length;
pub(crate) use measure::node_length;
pub(crate) use text::write_json;

use crate::{ArrayRef, Number, ObjectRef, Ref};

/// The first byte of a packed document.
pub const FORMAT: u8 = 1;
/// The greatest number of arrays and objects within each other.
pub const DEPTH_MAX: usize = 200;

pub(crate) mod tag {
    //! The first bytes of nodes.
    pub(crate) const NULL: u8 = 0;
    pub(crate) const FALSE: u8 = 1;
    pub(crate) const TRUE: u8 = 2;
    pub(crate) const INT_1: u8 = 4;
    pub(crate) const INT_2: u8 = 5;
    pub(crate) const INT_4: u8 = 6;
    pub(crate) const INT_8: u8 = 7;
    pub(crate) const UINT_8: u8 = 8;
    pub(crate) const DOUBLE: u8 = 9;
    pub(crate) const STRING: u8 = 10;
    pub(crate) const ARRAY: u8 = 16;
    pub(crate) const OBJECT: u8 = 24;
    pub(crate) const SHORT_STRING: u8 = 64;
    pub(crate) const SHORT_STRING_END: u8 = SHORT_STRING + 127;
}

/// Tag, length and number of entries of an array or object.
pub(crate) const CONTAINER_HEADER_BYTES: usize = 9;

/// The node of a packed document, of which only the first byte is looked at.
///
/// # Errors
/// If the format is unknown or there is no node.
pub fn node_of(document: &[u8]) -> Result<&[u8], Damage> {
    match document {
        [FORMAT, node @ ..] if !node.is_empty() => Ok(node),
        [format, ..] if *format != FORMAT => Err(Damage::Format { format: *format }),
        _ => Err(Damage::Cut { offset: document.len() }),
    }
}

/// A packed document, read where it lies.
///
/// # Errors
/// As [`node_of`].
pub fn open(document: &[u8]) -> Result<Ref<'_>, Damage> {
    node_of(document).map(Ref::of_node)
}

fn fixed<const BYTES: usize>(node: &[u8]) -> Option<[u8; BYTES]> {
    node.get(1..)?.first_chunk::<BYTES>().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*field)).ok()
}

/// The number of bytes that the node at the front of `node` takes; nothing if it is cut or unknown.
pub(crate) fn extent(node: &[u8]) -> Option<usize> {
    let first = *node.first()?;
    let length = match first {
        tag::NULL | tag::FALSE | tag::TRUE => 1,
        tag::INT_1 => 2,
        tag::INT_2 => 3,
        tag::INT_4 => 5,
        tag::INT_8 | tag::UINT_8 | tag::DOUBLE => 9,
        tag::STRING => u32_at(node, 1)?.checked_add(5)?,
        tag::SHORT_STRING..=tag::SHORT_STRING_END => usize::from(first - tag::SHORT_STRING) + 1,
        _ if is_container(first) => {
            u32_at(node, 1).filter(|length| *length >= CONTAINER_HEADER_BYTES)?
        }
        _ => return None,
    };
    (length <= node.len()).then_some(length)
}

fn is_container(first: u8) -> bool {
    (tag::ARRAY..tag::ARRAY + 3).contains(&first) || (tag::OBJECT..tag::OBJECT + 3).contains(&first)
}

/// The bytes of the string node at the front of `node`, and its extent.
#[inline]
fn string_at(node: &[u8]) -> Option<(&[u8], usize)> {
    let first = *node.first()?;
    let (start, length) = match first {
        tag::SHORT_STRING..=tag::SHORT_STRING_END => {
            (1_usize, usize::from(first - tag::SHORT_STRING))
        }
        tag::STRING => (5, u32_at(node, 1)?),
        _ => return None,
    };
    let end = start.checked_add(length)?;
    Some((node.get(start..end)?, end))
}

/// Bytes as text; nothing if they are no UTF-8. Names and most strings are ASCII, which is told
/// faster.
#[inline]
fn text_of(bytes: &[u8]) -> Option<&str> {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return Some(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).ok()
}

impl<'a> Ref<'a> {
    /// The node at the front of `node`; null if it makes no sense.
    #[must_use]
    pub(crate) fn of_node(node: &'a [u8]) -> Self {
        Self::decode(node).unwrap_or(Ref::Null)
    }

    fn decode(node: &'a [u8]) -> Option<Self> {
        let first = *node.first()?;
        Some(match first {
            tag::SHORT_STRING..=tag::SHORT_STRING_END | tag::STRING => {
                Ref::String(text_of(string_at(node)?.0)?)
            }
            tag::FALSE => Ref::Bool(false),
            tag::TRUE => Ref::Bool(true),
            tag::INT_1 => int(i64::from(i8::from_le_bytes(fixed(node)?))),
            tag::INT_2 => int(i64::from(i16::from_le_bytes(fixed(node)?))),
            tag::INT_4 => int(i64::from(i32::from_le_bytes(fixed(node)?))),
            tag::INT_8 => int(i64::from_le_bytes(fixed(node)?)),
            tag::UINT_8 => {
                let value = u64::from_le_bytes(fixed(node)?);
                Ref::Number(i64::try_from(value).map_or(Number::Uint(value), Number::Int))
            }
            tag::DOUBLE => {
                let value = f64::from_le_bytes(fixed(node)?);
                if !value.is_finite() {
                    return None;
                }
                Ref::Number(Number::Double(value))
            }
            tag::ARRAY..=18 => {
                Ref::Array(ArrayRef::Packed(PackedArray(Table::open(node, first - tag::ARRAY)?)))
            }
            tag::OBJECT..=26 => {
                let table = Table::open(node, first - tag::OBJECT)?;
                Ref::Object(ObjectRef::Packed(PackedObject(table)))
            }
            _ => return None,
        })
    }
}

fn int<'a>(value: i64) -> Ref<'a> {
    Ref::Number(Number::Int(value))
}

/// A node with entries.
#[derive(Clone, Copy, Debug)]
struct Table<'a> {
    /// Exactly the node.
    node: &'a [u8],
    count: usize,
    /// The offset at which the table begins.
    begin: usize,
    /// Two to the power of this are the bytes of an entry of the table.
    width: u8,
}

impl<'a> Table<'a> {
    fn open(node: &'a [u8], width: u8) -> Option<Self> {
        let length = u32_at(node, 1)?;
        let count = u32_at(node, 5)?;
        let node = node.get(..length)?;
        let begin = length.checked_sub(count.checked_mul(1 << width)?)?;
        (begin >= CONTAINER_HEADER_BYTES).then_some(Self { node, count, begin, width })
    }

    /// The bytes from the entry in that place on.
    #[inline]
    fn entry(&self, place: usize) -> Option<&'a [u8]> {
        if place >= self.count {
            return None;
        }
        let at = self.begin + (place << self.width);
        let offset = match self.width {
            0 => usize::from(*self.node.get(at)?),
            1 => usize::from(u16::from_le_bytes(*self.node.get(at..)?.first_chunk()?)),
            _ => u32_at(self.node, at)?,
        };
        // An entry lies behind the header and before the table, so that nodes get smaller as they
        // are followed.
        self.node.get(offset..self.begin).filter(|_| offset >= CONTAINER_HEADER_BYTES)
    }
}

/// An array in packed bytes.
#[derive(Clone, Copy, Debug)]
pub struct PackedArray<'a>(Table<'a>);

impl<'a> PackedArray<'a> {
    /// Exactly its bytes.
    pub(crate) fn node(self) -> &'a [u8] {
        self.0.node
    }

    /// The number of elements that it says that it has.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The element in that place.
    #[must_use]
    pub fn get(self, place: usize) -> Option<Ref<'a>> {
        self.0.entry(place).map(Ref::of_node)
    }
}

/// An object in packed bytes.
#[derive(Clone, Copy, Debug)]
pub struct PackedObject<'a>(Table<'a>);

impl<'a> PackedObject<'a> {
    /// The offset at which the first member begins.
    pub(crate) const FIRST: usize = CONTAINER_HEADER_BYTES;

    /// Exactly its bytes.
    pub(crate) fn node(self) -> &'a [u8] {
        self.0.node
    }

    /// The number of members that it says that it has.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The member of that name.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Ref<'a>> {
        self.node_of(name).map(Ref::of_node)
    }

    /// As [`Self::get`], where members of that name are often found in the same place of the table:
    /// that is looked at first, and noted where it is another one.
    pub(crate) fn get_near(self, name: &str, place: &mut usize) -> Option<Ref<'a>> {
        let near = self.0.entry(*place).and_then(|entry| Some((entry, string_at(entry)?)));
        if let Some((entry, (found, end))) = near
            && found == name.as_bytes()
        {
            return entry.get(end..).map(Ref::of_node);
        }
        let (at, node) = self.find(name)?;
        *place = at;
        Some(Ref::of_node(node))
    }

    /// The bytes from the value of that name on.
    fn node_of(self, name: &str) -> Option<&'a [u8]> {
        self.find(name).map(|(_, node)| node)
    }

    /// The place in the table of the member of that name, and the bytes from its value on.
    fn find(self, name: &str) -> Option<(usize, &'a [u8])> {
        let (mut low, mut high) = (0, self.0.count);
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.0.entry(middle)?;
            let (found, end) = string_at(entry)?;
            match found.cmp(name.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some((middle, entry.get(end..)?)),
            }
        }
        None
    }

    /// The member that is in this place by name.
    pub(crate) fn sorted(self, place: usize) -> Option<(&'a str, Ref<'a>)> {
        let entry = self.0.entry(place)?;
        let (name, end) = string_at(entry)?;
        Some((text_of(name)?, Ref::of_node(entry.get(end..)?)))
    }

    /// The member that begins at `offset`, and where the next one does.
    pub(crate) fn member_at(self, offset: usize) -> Option<(&'a str, Ref<'a>, usize)> {
        let entry = self.0.node.get(offset..self.0.begin)?;
        let (name, end) = string_at(entry)?;
        let node = entry.get(end..)?;
        let next = offset + end + extent(node)?;
        Some((text_of(name)?, Ref::of_node(node), next))
    }
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
