//! A database: its collections, by name and by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use pellucid_thread::RwLock;

use crate::collection::Collection;
use crate::definition::DatabaseDefinition;
use crate::error::{DocumentError, Result};

/// A database and its collections.
#[derive(Debug)]
pub struct Database {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    collections: RwLock<Collections>,
}

#[derive(Debug, Default)]
struct Collections {
    by_name: BTreeMap<String, Arc<Collection>>,
    by_id: BTreeMap<u64, Arc<Collection>>,
}

impl Database {
    pub(crate) fn new(definition: DatabaseDefinition) -> Database {
        let DatabaseDefinition { id, name } = definition;
        Database { id, name, collections: RwLock::default() }
    }

    /// The collection of this name or number: names never begin with a digit.
    ///
    /// # Errors
    /// `COLLECTION_NOT_FOUND` (ArangoDB's error 1203) if there is none.
    pub fn collection(&self, name: &str) -> Result<Arc<Collection>> {
        let collections = self.collections.read();
        let by_id = || collections.by_id.get(&name.parse().ok()?);
        let found = collections.by_name.get(name).or_else(by_id);
        found.cloned().ok_or_else(|| DocumentError::collection_not_found(name))
    }

    /// All collections, in the order of their names.
    #[must_use]
    pub fn collections(&self) -> Vec<Arc<Collection>> {
        let collections = self.collections.read();
        collections.by_name.values().cloned().collect()
    }

    pub(crate) fn add(&self, collection: Arc<Collection>) {
        let mut collections = self.collections.write();
        collections.by_name.insert(collection.name(), Arc::clone(&collection));
        collections.by_id.insert(collection.id, collection);
    }

    pub(crate) fn remove(&self, collection: &Collection) {
        let mut collections = self.collections.write();
        collections.by_id.remove(&collection.id);
        collections.by_name.retain(|_, other| other.id != collection.id);
    }

    /// Updates the map of names after `collection` was renamed. Its old name is not known here, so
    /// the entry is found by its number.
    pub(crate) fn update_name(&self, collection: &Arc<Collection>) {
        let mut collections = self.collections.write();
        collections.by_name.retain(|_, other| other.id != collection.id);
        collections.by_name.insert(collection.name(), Arc::clone(collection));
    }
}
