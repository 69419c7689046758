//! Contents of a store, before it is opened as a store of documents.

use pellucid_store::Store;

use crate::definition::{CollectionDefinition, DatabaseDefinition};
use crate::documents::SYSTEM_DATABASE_ID;
use crate::error::Result;
use crate::layout::{DefinitionKind, contents_prefix, end_of_prefix};
use crate::storage::Reader;

/// The contents of the databases of `store`, in words: a collection, a database, or documents
/// without either. None if there is only the database of every opened store. The table is made if
/// there is none.
///
/// # Errors
/// If the store fails, or holds definitions that make no sense.
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

/// There are contents of collections beside garbage.
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
        // Garbage is passed over as a whole.
        match end_of_prefix(garbage) {
            Some(end) => start = end,
            None => return Ok(false),
        }
    }
}
