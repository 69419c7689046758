//! Walks over all of a collection: sizes and checksums.

use pellucid_store::Object;
use pellucid_value::{Ref, packed};
use xxhash_rust::xxh3::xxh3_64;

use crate::collection::Shape;
use crate::documents::Documents;
use crate::error::Result;
use crate::stored::is_system_attribute;

/// Sizes of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of documents.
    pub document_bytes: u64,
    /// Bytes of keys and of entries of indexes.
    pub index_bytes: u64,
}

/// Calls `visit` with each document's key and what is stored, in the order of keys.
///
/// # Errors
/// Errors of the store and of `visit`.
pub fn for_each(
    documents: &Documents,
    shape: &Shape,
    mut visit: impl FnMut(&[u8], &Object) -> Result<()>,
) -> Result<()> {
    let prefix = &shape.documents_prefix;
    let mut scan = documents.storage().scan(prefix, prefix)?;
    while let Some((key, object)) = scan.next()? {
        visit(&key[prefix.len()..], &object)?;
    }
    Ok(())
}

/// Adds up the sizes of a collection.
///
/// # Errors
/// Errors of the store.
pub fn sizes(documents: &Documents, shape: &Shape) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    for_each(documents, shape, |key, object| {
        sizes.document_bytes += object.head.value_length;
        sizes.index_bytes += key.len() as u64;
        Ok(())
    })?;
    for index in shape.readable_indexes() {
        let mut scan = documents.storage().scan(&index.prefix, &index.prefix)?;
        while let Some((key, object)) = scan.next()? {
            sizes.index_bytes += key.len() as u64 + object.head.value_length;
        }
    }
    Ok(sizes)
}

/// A hash of a key.
#[must_use]
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// A hash of a packed document's own attributes.
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
