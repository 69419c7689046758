//! The stored form of documents: one packed object with `_key`, `_id`, for edges `_from` and `_to`,
//! then `_rev`, then the user's attributes.
//!
//! The revision is the entry's sequence number, which is not known yet when the bytes are made. The
//! stored `_rev` is a placeholder of the same length. A reader copies the bytes and writes the
//! revision in its place.

use std::sync::Arc;

use pellucid_store::{Note, Object};
use pellucid_value::packed::{self, Builder};
use pellucid_value::{DuplicateRule, LimitError, MergeOptions, ObjectRef, Ref, merge_into};

use crate::collection::CollectionSchema;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::names::split_id;
use crate::revision::{REVISION_LENGTH, revision_of};

/// The placeholder of the revision.
const NO_REVISION: &str = "_----------";

/// True for attributes that the database sets, and not the user.
#[must_use]
pub(crate) fn is_system_attribute(name: &str) -> bool {
    matches!(name, "_key" | "_id" | "_rev" | "_from" | "_to")
}

/// The ends of an edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeEndpoints<'a> {
    from: &'a str,
    to: &'a str,
}

impl<'a> EdgeEndpoints<'a> {
    /// The ends in `body`; an end that is missing there is taken from `old`.
    ///
    /// # Errors
    /// 1233 if one is missing or names no document.
    pub(crate) fn of(body: ObjectRef<'a>, old: Option<ObjectRef<'a>>) -> Result<EdgeEndpoints<'a>> {
        let end = |name| {
            let given = body.get(name).or_else(|| old.and_then(|old| old.get(name)));
            match given.and_then(Ref::as_str) {
                Some(id) if split_id(id).is_some() => Ok(id),
                _ => Err(DocumentError::from(ErrorNumber::INVALID_EDGE_ATTRIBUTE)),
            }
        };
        Ok(EdgeEndpoints { from: end("_from")?, to: end("_to")? })
    }
}

/// Makes the stored form of a document from the user's `body`. Without `keep_null`, attributes that
/// are null are left out.
///
/// # Errors
/// 1524 if it is nested too deep, 1216 if it is too large.
pub(crate) fn assemble(
    shape: &CollectionSchema,
    key: &str,
    body: ObjectRef<'_>,
    ends: Option<EdgeEndpoints<'_>>,
    keep_null: bool,
) -> Result<Vec<u8>> {
    if keep_null && let Some(stored) = copied(shape, key, body, ends) {
        return Ok(stored);
    }
    let (nothing, options) = (Arc::default(), MergeOptions { keep_null, merge_objects: true });
    merge(shape, key, ObjectRef::Built(&nothing), body, ends, options)
}

/// The stored form made by copying the bytes of `body`; `None` where that is not possible.
fn copied(
    shape: &CollectionSchema,
    key: &str,
    body: ObjectRef<'_>,
    ends: Option<EdgeEndpoints<'_>>,
) -> Option<Vec<u8>> {
    let is_system = |name: &[u8]| {
        name.first() == Some(&b'_') && std::str::from_utf8(name).is_ok_and(is_system_attribute)
    };
    let (own, id, revision) =
        (("_key", [key, ""]), ("_id", [&*shape.id_prefix, key]), ("_rev", [NO_REVISION, ""]));
    match ends {
        None => packed::with_front(&[own, id, revision], body, is_system),
        Some(EdgeEndpoints { from, to }) => {
            let (from, to) = (("_from", [from, ""]), ("_to", [to, ""]));
            packed::with_front(&[own, id, from, to, revision], body, is_system)
        }
    }
}

