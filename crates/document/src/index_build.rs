//! Building and removing indexes.
//!
//! At first, writers maintain a new index, and queries do not use it. Then the entries of the
//! documents that existed before are written, a bounded number at a time, while writers wait. At
//! the end the index becomes ready for queries in one step. If the process ends before that, the
//! next opening of the store removes the index.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Condition, Operation, StoreError};

use crate::collection::{Collection, CollectionSchema};
use crate::definition::{IndexDefinition, IndexKind, IndexState};
use crate::documents::{Documents, take_unfinished_indexes};
use crate::error::{CancellationCheck, DocumentError, ErrorNumber, Result};
use crate::index::{Entry, Index, check_fields};
use crate::layout::index_prefix;
use crate::names::check_index_name;
use crate::stored_document::object_of;

/// The most documents whose entries are written in one step.
const FILLED_AT_ONCE: usize = 512;

/// The bytes of documents read and of entries written at which a step ends. Writers wait during a
/// step.
const FILLED_BYTES: usize = 1 << 20;

/// The pause between two steps, in which waiting writers get their turn.
const FILL_PAUSE: Duration = Duration::from_micros(100);

/// The most indexes of a collection, besides the primary one.
const INDEXES_MAX: usize = 64;

/// The progress of filling an index.
struct Progress {
    /// The storage number of the documents. Truncating the collection gives it a new number, and
    /// filling starts again.
    storage: u64,
    /// The key in the store from which the next step reads.
    next: Vec<u8>,
}

/// Builds an index as `wanted` describes it; its number is chosen here, and its name as well if
/// that is empty. Returns the definition and true, or false with the existing definition if the
/// same index exists.
///
/// # Errors
/// 10 for an invalid definition, the name `primary` or too many indexes, 1208 for an invalid name,
/// 1005 if another index has the name, 1203 if the collection is gone. 1210 if the index is unique
/// and two documents have the same values. 21003 if too many index builds wait, or if batches of
/// writes stay under way. Errors of the store.
pub fn create_index(
    documents: &Documents,
    collection: &Collection,
    wanted: IndexDefinition,
) -> Result<(IndexDefinition, bool)> {
    create_index_while(documents, collection, wanted, &|| Ok(()))
}

/// As [`create_index`]; an error of `check_cancelled`, which is called now and then, ends the
/// build.
///
/// # Errors
/// Those of [`create_index`] and of `check_cancelled`. The unfinished index is removed.
pub fn create_index_while(
    documents: &Documents,
    collection: &Collection,
    wanted: IndexDefinition,
    check_cancelled: CancellationCheck<'_>,
) -> Result<(IndexDefinition, bool)> {
    check_fields(&wanted.fields)?;
    let is_one_value = wanted.fields.len() == 1 && !wanted.fields[0].contains("[*]");
    if wanted.kind == IndexKind::Ttl && !is_one_value {
        let message = "bad parameter: a ttl index has exactly one field, and expands no array";
        return Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, message));
    }
    if !wanted.name.is_empty() {
        check_index_name(&wanted.name)?;
    }
    let shape = collection.shape();
    let mut known = shape.readable_indexes().map(|index| &index.definition);
    if let Some(index) = known.find(|index| index.is_same_as(&wanted)) {
        return Ok((index.clone(), false));
    }
    let _filling = documents.fill_turn(check_cancelled)?;
    let (index, is_new) = announce(documents, collection, wanted)?;
    if !is_new {
        return Ok((index, false));
    }
    match fill(documents, collection, index.id, check_cancelled) {
        Ok(definition) => Ok((definition, true)),
        Err(error) => {
            // The collection may be gone, and the index with it.
            let _ = remove_index(documents, collection, index.id);
            Err(error)
        }
    }
}

