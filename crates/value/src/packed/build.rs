//! The builder of packed documents. It writes from front to back; lengths and tables are filled in
//! when an array or object ends, so that nothing has to be moved.

use super::depth::depth;
use super::node::{CONTAINER_HEADER_BYTES, DEPTH_MAX, FORMAT, string_at, tag};
use crate::{ArrayRef, DuplicateRule, LimitError, Number, ObjectRef, Ref, VALUE_BYTES_MAX};

/// A builder of one document. Values are added between [`begin_object`](Self::begin_object) or
/// [`begin_array`](Self::begin_array) and [`end`](Self::end); in objects, each value follows its
/// [`name`](Self::name). Any other order of calls is a bug of the caller and panics.
#[derive(Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    /// The arrays and objects that have not ended.
    frames: Vec<Frame>,
    /// The offsets in `bytes` of the entries of all frames.
    entries: Vec<u32>,
    duplicates: DuplicateRule,
    /// True between a name and its value.
    is_named: bool,
    /// The limit that was exceeded. The document is refused then, whatever is added.
    failed: Option<LimitError>,
}

/// The number of entries for which memory is reserved first.
const ENTRIES_USUAL: usize = 16;

/// An array or object that has not ended.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: usize,
    first_entry: usize,
    is_object: bool,
}

impl Builder {
    /// Makes a builder that keeps the last of several members with one name.
    #[must_use]
    pub fn new() -> Self {
        Self::with(DuplicateRule::Last)
    }

    /// Makes a builder with this rule for duplicate names. [`DuplicateRule::Refuse`] keeps the
    /// first unless `try_end` is used.
    #[must_use]
    pub fn with(duplicates: DuplicateRule) -> Self {
        let mut builder = Self::idle(duplicates);
        builder.restart(Vec::new());
        builder
    }

