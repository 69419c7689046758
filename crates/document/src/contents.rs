//! A check whether a store holds documents, before it is opened as a store of documents.

use pellucid_store::{Store, end_of_prefix};

use crate::definition::{CollectionDefinition, DatabaseDefinition};
use crate::documents::SYSTEM_DATABASE_ID;
use crate::error::Result;
use crate::layout::{DefinitionKind, contents_prefix};
use crate::storage::Reader;

/// Describes the first thing found in the databases of `store`: a collection, a database, or
/// documents without a definition. `None` if there is at most the empty database `_system`. Creates
/// the table if there is none.
///
/// # Errors
/// If the store fails, or a definition in it is invalid.
pub fn contents(store: &dyn Store) -> Result<Option<String>> {
    let reader = Reader::of(store)?;
    let collections: Vec<CollectionDefinition> = reader.definitions(DefinitionKind::Collection)?;
    if let Some(collection) = collections.first() {
        return Ok(Some(format!("the collection `{}`", collection.name)));
    }
    let databases: Vec<DatabaseDefinition> = reader.definitions(DefinitionKind::Database)?;
    if let Some(database) = databases.iter().find(|each| each.id != SYSTEM_DATABASE_ID) {
        return Ok(Some(format!("the database `{}`", database.name)));
    }
    Ok(has_contents(reader)?.then(|| "documents".to_owned()))
}

/// True if there are documents or index entries that are not garbage.
fn has_contents(reader: Reader<'_>) -> Result<bool> {
    let garbage = reader.garbage()?;
    let prefix = contents_prefix();
    let mut start = prefix.clone();
    loop {
        let mut scan = reader.scan(&prefix, &start)?;
        let Some((key, _)) = scan.next_head()? else { return Ok(false) };
        let Some(garbage) = garbage.iter().find(|prefix| key.starts_with(prefix)) else {
            return Ok(true);
        };
        // Skip all keys of this garbage at once.
        match end_of_prefix(garbage) {
            Some(end) => start = end,
            None => return Ok(false),
        }
    }
}
