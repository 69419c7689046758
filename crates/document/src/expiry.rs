//! Removal of expired documents (those of TTL indexes), in bounded steps.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, StoreError};
use pellucid_value::{Number, Ref, index_key};

use crate::attempt::attempt_to_end;
use crate::changes::DocumentState;
use crate::collection::Collection;
use crate::definition::IndexKind;
use crate::documents::Documents;
use crate::error::{DocumentError, Result};
use crate::index::Index;
use crate::layout::document_of_entry;
use crate::stored_document::object_of;
use crate::transaction::WriteOptions;

/// The most documents of one index that one step removes.
const EXPIRED_AT_ONCE: usize = 200;

/// The most entries of one index at which one step fails. If the store itself fails, each failure
/// may take long.
const FAILURES_MAX: usize = 10;

/// Removes documents of all collections that are expired at `now_seconds` (since the Unix epoch),
/// at most `EXPIRED_AT_ONCE` for each TTL index. A document that cannot be removed is left out.
/// Returns the number of removed documents, and the first error.
pub fn remove_expired(documents: &Arc<Documents>, now_seconds: f64) -> (usize, Result<()>) {
    let (mut removed, mut ended) = (0, Ok(()));
    for name in documents.database_names() {
        let Ok(database) = documents.database(&name) else { continue };
        for collection in database.collections() {
            for index in collection.shape().readable_indexes() {
                if index.definition.kind == IndexKind::Ttl {
                    let step = remove_expired_of(documents, &collection, index, now_seconds);
                    removed += step.0;
                    ended = ended.and(step.1);
                }
            }
        }
    }
    (removed, ended)
}

/// Removes expired documents of one index. Each step goes on behind the previous one, so that
/// documents that cannot be removed do not keep others from their removal.
fn remove_expired_of(
    documents: &Arc<Documents>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    now_seconds: f64,
) -> (usize, Result<()>) {
    let mut from = index.expiry_from.lock();
    let found = match expired_entries(documents, index, &from, now_seconds) {
        Ok(found) => found,
        Err(error) => return (0, Err(error)),
    };
    let (mut entries, mut count) = (&found[..], found.len());
    let (mut removed, mut failures, mut ended) = (0, 0, Ok(()));
    while !entries.is_empty() && failures < FAILURES_MAX {
        count = count.min(entries.len());
        match remove_documents(documents, collection, index, &entries[..count]) {
            Ok(gone) => {
                removed += gone;
                entries = &entries[count..];
            }
            Err(error) if error.is_conflict() || is_of_the_store(&error) => {
                ended = ended.and(Err(error));
                break;
            }
            // Documents with many entries in other indexes may be too much for one batch.
            Err(_) if count > 1 => count /= 2,
            Err(error) => {
                ended = ended.and(Err(not_removed(error, collection, &entries[0])));
                failures += 1;
                entries = &entries[1..];
                count = entries.len();
            }
        }
    }
    *from = match (entries.first(), found.last()) {
        (Some(next), _) => next.clone(),
        (None, Some(last)) if found.len() == EXPIRED_AT_ONCE => last.clone(),
        _ => index.prefix.clone(),
    };
    (removed, ended)
}

/// The next entries of documents that are expired, from the entry `from` on.
fn expired_entries(
    documents: &Documents,
    index: &Index,
    from: &[u8],
    now_seconds: f64,
) -> Result<Vec<Vec<u8>>> {
    let before = now_seconds - index.definition.expire_after_seconds.unwrap_or(0.0);
    let mut end = index.prefix.clone();
    index_key::encode(Ref::Number(Number::Double(before)), &mut end);
    let mut scan = documents.storage().scan(&index.prefix, from)?;
    let mut entries = Vec::new();
    while entries.len() < EXPIRED_AT_ONCE {
        match scan.next_head()? {
            Some((key, _)) if key < &end[..] => entries.push(key.to_vec()),
            _ => break,
        }
    }
    Ok(entries)
}

/// True for an error that is not about one document: the store cannot be read or written now.
fn is_of_the_store(error: &DocumentError) -> bool {
    !matches!(
        error.cause.as_deref(),
        None | Some(StoreError::Corruption(..) | StoreError::Unacceptable(..))
    )
}

/// Adds the name of the document that is left out to an error.
fn not_removed(mut error: DocumentError, collection: &Collection, entry: &[u8]) -> DocumentError {
    let key = String::from_utf8_lossy(document_of_entry(entry).unwrap_or_default());
    let name = collection.name();
    error.message = format!("the expired document {name}/{key} is left out: {}", error.message);
    error
}

/// Removes the documents of these entries, all or none.
fn remove_documents(
    documents: &Arc<Documents>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    entries: &[Vec<u8>],
) -> Result<usize> {
    let mut timeline = Timeline::off();
    let attempt = attempt_to_end(
        documents,
        Acknowledgement::Os,
        false,
        &mut timeline,
        |transaction, timeline| {
            let mut removed = 0;
            for entry in entries {
                let Some(key) = document_of_entry(entry) else { continue };
                let key = String::from_utf8_lossy(key);
                let store_key = collection.shape().document_key(key.as_bytes());
                let found = transaction.changes().find(&store_key, true, timeline)?;
                let DocumentState::Stored { value: Some(value), .. } = found else { continue };
                // The document may have got a later time since the scan.
                let entries = index.entries_of(object_of(&value)?, &key)?;
                if entries.iter().any(|current| current.key == *entry) {
                    transaction.remove(collection, &key, &WriteOptions::default(), timeline)?;
                    removed += 1;
                }
            }
            Ok(removed)
        },
    );
    Ok(attempt?.0)
}
