//! Entries of a write, and their values as its statements take them.

use pellucid_store::Condition;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

use crate::rows::Lifetime;

/// One key of a write, with what stands of it in the end.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) place: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) lifetime_ms: Option<u64>,
    /// The place of its last operation in the write.
    pub(crate) index: usize,
    /// Conditions, with the places of their operations, and whether the key is there by what the
    /// write did before.
    pub(crate) conditions: Vec<(usize, Condition, Option<bool>)>,
}

/// The values of a statement that writes, in its order.
pub(crate) enum Values<'a> {
    Put(&'a str, &'a Entry, i64, Lifetime),
    Delete(&'a str, &'a Entry),
    /// A put over this version.
    PutOver(&'a str, &'a Entry, i64, Lifetime, i64),
    DeleteThis(&'a str, &'a Entry, i64),
    /// The note of which transaction of a writer it is.
    Done(&'a str, &'a Entry, i64, i64),
}

impl<'a> Values<'a> {
    /// Table and name of the partition that it is about.
    pub(crate) fn partition(&self) -> (&'a str, &'a [u8]) {
        let (Values::Put(space, entry, ..)
        | Values::Delete(space, entry)
        | Values::PutOver(space, entry, ..)
        | Values::DeleteThis(space, entry, _)
        | Values::Done(space, entry, ..)) = *self;
        (space, &entry.place)
    }
}

impl SerializeRow for Values<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> std::result::Result<(), SerializationError> {
        match *self {
            Values::Put(space, entry, version, life) => {
                let value = entry.value.as_deref().unwrap_or_default();
                let length = value.len() as i64;
                let (place, key) = (&entry.place, &entry.key);
                let row = (space, place, key, version, life.expires_ms, length, value, life.ttl_s);
                row.serialize(context, writer)
            }
            Values::Delete(space, entry) => {
                (space, &entry.place, &entry.key).serialize(context, writer)
            }
            Values::PutOver(space, entry, version, life, over) => {
                let value = entry.value.as_deref().unwrap_or_default();
                let length = value.len() as i64;
                let (place, key, expires_ms) = (&entry.place, &entry.key, life.expires_ms);
                (life.ttl_s, version, expires_ms, length, value, space, place, key, over)
                    .serialize(context, writer)
            }
            Values::DeleteThis(space, entry, over) => {
                (space, &entry.place, &entry.key, over).serialize(context, writer)
            }
            Values::Done(space, entry, by, version) => {
                (by, version, space, &entry.place).serialize(context, writer)
            }
        }
    }

    fn is_empty(&self) -> bool {
        false
    }
}
