//! Databases, collections and documents on the store interface.
//!
//! A document and all its index entries are written in one batch of [`pellucid_store::Store`], so
//! a reader never sees one without the others. A document's revision is the sequence number that
//! the store gave to its last write. Concurrency control is optimistic: a write carries a condition
//! on that number, no writer waits for another, and one whose condition fails reads again and
//! retries.
//! This crate does not depend on HTTP or on the kind of store below it.
//!
//! Errors carry ArangoDB's numbers ([`ErrorNumber`]), because drivers branch on them.

#![forbid(unsafe_code)]

mod attempt;
mod changes;
mod collection;
mod collection_scan;
mod commit;
mod contents;
mod cut_entries;
mod database;
mod definition;
mod documents;
mod error;
mod expiry;
mod import;
mod index;
mod index_build;
mod index_range;
mod key_hashing;
mod layout;
mod lease;
mod names;
mod provisional_revisions;
mod query_counters;
mod query_data;
mod query_scan;
mod query_writes;
mod retry_backoff;
mod revision;
mod storage;
mod stored_document;
#[cfg(test)]
mod tests;
mod ticks;
mod transaction;

pub use attempt::{ATTEMPTS_MAX, attempt, attempt_to_end};
pub use collection::{Collection, CollectionSchema};
pub use collection_scan::{Sizes, for_each, hash, hash_of_data, sizes};
pub use commit::{Commit, CommitSequences, PendingCommit};
pub use contents::contents;
pub use database::Database;
pub use definition::{
    CollectionDefinition, CollectionKind, DatabaseDefinition, IndexDefinition, IndexKind,
    IndexState,
};
pub use documents::Documents;
pub use error::{CancellationCheck, DocumentError, ErrorNumber, Result, StoredRevision};
pub use expiry::remove_expired;
pub use import::{ImportForm, ImportOptions, ImportReport, import};
pub use index::{FieldPath, Index};
pub use index_build::{create_index, create_index_while, drop_index, find_index};
pub use layout::{lookup_prefix, part_of};
pub use lease::STORE_TIMEOUT_MAX;
pub use names::{SYSTEM_DATABASE, split_id};
pub use pellucid_aql::{OverwriteMode as Overwrite, is_document_key};
pub use query_counters::StoreAccount;
pub use query_data::{QueryData, ReadPermission};
pub use retry_backoff::RetryBackoff;
pub use revision::{REVISION_LENGTH, revision_of, revision_text, sequence_of};
pub use storage::TABLE;
pub use stored_document::{document_of, reveal};
pub use transaction::{
    DocumentOutcome, PreviousDocument, Rewrite, Transaction, Version, WriteOptions,
};
