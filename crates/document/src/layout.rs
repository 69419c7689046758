//! The layout of keys in the store. All keys are in one table, so that a document and its index
//! entries can be written in one batch. The first bytes of a key tell what it belongs to:
//!
//! | key | value |
//! |---|---|
//! | 1, kind, number of the definition | a definition, as JSON |
//! | 2, prefix | the last removed key, or empty: all keys with that prefix are garbage |
//! | 3, storage, 1, document key | a document |
//! | 3, storage, 2, index, fields, document key, its length | empty: an entry that may repeat |
//! | 3, storage, 3, index, fields | document key: an entry of a unique index |
//!
//! Numbers, such as `storage` and `index`, are encoded as a byte with the count of bytes that
//! follow, then those bytes in big-endian order. A collection gets a new storage number when it is
//! truncated.

use xxhash_rust::xxh3::xxh3_128;

/// The first byte of keys of definitions.
const DEFINITIONS: u8 = 1;
/// The first byte of keys that mark a prefix as garbage.
const GARBAGE: u8 = 2;
/// The first byte of keys of documents and index entries.
const CONTENTS: u8 = 3;

const DOCUMENTS: u8 = 1;
const ENTRIES: u8 = 2;
const UNIQUE_ENTRIES: u8 = 3;

/// The most bytes of the fields in the key of an index entry. Longer fields are cut, and a hash of
/// all their bytes is appended. Cut entries with equal first bytes are not in the order of their
/// values.
pub(crate) const FIELDS_BYTES_MAX: usize = 640;

/// Bytes of the hash behind fields that were cut.
const HASH_BYTES: usize = 16;

/// The first bytes of the fields, which a key holds unchanged even if it is cut.
pub(crate) const FIELDS_KEPT_BYTES: usize = FIELDS_BYTES_MAX - HASH_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DefinitionKind {
    Identity = b'a',
    Collection = b'c',
    Database = b'd',
    /// The number of documents of each collection, noted when the store was closed.
    Counts = b'n',
    Ticks = b't',
}

pub(crate) fn definition_key(kind: DefinitionKind, id: u64) -> Vec<u8> {
    let mut key = vec![DEFINITIONS, kind as u8];
    push_number(&mut key, id);
    key
}

pub(crate) fn definitions_prefix(kind: DefinitionKind) -> Vec<u8> {
    vec![DEFINITIONS, kind as u8]
}

/// The key that marks all keys with `prefix` as garbage.
pub(crate) fn garbage_key(prefix: &[u8]) -> Vec<u8> {
    [&[GARBAGE][..], prefix].concat()
}

/// The prefix of all keys that mark garbage.
pub(crate) fn garbage_prefix() -> Vec<u8> {
    vec![GARBAGE]
}

/// The prefix of the contents of all collections.
pub(crate) fn contents_prefix() -> Vec<u8> {
    vec![CONTENTS]
}

/// The prefix of everything in a collection.
pub(crate) fn storage_prefix(storage: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    key.push(CONTENTS);
    push_number(&mut key, storage);
    key
}

/// The length of the prefix of a key that tells its part of the store's table. The documents and
/// index entries of one collection are one part, and all definitions are one.
#[must_use]
pub fn part_of(key: &[u8]) -> usize {
    match key {
        [CONTENTS, length, ..] => (2 + usize::from(*length)).min(key.len()),
        _ => 0,
    }
}

/// The length of the prefix by which a key is looked up, if it is not looked up as a whole. That is
/// so for an entry of an index that is not unique: a query knows the values but not the document.
/// The encoding of no field is a prefix of another field's encoding, as the store requires.
#[must_use]
pub fn lookup_prefix(key: &[u8]) -> Option<usize> {
    let storage_end = part_of(key);
    if storage_end == 0 || key.get(storage_end) != Some(&ENTRIES) {
        return None;
    }
    let document = usize::from(*key.last()?) + 1;
    key.len().checked_sub(document).filter(|prefix| *prefix > storage_end)
}

/// The prefix of a collection's documents.
pub(crate) fn documents_prefix(storage: u64) -> Vec<u8> {
    let mut key = storage_prefix(storage);
    key.push(DOCUMENTS);
    key
}

