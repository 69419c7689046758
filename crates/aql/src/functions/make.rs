//! Makers of texts, lists and objects. Every function makes its result through one of them: the
//! length is summed and taken from the query's memory before anything grows, and each step looks
//! now and then whether the query should end.

use std::borrow::Cow;
use std::collections::TryReserveError;

use pellucid_value::{Duplicates, ObjectBuilder, Ref, Text, Value, json, packed};

use crate::run::Run;
use crate::{QueryError, Result, number};

/// The number of bytes that a string may have that a function makes.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 20;
/// The number of bytes of text that count as one step.
pub(crate) const STEP_BYTES: usize = 4096;
/// Bytes of a string that are written as JSON at a time.
const PIECE_BYTES: usize = 16 << 10;
/// The least room of a text or list that grows: bytes or elements.
const ROOM_MIN: usize = 16;
/// The memory that a string takes beside its text: its slot, and the head of its memory.
pub(super) const STRING_BYTES: usize = size_of::<Value>() + 2 * size_of::<usize>();
/// The memory that a member of an object takes beside its name and what is in its value.
const MEMBER_BYTES: usize = 160;

/// A text whose length was not bounded by its arguments is too long.
pub(super) fn too_long() -> QueryError {
    let message = format!("a string would be longer than {TEXT_BYTES_MAX} bytes");
    QueryError::new(number::RESOURCE_LIMIT, message)
}

/// The machine has no such memory.
fn refused(_: TryReserveError) -> QueryError {
    QueryError::new(number::RESOURCE_LIMIT, "the memory that a query needs is not there")
}

/// The room that something gets that has `capacity` and needs `needed`.
fn grown(capacity: usize, needed: usize) -> usize {
    needed.max(capacity.saturating_mul(2)).max(ROOM_MIN)
}

/// The bytes of `count` things of this size.
///
/// # Errors
/// If there are no such numbers of bytes.
pub(crate) fn bytes_of(count: usize, size: usize) -> Result<usize> {
    count.checked_mul(size).ok_or_else(|| {
        QueryError::new(number::RESOURCE_LIMIT, "query would use more memory than there is")
    })
}

/// An empty vector with room for so many elements, which count as memory of the query.
pub(crate) fn room_for<T>(run: &mut Run, count: usize) -> Result<Vec<T>> {
    run.memory.take(bytes_of(count, size_of::<T>())?)?;
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(refused)?;
    Ok(room)
}

/// A value as a string: where it is one, it is not copied.
pub(crate) fn text<'a>(run: &mut Run, value: &'a Value) -> Result<Cow<'a, str>> {
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

/// Makes a string.
pub(crate) struct TextMaker<'r> {
    pub(super) run: &'r mut Run,
    text: String,
}

impl<'r> TextMaker<'r> {
    pub(crate) fn new(run: &'r mut Run) -> Self {
        Self { run, text: String::new() }
    }

    pub(super) fn with_room(run: &'r mut Run, bytes: usize) -> Result<Self> {
        let mut made = Self::new(run);
        made.reserve(bytes)?;
        Ok(made)
    }

    /// Makes room for so many bytes beyond those that there are, and no more.
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

    /// Appends a string as JSON, in pieces: escapes take six times the room of what they stand for.
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

    /// The text, while the function goes on.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// The string. While it is copied to where it stays it takes its room twice.
    pub(crate) fn finish(self) -> Result<Value> {
        self.run.memory.take(self.text.len())?;
        Ok(self.text.into())
    }
}

/// The text in pieces of about so many bytes, each of whole characters.
pub(super) fn pieces(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = bytes.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A string of a part of another one.
pub(super) fn part_of(run: &mut Run, part: &str) -> Result<Value> {
    run.memory.take(part.len())?;
    Ok(part.into())
}

/// Arrays and objects lie too deep in each other.
pub(super) fn too_deep() -> QueryError {
    let message = format!("values nest deeper than {} levels", packed::DEPTH_MAX);
    QueryError::new(number::TOO_MUCH_NESTING, message)
}

/// Makes an array.
pub(super) struct ListMaker<'r> {
    pub(super) run: &'r mut Run,
    elements: Vec<Value>,
}

impl<'r> ListMaker<'r> {
    pub(super) fn new(run: &'r mut Run) -> Self {
        Self { run, elements: Vec::new() }
    }

    /// With room for so many elements.
    pub(super) fn with_room(run: &'r mut Run, count: usize) -> Result<Self> {
        let elements = room_for(run, count)?;
        Ok(Self { run, elements })
    }

    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Appends a value whose own memory counts elsewhere.
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

    /// Appends a string that is made for it.
    pub(super) fn push_text(&mut self, text: &str) -> Result<()> {
        self.run.memory.take(STRING_BYTES.saturating_add(text.len()))?;
        self.run.tick_by(text.len() / STEP_BYTES)?;
        self.push(text.into())
    }

    /// Appends all elements of an array.
    pub(super) fn extend(&mut self, list: &Value) -> Result<()> {
        list.each().try_for_each(|element| self.push(element))
    }

    /// The array.
    pub(super) fn finish(mut self) -> Result<Value> {
        self.elements.shrink_to_fit();
        Ok(Value::array(self.elements)?)
    }
}

/// Makes an object.
pub(super) struct ObjectMaker<'r> {
    pub(super) run: &'r mut Run,
    object: ObjectBuilder,
}

impl<'r> ObjectMaker<'r> {
    /// Of two members of one name the later one stays, in the place of the first.
    pub(super) fn new(run: &'r mut Run) -> Self {
        Self::with(run, Duplicates::Last)
    }

    /// With a rule for names that come twice.
    pub(super) fn with(run: &'r mut Run, duplicates: Duplicates) -> Self {
        Self { run, object: ObjectBuilder::with(duplicates) }
    }

    /// Adds a member whose name and value count elsewhere.
    pub(super) fn insert(&mut self, name: impl Into<Text>, value: Value) -> Result<()> {
        self.run.memory.take(MEMBER_BYTES)?;
        self.run.tick()?;
        self.object.insert(name, value);
        Ok(())
    }

    /// Adds a member whose name is made for it.
    pub(super) fn insert_named(&mut self, name: &str, value: Value) -> Result<()> {
        self.run.memory.take(name.len())?;
        self.insert(name, value)
    }

    /// The object.
    pub(super) fn finish(self) -> Result<Value> {
        Ok(self.object.finish()?)
    }
}
