//! Makers of texts, lists and objects. Every function builds its result through one of them. They
//! take the query's memory before anything grows, and check regularly whether the query has to end.

use std::borrow::Cow;
use std::collections::TryReserveError;

use pellucid_value::{DuplicateRule, ObjectBuilder, Ref, Text, Value, beginning, json, packed};

use crate::query_run::QueryRun;
use crate::{QueryError, Result, number};

/// The most bytes of a string that a function makes.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 20;
/// The number of bytes of text that count as one step.
pub(crate) const STEP_BYTES: usize = 4096;
/// The bytes of a string that are written as JSON at a time.
const PIECE_BYTES: usize = 16 << 10;
/// The least capacity of a growing text or list, in bytes or elements.
const ROOM_MIN: usize = 16;
/// The bytes of a string besides its text: its value, and the header of its memory.
pub(super) const STRING_BYTES: usize = size_of::<Value>() + 2 * size_of::<usize>();
/// The bytes of a member of an object besides its name and the contents of its value.
const MEMBER_BYTES: usize = 160;

/// Makes the error for a text that is too long.
pub(super) fn too_long() -> QueryError {
    let message = format!("a string would be longer than {TEXT_BYTES_MAX} bytes");
    QueryError::new(number::RESOURCE_LIMIT, message)
}

/// Makes the error for memory that the system does not have.
fn refused(_: TryReserveError) -> QueryError {
    QueryError::new(number::RESOURCE_LIMIT, "the memory that a query needs is not there")
}

/// The new capacity of something that has `capacity` and needs `needed`.
fn grown(capacity: usize, needed: usize) -> usize {
    needed.max(capacity.saturating_mul(2)).max(ROOM_MIN)
}

/// The bytes of `count` things of this size.
///
/// # Errors
/// If the product overflows.
pub(crate) fn bytes_of(count: usize, size: usize) -> Result<usize> {
    count.checked_mul(size).ok_or_else(|| {
        QueryError::new(number::RESOURCE_LIMIT, "query would use more memory than there is")
    })
}

/// Makes an empty vector with room for `count` elements, whose memory is taken from the query.
pub(crate) fn room_for<T>(run: &mut QueryRun, count: usize) -> Result<Vec<T>> {
    run.memory.take(bytes_of(count, size_of::<T>())?)?;
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(refused)?;
    Ok(room)
}

/// Casts a value to a string. A string is not copied.
pub(crate) fn text<'a>(run: &mut QueryRun, value: &'a Value) -> Result<Cow<'a, str>> {
    match value.view() {
        Ref::Null => Ok(Cow::Borrowed("")),
        Ref::String(text) => Ok(Cow::Borrowed(text)),
        other => {
            let mut made = TextMaker::new(run);
            made.value(other)?;
            Ok(Cow::Owned(made.text))
        }
    }
}

/// A maker of a string.
pub(crate) struct TextMaker<'r> {
    pub(super) run: &'r mut QueryRun,
    text: String,
}

impl<'r> TextMaker<'r> {
    pub(crate) fn new(run: &'r mut QueryRun) -> Self {
        Self { run, text: String::new() }
    }

    pub(super) fn with_room(run: &'r mut QueryRun, bytes: usize) -> Result<Self> {
        let mut made = Self::new(run);
        made.reserve(bytes)?;
        Ok(made)
    }

    /// Reserves exactly `bytes` more bytes.
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let needed = self.needed(bytes)?;
        self.grow(needed)
    }

    fn needed(&self, bytes: usize) -> Result<usize> {
        let needed = self.text.len().checked_add(bytes);
        needed.filter(|needed| *needed <= TEXT_BYTES_MAX).ok_or_else(too_long)
    }

    fn grow(&mut self, capacity: usize) -> Result<()> {
        let more = capacity.saturating_sub(self.text.capacity());
        if more > 0 {
            self.run.memory.take(more)?;
            self.text.try_reserve_exact(capacity - self.text.len()).map_err(refused)?;
        }
        Ok(())
    }

    /// Appends text.
    pub(super) fn push(&mut self, part: &str) -> Result<()> {
        let needed = self.needed(part.len())?;
        if needed > self.text.capacity() {
            self.grow(grown(self.text.capacity(), needed).min(TEXT_BYTES_MAX))?;
        }
        self.run.tick_by(1 + part.len() / STEP_BYTES)?;
        self.text.push_str(part);
        Ok(())
    }

    /// Appends a character.
    pub(super) fn push_char(&mut self, character: char) -> Result<()> {
        self.push(character.encode_utf8(&mut [0; 4]))
    }

    /// Appends a value as a string: null is empty, arrays and objects are their JSON.
    pub(crate) fn value(&mut self, value: Ref<'_>) -> Result<()> {
        match value {
            Ref::Null => Ok(()),
            Ref::String(text) => self.push(text),
            other => self.json(other),
        }
    }

    /// Appends the JSON of a value.
    pub(super) fn json(&mut self, value: Ref<'_>) -> Result<()> {
        self.json_at(value, 0, &mut Vec::new())
    }

    fn json_at(&mut self, value: Ref<'_>, depth: usize, scratch: &mut Vec<u8>) -> Result<()> {
        if depth > packed::DEPTH_MAX {
            return Err(too_deep());
        }
        match value {
            Ref::Null | Ref::Bool(_) | Ref::Number(_) => {
                scratch.clear();
                json::write(value, scratch);
                self.push(std::str::from_utf8(scratch).unwrap_or_default())
            }
            Ref::String(text) => self.json_string(text, scratch),
            Ref::Array(array) => {
                self.push("[")?;
                for (place, element) in array.iter().enumerate() {
                    self.push(if place > 0 { "," } else { "" })?;
                    self.json_at(element, depth + 1, scratch)?;
                }
                self.push("]")
            }
            Ref::Object(object) => {
                self.push("{")?;
                for (place, (name, member)) in object.iter().enumerate() {
                    self.push(if place > 0 { "," } else { "" })?;
                    self.json_string(name, scratch)?;
                    self.push(":")?;
                    self.json_at(member, depth + 1, scratch)?;
                }
                self.push("}")
            }
        }
    }

    /// Appends a string as JSON, in pieces, because an escape has up to six times the bytes of its
    /// character.
    fn json_string(&mut self, text: &str, scratch: &mut Vec<u8>) -> Result<()> {
        self.push("\"")?;
        for piece in pieces(text, PIECE_BYTES) {
            scratch.clear();
            json::write_string(piece, scratch);
            let written = std::str::from_utf8(scratch).unwrap_or_default();
            self.push(&written[1..written.len() - 1])?;
        }
        self.push("\"")
    }

    /// Returns the text for further use in the function.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Returns the string. It takes its memory twice while it is copied.
    pub(crate) fn finish(self) -> Result<Value> {
        self.run.memory.take(self.text.len())?;
        Ok(self.text.into())
    }
}

