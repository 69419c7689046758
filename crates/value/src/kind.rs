//! The six types of values, in their order.

use std::fmt;

/// The type of a value. Values of different types compare as their types do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// An integer or a double.
    Number,
    /// A string of Unicode characters.
    String,
    /// A list of values.
    Array,
    /// A map of names to values.
    Object,
}

impl Kind {
    /// Its name in AQL's `TYPENAME` and in error messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
