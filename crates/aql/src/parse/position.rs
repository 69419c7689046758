//! The position of an error in a query.

use crate::{QueryError, number};

/// The most characters of the query that an error shows.
const SHOWN_CHARACTERS_MAX: usize = 32;

/// Makes a syntax error at this byte.
pub(crate) fn error(text: &str, at: usize, what: &str) -> QueryError {
    let (line, column) = line_and_column(text, at);
    let rest = text.get(at..).unwrap_or_default();
    let mut near: String = rest.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if near.len() < rest.len() {
        near.push_str("...");
    }
    let message = format!("{what} near '{near}' at position {line}:{column}");
    QueryError::new(number::PARSE, message)
}

/// The line and the column of a byte, both counted from 1. Columns count characters.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}
