//! Removal of expired documents (those of TTL indexes), in bounded steps.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::Acknowledgement;
use pellucid_value::{Number, Ref, index_key};

use crate::attempt::attempt_to_end;
use crate::changes::DocumentState;
use crate::collection::Collection;
use crate::definition::IndexKind;
use crate::documents::Documents;
use crate::error::Result;
use crate::index::Index;
use crate::layout::document_of_entry;
use crate::stored::object_of;
use crate::transaction::WriteOptions;

/// The most documents of one index that one step removes.
const EXPIRED_AT_ONCE: usize = 200;

/// Removes documents of all collections that are expired at `now_seconds` (since the Unix epoch),
/// at most `EXPIRED_AT_ONCE` for each TTL index. Returns the number of removed documents.
///
/// # Errors
/// The first error of an index. The other indexes are processed all the same.
pub fn remove_expired(documents: &Arc<Documents>, now_seconds: f64) -> Result<usize> {
    let (mut removed, mut failure) = (0, None);
    for name in documents.database_names() {
        let Ok(database) = documents.database(&name) else { continue };
        for collection in database.collections() {
            for index in collection.shape().readable_indexes() {
                if index.definition.kind == IndexKind::Ttl {
                    match remove_expired_of(documents, &collection, index, now_seconds) {
                        Ok(count) => removed += count,
                        Err(error) => failure = failure.or(Some(error)),
                    }
                }
            }
        }
    }
    failure.map_or(Ok(removed), Err)
}

fn remove_expired_of(
    documents: &Arc<Documents>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    now_seconds: f64,
) -> Result<usize> {
    let before = now_seconds - index.definition.expire_after_seconds.unwrap_or(0.0);
    let mut end = index.prefix.clone();
    index_key::encode(Ref::Number(Number::Double(before)), &mut end);
    let mut scan = documents.storage().scan(&index.prefix, &index.prefix)?;
    let mut entries = Vec::new();
    while entries.len() < EXPIRED_AT_ONCE {
        match scan.next_head()? {
            Some((key, _)) if key < &end[..] => entries.push(key.to_vec()),
            _ => break,
        }
    }
    let mut count = entries.len();
    loop {
        match remove_documents(documents, collection, index, &entries[..count]) {
            // Documents with many entries in other indexes may be too much for one batch.
            Err(error) if !error.is_conflict() && count > 1 => count /= 2,
            removed => return removed,
        }
    }
}

/// Removes the documents of these entries, all or none.
fn remove_documents(
    documents: &Arc<Documents>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    entries: &[Vec<u8>],
) -> Result<usize> {
    if entries.is_empty() {
        return Ok(0);
    }
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
