//! Faults of JSON text.

use std::fmt;

/// The reason for which text was refused, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Bytes from the front of the text.
    pub offset: usize,
    /// Why.
    pub problem: JsonProblem,
}

/// The reason for which text was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonProblem {
    /// Something else should stand here.
    Expected(&'static str),
    /// The bytes are no UTF-8.
    Utf8,
    /// A number that is beyond the range of doubles.
    NumberRange,
    /// `\u` with half of a pair of surrogates.
    LoneSurrogate,
    /// A control character that is not escaped.
    ControlCharacter,
    /// Deeper than this limit.
    Depth(usize),
    /// Longer in bytes than this limit.
    Size(usize),
    /// An attribute that the object, which ends here, has twice.
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
