//! Rules for names of databases, collections, indexes and documents.

use pellucid_aql::is_document_key;

use crate::error::{DocumentError, ErrorNumber, Result};

/// The name of the database that always exists.
pub const SYSTEM_DATABASE: &str = "_system";

/// The most bytes of a database's name.
const DATABASE_NAME_BYTES_MAX: usize = 128;

/// The most bytes of the name of a collection or an index.
const COLLECTION_NAME_BYTES_MAX: usize = 256;

/// Checks the name of a new database: one of ArangoDB's extended names, but without an asterisk,
/// which stands for every database in grants.
///
/// # Errors
/// 1229 if the name is invalid.
pub(crate) fn check_database_name(name: &str) -> Result<()> {
    let begins_well = name.chars().next().is_some_and(|c| !c.is_ascii_digit() && c != '_');
    let is_allowed = |c: char| !matches!(c, '/' | ':' | '*') && !c.is_control();
    let is_bare = name.trim() == name;
    if begins_well
        && is_bare
        && name.len() <= DATABASE_NAME_BYTES_MAX
        && name.chars().all(is_allowed)
    {
        return Ok(());
    }
    Err(ErrorNumber::DATABASE_NAME_INVALID.into())
}

/// Checks the name of a new collection.
///
/// # Errors
/// 1208 if the name is invalid.
pub(crate) fn check_collection_name(name: &str, is_system: bool) -> Result<()> {
    let begins_well = match name.as_bytes() {
        [b'_', ..] => is_system,
        [first, ..] => first.is_ascii_alphabetic(),
        [] => false,
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if begins_well && name.len() <= COLLECTION_NAME_BYTES_MAX && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let message = format!("illegal name: collection name '{name}' is not allowed");
    Err(DocumentError::new(ErrorNumber::ILLEGAL_NAME, message))
}

/// Checks the name of a new index.
///
/// # Errors
/// 1208 if the name is invalid.
pub(crate) fn check_index_name(name: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let begins_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins_well && name.len() <= COLLECTION_NAME_BYTES_MAX && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(ErrorNumber::ILLEGAL_NAME.into())
}

/// Splits an `_id` into collection and key; `None` if it is invalid.
#[must_use]
pub fn split_id(id: &str) -> Option<(&str, &str)> {
    let (collection, key) = id.split_once('/')?;
    (!collection.is_empty() && is_document_key(key.as_bytes())).then_some((collection, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_databases_are_checked() {
        for name in ["a", "my-db_1", "größe", "ein Name", &"x".repeat(128)] {
            check_database_name(name).unwrap();
        }
        for name in ["", "_a", "1a", "a/b", "a:b", "*", "a*b", " a", "a\n", &"x".repeat(129)] {
            assert_eq!(check_database_name(name).unwrap_err().number.0, 1229, "{name}");
        }
    }

    #[test]
    fn names_of_collections_are_checked() {
        check_collection_name("transactionRelationship", false).unwrap();
        check_collection_name("_jobs", true).unwrap();
        for name in ["", "_jobs", "1", "a b", "a/b", "ä", &"x".repeat(257)] {
            assert_eq!(check_collection_name(name, false).unwrap_err().number.0, 1208, "{name}");
        }
    }

    #[test]
    fn keys_of_documents_are_checked() {
        assert!(is_document_key(b"aZ09_-.@()+,=;$!*'%:"));
        assert!(is_document_key(&[b'x'; 254]));
        for key in [&b""[..], b"a/b", b"a b", "ä".as_bytes(), b"a\"b", &[b'x'; 255]] {
            assert!(!is_document_key(key));
        }
        assert_eq!(split_id("c/k"), Some(("c", "k")));
        assert_eq!(split_id("c/k/l"), None);
        assert_eq!(split_id("ck"), None);
    }
}
