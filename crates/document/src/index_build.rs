//! Making and removing indexes.
//!
//! A new index is first one that writers keep up and nobody reads. Then the documents that were
//! there before are given their entries, a bounded number at a time, while writers wait. At the end
//! it shows at once. If the process ends before that, it is removed when the store is opened.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Condition, Operation};

use crate::collection::{Collection, Shape};
use crate::definition::{IndexDefinition, IndexKind, IndexState};
use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, GoesOn, Result};
use crate::index::{Entry, Index, check_fields};
use crate::layout::index_prefix;
use crate::names::check_index_name;
use crate::stored::object_of;

/// Documents that are given their entries at a time.
const FILLED_AT_ONCE: usize = 512;

/// Bytes of documents that are read, and of entries that are written, at a time: meanwhile writers
/// wait.
const FILLED_BYTES: usize = 1 << 20;

/// The pause between two times, in which writers that wait get their turn.
const FILL_PAUSE: Duration = Duration::from_micros(100);

/// Indexes that a collection may have.
const INDEXES_MAX: usize = 64;

/// The progress of filling an index.
struct Progress {
    storage: u64,
    /// The first key in the store that has not been looked at.
    next: Vec<u8>,
}

/// Makes an index, of which `wanted` says all but the number; an empty name is replaced.
/// Returns the one that is there already if it is the same.
///
/// # Errors
/// 10, 1005, 1208 for a definition that may not be; 1210 if two documents have the same values
/// and may not.
pub fn create_index(
    documents: &Documents,
    collection: &Collection,
    wanted: IndexDefinition,
) -> Result<(IndexDefinition, bool)> {
    create_index_while(documents, collection, wanted, &|| Ok(()))
}

/// As [`create_index`], as long as `goes_on` says, which is asked now and then.
///
/// # Errors
/// As there, and what `goes_on` says. There is no index then.
pub fn create_index_while(
    documents: &Documents,
    collection: &Collection,
    wanted: IndexDefinition,
    goes_on: GoesOn<'_>,
) -> Result<(IndexDefinition, bool)> {
    check_fields(&wanted.fields)?;
    if wanted.kind == IndexKind::Ttl && wanted.fields.len() != 1 {
        let message = "bad parameter: a ttl index has exactly one field";
        return Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, message));
    }
    if !wanted.name.is_empty() {
        check_index_name(&wanted.name)?;
    }
    let shape = collection.shape();
    let mut known = shape.readable_indexes().map(|index| &index.definition);
    let is_it = |index: &&IndexDefinition| {
        index.is_same_as(&wanted) && (wanted.name.is_empty() || index.name == wanted.name)
    };
    if let Some(index) = known.find(is_it) {
        return Ok((index.clone(), false));
    }
    let _filling = documents.fill_turn(goes_on)?;
    let (index, is_new) = announce(documents, collection, wanted)?;
    if !is_new {
        return Ok((index, false));
    }
    match fill(documents, collection, index.id, goes_on) {
        Ok(definition) => Ok((definition, true)),
        Err(error) => {
            // The collection may be gone, and the index with it.
            let _ = remove_index(documents, collection, index.id);
            Err(error)
        }
    }
}

/// Lets writers keep up a new index. Gives the one that is there if it is the same, and whether it
/// has to be filled: one that nobody fills, as this turn is ours, was left by a failure that could
/// not remove it either, and is filled again.
fn announce(
    documents: &Documents,
    collection: &Collection,
    wanted: IndexDefinition,
) -> Result<(IndexDefinition, bool)> {
    let _turn = documents.change_turn();
    documents.change_collection(collection, |definition| {
        for index in &definition.indexes {
            if index.is_same_as(&wanted) {
                let is_new = index.state == IndexState::Filling;
                return Ok(((index.clone(), is_new), Vec::new()));
            }
            if index.name == wanted.name {
                let message = "duplicate value for `id` or `name`";
                return Err(DocumentError::new(ErrorNumber::DUPLICATE_IDENTIFIER, message));
            }
        }
        if wanted.name == "primary" || definition.indexes.len() >= INDEXES_MAX {
            let message = "bad parameter: too many indexes, or a name that is taken";
            return Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, message));
        }
        let id = documents.next_tick()?;
        let name = if wanted.name.is_empty() { format!("idx_{id}") } else { wanted.name };
        let index = IndexDefinition { id, name, state: IndexState::Filling, ..wanted };
        definition.indexes.push(index.clone());
        Ok(((index, true), Vec::new()))
    })
}

/// Gives all documents their entries, then shows the index.
fn fill(
    documents: &Documents,
    collection: &Collection,
    id: u64,
    goes_on: GoesOn<'_>,
) -> Result<IndexDefinition> {
    let mut progress = Progress { storage: 0, next: Vec::new() };
    while fill_some(documents, collection, id, &mut progress)? {
        goes_on()?;
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

/// Gives the next documents their entries. Says whether there were any.
fn fill_some(
    documents: &Documents,
    collection: &Collection,
    id: u64,
    progress: &mut Progress,
) -> Result<bool> {
    let _writers = collection.hold_writers();
    collection.check_there()?;
    let shape = collection.shape();
    let Some(index) = shape.indexes.iter().find(|index| index.definition.id == id) else {
        return Err(ErrorNumber::INDEX_NOT_FOUND.into());
    };
    if progress.storage != shape.definition.storage {
        // It begins here, or again after a truncate.
        progress.storage = shape.definition.storage;
        progress.next.clone_from(&shape.documents_prefix);
    }
    let entries = missing_entries(documents, &shape, index, progress)?;
    let Some(entries) = entries else { return Ok(false) };
    let condition = if index.definition.unique { Condition::Absent } else { Condition::None };
    let operations: Vec<_> = entries
        .iter()
        .map(|entry| Operation {
            key: &entry.key,
            value: Some(&entry.value),
            condition,
            lifetime_ms: None,
        })
        .collect();
    if !operations.is_empty() {
        documents.storage().write(&operations, Acknowledgement::Os)?;
    }
    Ok(true)
}

/// The entries that the next documents lack; nothing after the last document.
fn missing_entries(
    documents: &Documents,
    shape: &Shape,
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
        for entry in index.entries_of(object_of(&object.value)?, &document)? {
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

/// True if the entry is there already, because its document was written since the index is
/// kept up.
fn is_held(documents: &Documents, index: &Index, entry: &Entry) -> Result<bool> {
    let found = documents.storage().get(&entry.key, &mut Timeline::off()).wait()?;
    match found {
        None => Ok(false),
        Some(object) if *object.value == entry.value[..] => Ok(true),
        Some(object) => Err(index.violation(&String::from_utf8_lossy(&object.value))),
    }
}

/// Removes an index; its entries are removed in the background.
///
/// # Errors
/// 1212 if there is none, 11 for an index that belongs to its collection.
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
pub fn find_index(shape: &Shape, name: &str) -> Option<Arc<Index>> {
    let number = name.parse::<u64>().ok();
    let mut indexes = shape.readable_indexes();
    let is_it =
        |index: &&Arc<Index>| Some(index.definition.id) == number || index.definition.name == name;
    indexes.find(is_it).cloned()
}