/// Adds a new index to the definition, so that writers maintain it from now on. Returns its
/// definition, or that of the same existing index, and whether it has to be filled. Only one index
/// is built at a time, and the caller has that turn. So an index in the state `Filling` is left
/// over from a failed build that could not be removed. It is removed now.
fn announce(
    documents: &Documents,
    collection: &Collection,
    mut wanted: IndexDefinition,
) -> Result<(IndexDefinition, bool)> {
    let _turn = documents.change_turn();
    documents.change_collection(collection, |definition| {
        let garbage = take_unfinished_indexes(definition);
        if let Some(index) = definition.indexes.iter().find(|index| index.is_same_as(&wanted)) {
            return Ok(((index.clone(), false), garbage));
        }
        check_beside(&definition.indexes, &wanted)?;
        if wanted.name == "primary" || definition.indexes.len() >= INDEXES_MAX {
            let message = "bad parameter: too many indexes, or a name that is taken";
            return Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, message));
        }
        let mut id = documents.next_tick()?;
        if wanted.name.is_empty() {
            let is_taken = |name: &str| definition.indexes.iter().any(|index| index.name == name);
            while is_taken(&format!("idx_{id}")) {
                id = documents.next_tick()?;
            }
            wanted.name = format!("idx_{id}");
        }
        let index = IndexDefinition { id, state: IndexState::Filling, ..wanted };
        definition.indexes.push(index.clone());
        Ok(((index, true), garbage))
    })
}

/// Checks that a new index may be added to the other indexes of its collection.
fn check_beside(others: &[IndexDefinition], wanted: &IndexDefinition) -> Result<()> {
    for index in others {
        if index.kind == IndexKind::Ttl && wanted.kind == IndexKind::Ttl {
            let message = format!(
                "bad parameter: there can only be one ttl index per collection: remove the index \
                 {} first",
                index.name
            );
            return Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, message));
        }
        // The indexes on both ends of edges are shown as one, of the name `edge`.
        if index.name == wanted.name || (index.kind == IndexKind::Edge && wanted.name == "edge") {
            let message = "duplicate value for `id` or `name`";
            return Err(DocumentError::new(ErrorNumber::DUPLICATE_IDENTIFIER, message));
        }
    }
    Ok(())
}

/// Writes the entries of all documents, then makes the index ready for queries.
fn fill(
    documents: &Documents,
    collection: &Collection,
    id: u64,
    check_cancelled: CancellationCheck<'_>,
) -> Result<IndexDefinition> {
    let mut progress = Progress { storage: 0, next: Vec::new() };
    while fill_some(documents, collection, id, &mut progress)? {
        check_cancelled()?;
        std::thread::sleep(FILL_PAUSE);
    }
    let _turn = documents.change_turn();
    documents.change_collection(collection, |definition| {
        let index = definition.indexes.iter_mut().find(|index| index.id == id);
        let index = index.ok_or(ErrorNumber::INDEX_NOT_FOUND)?;
        index.state = IndexState::Ready;
        Ok((index.clone(), Vec::new()))
    })
}

/// Writes the entries of the next documents. Returns false if there are no more documents.
fn fill_some(
    documents: &Documents,
    collection: &Collection,
    id: u64,
    progress: &mut Progress,
) -> Result<bool> {
    let _writers = collection.hold_writers()?;
    collection.check_there()?;
    let shape = collection.shape();
    let Some(index) = shape.indexes.iter().find(|index| index.definition.id == id) else {
        return Err(ErrorNumber::INDEX_NOT_FOUND.into());
    };
    if progress.storage != shape.definition.storage {
        // This is the first step, or the first one after the collection was truncated.
        progress.storage = shape.definition.storage;
        progress.next.clone_from(&shape.documents_prefix);
    }
    let entries = missing_entries(documents, &shape, index, progress)?;
    let Some(entries) = entries else { return Ok(false) };
    let condition = if index.definition.unique { Condition::Absent } else { Condition::None };
    let operations: Vec<_> = entries
        .iter()
        .map(|entry| Operation { condition, ..Operation::plain(&entry.key, Some(&entry.value)) })
        .collect();
    if !operations.is_empty() {
        write_entries(documents, &operations)?;
    }
    Ok(true)
}

