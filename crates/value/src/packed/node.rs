//! Nodes of packed documents: their tags, extents, strings and tables.

use std::fmt;

/// The first byte of a packed document.
pub const FORMAT: u8 = 1;
/// The most levels of nested arrays and objects.
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

/// The bytes of the tag, the length and the number of entries of an array or object.
pub(crate) const CONTAINER_HEADER_BYTES: usize = 9;

/// The node of a packed document. Only the format byte is checked.
///
/// # Errors
/// If the format is unknown or there is no node.
pub fn node_of(document: &[u8]) -> Result<&[u8], Damage> {
    match document {
        [FORMAT, node @ ..] if !node.is_empty() => Ok(node),
        [format, ..] if *format != FORMAT => Err(Damage::Format { format: *format }),
        _ => Err(Damage::Truncated { offset: document.len() }),
    }
}

/// Damage in a packed document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The first byte names a format that this version does not know.
    Format {
        /// The first byte.
        format: u8,
    },
    /// A node is cut off, or has an unknown tag.
    Truncated {
        /// The offset.
        offset: usize,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format { format } => {
                write!(formatter, "packed document of unknown format {format}")
            }
            Self::Truncated { offset } => {
                write!(formatter, "packed document is cut at byte {offset}")
            }
        }
    }
}

impl std::error::Error for Damage {}

pub(crate) fn fixed<const BYTES: usize>(node: &[u8]) -> Option<[u8; BYTES]> {
    node.get(1..)?.first_chunk::<BYTES>().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*field)).ok()
}

/// The length in bytes of the node at the front of `node`; `None` if it is cut off or unknown.
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

pub(super) fn is_container(first: u8) -> bool {
    (tag::ARRAY..tag::ARRAY + 3).contains(&first) || (tag::OBJECT..tag::OBJECT + 3).contains(&first)
}

/// The text of the string node at the front of `node`, and the length of the node.
#[inline]
pub(crate) fn string_at(node: &[u8]) -> Option<(&[u8], usize)> {
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

/// Converts bytes to text; `None` if they are no UTF-8. Most are ASCII, which is checked faster.
#[inline]
pub(crate) fn text_of(bytes: &[u8]) -> Option<&str> {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return Some(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).ok()
}

/// An array or object node with its table of entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container<'a> {
    /// The bytes of the node, and no others.
    pub(super) node: &'a [u8],
    pub(super) count: usize,
    /// The offset of the table in the node.
    pub(super) begin: usize,
    /// The binary logarithm of the bytes of an entry of the table.
    width: u8,
    /// True for an object, whose entries begin with names.
    pub(crate) is_object: bool,
}

impl<'a> Container<'a> {
    /// Opens the array or object at the front of `node`; `None` for other or damaged nodes.
    pub(crate) fn open(node: &'a [u8]) -> Option<Self> {
        let first = *node.first().filter(|first| is_container(**first))?;
        let is_object = first >= tag::OBJECT;
        let width = first - if is_object { tag::OBJECT } else { tag::ARRAY };
        let length = u32_at(node, 1)?;
        let count = u32_at(node, 5)?;
        let node = node.get(..length)?;
        let begin = length.checked_sub(count.checked_mul(1 << width)?)?;
        (begin >= CONTAINER_HEADER_BYTES).then_some(Self { node, count, begin, width, is_object })
    }

    /// The bytes of the node from the beginning of an entry to the table.
    #[inline]
    pub(super) fn entry(&self, place: usize) -> Option<&'a [u8]> {
        if place >= self.count {
            return None;
        }
        let at = self.begin + (place << self.width);
        let offset = match self.width {
            0 => usize::from(*self.node.get(at)?),
            1 => usize::from(u16::from_le_bytes(*self.node.get(at..)?.first_chunk()?)),
            _ => u32_at(self.node, at)?,
        };
        // An entry must be between the header and the table, so that nested nodes always get
        // smaller, and following them ends.
        self.node.get(offset..self.begin).filter(|_| offset >= CONTAINER_HEADER_BYTES)
    }
}

/// An array in packed bytes.
#[derive(Clone, Copy, Debug)]
pub struct PackedArray<'a>(pub(crate) Container<'a>);

impl<'a> PackedArray<'a> {
    /// The bytes of the array's node.
    pub(crate) fn node(self) -> &'a [u8] {
        self.0.node
    }

    /// The number of elements by its header.
    pub(crate) fn len(self) -> usize {
        self.0.count
    }

    /// The bytes from the beginning of an element on.
    pub(crate) fn get(self, place: usize) -> Option<&'a [u8]> {
        self.0.entry(place)
    }
}

/// An object in packed bytes.
#[derive(Clone, Copy, Debug)]
pub struct PackedObject<'a>(pub(crate) Container<'a>);

impl<'a> PackedObject<'a> {
    /// The offset at which the first member begins.
    pub(crate) const FIRST: usize = CONTAINER_HEADER_BYTES;

    /// The bytes of the object's node.
    pub(crate) fn node(self) -> &'a [u8] {
        self.0.node
    }

    /// The number of members by its header.
    pub(crate) fn len(self) -> usize {
        self.0.count
    }

    /// The bytes from the beginning of the value of this name on.
    pub(crate) fn get(self, name: &str) -> Option<&'a [u8]> {
        self.find(name).map(|(_, node)| node)
    }

    /// As [`Self::get`], but looks at the entry `place` of the table first, and sets `place` to the
    /// entry where the name was found.
    pub(crate) fn get_near(self, name: &str, place: &mut usize) -> Option<&'a [u8]> {
        let near = self.0.entry(*place).and_then(|entry| Some((entry, string_at(entry)?)));
        if let Some((entry, (found, end))) = near
            && found == name.as_bytes()
        {
            return entry.get(end..);
        }
        let (at, node) = self.find(name)?;
        *place = at;
        Some(node)
    }

    /// The index in the table of the member of this name, and the bytes from its value on.
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

    /// The member at this index in the order of names.
    pub(crate) fn sorted(self, place: usize) -> Option<(&'a str, &'a [u8])> {
        let entry = self.0.entry(place)?;
        let (name, end) = string_at(entry)?;
        Some((text_of(name)?, entry.get(end..)?))
    }

    /// The member that begins at `offset`, and the offset of the next one.
    pub(crate) fn member_at(self, offset: usize) -> Option<(&'a str, &'a [u8], usize)> {
        let entry = self.0.node.get(offset..self.0.begin)?;
        let (name, end) = string_at(entry)?;
        let node = entry.get(end..)?;
        let next = offset + end + extent(node)?;
        Some((text_of(name)?, node, next))
    }
}
