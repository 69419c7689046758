//! Errors of queries, with the numbers that drivers know.

use std::fmt;

use pellucid_budget::BudgetError;
use pellucid_value::LimitError;

macro_rules! numbers {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u16 = $number;)*
    };
}

/// ArangoDB's numbers of errors and warnings.
pub mod number {
    numbers! {
        INTERNAL = 4, "An internal error.";
        NOT_IMPLEMENTED = 9, "A feature that this version does not implement.";
        BAD_PARAMETER = 10, "An invalid parameter.";
        FORBIDDEN = 11, "The caller may not do this.";
        RESOURCE_LIMIT = 32, "The memory that a query may use is used up.";
        CONFLICT = 1200, "Two writers met, or a revision is another one than expected.";
        DOCUMENT_NOT_FOUND = 1202, "There is no such document.";
        COLLECTION_NOT_FOUND = 1203, "There is no such collection.";
        UNIQUE_CONSTRAINT = 1210, "Another document has this value already.";
        DOCUMENT_KEY_BAD = 1221, "The key of a document is invalid.";
        DOCUMENT_TYPE_INVALID = 1227, "A document is not an object.";
        KILLED = 1500, "The query was killed, or took too long.";
        PARSE = 1501, "The text is no query.";
        EMPTY = 1502, "The text is empty.";
        NUMBER_OUT_OF_RANGE = 1504, "A number is out of range.";
        VARIABLE_REDECLARED = 1511, "A variable of this name is already declared.";
        VARIABLE_NAME_UNKNOWN = 1512, "There is no variable of this name.";
        TOO_MUCH_NESTING = 1524, "Expressions, loops or values are nested too deep.";
        INVALID_OPTIONS_ATTRIBUTE = 1539, "An option is unknown.";
        FUNCTION_NAME_UNKNOWN = 1540, "There is no such function.";
        FUNCTION_ARGUMENT_NUMBER = 1541, "A function has a wrong number of arguments.";
        FUNCTION_ARGUMENT_TYPE = 1542, "An argument of a function has a wrong type.";
        INVALID_REGEX = 1543, "A regular expression is invalid.";
        BIND_PARAMETERS_INVALID = 1550, "The bind variables are not an object.";
        BIND_PARAMETER_MISSING = 1551, "A bind variable has no value.";
        BIND_PARAMETER_UNDECLARED = 1552, "A value is given for an undeclared bind variable.";
        BIND_PARAMETER_TYPE = 1553, "A bind variable has a value of the wrong type.";
        INVALID_ARITHMETIC_VALUE = 1561, "An element of an array is no number.";
        DIVISION_BY_ZERO = 1562, "Division by zero.";
        ARRAY_EXPECTED = 1563, "An array was expected.";
        COLLECTION_USED_IN_EXPRESSION = 1568, "A collection is used as a value.";
        FAIL_CALLED = 1569, "`FAIL` was called.";
        INVALID_DATE_VALUE = 1572, "A date is invalid.";
        INVALID_AGGREGATE_EXPRESSION = 1574, "An aggregate expression is invalid.";
        COMPILE_TIME_OPTIONS = 1575, "Options must be constants, known before the query runs.";
        ACCESS_AFTER_MODIFICATION = 1579, "A collection is read after it was written to.";
    }
}

/// The error that ended a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// An error that is reported to the user.
    Failed {
        /// One of [`number`], or a number of the source.
        number: u16,
        /// The message for the user, without the prefix `AQL: `.
        message: String,
    },
    /// A query was run as a light one but is not light. It has to be run on another thread.
    NotLight,
    /// A query must not wait, but its data is not in memory. It has to be run on another thread.
    NotInMemory,
}

/// A result of a query, or of a part of it.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

impl QueryError {
    /// Makes an error that is reported to the user.
    #[must_use]
    pub fn new(number: u16, message: impl Into<String>) -> Self {
        Self::Failed { number, message: message.into() }
    }

    /// The number for the user. `NotLight` and `NotInMemory` are never reported to users.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            Self::Failed { number, .. } => *number,
            Self::NotLight | Self::NotInMemory => number::INTERNAL,
        }
    }

    /// Makes the error for a part of the language that this version does not implement.
    #[must_use]
    pub fn unsupported(what: &str) -> Self {
        Self::new(number::NOT_IMPLEMENTED, format!("{what} is not supported by this version"))
    }
}

/// The error is 1524 for a value that is too deep, and 32 for one that is too large.
impl From<LimitError> for QueryError {
    fn from(over: LimitError) -> Self {
        let number = match over {
            LimitError::Depth => number::TOO_MUCH_NESTING,
            LimitError::Size => number::RESOURCE_LIMIT,
        };
        Self::new(number, over.to_string())
    }
}

/// The error is 32, for the limit of the query or of the server.
impl From<BudgetError> for QueryError {
    fn from(over: BudgetError) -> Self {
        let message = match over {
            BudgetError::Share { .. } => "query would use more memory than allowed".to_owned(),
            BudgetError::Server { .. } => over.to_string(),
        };
        Self::new(number::RESOURCE_LIMIT, message)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Failed { message, .. } => message,
            Self::NotLight => "the query is not light",
            Self::NotInMemory => "the data of the query is not in memory",
        })
    }
}

impl std::error::Error for QueryError {}
