//! The content of changes: entities as bytes in base64, or documents of a collection as JSON.

use std::sync::Arc;

use pellucid_document::{Collection, Result, reveal};
use pellucid_store::{Change, Value};
use pellucid_value::{Ref, json, packed};

use crate::entities::write_base64;

/// The kind of content of a stream.
pub(super) enum Content {
    Entities,
    Documents {
        collection: Arc<Collection>,
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
    /// The prefix of keys in the store, for the prefix `asked` of the request.
    pub(super) fn prefix(&self, asked: &[u8]) -> Vec<u8> {
        match self {
            Content::Entities => asked.to_vec(),
            Content::Documents { place, .. } => [place, asked].concat(),
        }
    }

    /// Returns true if the stream's key prefix still covers all writes. It is false after a
    /// collection was removed or emptied.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Content::Entities => true,
            Content::Documents { collection, place } => {
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
            Content::Entities => {
                out.push(b'"');
                write_base64(out, &change.key);
                out.push(b'"');
                let Some(value) = change.value else { return Ok(deleted(out)) };
                out.extend_from_slice(b",\"value\":\"");
                Ok(ItemRemainder::Value(value))
            }
            Content::Documents { collection, place } => {
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
