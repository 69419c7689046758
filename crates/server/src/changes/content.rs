//! The content of changes: entities as bytes in base64, or documents of a collection as JSON.

use std::sync::Arc;

use pellucid_document::{Collection, Result, reveal};
use pellucid_store::{Change, Table, Value};
use pellucid_value::{Ref, json, packed};

use crate::access::{Identity, Right, Scope};
use crate::entities::write_base64;

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
    },
}

/// The part of an item that remains to be written.
pub(super) enum ItemRemainder {
    /// Nothing: the item is complete.
    Whole,
    /// A value. The opening quote of its text has been written.
    Value(Value),
}

impl Content {
    pub(crate) fn of_collection(collection: Arc<Collection>, database: String) -> Content {
        let place = collection.shape().documents_prefix().to_vec();
        Content::Documents { collection, database, place }
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

    /// Returns true if the stream's key prefix still covers all writes. It is false after a
    /// collection was removed or emptied.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Content::Entities(..) => true,
            Content::Documents { collection, place, .. } => {
                !collection.is_dropped() && collection.shape().documents_prefix() == place
            }
        }
    }

    /// Appends the members of `change`: its key, and the value or document, or `deleted`.
    ///
    /// # Errors
    /// If a stored document is invalid.
    pub(super) fn write(&self, out: &mut Vec<u8>, change: Change) -> Result<ItemRemainder> {
        out.extend_from_slice(b",\"key\":");
        match self {
            Content::Entities(..) => {
                out.push(b'"');
                write_base64(out, &change.key);
                out.push(b'"');
                let Some(value) = change.value else { return Ok(deleted(out)) };
                out.extend_from_slice(b",\"value\":\"");
                Ok(ItemRemainder::Value(value))
            }
            Content::Documents { collection, place, .. } => {
                let key = change.key.get(place.len()..).unwrap_or_default();
                json::write_string(&String::from_utf8_lossy(key), out);
                let Some(value) = change.value else { return Ok(deleted(out)) };
                let shape = collection.shape();
                let document = value.read(|bytes| reveal(&shape, bytes, change.sequence))??;
                out.extend_from_slice(b",\"document\":");
                json::write(packed::open(&document).unwrap_or(Ref::Null), out);
                Ok(ItemRemainder::Whole)
            }
        }
    }
}

fn deleted(out: &mut Vec<u8>) -> ItemRemainder {
    out.extend_from_slice(b",\"deleted\":true");
    ItemRemainder::Whole
}
