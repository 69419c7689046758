//! Scans over a whole collection, for its size and its checksum.

use pellucid_store::Object;
use pellucid_value::{Ref, packed};
use xxhash_rust::xxh3::xxh3_64;

use crate::collection::CollectionSchema;
use crate::documents::Documents;
use crate::error::{CancellationCheck, Result};
use crate::stored_document::is_system_attribute;

/// Sizes of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of documents.
    pub document_bytes: u64,
    /// Bytes of the documents' keys and of index entries.
    pub index_bytes: u64,
}

/// The number of entries between two calls of `check_cancelled`.
const ENTRIES_AT_ONCE: usize = 1_000;

/// Calls `visit` with the key and the stored object of each document, in the order of keys. An
/// error of `check_cancelled`, which is called now and then, ends the scan.
///
/// # Errors
/// Errors of the store, of `visit` and of `check_cancelled`.
pub fn for_each(
    documents: &Documents,
    shape: &CollectionSchema,
    check_cancelled: CancellationCheck<'_>,
    mut visit: impl FnMut(&[u8], &Object) -> Result<()>,
) -> Result<()> {
    let prefix = &shape.documents_prefix;
    let mut scan = documents.storage().scan(prefix, prefix)?;
    for count in 1_usize.. {
        let Some((key, object)) = scan.next()? else { break };
        visit(&key[prefix.len()..], &object)?;
        if count.is_multiple_of(ENTRIES_AT_ONCE) {
            check_cancelled()?;
        }
    }
    Ok(())
}

/// Adds up the sizes of a collection, without reading values. An error of `check_cancelled` ends
/// the scan.
///
/// # Errors
/// Errors of the store and of `check_cancelled`.
pub fn sizes(
    documents: &Documents,
    shape: &CollectionSchema,
    check_cancelled: CancellationCheck<'_>,
) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    let walk = |prefix: &[u8], visit: &mut dyn FnMut(u64, u64)| -> Result<()> {
        let mut scan = documents.storage().scan(prefix, prefix)?;
        for count in 1_usize.. {
            let Some((key, head)) = scan.next_head()? else { break };
            visit(key.len() as u64, head.value_length);
            if count.is_multiple_of(ENTRIES_AT_ONCE) {
                check_cancelled()?;
            }
        }
        Ok(())
    };
    let prefix = &shape.documents_prefix;
    walk(prefix, &mut |key_bytes, value_bytes| {
        sizes.document_bytes += value_bytes;
        sizes.index_bytes += key_bytes - prefix.len() as u64;
    })?;
    for index in shape.readable_indexes() {
        walk(&index.prefix, &mut |key_bytes, value_bytes| {
            sizes.index_bytes += key_bytes + value_bytes;
        })?;
    }
    Ok(sizes)
}

/// A hash of a key.
#[must_use]
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// A hash of the attributes of a packed document, without its system attributes.
#[must_use]
pub fn hash_of_data(document: &[u8]) -> u64 {
    let Ok(Ref::Object(object)) = packed::open(document) else { return 0 };
    let mut text = Vec::new();
    for (name, value) in object.sorted().filter(|(name, _)| !is_system_attribute(name)) {
        pellucid_value::json::write_string(name, &mut text);
        pellucid_value::json::write(value, &mut text);
    }
    xxh3_64(&text)
}