/// Makes the stored form of a document by merging `changes` into the old document.
///
/// # Errors
/// 1524 if it is nested too deep, 1216 if it is too large.
pub(crate) fn merge(
    shape: &CollectionSchema,
    key: &str,
    old: ObjectRef<'_>,
    changes: ObjectRef<'_>,
    ends: Option<EdgeEndpoints<'_>>,
    options: MergeOptions,
) -> Result<Vec<u8>> {
    let mut builder = Builder::with(DuplicateRule::Last);
    builder.begin_object();
    builder.name("_key");
    builder.string(key);
    builder.name("_id");
    builder.string(&[&shape.id_prefix, key].concat());
    if let Some(ends) = ends {
        builder.name("_from");
        builder.string(ends.from);
        builder.name("_to");
        builder.string(ends.to);
    }
    builder.name("_rev");
    builder.string(NO_REVISION);
    merge_into(&mut builder, old, changes, options, &is_system_attribute);
    builder.end();
    builder.finish().map_err(|over| {
        let number = match over {
            LimitError::Depth => ErrorNumber::TOO_MUCH_NESTING,
            LimitError::Size => ErrorNumber::DOCUMENT_TOO_LARGE,
        };
        DocumentError::new(number, format!("{over}: {}{key}", shape.id_prefix))
    })
}

/// Opens stored bytes as an object.
///
/// # Errors
/// 4 if the bytes are damaged.
pub(crate) fn object_of(bytes: &[u8]) -> Result<ObjectRef<'_>> {
    let object = packed::open(bytes).ok().and_then(Ref::as_object);
    object.ok_or_else(|| damaged("it is no object"))
}

fn damaged(what: &str) -> DocumentError {
    let message = format!("a stored document is damaged: {what}");
    DocumentError::new(ErrorNumber::INTERNAL, message)
}

/// Copies the stored bytes of a document with its revision filled in.
///
/// # Errors
/// 4 if the bytes are damaged.
pub fn reveal(shape: &CollectionSchema, stored: &[u8], sequence: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reveal_into(shape, stored, &revision_of(sequence), &mut bytes)?;
    Ok(bytes)
}

/// As [`reveal`], into `bytes`, which is cleared first. `revision` may be provisional.
pub(crate) fn reveal_into(
    shape: &CollectionSchema,
    stored: &[u8],
    revision: &[u8; REVISION_LENGTH],
    bytes: &mut Vec<u8>,
) -> Result<()> {
    bytes.clear();
    let object = object_of(stored)?;
    let (mut key, mut id, mut place) = ("", "", None);
    for (name, value) in object.iter().take(5) {
        match (name, value) {
            ("_key", Ref::String(text)) => key = text,
            ("_id", Ref::String(text)) => id = text,
            ("_rev", Ref::String(text)) if text.len() == REVISION_LENGTH => {
                place = Some(text.as_ptr() as usize - stored.as_ptr() as usize);
                break;
            }
            _ => {}
        }
    }
    let place = place.ok_or_else(|| damaged("it has no revision"))?;
    if !id.starts_with(&shape.id_prefix) || id.len() != shape.id_prefix.len() + key.len() {
        // The collection was renamed since the document was written.
        let ends = match (object.get("_from"), object.get("_to")) {
            (Some(Ref::String(from)), Some(Ref::String(to))) => Some(EdgeEndpoints { from, to }),
            _ => None,
        };
        let renamed = assemble(shape, key, object, ends, true)?;
        return reveal_into(shape, &renamed, revision, bytes);
    }
    bytes.extend_from_slice(stored);
    bytes[place..place + REVISION_LENGTH].copy_from_slice(revision);
    Ok(())
}

/// The note that the store keeps beside a document: its length as JSON without the name of its
/// collection, which may change. It is little-endian, without trailing zeros.
pub(crate) fn json_length_note(shape: &CollectionSchema, stored: &[u8]) -> Note {
    let length = packed::json_length(stored).unwrap_or(0);
    let rest = length.saturating_sub(shape.definition.name.len()) as u64;
    let bytes = rest.to_le_bytes();
    Note::new(&bytes[..8 - rest.leading_zeros() as usize / 8]).unwrap_or_default()
}

/// The length in a note of [`json_length_note`]; `None` for an empty or other note.
pub(crate) fn length_of_note(note: Note) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..note.len())?.copy_from_slice(&note);
    (!note.is_empty()).then(|| u64::from_le_bytes(bytes))
}

/// Converts the answer of [`crate::Documents::get`] to the packed document with its revision.
///
/// # Errors
/// 4 if the stored bytes are damaged.
pub fn document_of(shape: &CollectionSchema, object: &Object) -> Result<Vec<u8>> {
    object.value.read(|value| reveal(shape, value, object.head.sequence))?
}
