//! Errors of queries, by the numbers that drivers know.

use std::fmt;

use pellucid_budget::OverBudget;
use pellucid_value::OverLimit;

/// The numbers of errors and warnings, as ArangoDB has them.
pub mod number {
    /// A mistake of the program.
    pub const INTERNAL: u16 = 4;
    /// Something that this version does not do.
    pub const NOT_IMPLEMENTED: u16 = 9;
    /// A parameter that makes no sense.
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
    /// This cannot be the key of a document.
    pub const DOCUMENT_KEY_BAD: u16 = 1221;
    /// This cannot be a document.
    pub const DOCUMENT_TYPE_INVALID: u16 = 1227;
    /// The query was killed, or took too long.
    pub const KILLED: u16 = 1500;
    /// The text is no query.
    pub const PARSE: u16 = 1501;
    /// The text is empty.
    pub const EMPTY: u16 = 1502;
    /// A number beyond the range.
    pub const NUMBER_OUT_OF_RANGE: u16 = 1504;
    /// A variable of this name is there already.
    pub const VARIABLE_REDECLARED: u16 = 1511;
    /// There is no variable of this name.
    pub const VARIABLE_NAME_UNKNOWN: u16 = 1512;
    /// Expressions or loops lie too deep in each other.
    pub const TOO_MUCH_NESTING: u16 = 1524;
    /// An option that is not known.
    pub const INVALID_OPTIONS_ATTRIBUTE: u16 = 1539;
    /// There is no such function.
    pub const FUNCTION_NAME_UNKNOWN: u16 = 1540;
    /// A function takes another number of arguments.
    pub const FUNCTION_ARGUMENT_NUMBER: u16 = 1541;
    /// A function takes arguments of another type.
    pub const FUNCTION_ARGUMENT_TYPE: u16 = 1542;
    /// Text that is no regular expression.
    pub const INVALID_REGEX: u16 = 1543;
    /// Bind variables that are no object.
    pub const BIND_PARAMETERS_INVALID: u16 = 1550;
    /// A bind variable has no value.
    pub const BIND_PARAMETER_MISSING: u16 = 1551;
    /// A value is for no bind variable.
    pub const BIND_PARAMETER_UNDECLARED: u16 = 1552;
    /// A bind variable has a value of the wrong type.
    pub const BIND_PARAMETER_TYPE: u16 = 1553;
    /// Division by zero.
    pub const DIVISION_BY_ZERO: u16 = 1562;
    /// An array was expected.
    pub const ARRAY_EXPECTED: u16 = 1563;
    /// A collection stands where a value should.
    pub const COLLECTION_USED_IN_EXPRESSION: u16 = 1568;
    /// `FAIL` was called.
    pub const FAIL_CALLED: u16 = 1569;
    /// A date that is none.
    pub const INVALID_DATE_VALUE: u16 = 1572;
    /// An aggregate that is none.
    pub const INVALID_AGGREGATE_EXPRESSION: u16 = 1574;
    /// Options, or another operand, must be known before the query runs.
    pub const COMPILE_TIME_OPTIONS: u16 = 1575;
    /// A collection is read after it was written to.
    pub const ACCESS_AFTER_MODIFICATION: u16 = 1579;
}

/// The reason for a result that is missing or not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// An error that its user is told.
    Failed {
        /// The error that it is: one of [`number`], or what the source reports.
        number: u16,
        /// The message for the user, without the `AQL: ` in front.
        message: String,
    },
    /// A query that was to be light is not, and has to be run elsewhere.
    NotLight,
    /// The data of a query that must not wait is not in memory: it has to be run elsewhere.
    NotInMemory,
}

/// A result of a query, or of a part of it.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

impl QueryError {
    /// An error.
    #[must_use]
    pub fn new(number: u16, message: impl Into<String>) -> Self {
        Self::Failed { number, message: message.into() }
    }

    /// The number for the user. Who runs a query that must not wait never tells that it would.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            Self::Failed { number, .. } => *number,
            Self::NotLight | Self::NotInMemory => number::INTERNAL,
        }
    }

    /// Something that the language has and this version refuses.
    #[must_use]
    pub fn unsupported(what: &str) -> Self {
        Self::new(number::NOT_IMPLEMENTED, format!("{what} is not supported by this version"))
    }
}

/// 1524 for values that are too deep, 32 for those that are too large.
impl From<OverLimit> for QueryError {
    fn from(over: OverLimit) -> Self {
        let number = match over {
            OverLimit::Depth { .. } => number::TOO_MUCH_NESTING,
            OverLimit::Size => number::RESOURCE_LIMIT,
        };
        Self::new(number, over.to_string())
    }
}

/// 32, of the query itself or of all queries.
impl From<OverBudget> for QueryError {
    fn from(over: OverBudget) -> Self {
        let message = match over {
            OverBudget::Share { .. } => "query would use more memory than allowed".to_owned(),
            OverBudget::Server { .. } => over.to_string(),
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
