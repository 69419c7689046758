//! What goes on in the background, in bounded steps: removing what was given up, and documents
//! whose time is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pellucid_account::Timeline;
use pellucid_store::Acknowledgement;
use pellucid_value::{Number, Ref, index_key};

use crate::collection::Collection;
use crate::definition::IndexKind;
use crate::documents::{Documents, plain_operation};
use crate::error::Result;
use crate::index::Index;
use crate::layout::{document_of_entry, garbage_prefix};
use crate::operations::WriteOptions;
use crate::stored::object_of;
use crate::transaction::Seen;

/// Keys that are removed in one step.
const KEYS_AT_ONCE: usize = 1_000;

/// Documents that are looked at for their expiry in one step.
const EXPIRED_AT_ONCE: usize = 200;

impl Documents {
    /// Removes some of what was given up. Says whether there may be more. The store is not asked
    /// where nothing was given up since it was last found to hold nothing: to look at a memtable in
    /// order is to sort it, and this is called every second.
    ///
    /// # Errors
    /// What the store says.
    pub fn remove_garbage(&self) -> Result<bool> {
        if !self.may_have_garbage.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        let removed = self.remove_some_garbage();
        if !matches!(removed, Ok(false)) {
            self.may_have_garbage.store(true, Ordering::Release);
        }
        removed
    }

    fn remove_some_garbage(&self) -> Result<bool> {
        let prefix = garbage_prefix();
        let mut scan = self.scan_prefix(&prefix, &prefix)?;
        let Some((note, _)) = scan.next()? else { return Ok(false) };
        let note = note.to_vec();
        drop(scan);
        let garbage = &note[prefix.len()..];
        let mut scan = self.scan_prefix(garbage, garbage)?;
        let mut keys = Vec::new();
        while keys.len() < KEYS_AT_ONCE {
            let Some((key, _)) = scan.next()? else { break };
            keys.push(key.to_vec());
        }
        if keys.len() < KEYS_AT_ONCE {
            keys.push(note.clone());
        }
        let operations: Vec<_> = keys.iter().map(|key| plain_operation(key, None)).collect();
        self.write(&operations, Acknowledgement::Os)?;
        Ok(true)
    }

    /// Removes documents of all collections whose time was over at `now_seconds` (since the Unix
    /// epoch), up to a bounded number of each. Says how many.
    ///
    /// # Errors
    /// What the store says.
    pub fn remove_expired(self: &Arc<Self>, now_seconds: f64) -> Result<usize> {
        let mut removed = 0;
        for name in self.database_names() {
            let Ok(database) = self.database(&name) else { continue };
            for collection in database.collections() {
                for index in collection.shape().readable_indexes() {
                    if index.definition.kind == IndexKind::Ttl {
                        removed += self.remove_expired_of(&collection, index, now_seconds)?;
                    }
                }
            }
        }
        Ok(removed)
    }

    fn remove_expired_of(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        index: &Arc<Index>,
        now_seconds: f64,
    ) -> Result<usize> {
        let before = now_seconds - index.definition.expire_after_seconds.unwrap_or(0.0);
        let mut end = index.prefix.clone();
        index_key::encode(Ref::Number(Number::Double(before)), &mut end);
        let mut scan = self.scan_prefix(&index.prefix, &index.prefix)?;
        let mut entries = Vec::new();
        while entries.len() < EXPIRED_AT_ONCE {
            match scan.next()? {
                Some((key, _)) if key < &end[..] => entries.push(key.to_vec()),
                _ => break,
            }
        }
        if entries.is_empty() {
            return Ok(0);
        }
        let mut timeline = Timeline::off();
        let attempt = self.attempt_to_end(
            Acknowledgement::Os,
            false,
            &mut timeline,
            |transaction, timeline| {
                let mut removed = 0;
                for entry in &entries {
                    let Some(key) = document_of_entry(entry) else { continue };
                    let key = String::from_utf8_lossy(key);
                    let store_key = collection.shape().document_key(key.as_bytes());
                    let seen = transaction.look(&store_key, true, timeline)?;
                    let Seen::Stored { value: Some(value), .. } = seen else { continue };
                    // The document may have been given a later time since.
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
}
