//! Errors in JSON text.

use std::fmt;

/// An error in JSON text, with its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The offset in the text, in bytes.
    pub offset: usize,
    /// The kind of the error.
    pub problem: JsonProblem,
}

/// The kind of an error in JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonProblem {
    /// Something else is expected here, which the text names.
    Expected(&'static str),
    /// The bytes are no UTF-8.
    Utf8,
    /// A number is beyond the range of doubles.
    NumberRange,
    /// A `\u` escape is half of a surrogate pair.
    LoneSurrogate,
    /// A control character that is not escaped.
    ControlCharacter,
    /// The value is nested deeper than this limit.
    Depth(usize),
    /// The value is longer than this limit in bytes.
    Size(usize),
    /// The object that ends here has this attribute name twice.
    DuplicateName(String),
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            JsonProblem::Expected(what) => write!(formatter, "Expecting {what}")?,
            JsonProblem::Utf8 => formatter.write_str("Invalid UTF-8 sequence")?,
            JsonProblem::NumberRange => formatter.write_str("Number out of range")?,
            JsonProblem::LoneSurrogate => {
                formatter.write_str("Unpaired surrogate in \\u escape")?
            }
            JsonProblem::ControlCharacter => formatter.write_str("Unescaped control character")?,
            JsonProblem::Depth(limit) => write!(formatter, "Nested deeper than {limit} levels")?,
            JsonProblem::Size(limit) => write!(formatter, "Longer than {limit} bytes")?,
            JsonProblem::DuplicateName(name) => {
                write!(formatter, "Duplicate attribute name '{name}'")?;
            }
        }
        write!(formatter, " at byte {}", self.offset)
    }
}

impl std::error::Error for JsonError {}
