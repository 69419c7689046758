//! The six types of values, in their order.

use std::fmt;

/// The type of a value. Values of different types compare as their types do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number, whole or not.
    Number,
    /// A string of Unicode characters.
    String,
    /// A list of values.
    Array,
    /// Values by name.
    Object,
}

impl Kind {
    /// Its name, as AQL's `TYPENAME` and error texts have it.
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