/// Writes entries, in several batches if they are too much for one.
fn write_entries(documents: &Documents, operations: &[Operation<'_>]) -> Result<()> {
    let written = documents.storage().write(operations, Acknowledgement::Os);
    match written.as_ref().err().and_then(|error| error.cause.as_deref()) {
        Some(StoreError::Unacceptable(_)) if operations.len() > 1 => {
            let (first, rest) = operations.split_at(operations.len() / 2);
            write_entries(documents, first)?;
            write_entries(documents, rest)
        }
        _ => written.map(drop),
    }
}

/// The entries that the next documents lack; `None` after the last document.
fn missing_entries(
    documents: &Documents,
    shape: &CollectionSchema,
    index: &Index,
    progress: &mut Progress,
) -> Result<Option<Vec<Entry>>> {
    let mut scan = documents.storage().scan(&shape.documents_prefix, &progress.next)?;
    let (mut entries, mut holders) = (Vec::new(), HashMap::new());
    let (mut filled, mut bytes) = (0, 0);
    while filled < FILLED_AT_ONCE && bytes < FILLED_BYTES {
        let Some((key, object)) = scan.next()? else { break };
        filled += 1;
        bytes += object.value.len();
        progress.next = [key, &[0]].concat();
        let document = String::from_utf8_lossy(&key[shape.documents_prefix.len()..]);
        let made = object.value.read(|value| index.entries_of(object_of(value)?, &document))??;
        for entry in made {
            if index.definition.unique {
                let holder = holders.insert(entry.key.clone(), entry.value.clone());
                if let Some(holder) = holder {
                    return Err(index.violation(&String::from_utf8_lossy(&holder)));
                }
                if is_held(documents, index, &entry)? {
                    continue;
                }
            }
            bytes += entry.key.len() + entry.value.len();
            entries.push(entry);
        }
    }
    Ok((filled > 0).then_some(entries))
}

/// True if the entry of a unique index exists already: its document was written after the index was
/// added to the definition.
///
/// # Errors
/// 1210 if the entry belongs to another document; errors of the store.
fn is_held(documents: &Documents, index: &Index, entry: &Entry) -> Result<bool> {
    let found = documents.storage().get(&entry.key, &mut Timeline::off()).wait()?;
    match found {
        None => Ok(false),
        Some(object) if *object.value == entry.value[..] => Ok(true),
        Some(object) => Err(index.violation(&String::from_utf8_lossy(&object.value))),
    }
}

/// Removes an index. Its entries are removed in the background.
///
/// # Errors
/// 1212 if there is none, 11 for the primary index and for an edge index, 1203 if the collection is
/// gone, and errors of the store.
pub fn drop_index(documents: &Documents, collection: &Collection, id: u64) -> Result<()> {
    let shape = collection.shape();
    let index = shape.readable_indexes().find(|index| index.definition.id == id);
    match index.map(|index| index.definition.kind) {
        None if id == 0 => Err(ErrorNumber::FORBIDDEN.into()),
        None => Err(ErrorNumber::INDEX_NOT_FOUND.into()),
        Some(IndexKind::Edge) => Err(ErrorNumber::FORBIDDEN.into()),
        Some(_) => remove_index(documents, collection, id),
    }
}

fn remove_index(documents: &Documents, collection: &Collection, id: u64) -> Result<()> {
    let _turn = documents.change_turn();
    documents.change_collection(collection, |definition| {
        let place = definition.indexes.iter().position(|index| index.id == id);
        let index = definition.indexes.remove(place.ok_or(ErrorNumber::INDEX_NOT_FOUND)?);
        let garbage = index_prefix(definition.storage, index.id, index.unique);
        Ok(((), vec![garbage]))
    })
}

/// Finds an index by its number or name.
#[must_use]
pub fn find_index(shape: &CollectionSchema, name: &str) -> Option<Arc<Index>> {
    let number = name.parse::<u64>().ok();
    let mut indexes = shape.readable_indexes();
    let is_it =
        |index: &&Arc<Index>| Some(index.definition.id) == number || index.definition.name == name;
    indexes.find(is_it).cloned()
}
