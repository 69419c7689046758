//! How a query walks over documents, in the order of their keys or of an index, at one moment.

use std::ops::ControlFlow;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::{FieldScan, QueryError, Scan as AqlScan, Visitor};
use pellucid_store::{Object, Scan, Snapshot, Table};
use pellucid_value::{Ref, Value, index_key};

use crate::collection::Shape;
use crate::error::DocumentError;
use crate::index::Index;
use crate::index_range::KeyRange;
use crate::layout::document_of_entry;
use crate::query_data::store_error;
use crate::revision::revision_of;
use crate::stored::{object_of, reveal_into};

/// Documents that are looked at before a scan returns to the query.
const DOCUMENTS_AT_ONCE: usize = 64;

/// Shows a document to the query: first as it lies in the store, and if it is wanted as a whole.
fn show(
    shape: &Shape,
    object: &Object,
    bytes: &mut Vec<u8>,
    visitor: &mut dyn Visitor,
) -> Result<ControlFlow<()>, DocumentError> {
    match visitor.wants(Ref::Object(object_of(&object.value)?)) {
        ControlFlow::Continue(true) => {
            reveal_into(shape, &object.value, &revision_of(object.head.sequence), bytes)?;
            Ok(visitor.visit(bytes))
        }
        ControlFlow::Continue(false) => Ok(ControlFlow::Continue(())),
        ControlFlow::Break(()) => Ok(ControlFlow::Break(())),
    }
}

/// Documents in the order of their keys.
pub(crate) struct DocumentScan {
    pub(crate) shape: Arc<Shape>,
    pub(crate) scan: Box<dyn Scan>,
    pub(crate) bytes: Vec<u8>,
}

impl AqlScan for DocumentScan {
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool, QueryError> {
        for _ in 0..DOCUMENTS_AT_ONCE {
            let Some((_, object)) = self.scan.next().map_err(store_error)? else {
                return Ok(false);
            };
            if show(&self.shape, &object, &mut self.bytes, visitor)?.is_break() {
                break;
            }
        }
        Ok(true)
    }
}

/// What a walk over an index looks at.
pub(crate) struct Entries {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) table: Table,
    pub(crate) shape: Arc<Shape>,
    pub(crate) index: Arc<Index>,
    /// What of that belongs to the answer, if not all of it does.
    pub(crate) keys: Option<KeyRange>,
    /// What the keys of all entries that are meant begin with, if one value of each field is: of a
    /// unique index, the key of the only one.
    pub(crate) key: Vec<u8>,
    pub(crate) found: Found,
}

/// The entries that were found.
pub(crate) enum Found {
    /// Any number of them.
    Scan(Box<dyn Scan>),
    /// At most one, until it was looked at.
    One(Option<Object>),
}

/// The key of an entry, and what it holds if its index is unique.
type FoundEntry<'a> = (&'a [u8], Option<Object>);

impl Found {
    /// The entries whose keys begin with `key`, or the only one that has it if the index is unique.
    pub(crate) fn of_key(
        snapshot: &dyn Snapshot,
        table: Table,
        (key, is_unique): (&[u8], bool),
        reverse: bool,
    ) -> Result<Found, QueryError> {
        if is_unique {
            let object = snapshot.get(table, key, &mut Timeline::off());
            return Ok(Found::One(object.map_err(store_error)?));
        }
        snapshot.scan_stem(table, key, reverse).map(Found::Scan).map_err(store_error)
    }

    /// Shows the documents of the entries to the query until that wants no more; `only` is as in
    /// [`Found::next`].
    pub(crate) fn show_all(
        mut self,
        snapshot: &dyn Snapshot,
        table: Table,
        (shape, index, only): (&Shape, &Index, &[u8]),
        visitor: &mut dyn Visitor,
    ) -> Result<(), QueryError> {
        let mut bytes = Vec::new();
        while let Some((entry, held)) = self.next(only, index.definition.unique)? {
            let object = document(snapshot, table, shape, document_key(entry, &held))?;
            if show(shape, &object, &mut bytes, visitor)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The next entry, of which the only one has the key `only`, and what it holds if the index is
    /// unique; the other ones hold nothing.
    fn next<'a>(
        &'a mut self,
        only: &'a [u8],
        is_unique: bool,
    ) -> Result<Option<FoundEntry<'a>>, QueryError> {
        let scan = match self {
            Found::One(object) => return Ok(object.take().map(|object| (only, Some(object)))),
            Found::Scan(scan) => scan,
        };
        if is_unique {
            let found = scan.next().map_err(store_error)?;
            return Ok(found.map(|(entry, object)| (entry, Some(object))));
        }
        Ok(scan.next_head().map_err(store_error)?.map(|(entry, _)| (entry, None)))
    }
}

