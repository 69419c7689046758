//! Whether there are documents in a store, before anybody opens it as one of documents.

use pellucid_store::Store;

use crate::definition::{CollectionDefinition, DatabaseDefinition};
use crate::documents::{Opening, SYSTEM_DATABASE_ID, TABLE, scan_prefix};
use crate::error::Result;
use crate::layout::{DefinitionKind, contents_prefix, end_of_prefix, garbage_prefix, part_of};

/// What somebody has put into the databases of `store`, in words: a collection, a database, or
/// documents without either. Nothing if there is only what every opened store has. The table is
/// made if there is none.
///
/// # Errors
/// If the store fails, or holds definitions that make no sense.
pub fn held(store: &dyn Store) -> Result<Option<String>> {
    let opening = Opening { store, table: store.table_in_parts(TABLE, part_of)? };
    let collections: Vec<CollectionDefinition> = opening.definitions(DefinitionKind::Collection)?;
    if let Some(collection) = collections.first() {
        return Ok(Some(format!("the collection `{}`", collection.name)));
    }
    let databases: Vec<DatabaseDefinition> = opening.definitions(DefinitionKind::Database)?;
    if let Some(database) = databases.iter().find(|each| each.id != SYSTEM_DATABASE_ID) {
        return Ok(Some(format!("the database `{}`", database.name)));
    }
    Ok(has_contents(&opening)?.then(|| "documents".to_owned()))
}

/// Whether there are contents of collections beside those that are to be removed.
fn has_contents(opening: &Opening<'_>) -> Result<bool> {
    let Opening { store, table } = *opening;
    let garbage = opening.given_up()?;
    let contents = contents_prefix();
    let mut start = contents.clone();
    loop {
        let mut scan = scan_prefix(store, table, &contents, &start)?;
        let Some((key, _)) = scan.next_head()? else { return Ok(false) };
        let Some(prefix) = garbage.iter().find(|prefix| key.starts_with(prefix)) else {
            return Ok(true);
        };
        // What is to be removed is passed over as a whole.
        match end_of_prefix(prefix) {
            Some(end) => start = end,
            None => return Ok(false),
        }
    }
}

impl Opening<'_> {
    /// The prefixes of all keys that are to be removed.
    fn given_up(&self) -> Result<Vec<Vec<u8>>> {
        let mark = garbage_prefix();
        let mut scan = scan_prefix(self.store, self.table, &mark, &mark)?;
        let mut prefixes = Vec::new();
        while let Some((key, _)) = scan.next_head()? {
            prefixes.push(key[mark.len()..].to_vec());
        }
        Ok(prefixes)
    }
}
