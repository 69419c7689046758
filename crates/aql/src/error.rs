//! Errors of queries, with the numbers that drivers know.

use std::fmt;

use pellucid_budget::BudgetError;
use pellucid_value::LimitError;

/// ArangoDB's numbers of errors and warnings.
pub mod number {
    /// An internal error.
    pub const INTERNAL: u16 = 4;
    /// A feature that this version does not implement.
    pub const NOT_IMPLEMENTED: u16 = 9;
    /// An invalid parameter.
    pub const BAD_PARAMETER: u16 = 10;
    /// The caller may not do this.
    pub const FORBIDDEN: u16 = 11;
    /// The memory that a query may use is used up.
    pub const RESOURCE_LIMIT: u16 = 32;
    /// Two writers met, or a revision is another one than expected.
    pub const CONFLICT: u16 = 1200;
    /// There is no such document.
    pub const DOCUMENT_NOT_FOUND: u16 = 1202;
    /// There is no such collection.
    pub const COLLECTION_NOT_FOUND: u16 = 1203;
    /// Another document has this value already.
    pub const UNIQUE_CONSTRAINT: u16 = 1210;
    /// The key of a document is invalid.
    pub const DOCUMENT_KEY_BAD: u16 = 1221;
    /// A document is not an object.
    pub const DOCUMENT_TYPE_INVALID: u16 = 1227;
    /// The query was killed, or took too long.
    pub const KILLED: u16 = 1500;
    /// The text is no query.
    pub const PARSE: u16 = 1501;
    /// The text is empty.
    pub const EMPTY: u16 = 1502;
    /// A number is out of range.
    pub const NUMBER_OUT_OF_RANGE: u16 = 1504;
    /// A variable of this name is already declared.
    pub const VARIABLE_REDECLARED: u16 = 1511;
    /// There is no variable of this name.
    pub const VARIABLE_NAME_UNKNOWN: u16 = 1512;
    /// Expressions, loops or values are nested too deep.
    pub const TOO_MUCH_NESTING: u16 = 1524;
    /// An option is unknown.
    pub const INVALID_OPTIONS_ATTRIBUTE: u16 = 1539;
    /// There is no such function.
    pub const FUNCTION_NAME_UNKNOWN: u16 = 1540;
    /// A function has a wrong number of arguments.
    pub const FUNCTION_ARGUMENT_NUMBER: u16 = 1541;
    /// An argument of a function has a wrong type.
    pub const FUNCTION_ARGUMENT_TYPE: u16 = 1542;
    /// A regular expression is invalid.
    pub const INVALID_REGEX: u16 = 1543;
    /// The bind variables are not an object.
    pub const BIND_PARAMETERS_INVALID: u16 = 1550;
    /// A bind variable has no value.
    pub const BIND_PARAMETER_MISSING: u16 = 1551;
    /// A value is given for an undeclared bind variable.
    pub const BIND_PARAMETER_UNDECLARED: u16 = 1552;
    /// A bind variable has a value of the wrong type.
    pub const BIND_PARAMETER_TYPE: u16 = 1553;
    /// Division by zero.
    pub const DIVISION_BY_ZERO: u16 = 1562;
    /// An array was expected.
    pub const ARRAY_EXPECTED: u16 = 1563;
    /// A collection is used as a value.
    pub const COLLECTION_USED_IN_EXPRESSION: u16 = 1568;
    /// `FAIL` was called.
    pub const FAIL_CALLED: u16 = 1569;
    /// A date is invalid.
    pub const INVALID_DATE_VALUE: u16 = 1572;
    /// An aggregate expression is invalid.
    pub const INVALID_AGGREGATE_EXPRESSION: u16 = 1574;
    /// Options must be constants that are known before the query runs.
    pub const COMPILE_TIME_OPTIONS: u16 = 1575;
    /// A collection is read after it was written to.
    pub const ACCESS_AFTER_MODIFICATION: u16 = 1579;
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
            LimitError::Depth { .. } => number::TOO_MUCH_NESTING,
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