    /// Makes a builder without a document; [`restart`](Self::restart) begins the first one.
    pub(crate) fn idle(duplicates: DuplicateRule) -> Self {
        let (bytes, frames, entries) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, frames, entries, duplicates, is_named: false, failed: None }
    }

    /// Begins another document, in the memory of `bytes`.
    pub(crate) fn restart(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        bytes.push(FORMAT);
        self.bytes = bytes;
        self.frames.clear();
        self.entries.clear();
        self.is_named = false;
        self.failed = None;
    }

    /// Returns the document. Only [`restart`](Self::restart) may be called afterwards.
    pub(crate) fn take(&mut self) -> Result<Vec<u8>, LimitError> {
        assert!(self.frames.is_empty() && self.bytes.len() > 1, "a document is one whole value");
        match self.failed.take() {
            Some(over) => Err(over),
            None => Ok(std::mem::take(&mut self.bytes)),
        }
    }

    /// True if the document exceeds a limit. It is refused at the end, so further values can be
    /// left out.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Appends `part`, unless the document gets too large.
    fn append(&mut self, part: &[u8]) {
        if self.bytes.len() + part.len() > VALUE_BYTES_MAX {
            self.failed.get_or_insert(LimitError::Size);
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Reserves memory for the entries of a usual object at once.
    fn make_room(&mut self) {
        if self.entries.capacity() == 0 {
            self.entries.reserve(ENTRIES_USUAL);
        }
    }

    fn begin_value(&mut self) {
        if self.bytes.len() > VALUE_BYTES_MAX {
            self.failed.get_or_insert(LimitError::Size);
        }
        match self.frames.last() {
            Some(frame) if frame.is_object => {
                assert!(self.is_named, "a member of an object has a name");
                self.is_named = false;
            }
            Some(_) => self.entries.push(position(self.bytes.len())),
            None => assert_eq!(self.bytes.len(), 1, "a document is one value"),
        }
    }

    /// Adds null.
    pub fn null(&mut self) {
        self.begin_value();
        self.bytes.push(tag::NULL);
    }

    /// Adds true or false.
    pub fn bool(&mut self, value: bool) {
        self.begin_value();
        self.bytes.push(if value { tag::TRUE } else { tag::FALSE });
    }

    /// Adds a number; a NaN or infinite double becomes null.
    pub fn number(&mut self, number: Number) {
        match number {
            Number::Int(value) => self.int(value),
            Number::Uint(value) => match i64::try_from(value) {
                Ok(value) => self.int(value),
                Err(_) => self.wide(tag::UINT_8, value.to_le_bytes()),
            },
            Number::Double(value) if value.is_finite() => {
                self.wide(tag::DOUBLE, value.to_le_bytes());
            }
            Number::Double(_) => self.null(),
        }
    }

    fn wide(&mut self, tag: u8, bytes: [u8; 8]) {
        self.begin_value();
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&bytes);
    }

    fn int(&mut self, value: i64) {
        if let Ok(value) = i8::try_from(value) {
            self.begin_value();
            self.bytes.push(tag::INT_1);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        } else if let Ok(value) = i16::try_from(value) {
            self.begin_value();
            self.bytes.push(tag::INT_2);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.begin_value();
            self.bytes.push(tag::INT_4);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        } else {
            self.wide(tag::INT_8, value.to_le_bytes());
        }
    }

    /// Adds a string.
    pub fn string(&mut self, text: &str) {
        self.begin_value();
        self.raw_string(text);
    }

    fn raw_string(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(length) if length <= 127 => self.bytes.push(tag::SHORT_STRING + length),
            _ => {
                self.bytes.push(tag::STRING);
                self.bytes.extend_from_slice(&position(text.len()).to_le_bytes());
            }
        }
        self.append(text.as_bytes());
    }

    /// Adds the name of the next value of an object.
    pub fn name(&mut self, name: &str) {
        let is_object = self.frames.last().is_some_and(|frame| frame.is_object);
        assert!(is_object && !self.is_named, "a name stands in an object, before its value");
        self.is_named = true;
        self.entries.push(position(self.bytes.len()));
        self.raw_string(name);
    }

    /// Begins an array.
    pub fn begin_array(&mut self) {
        self.begin(tag::ARRAY, false);
    }

    /// Begins an object.
    pub fn begin_object(&mut self) {
        self.begin(tag::OBJECT, true);
    }

    fn begin(&mut self, tag: u8, is_object: bool) {
        self.make_room();
        self.begin_value();
        let start = self.bytes.len();
        if self.frames.len() >= DEPTH_MAX {
            self.failed.get_or_insert(LimitError::Depth);
        }
        self.frames.push(Frame { start, first_entry: self.entries.len(), is_object });
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&[0; CONTAINER_HEADER_BYTES - 1]);
    }

    /// Ends the array or object that began last.
    pub fn end(&mut self) {
        // `try_end` has dropped the duplicates, so its error can be ignored.
        let _ = self.try_end();
    }

    /// As [`end`](Self::end), with an error for duplicate names.
    ///
    /// # Errors
    /// A name that occurs twice, with [`DuplicateRule::Refuse`]. The first member is kept.
    pub(crate) fn try_end(&mut self) -> Result<(), String> {
        assert!(!self.is_named, "a name has its value before the object ends");
        let frame = self.frames.pop().expect("what ends has begun");
        let mut outcome = Ok(());
        if frame.is_object {
            self.sort(frame.first_entry);
            if let Some(duplicate) = self.duplicate(frame.first_entry) {
                outcome = Err(duplicate);
                self.drop_duplicates(&frame);
            }
        }
        self.close(&frame);
        if self.duplicates == DuplicateRule::Refuse { outcome } else { Ok(()) }
    }

    fn name_at(bytes: &[u8], entry: u32) -> &[u8] {
        string_at(&bytes[entry as usize..]).map_or(&[], |(name, _)| name)
    }

    /// Sorts the entries from `first` on by name, and those of one name in the order of insertion.
    fn sort(&mut self, first: usize) {
        let bytes = &self.bytes;
        let by_name = |left: &u32, right: &u32| {
            Self::name_at(bytes, *left).cmp(Self::name_at(bytes, *right)).then(left.cmp(right))
        };
        let entries = &mut self.entries[first..];
        if entries.len() > 1 {
            entries.sort_unstable_by(by_name);
        }
    }

    /// A name that occurs twice among the sorted entries from `first` on.
    fn duplicate(&self, first: usize) -> Option<String> {
        let name_at = |entry| Self::name_at(&self.bytes, entry);
        let same = |pair: &&[u32]| name_at(pair[0]) == name_at(pair[1]);
        let pair = self.entries[first..].windows(2).find(same)?;
        Some(String::from_utf8_lossy(name_at(pair[1])).into_owned())
    }

    /// Rewrites the members of the object, with only one member for each name.
    fn drop_duplicates(&mut self, frame: &Frame) {
        let body = frame.start + CONTAINER_HEADER_BYTES;
        let by_name = self.entries.split_off(frame.first_entry);
        let name = |entry: u32| Self::name_at(&self.bytes, entry);
        // For each name, the offsets of its first member and of the one that is kept.
        let mut kept: Vec<(u32, u32)> = Vec::new();
        for entries in by_name.chunk_by(|left, right| name(*left) == name(*right)) {
            let (first, last) = (entries[0], entries[entries.len() - 1]);
            let stays = if self.duplicates == DuplicateRule::Last { last } else { first };
            kept.push((first, stays));
        }
        kept.sort_unstable();
        let mut begins = by_name;
        begins.sort_unstable();
        let old = self.bytes.split_off(body);
        for (_, stays) in kept {
            let next = begins.partition_point(|begin| *begin <= stays);
            let end = begins.get(next).map_or(old.len(), |end| *end as usize - body);
            self.entries.push(position(self.bytes.len()));
            self.bytes.extend_from_slice(&old[stays as usize - body..end]);
        }
        self.sort(frame.first_entry);
    }

    /// Writes the table, and fills in the header.
    fn close(&mut self, frame: &Frame) {
        let entries = &self.entries[frame.first_entry..];
        let body = self.bytes.len() - frame.start;
        let width: u8 = [(0, 0xff), (1, 0xffff)]
            .into_iter()
            .find(|(_, greatest)| body <= *greatest)
            .map_or(2, |(width, _)| width);
        for entry in entries {
            let offset = entry - position(frame.start);
            match width {
                0 => self.bytes.push(offset as u8),
                1 => self.bytes.extend_from_slice(&(offset as u16).to_le_bytes()),
                _ => self.bytes.extend_from_slice(&offset.to_le_bytes()),
            }
        }
        let length = position(self.bytes.len() - frame.start);
        let header = &mut self.bytes[frame.start..frame.start + CONTAINER_HEADER_BYTES];
        header[0] += width;
        header[1..5].copy_from_slice(&length.to_le_bytes());
        header[5..9].copy_from_slice(&position(entries.len()).to_le_bytes());
        self.entries.truncate(frame.first_entry);
    }

    /// Adds any value. Packed bytes are copied unchanged.
    pub fn value(&mut self, value: Ref<'_>) {
        if self.has_failed() {
            return self.null();
        }
        match value {
            Ref::Null => self.null(),
            Ref::Bool(value) => self.bool(value),
            Ref::Number(number) => self.number(number),
            Ref::String(text) => self.string(text),
            Ref::Array(ArrayRef::Packed(array)) => self.node(array.node()),
            Ref::Object(ObjectRef::Packed(object)) => self.node(object.node()),
            Ref::Array(array) => {
                self.begin_array();
                array.iter().for_each(|element| self.value(element));
                self.end();
            }
            Ref::Object(object) => {
                self.begin_object();
                for (name, member) in object.iter() {
                    self.name(name);
                    self.value(member);
                }
                self.end();
            }
        }
    }

    fn node(&mut self, node: &[u8]) {
        self.begin_value();
        if self.frames.len() + depth(node) > DEPTH_MAX {
            self.failed.get_or_insert(LimitError::Depth);
        }
        self.append(node);
    }

    /// Returns the document.
    ///
    /// # Errors
    /// If it is deeper than [`DEPTH_MAX`] or larger than [`VALUE_BYTES_MAX`].
    pub fn finish(mut self) -> Result<Vec<u8>, LimitError> {
        self.take()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// Converts an offset to the format's width. A larger offset is clamped: such a document is refused
/// at the end.
fn position(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
