//! The content of changes: entities as bytes in base64, or documents of a collection as JSON.

use std::sync::Arc;

use pellucid_budget::BudgetError;
use pellucid_document::{Collection, DocumentError, reveal};
use pellucid_http::READ_BYTES_MAX;
use pellucid_store::{Change, Table, Value};
use pellucid_value::{Ref, json, packed};

use super::memory::{DocumentMemory, StreamMemory};
use crate::access::{Identity, Right, Scope};
use crate::entities::write_base64;

/// The most bytes of a stored document that is written into a piece as a whole. Its JSON has at
/// most six times as many.
const WHOLE_DOCUMENT_BYTES_MAX: usize = READ_BYTES_MAX / 6;

/// The spare capacity that the writer of JSON asks for beyond what it writes.
const WRITER_BYTES: usize = 64;

/// The content of a stream.
pub(crate) enum Content {
    /// The entities of a table, and its name.
    Entities(Table, String),
    Documents {
        collection: Arc<Collection>,
        /// The name of the collection's database.
        database: String,
        /// The key prefix of the documents when the stream began. A collection that is emptied gets
        /// another prefix.
        place: Vec<u8>,
        /// The newest sequence number when the collection was created, or last emptied or renamed.
        emptied_at: u64,
        memory: StreamMemory,
    },
}

/// The part of an item that remains to be written.
pub(super) enum ItemRemainder {
    /// Nothing: the item is complete.
    Whole,
    /// A value in base64, whose opening quote has been written; or JSON and the memory of it.
    Value(Value, Option<DocumentMemory>),
}

impl Content {
    /// The content of the collection that was found by this name or number.
    ///
    /// # Errors
    /// 1203 if it was renamed since: the stream would not end at that.
    pub(crate) fn of_collection(
        collection: Arc<Collection>,
        name: &str,
        database: String,
        memory: StreamMemory,
    ) -> Result<Content, DocumentError> {
        let shape = collection.shape();
        if shape.definition.name != name && name.parse::<u64>() != Ok(collection.id) {
            return Err(DocumentError::collection_not_found(name));
        }
        let (place, emptied_at) = (shape.documents_prefix().to_vec(), shape.definition.emptied_at);
        Ok(Content::Documents { collection, database, place, emptied_at, memory })
    }

    /// The oldest sequence number that a stream can start from, if the collection was created,
    /// emptied or renamed after `since`. A copy of all documents starts from zero, and has nothing
    /// to forget. A number above the newest one is that of a store from which this one was copied.
    pub(super) fn emptied_after(&self, since: u64, newest: u64) -> Option<u64> {
        match self {
            Content::Documents { emptied_at, .. } if *emptied_at < newest => {
                (1..=*emptied_at).contains(&since).then_some(emptied_at + 1)
            }
            _ => None,
        }
    }

    /// Returns true if `caller` may read the content. The collection's present name counts.
    pub(super) fn may_be_read_by(&self, caller: &Identity) -> bool {
        match self {
            Content::Entities(_, name) => caller.may(Scope::Table(name), Right::Read),
            Content::Documents { collection, database, .. } => {
                let name = &collection.shape().definition.name;
                caller.may(Scope::Collection(database, name), Right::Read)
            }
        }
    }

    /// The prefix of keys in the store, for the prefix `asked` of the request.
    pub(super) fn prefix(&self, asked: &[u8]) -> Vec<u8> {
        match self {
            Content::Entities(..) => asked.to_vec(),
            Content::Documents { place, .. } => [place, asked].concat(),
        }
    }

    /// Returns true if the stream's key prefix still covers all writes to what the request names.
    /// It is false after a collection was removed, emptied or renamed.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Content::Entities(..) => true,
            Content::Documents { collection, emptied_at, .. } => {
                !collection.is_dropped() && collection.shape().definition.emptied_at == *emptied_at
            }
        }
    }

    /// Returns true while the definition of the collection changes, so that it may be emptied or
    /// renamed.
    pub(super) fn is_changing(&self) -> bool {
        matches!(self, Content::Documents { collection, .. } if collection.is_changing())
    }

    /// The sequence number after which a later stream goes on without a gap, if this one has passed
    /// `passed`. Behind an emptying or a renaming, it would not be told of that.
    pub(super) fn position(&self, passed: u64) -> u64 {
        match self {
            Content::Documents { collection, .. } if self.is_changing() || !self.is_there() => {
                passed.min(collection.shape().definition.emptied_at)
            }
            _ => passed,
        }
    }

    /// The bytes of memory that the document of `change` takes while it is sent; zero for a small
    /// one.
    pub(super) fn memory_bytes(&self, change: &Change) -> usize {
        match (self, &change.value) {
            (Content::Documents { .. }, Some(value)) if value.len() > WHOLE_DOCUMENT_BYTES_MAX => {
                value.len() + packed::json_length(value).unwrap_or(0) + WRITER_BYTES
            }
            _ => 0,
        }
    }

    /// Returns true if there is memory now for a document that takes `bytes`.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        match self {
            Content::Entities(..) => true,
            Content::Documents { memory, .. } => memory.has_room(bytes),
        }
    }

    /// Takes memory for a document; `None` for zero bytes.
    ///
    /// # Errors
    /// Those of [`StreamMemory::take`].
    pub(super) fn take_memory(&self, bytes: usize) -> Result<Option<DocumentMemory>, BudgetError> {
        let (Content::Documents { memory, .. }, 1..) = (self, bytes) else { return Ok(None) };
        memory.take(bytes).map(Some)
    }

    /// Appends the members of `change`: its key, and the value or document, or `deleted`. With
    /// `memory`, the document is not appended, but remains.
    ///
    /// # Errors
    /// If a stored document is invalid.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        change: Change,
        memory: Option<DocumentMemory>,
    ) -> Result<ItemRemainder, DocumentError> {
        out.extend_from_slice(b",\"key\":");
        match self {
            Content::Entities(..) => {
                out.push(b'"');
                write_base64(out, &change.key);
                out.push(b'"');
                let Some(value) = change.value else { return Ok(deleted(out)) };
                out.extend_from_slice(b",\"value\":\"");
                Ok(ItemRemainder::Value(value, None))
            }
            Content::Documents { collection, place, .. } => {
                let key = change.key.get(place.len()..).unwrap_or_default();
                json::write_string(&String::from_utf8_lossy(key), out);
                let Some(value) = change.value else { return Ok(deleted(out)) };
                let shape = collection.shape();
                let document = value.read(|bytes| reveal(&shape, bytes, change.sequence))??;
                out.extend_from_slice(b",\"document\":");
                let opened = packed::open(&document).unwrap_or(Ref::Null);
                let Some(mut memory) = memory else {
                    json::write(opened, out);
                    return Ok(ItemRemainder::Whole);
                };
                let json_bytes = memory.held_bytes().saturating_sub(document.len());
                let mut text = Vec::with_capacity(json_bytes);
                json::write(opened, &mut text);
                memory.give_back(document.len());
                Ok(ItemRemainder::Value(Value::Owned(text), Some(memory)))
            }
        }
    }
}

fn deleted(out: &mut Vec<u8>) -> ItemRemainder {
    out.extend_from_slice(b",\"deleted\":true");
    ItemRemainder::Whole
}
