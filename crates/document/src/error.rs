//! Errors of operations on documents, with ArangoDB's numbers, because drivers branch on them.

use std::fmt;

use pellucid_aql::QueryError;
use pellucid_store::StoreError;

/// The result of the functions of this crate.
pub type Result<T> = std::result::Result<T, DocumentError>;

/// A check that long work calls now and then. An error of the check ends the work.
pub type CancellationCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// A number of ArangoDB's list of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorNumber(pub u16);

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl ErrorNumber {
            $(#[doc = $text] pub const $name: ErrorNumber = ErrorNumber($number);)*

            /// ArangoDB's text for the number.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self.0 {
                    $($number => $text,)*
                    _ => "unexpected error",
                }
            }
        }
    };
}

numbers! {
    INTERNAL = 4, "internal error";
    NOT_IMPLEMENTED = 9, "not implemented";
    BAD_PARAMETER = 10, "bad parameter";
    FORBIDDEN = 11, "forbidden";
    TYPE_ERROR = 17, "type error";
    LOCKED = 28, "locked";
    RESOURCE_LIMIT = 32, "resource limit exceeded";
    HTTP_BAD_PARAMETER = 400, "bad parameter";
    HTTP_UNAUTHORIZED = 401, "unauthorized";
    HTTP_NOT_FOUND = 404, "not found";
    HTTP_METHOD_NOT_ALLOWED = 405, "method not supported";
    HTTP_NOT_ACCEPTABLE = 406, "not acceptable";
    HTTP_NOT_IMPLEMENTED = 501, "not implemented";
    HTTP_SERVICE_UNAVAILABLE = 503, "service unavailable";
    CORRUPTED_JSON = 600, "invalid JSON object";
    SUPERFLUOUS_SUFFICES = 601, "superfluous URL suffices";
    READ_ONLY = 1004, "read only";
    DUPLICATE_IDENTIFIER = 1005, "duplicate identifier";
    STORE_FULL = 1104, "filesystem full";
    CONFLICT = 1200, "conflict";
    DOCUMENT_NOT_FOUND = 1202, "document not found";
    COLLECTION_NOT_FOUND = 1203, "collection or view not found";
    COLLECTION_PARAMETER_MISSING = 1204, "parameter 'collection' not found";
    DOCUMENT_HANDLE_BAD = 1205, "illegal document identifier";
    DUPLICATE_NAME = 1207, "duplicate name";
    ILLEGAL_NAME = 1208, "illegal name";
    UNIQUE_CONSTRAINT = 1210, "unique constraint violated";
    INDEX_NOT_FOUND = 1212, "index not found";
    INDEX_HANDLE_BAD = 1214, "illegal index identifier";
    DOCUMENT_TOO_LARGE = 1216, "document too large";
    COLLECTION_TYPE_INVALID = 1218, "collection type invalid";
    DOCUMENT_KEY_BAD = 1221, "illegal document key";
    DOCUMENT_KEY_UNEXPECTED = 1222, "unexpected document key";
    DOCUMENT_TYPE_INVALID = 1227, "invalid document type";
    DATABASE_NOT_FOUND = 1228, "database not found";
    DATABASE_NAME_INVALID = 1229, "database name invalid";
    USE_SYSTEM_DATABASE = 1230, "operation only allowed in system database";
    INVALID_KEY_GENERATOR = 1232, "invalid key generator";
    INVALID_EDGE_ATTRIBUTE = 1233, "edge attribute missing or invalid";
    QUERY_KILLED = 1500, "query killed";
    QUERY_PARSE = 1501, "query parse error";
    QUERY_EMPTY = 1502, "query is empty";
    TOO_MUCH_NESTING = 1524, "too much nesting or too many objects";
    QUERY_NOT_FOUND = 1591, "query not found";
    CURSOR_NOT_FOUND = 1600, "cursor not found";
    CURSOR_BUSY = 1601, "cursor is busy";
    TRANSACTION_NOT_FOUND = 1655, "transaction not found";
    USER_INVALID_NAME = 1700, "invalid user name";
    USER_DUPLICATE = 1702, "duplicate user";
    USER_NOT_FOUND = 1703, "user not found";
    QUEUE_FULL = 21003, "queue is full";
    QUEUE_TIME_VIOLATED = 21004, "queue time violated";
}

/// A stored document that is in the way of a write, or does not have the revision asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRevision {
    /// Its key.
    pub key: String,
    /// Its revision.
    pub revision: String,
}

/// The failure of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// ArangoDB's number for it.
    pub number: ErrorNumber,
    /// The description, for humans.
    pub message: String,
    /// The document whose revision did not match.
    pub stored: Option<Box<StoredRevision>>,
    /// The error of the store, if that is the cause.
    pub cause: Option<Box<StoreError>>,
}

impl DocumentError {
    /// Makes an error with a message other than [`ErrorNumber::text`].
    #[must_use]
    pub fn new(number: ErrorNumber, message: impl Into<String>) -> DocumentError {
        DocumentError { number, message: message.into(), stored: None, cause: None }
    }

    /// Makes the error for a document whose revision is not the one that was asked for.
    #[must_use]
    pub fn revision_differs(stored: StoredRevision) -> DocumentError {
        let stored = Some(Box::new(stored));
        let message = "conflict, _rev values do not match".to_owned();
        DocumentError { number: ErrorNumber::CONFLICT, message, stored, cause: None }
    }

    /// Makes the error for a collection that does not exist.
    #[must_use]
    pub fn collection_not_found(name: &str) -> DocumentError {
        let message = format!("collection or view not found: {name}");
        DocumentError::new(ErrorNumber::COLLECTION_NOT_FOUND, message)
    }

    /// True if another writer was faster, or the document has another revision.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.number == ErrorNumber::CONFLICT
    }

    /// Makes the error for a document that another writer changed at the same time.
    #[must_use]
    pub fn write_conflict() -> DocumentError {
        let message = "write-write conflict; try again".to_owned();
        DocumentError::new(ErrorNumber::CONFLICT, message)
    }
}

impl From<ErrorNumber> for DocumentError {
    fn from(number: ErrorNumber) -> DocumentError {
        DocumentError::new(number, number.text())
    }
}

impl From<StoreError> for DocumentError {
    fn from(error: StoreError) -> DocumentError {
        let number = match &error {
            StoreError::Unacceptable(_) => ErrorNumber::BAD_PARAMETER,
            StoreError::ConditionFailed { .. } => return DocumentError::write_conflict(),
            StoreError::Full(_) => ErrorNumber::STORE_FULL,
            StoreError::ReadOnly(_) => ErrorNumber::READ_ONLY,
            StoreError::Busy(_) => ErrorNumber::QUEUE_FULL,
            // Only reads that must not wait fail with `NotInMemory`. Reads of queries pass it on as
            // it is (`store_error`).
            StoreError::NotInMemory
            | StoreError::Corruption(_)
            | StoreError::ChangesLost { .. }
            | StoreError::Failed(_)
            | StoreError::Unreachable(_) => ErrorNumber::INTERNAL,
        };
        let message = error.to_string();
        DocumentError { number, message, stored: None, cause: Some(Box::new(error)) }
    }
}

impl From<DocumentError> for QueryError {
    fn from(error: DocumentError) -> QueryError {
        QueryError::new(error.number.0, error.message)
    }
}

/// Converts an error of the store to an error of a query.
pub(crate) fn store_error(error: StoreError) -> QueryError {
    match error {
        StoreError::NotInMemory => QueryError::NotInMemory,
        error => DocumentError::from(error).into(),
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DocumentError {}
