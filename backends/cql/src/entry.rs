//! Entries of a write, and the values that statements bind.

use pellucid_store::Condition;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::prepared::PreparedStatement;

use crate::rows::Lifetime;
use crate::schema::Statements;

/// One key of a write, and the final effect of all operations on it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The partition of the key.
    pub(crate) place: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// The value of a put; `None` for a deletion.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) lifetime_ms: Option<u64>,
    /// The index of the last operation on the key in the write.
    pub(crate) index: usize,
    /// The conditions on the key, each with the index of its operation.
    pub(crate) conditions: Vec<(usize, Condition)>,
}

/// The values of a statement that writes, which they determine
/// ([`Values::statement`]). All variants begin with the table and the
/// entry. Of the numbers, the first is the new version, and the last of `PutOver` and `DeleteThis`
/// the old one.
#[derive(Debug)]
pub(crate) enum Values<'a> {
    Put(&'a str, &'a Entry, i64, Lifetime),
    Delete(&'a str, &'a Entry),
    /// A put that replaces the old version; without one, of an entry that does not exist. The
    /// condition is not `IF NOT EXISTS`: the row of an entry that has expired may still exist,
    /// without a version.
    PutOver(&'a str, &'a Entry, i64, Lifetime, Option<i64>),
    /// A deletion of the old version; without one, the check that the entry does not exist.
    DeleteThis(&'a str, &'a Entry, Option<i64>),
    /// The note of a transaction: the writer, and its transaction's first version.
    Done(&'a str, &'a Entry, i64, i64),
}

impl<'a> Values<'a> {
    /// The statement that writes these values.
    pub(crate) fn statement<'s>(&self, statements: &'s Statements) -> &'s PreparedStatement {
        match self {
            Values::Put(..) => &statements.put,
            Values::Delete(..) => &statements.delete,
            Values::PutOver(..) => &statements.put_over,
            Values::DeleteThis(..) => &statements.delete_this,
            Values::Done(..) => &statements.note_done,
        }
    }

    /// The table and the name of the partition that the statement writes to.
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
