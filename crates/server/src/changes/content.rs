//! The contents of changes: entities as they are, or documents of a collection as JSON.

use std::sync::Arc;

use pellucid_document::{Collection, DocumentError, reveal};
use pellucid_store::{Change, Value};
use pellucid_value::{Ref, json, packed};

use crate::entities::write_base64;

/// See the module.
pub(super) enum Content {
    Entities,
    Documents {
        collection: Arc<Collection>,
        /// The documents' place when the walk began. A collection that is emptied gets another one.
        place: Vec<u8>,
    },
}

/// The rest of an item.
pub(super) enum Rest {
    /// Nothing: all of it is there.
    Whole,
    /// A value, whose text is begun.
    Value(Value),
}

impl Content {
    /// The first bytes of the keys in the store.
    pub(super) fn prefix(&self, asked: &[u8]) -> Vec<u8> {
        match self {
            Content::Entities => asked.to_vec(),
            Content::Documents { place, .. } => [place, asked].concat(),
        }
    }

    /// True if all writes to it are among those that are walked over.
    pub(super) fn is_there(&self) -> bool {
        match self {
            Content::Entities => true,
            Content::Documents { collection, place } => {
                !collection.is_dropped() && collection.shape().documents_prefix() == place
            }
        }
    }

    /// Appends the members of `change`: its key, and what was put.
    ///
    /// # Errors
    /// If a stored document makes no sense.
    pub(super) fn write(&self, out: &mut Vec<u8>, change: Change) -> Result<Rest, DocumentError> {
        out.extend_from_slice(b",\"key\":");
        match self {
            Content::Entities => {
                out.push(b'"');
                write_base64(out, &change.key);
                out.push(b'"');
                let Some(value) = change.value else { return Ok(deleted(out)) };
                out.extend_from_slice(b",\"value\":\"");
                Ok(Rest::Value(value))
            }
            Content::Documents { collection, place } => {
                let key = change.key.get(place.len()..).unwrap_or_default();
                json::write_string(&String::from_utf8_lossy(key), out);
                let Some(value) = change.value else { return Ok(deleted(out)) };
                let shape = collection.shape();
                let document = reveal(&shape, &value, change.sequence)?;
                out.extend_from_slice(b",\"document\":");
                json::write(packed::open(&document).unwrap_or(Ref::Null), out);
                Ok(Rest::Whole)
            }
        }
    }
}

fn deleted(out: &mut Vec<u8>) -> Rest {
    out.extend_from_slice(b",\"deleted\":true");
    Rest::Whole
}
