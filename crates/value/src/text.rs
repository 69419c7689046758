//! Strings that are cheap to clone.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::SharedBytes;

/// The bytes of the counters that an [`Arc`] keeps in front of its value.
pub(crate) const ARC_BYTES: usize = 2 * size_of::<usize>();

/// A string: empty, in memory of its own, or a part of a packed document.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    Empty,
    Owned(Arc<str>),
    Part(SharedBytes),
}

impl Text {
    /// Makes a string of a part of packed bytes. Bytes that are no UTF-8 are read as empty.
    pub(crate) fn part(bytes: SharedBytes) -> Self {
        Self(Form::Part(bytes))
    }

    /// Copies the string if it keeps a much longer document in memory.
    pub(crate) fn let_go(&mut self) {
        if let Form::Part(bytes) = &self.0
            && bytes.is_wasteful()
        {
            *self = Self::from(self.as_str());
        }
    }

    /// The bytes of memory of its text, without the `Text` itself.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.0 {
            Form::Empty => 0,
            Form::Owned(text) => ARC_BYTES + text.len(),
            Form::Part(bytes) => bytes.len(),
        }
    }

    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Empty => "",
            Form::Owned(text) => text,
            Form::Part(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if text.is_empty() { Self(Form::Empty) } else { Self(Form::Owned(Arc::from(text))) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self(Form::Owned(text))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The beginning of a text, of at most `bytes_max` bytes, cut between characters.
#[must_use]
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