/// The key of the document of an entry.
fn document_key<'a>(entry: &'a [u8], held: &'a Option<Object>) -> &'a [u8] {
    match held {
        Some(object) => &object.value,
        None => document_of_entry(entry).unwrap_or_default(),
    }
}

/// What the next entry came to.
enum Next {
    Document(Object),
    /// It is beside the range: its key is cut, and only its document said so.
    Beside,
    End,
}

impl Entries {
    /// The document of the next entry. One that is beside the range is told too: any number of them
    /// may come, and the query has to be able to end meanwhile.
    fn next(&mut self) -> Result<Next, QueryError> {
        let is_unique = self.index.definition.unique;
        let Some((entry, held)) = self.found.next(&self.key, is_unique)? else {
            return Ok(Next::End);
        };
        let key = document_key(entry, &held);
        let found = document(&*self.snapshot, self.table, &self.shape, key)?;
        if let Some(keys) = &self.keys {
            let (document, key) = (object_of(&found.value)?, String::from_utf8_lossy(key));
            if !self.index.has_within(document, &key, entry, keys) {
                return Ok(Next::Beside);
            }
        }
        Ok(Next::Document(found))
    }
}

/// The document of an entry.
fn document(
    snapshot: &dyn Snapshot,
    table: Table,
    shape: &Shape,
    key: &[u8],
) -> Result<Object, QueryError> {
    let found = snapshot.get(table, &shape.document_key(key), &mut Timeline::off());
    // They were written together: what sees the one sees the other.
    found.map_err(store_error)?.ok_or_else(|| {
        QueryError::new(pellucid_aql::number::INTERNAL, "an entry of an index has no document")
    })
}

/// Documents in the order of an index.
pub(crate) struct EntryScan {
    pub(crate) entries: Entries,
    pub(crate) bytes: Vec<u8>,
}

impl AqlScan for EntryScan {
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool, QueryError> {
        for _ in 0..DOCUMENTS_AT_ONCE {
            let object = match self.entries.next()? {
                Next::Document(object) => object,
                Next::Beside => continue,
                Next::End => return Ok(false),
            };
            let shape = &self.entries.shape;
            if show(shape, &object, &mut self.bytes, visitor)?.is_break() {
                break;
            }
        }
        Ok(true)
    }
}

/// The values of an index, without the documents.
pub(crate) struct ValueScan {
    pub(crate) entries: Entries,
    pub(crate) values: Vec<Value>,
}

impl ValueScan {
    /// Fills in the values of the next entry; false at the end.
    fn next(&mut self) -> Result<bool, QueryError> {
        let Entries { snapshot, table, shape, index, found, key, .. } = &mut self.entries;
        self.values.clear();
        let Some((entry, held)) = found.next(key, index.definition.unique)? else {
            return Ok(false);
        };
        let mut rest = &entry[index.prefix.len()..];
        for _ in &index.fields {
            match index_key::decode(rest) {
                Some((decoded, length)) if decoded.is_exact => {
                    self.values.push(decoded.value);
                    rest = &rest[length..];
                }
                _ => break,
            }
        }
        if self.values.len() < index.fields.len() {
            // What the key does not say, or not exactly, the document does.
            let found = document(&**snapshot, *table, shape, document_key(entry, &held))?;
            let document = Ref::Object(object_of(&found.value)?);
            let value = |path: &[String]| {
                path.iter().fold(document, |value, name| value.attribute(name)).to_value()
            };
            self.values.clear();
            self.values.extend(index.fields.iter().map(|field| value(&field.path)));
        }
        Ok(true)
    }
}

impl FieldScan for ValueScan {
    fn advance(
        &mut self,
        visit: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<bool, QueryError> {
        for _ in 0..DOCUMENTS_AT_ONCE {
            if !self.next()? {
                return Ok(false);
            }
            if visit(&self.values).is_break() {
                break;
            }
        }
        Ok(true)
    }
}