/// The prefix of an index's entries.
pub(crate) fn index_prefix(storage: u64, index: u64, is_unique: bool) -> Vec<u8> {
    let mut key = storage_prefix(storage);
    key.push(if is_unique { UNIQUE_ENTRIES } else { ENTRIES });
    push_number(&mut key, index);
    key
}

/// Cuts the encoded fields, which are in `key` behind `prefix_length` bytes, to
/// [`FIELDS_BYTES_MAX`]. Equal fields stay equal, and different fields stay different.
pub(crate) fn bound_fields(key: &mut Vec<u8>, prefix_length: usize) {
    let fields = &key[prefix_length..];
    if fields.len() > FIELDS_BYTES_MAX {
        let hash = xxh3_128(fields);
        key.truncate(prefix_length + FIELDS_KEPT_BYTES);
        key.extend_from_slice(&hash.to_be_bytes());
    }
}

/// Appends the document's key and its length to the key of an entry of an index that is not unique.
pub(crate) fn push_document(key: &mut Vec<u8>, document: &[u8]) {
    key.extend_from_slice(document);
    key.push(u8::try_from(document.len()).expect("document keys have at most 254 bytes"));
}

/// The document's key at the end of the key of an entry of an index that is not unique.
pub(crate) fn document_of_entry(key: &[u8]) -> Option<&[u8]> {
    let (length, rest) = key.split_last()?;
    rest.get(rest.len().checked_sub(usize::from(*length))?..)
}

/// The encoded fields in the key of an entry, behind the prefix of its index; `None` if they may be
/// cut.
pub(crate) fn whole_fields(key: &[u8], prefix_length: usize) -> Option<&[u8]> {
    let end = lookup_prefix(key).unwrap_or(key.len());
    key.get(prefix_length..end).filter(|fields| fields.len() < FIELDS_BYTES_MAX)
}

/// The length of an entry's key up to the cut; `None` if the fields end before. Entries that are
/// equal up to the cut need not be in the order of their values.
pub(crate) fn length_to_cut(key: &[u8], prefix_length: usize) -> Option<usize> {
    let length = prefix_length + FIELDS_KEPT_BYTES;
    let reaches_cut = key.len() >= length && lookup_prefix(key).unwrap_or(key.len()) >= length;
    reaches_cut.then_some(length)
}

/// Appends a number in an encoding whose byte order is the order of the numbers.
fn push_number(key: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    let skipped = number.leading_zeros() as usize / 8;
    key.push((8 - skipped) as u8);
    key.extend_from_slice(&bytes[skipped..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_name_their_documents() {
        let mut key = index_prefix(7, 8, false);
        key.extend_from_slice(b"fields");
        push_document(&mut key, b"the-key");
        assert_eq!(document_of_entry(&key), Some(&b"the-key"[..]));
        assert_eq!(whole_fields(&key, index_prefix(7, 8, false).len()), Some(&b"fields"[..]));
        assert_eq!(lookup_prefix(&key), Some(key.len() - b"the-key".len() - 1));
        assert_eq!(lookup_prefix(&index_prefix(7, 8, true)), None, "a key of a unique index");
        assert_eq!(lookup_prefix(&documents_prefix(7)), None);
        assert_eq!(lookup_prefix(&garbage_key(&documents_prefix(7))), None);
        assert_eq!(lookup_prefix(&[]), None);
        assert_eq!(document_of_entry(&[9]), None);
        assert_eq!(document_of_entry(&[]), None);
    }

    #[test]
    fn long_fields_are_cut_and_stay_apart() {
        let long = |last: u8| {
            let mut key = index_prefix(7, 8, true);
            let length = key.len();
            key.extend_from_slice(&[9; 5_000]);
            key.push(last);
            bound_fields(&mut key, length);
            assert_eq!(key.len(), length + FIELDS_BYTES_MAX);
            assert_eq!(whole_fields(&key, length), None);
            key
        };
        assert_eq!(long(1), long(1));
        assert_ne!(long(1), long(2));
    }

    proptest! {
        #[test]
        fn numbers_are_in_order_and_prefix_free(one: u64, other: u64) {
            let (first, second) = (documents_prefix(one), documents_prefix(other));
            prop_assert_eq!(one.cmp(&other), first.cmp(&second));
            prop_assert!(one == other || !first.starts_with(&second));
        }
    }
}
