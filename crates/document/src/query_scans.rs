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
use crate::tally::Tally;

/// What is read from, and what takes note of it.
pub(crate) type Noted<'a> = (&'a dyn Snapshot, Option<&'a Tally>);

/// What lies under a key.
pub(crate) fn get(
    (snapshot, tally): Noted<'_>,
    table: Table,
    key: &[u8],
) -> Result<Option<Object>, QueryError> {
    let found = match tally {
        Some(tally) => tally.get(snapshot, table, key),
        None => snapshot.get(table, key, &mut Timeline::off()),
    };
    found.map_err(store_error)
}

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
    pub(crate) tally: Option<Arc<Tally>>,
    pub(crate) bytes: Vec<u8>,
}

impl AqlScan for DocumentScan {
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool, QueryError> {
        let (mut read, mut is_over) = (0, false);
        while read < DOCUMENTS_AT_ONCE {
            let Some((_, object)) = self.scan.next().map_err(store_error)? else {
                is_over = true;
                break;
            };
            read += 1;
            if show(&self.shape, &object, &mut self.bytes, visitor)?.is_break() {
                break;
            }
        }
        if let Some(tally) = &self.tally {
            tally.document_reads.add(read as u64);
        }
        Ok(!is_over)
    }
}

/// What a walk over an index looks at.
pub(crate) struct Entries {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) table: Table,
    pub(crate) shape: Arc<Shape>,
    pub(crate) index: Arc<Index>,
    pub(crate) tally: Option<Arc<Tally>>,
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
        source: Noted<'_>,
        table: Table,
        (key, is_unique): (&[u8], bool),
        reverse: bool,
    ) -> Result<Found, QueryError> {
        if is_unique {
            return Ok(Found::One(get(source, table, key)?));
        }
        let (snapshot, _) = source;
        snapshot.scan_stem(table, key, reverse).map(Found::Scan).map_err(store_error)
    }

    /// Shows the documents of the entries to the query until that wants no more; `only` is as in
    /// [`Found::next`].
    pub(crate) fn show_all(
        mut self,
        source: Noted<'_>,
        table: Table,
        (shape, index, only): (&Shape, &Index, &[u8]),
        visitor: &mut dyn Visitor,
    ) -> Result<(), QueryError> {
        let mut bytes = Vec::new();
        while let Some((entry, held)) = self.next(only, index.definition.unique)? {
            let object = document(source, table, shape, document_key(entry, &held))?;
            count_entry(source.1);
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
        let (key, tally) = (document_key(entry, &held), self.tally.as_deref());
        count_entry(tally);
        let found = document((&*self.snapshot, tally), self.table, &self.shape, key)?;
        if let Some(keys) = &self.keys {
            let (document, key) = (object_of(&found.value)?, String::from_utf8_lossy(key));
            if !self.index.has_within(document, &key, entry, keys) {
                return Ok(Next::Beside);
            }
        }
        Ok(Next::Document(found))
    }
}

/// Takes note of an entry of an index.
fn count_entry(tally: Option<&Tally>) {
    if let Some(tally) = tally {
        tally.index_entries.add(1);
    }
}

/// The document of an entry.
fn document(
    source: Noted<'_>,
    table: Table,
    shape: &Shape,
    key: &[u8],
) -> Result<Object, QueryError> {
    let found = get(source, table, &shape.document_key(key))?;
    if let Some(tally) = source.1 {
        tally.document_reads.add(1);
    }
    // They were written together: what sees the one sees the other.
    found.ok_or_else(|| {
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
        let Entries { snapshot, table, shape, index, tally, found, key, .. } = &mut self.entries;
        self.values.clear();
        let Some((entry, held)) = found.next(key, index.definition.unique)? else {
            return Ok(false);
        };
        count_entry(tally.as_deref());
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
            let source = (&**snapshot, tally.as_deref());
            let found = document(source, *table, shape, document_key(entry, &held))?;
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
