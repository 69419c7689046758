//! Databases, collections and documents on the store interface.
//!
//! A document and all its index entries are written in one batch of [`pellucid_store::Store`], so
//! that none of them is ever there without the others. Revisions are the store's sequence numbers,
//! and conditions on them are the concurrency control: nobody waits for anybody, and who comes
//! second looks again. Nothing here knows of HTTP, or which kind of store it is.
//!
//! Errors carry ArangoDB's numbers ([`ErrorNumber`]), because drivers branch on them.

mod attempt;
mod catalogue;
mod collection;
mod database;
mod definition;
mod documents;
mod error;
mod held;
mod import;
mod index;
mod index_range;
mod indexes;
mod key_hashing;
mod layout;
mod lease;
mod maintenance;
mod moment;
mod names;
mod operations;
mod pauses;
mod query_data;
mod query_scans;
mod query_writes;
mod read;
mod revision;
mod stored;
mod survey;
mod tally;
#[cfg(test)]
mod tests;
mod ticks;
mod transaction;

pub use attempt::{ATTEMPTS_MAX, Attempt};
pub use catalogue::NewCollection;
pub use collection::{Collection, Shape};
pub use database::Database;
pub use definition::{
    CollectionDefinition, CollectionKind, DatabaseDefinition, IndexDefinition, IndexKind,
    IndexState,
};
pub use documents::{Documents, TABLE};
pub use error::{DocumentError, ErrorNumber, Result, Standing};
pub use held::held;
pub use import::{GoesOn, ImportForm, ImportOptions, ImportReport, OnDuplicate};
pub use index::{FieldPath, Index};
pub use indexes::find_index;
pub use layout::{part_of, stem_of};
pub use names::{DOCUMENT_KEY_BYTES_MAX, SYSTEM_DATABASE, is_document_key, split_id};
pub use operations::{Outcome, Overwrite, Previous, Version, WriteOptions};
pub use pauses::Pauses;
pub use query_data::{MayRead, QueryData};
pub use read::document_of;
pub use revision::{REVISION_LENGTH, revision_of, revision_text, sequence_of};
pub use survey::{Sizes, hash, hash_of_data};
pub use tally::StoreAccount;
pub use transaction::{
    Commit, Committed, TRANSACTION_BYTES_MAX, Transaction, Unfinished, settle_revisions,
};
