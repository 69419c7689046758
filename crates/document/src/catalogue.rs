//! Changes to databases and collections. Each is one batch in the store, written before it shows.

use std::sync::{Arc, PoisonError};

use pellucid_thread::MutexGuard;

use crate::collection::Collection;
use crate::database::Database;
use crate::definition::{CollectionDefinition, CollectionKind, DatabaseDefinition, edge_indexes};
use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::layout::{DefinitionKind, definition_key, storage_prefix};
use crate::names::{SYSTEM_DATABASE, check_collection_name, check_database_name};

/// What a new collection is to be.
#[derive(Clone, Debug)]
pub struct NewCollection {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: CollectionKind,
    /// Whether its name may begin with an underscore.
    pub is_system: bool,
    /// Whether each write waits for the medium.
    pub wait_for_sync: bool,
    /// Whether documents may come with a key of their own.
    pub allow_user_keys: bool,
}

impl Documents {
    /// The database of this name.
    ///
    /// # Errors
    /// 1228 if there is none, 503 if another process serves the documents of the store.
    pub fn database(&self, name: &str) -> Result<Arc<Database>> {
        self.check_served()?;
        let databases = self.databases.read().unwrap_or_else(PoisonError::into_inner);
        databases.get(name).cloned().ok_or_else(|| ErrorNumber::DATABASE_NOT_FOUND.into())
    }

    /// The names of all databases, in order.
    #[must_use]
    pub fn database_names(&self) -> Vec<String> {
        let databases = self.databases.read().unwrap_or_else(PoisonError::into_inner);
        databases.keys().cloned().collect()
    }

    /// Makes a database.
    ///
    /// # Errors
    /// 1229 for a name that may not be, 1207 if there is one of that name.
    pub fn create_database(&self, name: &str) -> Result<Arc<Database>> {
        let _turn = self.change_turn();
        check_database_name(name)?;
        if self.database(name).is_ok() {
            return Err(ErrorNumber::DUPLICATE_NAME.into());
        }
        let definition = DatabaseDefinition { id: self.next_tick()?, name: name.to_owned() };
        self.put_definition(DefinitionKind::Database, definition.id, &definition)?;
        let database = Arc::new(Database::new(definition));
        let mut databases = self.databases.write().unwrap_or_else(PoisonError::into_inner);
        databases.insert(name.to_owned(), Arc::clone(&database));
        Ok(database)
    }

    /// Removes a database and all its collections.
    ///
    /// # Errors
    /// 1228 if there is none, 11 for the one that is always there.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let _turn = self.change_turn();
        let database = self.database(name)?;
        if name == SYSTEM_DATABASE {
            return Err(ErrorNumber::FORBIDDEN.into());
        }
        let collections = database.collections();
        let guards: Vec<_> =
            collections.iter().map(|collection| collection.hold_writers()).collect();
        let mut definitions = vec![(definition_key(DefinitionKind::Database, database.id), None)];
        let mut garbage = Vec::new();
        for collection in &collections {
            definitions.push((definition_key(DefinitionKind::Collection, collection.id), None));
            garbage.push(storage_prefix(collection.shape().definition.storage));
        }
        self.change(&definitions, &garbage)?;
        collections.iter().for_each(|collection| collection.set_dropped());
        drop(guards);
        self.databases.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }

    /// Makes a collection.
    ///
    /// # Errors
    /// 1208 for a name that may not be, 1207 if there is one of that name.
    pub fn create_collection(
        &self,
        database: &Database,
        new: NewCollection,
    ) -> Result<Arc<Collection>> {
        let _turn = self.change_turn();
        check_collection_name(&new.name, new.is_system)?;
        self.check_unused(database, &new.name)?;
        let id = self.next_tick()?;
        let indexes = match new.kind {
            CollectionKind::Documents => Vec::new(),
            CollectionKind::Edges => edge_indexes(),
        };
        let definition = CollectionDefinition {
            id,
            database: database.id,
            name: new.name,
            kind: new.kind,
            is_system: new.is_system,
            wait_for_sync: new.wait_for_sync,
            allow_user_keys: new.allow_user_keys,
            storage: self.next_tick()?,
            indexes,
        };
        self.change_collection(&definition, &[])?;
        let collection = Arc::new(Collection::new(definition, 0, 0));
        database.add(Arc::clone(&collection));
        Ok(collection)
    }

    /// Removes a collection. What it held is given up at once, and removed in the background.
    ///
    /// # Errors
    /// 1203 if it is gone already.
    pub fn drop_collection(&self, database: &Database, collection: &Collection) -> Result<()> {
        let _turn = self.change_turn();
        let _writers = collection.hold_writers();
        check_there(collection)?;
        let key = definition_key(DefinitionKind::Collection, collection.id);
        let garbage = storage_prefix(collection.shape().definition.storage);
        self.change(&[(key, None)], &[garbage])?;
        collection.set_dropped();
        database.remove(collection);
        Ok(())
    }

    /// Removes all documents of a collection, at once.
    ///
    /// # Errors
    /// 1203 if the collection is gone.
    pub fn truncate(&self, collection: &Collection) -> Result<()> {
        let _turn = self.change_turn();
        let _writers = collection.hold_writers();
        check_there(collection)?;
        let mut definition = collection.shape().definition.clone();
        let garbage = storage_prefix(definition.storage);
        definition.storage = self.next_tick()?;
        self.change_collection(&definition, &[garbage])?;
        collection.set_definition(definition);
        collection.note_emptied();
        Ok(())
    }

    /// Gives a collection another name.
    ///
    /// # Errors
    /// As for making one; 1203 if it is gone.
    pub fn rename_collection(
        &self,
        database: &Database,
        collection: &Arc<Collection>,
        name: &str,
    ) -> Result<()> {
        let _turn = self.change_turn();
        let _writers = collection.hold_writers();
        check_there(collection)?;
        let mut definition = collection.shape().definition.clone();
        if definition.name == name {
            return Ok(());
        }
        check_collection_name(name, definition.is_system)?;
        self.check_unused(database, name)?;
        name.clone_into(&mut definition.name);
        self.change_collection(&definition, &[])?;
        collection.set_definition(definition);
        database.renamed(collection);
        Ok(())
    }

    /// Sets whether each write of a collection waits for the medium.
    ///
    /// # Errors
    /// 1203 if it is gone.
    pub fn set_wait_for_sync(&self, collection: &Collection, wait_for_sync: bool) -> Result<()> {
        let _turn = self.change_turn();
        let _writers = collection.hold_writers();
        check_there(collection)?;
        let mut definition = collection.shape().definition.clone();
        definition.wait_for_sync = wait_for_sync;
        self.change_collection(&definition, &[])?;
        collection.set_definition(definition);
        Ok(())
    }

    /// Keeps other changes of definitions waiting.
    pub(crate) fn change_turn(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_unused(&self, database: &Database, name: &str) -> Result<()> {
        let is_gone = |known: &Arc<Database>| Arc::as_ptr(known) != std::ptr::from_ref(database);
        if self.database(&database.name).is_ok_and(|known| is_gone(&known)) {
            return Err(ErrorNumber::DATABASE_NOT_FOUND.into());
        }
        match database.collection(name) {
            Ok(collection) if collection.name() == name => {
                Err(DocumentError::new(ErrorNumber::DUPLICATE_NAME, "duplicate name"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses what is gone.
pub(crate) fn check_there(collection: &Collection) -> Result<()> {
    if collection.is_dropped() {
        return Err(DocumentError::collection_not_found(&collection.name()));
    }
    Ok(())
}