/// The text in pieces of at most `bytes` bytes (at least 4), split between characters.
pub(super) fn pieces(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let piece = beginning(rest, bytes);
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}

/// Makes a string of a part of another one.
pub(super) fn part_of(run: &mut QueryRun, part: &str) -> Result<Value> {
    run.memory.take(part.len())?;
    Ok(part.into())
}

/// Makes the error for arrays and objects that are nested too deep.
pub(super) fn too_deep() -> QueryError {
    let message = format!("values nest deeper than {} levels", packed::DEPTH_MAX);
    QueryError::new(number::TOO_MUCH_NESTING, message)
}

/// A maker of an array.
pub(super) struct ListMaker<'r> {
    pub(super) run: &'r mut QueryRun,
    elements: Vec<Value>,
}

impl<'r> ListMaker<'r> {
    pub(super) fn new(run: &'r mut QueryRun) -> Self {
        Self { run, elements: Vec::new() }
    }

    /// Begins an array, with room for `count` elements.
    pub(super) fn with_room(run: &'r mut QueryRun, count: usize) -> Result<Self> {
        let elements = room_for(run, count)?;
        Ok(Self { run, elements })
    }

    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Appends a value whose own memory is counted elsewhere.
    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        let (length, capacity) = (self.elements.len(), self.elements.capacity());
        if length == capacity {
            let more = grown(capacity, length + 1) - capacity;
            self.run.memory.take(bytes_of(more, size_of::<Value>())?)?;
            self.elements.try_reserve_exact(capacity + more - length).map_err(refused)?;
        }
        self.run.tick()?;
        self.elements.push(value);
        Ok(())
    }

    /// Appends a new string, and takes its memory.
    pub(super) fn push_text(&mut self, text: &str) -> Result<()> {
        self.run.memory.take(STRING_BYTES.saturating_add(text.len()))?;
        self.run.tick_by(text.len() / STEP_BYTES)?;
        self.push(text.into())
    }

    /// Appends all elements of an array.
    pub(super) fn extend(&mut self, list: &Value) -> Result<()> {
        list.each().try_for_each(|element| self.push(element))
    }

    /// Returns the array.
    pub(super) fn finish(mut self) -> Result<Value> {
        self.elements.shrink_to_fit();
        Ok(Value::array(self.elements)?)
    }
}

/// A maker of an object.
pub(super) struct ObjectMaker<'r> {
    pub(super) run: &'r mut QueryRun,
    object: ObjectBuilder,
}

impl<'r> ObjectMaker<'r> {
    /// Begins an object that keeps the last member of a name, in the position of the first.
    pub(super) fn new(run: &'r mut QueryRun) -> Self {
        Self::with(run, DuplicateRule::Last)
    }

    /// Begins an object with this rule for duplicate names.
    pub(super) fn with(run: &'r mut QueryRun, duplicates: DuplicateRule) -> Self {
        Self { run, object: ObjectBuilder::with(duplicates) }
    }

    /// Adds a member whose name and value are counted elsewhere.
    pub(super) fn insert(&mut self, name: impl Into<Text>, value: Value) -> Result<()> {
        self.run.memory.take(MEMBER_BYTES)?;
        self.run.tick()?;
        self.object.insert(name, value);
        Ok(())
    }

    /// Adds a member with a new name, and takes the memory of the name.
    pub(super) fn insert_named(&mut self, name: &str, value: Value) -> Result<()> {
        self.run.memory.take(name.len())?;
        self.insert(name, value)
    }

    /// Returns the object.
    pub(super) fn finish(self) -> Result<Value> {
        Ok(self.object.finish()?)
    }
}
