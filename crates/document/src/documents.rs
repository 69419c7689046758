//! The databases and collections of a store: opening them, and changing their definitions. Each
//! change is one batch in the store, and it becomes visible in memory only after it is on the disk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_clock::{Clock, WallTime};
use pellucid_store::{Acknowledgement, Answer, Head, Object, Operation, Store};
use pellucid_thread::{Mutex, MutexGuard, PeriodicThread, RwLock};

use crate::collection::{Collection, CollectionSchema};
use crate::database::Database;
use crate::definition::{
    CollectionDefinition, CollectionKind, DatabaseDefinition, IndexState, edge_indexes,
};
use crate::error::{CancellationCheck, DocumentError, ErrorNumber, Result};
use crate::layout::{DefinitionKind, definition_key, index_prefix, storage_prefix};
use crate::lease::{Lease, keep};
use crate::names::{SYSTEM_DATABASE, check_collection_name, check_database_name};
use crate::storage::{Reader, Storage, json_of};
use crate::stored_document::length_of_note;
use crate::ticks::TickGenerator;

/// The most databases of a store. All their definitions are in memory.
const DATABASES_MAX: usize = 1_000;
/// The most collections in all databases together. Their definitions and metrics are in memory.
const COLLECTIONS_MAX: usize = 10_000;
/// The most index builds that wait for another one to finish. Each blocks a thread.
const FILLS_WAITING_MAX: usize = 16;
/// The interval at which a waiting index build tries again to begin.
const FILL_POLL: Duration = Duration::from_millis(20);

/// The number of the database `_system`, which always exists.
pub(crate) const SYSTEM_DATABASE_ID: u64 = 1;

/// The number of documents and the highest sequence number among them, by storage number.
type StorageCounts = BTreeMap<u64, (u64, u64)>;

/// The databases of one store, with their collections.
pub struct Documents {
    storage: Arc<Storage>,
    ticks: TickGenerator,
    databases: RwLock<BTreeMap<String, Arc<Database>>>,
    /// Held while a definition changes, so that definitions change one after another.
    changing: Mutex<()>,
    /// Held while an index is built, so that indexes are built one after another.
    filling: Mutex<()>,
    fills_waiting: AtomicUsize,
    identity: OnceLock<String>,
    /// True once the definitions in the store are in memory.
    is_loaded: AtomicBool,
    /// Held while the definitions are loaded.
    loading: Mutex<()>,
    /// The names of collections whose database is not there, until they are reported.
    orphans: Mutex<Vec<String>>,
    /// The task that renews the lease. It is dropped before the store.
    _keeper: Option<PeriodicThread>,
}

impl Documents {
    /// Opens the documents in `store`, and creates the database `_system` if it is not there. If
    /// other processes write to the store as well, only one of them serves its documents at a time.
    /// Until that one ends, the others have no databases ([`Documents::serve`]), and their errors
    /// tell its `name`.
    ///
    /// # Errors
    /// If the store fails, or a definition in it is invalid.
    pub fn open_named(store: Arc<dyn Store>, name: &str) -> Result<Documents> {
        let lease = Lease::of(&store, name, Clock::monotonic())?.map(Arc::new);
        if let Some(lease) = &lease {
            lease.look()?;
        }
        let keeper = lease.as_ref().map(keep).transpose()?;
        Documents::open_with(store, lease, keeper)
    }

    /// As [`Documents::open_named`], with a lease whose state was read already.
    pub(crate) fn open_with(
        store: Arc<dyn Store>,
        lease: Option<Arc<Lease>>,
        keeper: Option<PeriodicThread>,
    ) -> Result<Documents> {
        let documents = Documents {
            ticks: TickGenerator::new(),
            databases: RwLock::default(),
            changing: Mutex::new(()),
            filling: Mutex::new(()),
            fills_waiting: AtomicUsize::new(0),
            identity: OnceLock::new(),
            is_loaded: AtomicBool::new(false),
            loading: Mutex::new(()),
            orphans: Mutex::default(),
            _keeper: keeper,
            storage: Arc::new(Storage::open(store, lease)?),
        };
        if documents.storage.may_write().is_ok() {
            documents.serve()?;
        }
        Ok(documents)
    }

    /// Begins to serve the documents if this process holds the lease. Where other processes write
    /// to the store, the caller calls this regularly: it is the only place where a process that was
    /// refused takes over.
    ///
    /// # Errors
    /// 503 if another process serves the documents; those of [`Documents::open_named`] if this
    /// process takes over.
    pub fn serve(&self) -> Result<()> {
        if let Err(refusal) = self.storage.may_write() {
            // The process that serves them now may leave garbage behind.
            self.storage.expect_garbage();
            return Err(refusal);
        }
        let _turn = self.loading.lock();
        if !self.is_loaded.load(Ordering::Acquire) {
            self.load()?;
            self.is_loaded.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Stops serving the documents, so that another process can take over.
    pub fn release(&self) {
        self.storage.release();
    }

    /// Stops serving the documents while threads may still write to them. Another process can take
    /// over only once such writes are over for certain.
    pub fn abandon(&self) {
        self.storage.abandon();
    }

    /// Checks that this process serves the documents.
    ///
    /// # Errors
    /// 503 if another process serves them, with its name, or if they are not loaded yet.
    pub fn check_served(&self) -> Result<()> {
        self.storage.may_write()?;
        if !self.is_loaded.load(Ordering::Acquire) {
            let message = "the documents of the store are being opened: ask again in a moment";
            return Err(DocumentError::new(ErrorNumber::HTTP_SERVICE_UNAVAILABLE, message));
        }
        Ok(())
    }

    /// Loads the definitions in the store to memory.
    fn load(&self) -> Result<()> {
        let reader = self.storage.reader();
        if let Some(ceiling) = reader.definitions(DefinitionKind::Ticks)?.into_iter().next() {
            self.ticks.go_on(ceiling);
        }
        // It is already set only if an earlier load failed later on; that one set the same value.
        let _ = self.identity.set(self.stored_identity(&reader)?);
        let databases: Vec<DatabaseDefinition> = reader.definitions(DefinitionKind::Database)?;
        let mut by_id: BTreeMap<u64, Arc<Database>> = BTreeMap::new();
        for definition in databases {
            by_id.insert(definition.id, Arc::new(Database::new(definition)));
        }
        if !by_id.contains_key(&SYSTEM_DATABASE_ID) {
            let definition =
                DatabaseDefinition { id: SYSTEM_DATABASE_ID, name: SYSTEM_DATABASE.to_owned() };
            self.storage.put_definition(DefinitionKind::Database, definition.id, &definition)?;
            by_id.insert(definition.id, Arc::new(Database::new(definition)));
        }
        let noted = self.take_noted_counts(&reader)?;
        // Those of an earlier load that failed later on are found again.
        drop(self.take_orphans());
        let collections: Vec<CollectionDefinition> =
            reader.definitions(DefinitionKind::Collection)?;
        for definition in collections {
            let Some(database) = by_id.get(&definition.database) else {
                self.orphans.lock().push(definition.name);
                continue;
            };
            let definition = self.without_unfinished_indexes(definition)?;
            let (count, sequence) = match noted.get(&definition.storage) {
                Some(noted) => *noted,
                None => reader.count(definition.storage, &|| Ok(()))?,
            };
            database.add(Arc::new(Collection::new(definition, count, sequence)));
        }
        let by_name = by_id.into_values().map(|database| (database.name.clone(), database));
        *self.databases.write() = by_name.collect();
        Ok(())
    }

    /// Returns the names of the collections that were left out when the documents were opened,
    /// because the store has no definition of their database. Empty at the next call.
    #[must_use]
    pub fn take_orphans(&self) -> Vec<String> {
        std::mem::take(&mut *self.orphans.lock())
    }

    /// Counts the documents of a collection anew, while its writers wait, if it is unknown whether
    /// a write to it took effect. An error of `check_cancelled`, which is called now and then, ends
    /// it.
    ///
    /// # Errors
    /// 1203 if the collection is gone, and errors of `check_cancelled` and of the store.
    pub fn recount(
        &self,
        collection: &Collection,
        check_cancelled: CancellationCheck<'_>,
    ) -> Result<()> {
        if collection.is_count_uncertain() {
            let _writers = collection.hold_writers()?;
            collection.check_there()?;
            let storage = collection.shape().definition.storage;
            collection.set_count(self.storage.reader().count(storage, check_cancelled)?.0);
        }
        Ok(())
    }

    /// Stores the number of documents of each collection, so that the next opening need not count
    /// them. Those that are uncertain, or that unanswered batches may change, are left out. This
    /// must be the last write before the store is closed. The next opening removes the note before
    /// it changes any document.
    ///
    /// # Errors
    /// If the store fails. The next opening then counts the documents.
    pub fn note_counts(&self) -> Result<()> {
        let databases = self.databases.read();
        let collections = databases.values().flat_map(|database| database.collections());
        let counts: StorageCounts = collections
            .filter(|collection| !collection.has_batches() && !collection.is_count_uncertain())
            .map(|collection| {
                let storage = collection.shape().definition.storage;
                (storage, (collection.count(), collection.last_sequence()))
            })
            .collect();
        self.storage.put_definition(DefinitionKind::Counts, 0, &counts)
    }

    /// Returns the counts that were noted when the store was last closed, and removes the note.
    /// Empty if there is none.
    fn take_noted_counts(&self, reader: &Reader<'_>) -> Result<StorageCounts> {
        let Some(counts) = reader.definitions(DefinitionKind::Counts)?.into_iter().next() else {
            return Ok(StorageCounts::new());
        };
        // The note goes before any document changes, because the counts are wrong from then on.
        let key = definition_key(DefinitionKind::Counts, 0);
        self.storage.write(&[Operation::plain(&key, None)], Acknowledgement::Os)?;
        Ok(counts)
    }

    /// The identity in the store. It is made once, from the time of day, which is unique enough
    /// for a name.
    fn stored_identity(&self, reader: &Reader<'_>) -> Result<String> {
        if let Some(identity) = reader.definitions(DefinitionKind::Identity)?.into_iter().next() {
            return Ok(identity);
        }
        let identity = format!("h{:012X}", WallTime::now().unix_ms() & 0xFFFF_FFFF_FFFF);
        self.storage.put_definition(DefinitionKind::Identity, 0, &identity)?;
        Ok(identity)
    }

    /// The identity that tells this store from others, in the names that ArangoDB calls globally
    /// unique. Empty while another process serves the documents.
    #[must_use]
    pub fn identity(&self) -> &str {
        self.identity.get().map_or("", String::as_str)
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.storage.store()
    }

    /// The most bytes of a document in its packed form.
    #[must_use]
    pub fn document_bytes_max(&self) -> usize {
        self.storage.store().properties().value_bytes_max
    }

    /// Returns a number that is unique in the store.
    ///
    /// # Errors
    /// If the store fails.
    pub fn next_tick(&self) -> Result<u64> {
        self.ticks.next(|ceiling| self.storage.put_ticks(ceiling))
    }

    /// Leaves out the numbers below `number`.
    pub(crate) fn skip_ticks(&self, number: u64) {
        self.ticks.skip_to(number);
    }

    /// Removes the indexes from a definition whose build did not finish before the process ended.
    fn without_unfinished_indexes(
        &self,
        mut definition: CollectionDefinition,
    ) -> Result<CollectionDefinition> {
        let garbage = take_unfinished_indexes(&mut definition);
        if !garbage.is_empty() {
            self.storage.change_collection(&definition, &garbage)?;
        }
        Ok(definition)
    }

    /// Reads the newest stored form of a document. A caller that must not block checks whether the
    /// answer is ready; others wait for it.
    pub fn get(
        &self,
        shape: &CollectionSchema,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<Object>> {
        self.storage.get(&shape.document_key(key), timeline)
    }

    /// Reads the head of a document, and its length as JSON if the store knows that without reading
    /// the body.
    pub fn head_and_length(
        &self,
        shape: &CollectionSchema,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<(Head, Option<u64>)>> {
        let name_length = shape.definition.name.len() as u64;
        let (store, table) = (self.storage.store(), self.storage.table());
        let key = shape.document_key(key);
        let Some(noting) = store.noting() else {
            let found = store.head(table, &key, timeline);
            return found.map(|found| found.map(|head| (head, None)));
        };
        noting.head_noted(table, &key, timeline).map(move |found| {
            found.map(|(head, note)| (head, length_of_note(note).map(|rest| rest + name_length)))
        })
    }

    /// Removes some garbage. Returns true if there may be more; false as well while a definition
    /// changes, and the next call goes on.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn remove_garbage(&self) -> Result<bool> {
        // The mark of garbage is in the store before the change is in memory, and until then
        // queries are planned that read what is marked.
        let Some(_turn) = self.changing.try_lock() else { return Ok(false) };
        self.storage.remove_garbage()
    }

    /// The database of this name.
    ///
    /// # Errors
    /// 1228 if there is none, 503 if another process serves the documents of the store.
    pub fn database(&self, name: &str) -> Result<Arc<Database>> {
        self.check_served()?;
        let databases = self.databases.read();
        databases.get(name).cloned().ok_or_else(|| ErrorNumber::DATABASE_NOT_FOUND.into())
    }

    /// The names of all databases, in order.
    #[must_use]
    pub fn database_names(&self) -> Vec<String> {
        let databases = self.databases.read();
        databases.keys().cloned().collect()
    }

    /// Makes a database.
    ///
    /// # Errors
    /// 1229 for an invalid name, 1207 if a database of that name exists, 32 if there are too many
    /// databases, 503 if another process serves the documents, and errors of the store.
    pub fn create_database(&self, name: &str) -> Result<Arc<Database>> {
        let _turn = self.change_turn();
        self.check_served()?;
        check_database_name(name)?;
        if self.database(name).is_ok() {
            return Err(ErrorNumber::DUPLICATE_NAME.into());
        }
        check_count(self.database_names().len(), DATABASES_MAX, "databases")?;
        let definition = DatabaseDefinition { id: self.next_tick()?, name: name.to_owned() };
        let key = definition_key(DefinitionKind::Database, definition.id);
        self.storage.change(&[(key, Some(json_of(&definition)?))], &[])?;
        let database = Arc::new(Database::new(definition));
        let mut databases = self.databases.write();
        databases.insert(name.to_owned(), Arc::clone(&database));
        Ok(database)
    }

    /// Removes a database and all its collections.
    ///
    /// # Errors
    /// 1228 if there is none, 11 for `_system`, 503 if another process serves the documents, and
    /// errors of the store.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let _turn = self.change_turn();
        let database = self.database(name)?;
        if name == SYSTEM_DATABASE {
            return Err(ErrorNumber::FORBIDDEN.into());
        }
        // In the order in which writers take them.
        let mut collections = database.collections();
        collections.sort_unstable_by_key(|collection| collection.id);
        let guards = collections
            .iter()
            .map(|collection| collection.hold_writers())
            .collect::<Result<Vec<_>>>()?;
        let mut definitions = vec![(definition_key(DefinitionKind::Database, database.id), None)];
        let mut garbage = Vec::new();
        for collection in &collections {
            definitions.push((definition_key(DefinitionKind::Collection, collection.id), None));
            garbage.push(storage_prefix(collection.shape().definition.storage));
        }
        self.storage.change(&definitions, &garbage)?;
        collections.iter().for_each(|collection| collection.set_dropped());
        drop(guards);
        self.databases.write().remove(name);
        Ok(())
    }

    /// Makes a collection. Its numbers and its indexes are not taken from `new`.
    ///
    /// # Errors
    /// 1208 for an invalid name, 1207 if a collection of that name exists, 1228 if the database is
    /// gone, 32 if there are too many collections, and errors of the store.
    pub fn create_collection(
        &self,
        database: &Database,
        new: CollectionDefinition,
    ) -> Result<Arc<Collection>> {
        let _turn = self.change_turn();
        check_collection_name(&new.name, new.is_system)?;
        check_count(self.collections_count(), COLLECTIONS_MAX, "collections")?;
        self.check_unused(database, &new.name)?;
        let id = self.next_tick()?;
        let indexes = match new.kind {
            CollectionKind::Documents => Vec::new(),
            CollectionKind::Edges => edge_indexes(),
        };
        let definition = CollectionDefinition {
            id,
            database: database.id,
            storage: self.next_tick()?,
            indexes,
            emptied_at: self.storage.newest_sequence(),
            ..new
        };
        self.storage.change_collection(&definition, &[])?;
        let collection = Arc::new(Collection::new(definition, 0, 0));
        database.add(Arc::clone(&collection));
        Ok(collection)
    }

    /// Removes a collection. Its contents become unreachable at once, and are removed in the
    /// background.
    ///
    /// # Errors
    /// 1203 if it is gone already, and errors of the store.
    pub fn drop_collection(&self, database: &Database, collection: &Collection) -> Result<()> {
        let _turn = self.change_turn();
        let _writers = collection.hold_writers()?;
        collection.check_there()?;
        let key = definition_key(DefinitionKind::Collection, collection.id);
        let garbage = storage_prefix(collection.shape().definition.storage);
        self.storage.change(&[(key, None)], &[garbage])?;
        collection.set_dropped();
        database.remove(collection);
        Ok(())
    }

    /// Removes all documents of a collection, at once.
    ///
    /// # Errors
    /// 1203 if the collection is gone, and errors of the store.
    pub fn truncate(&self, collection: &Collection) -> Result<()> {
        let _turn = self.change_turn();
        self.change_collection(collection, |definition| {
            let garbage = storage_prefix(definition.storage);
            definition.storage = self.next_tick()?;
            definition.emptied_at = self.storage.newest_sequence();
            Ok(((), vec![garbage]))
        })
    }

    /// Gives a collection another name.
    ///
    /// # Errors
    /// Those of [`Documents::create_collection`] but for 32, and 1203 if the collection is gone.
    pub fn rename_collection(
        &self,
        database: &Database,
        collection: &Arc<Collection>,
        name: &str,
    ) -> Result<()> {
        let _turn = self.change_turn();
        self.change_collection(collection, |definition| {
            if definition.name != name {
                check_collection_name(name, definition.is_system)?;
                self.check_unused(database, name)?;
                name.clone_into(&mut definition.name);
                // Followers of that name may have read another collection, which had it before.
                definition.emptied_at = self.storage.newest_sequence();
            }
            Ok(((), Vec::new()))
        })?;
        database.update_name(collection);
        Ok(())
    }

    /// Sets whether each write to a collection waits until it is on the disk.
    ///
    /// # Errors
    /// 1203 if the collection is gone, and errors of the store.
    pub fn set_wait_for_sync(&self, collection: &Collection, wait_for_sync: bool) -> Result<()> {
        let _turn = self.change_turn();
        self.change_collection(collection, |definition| {
            definition.wait_for_sync = wait_for_sync;
            Ok(((), Vec::new()))
        })
    }

    /// Changes the definition of a collection while its writers wait. `change` edits the
    /// definition, and returns a result and the prefixes of keys that become garbage. The caller
    /// holds the guard of [`Documents::change_turn`].
    ///
    /// # Errors
    /// 1203 if the collection is gone, and those of `change` and of the store.
    pub(crate) fn change_collection<T>(
        &self,
        collection: &Collection,
        change: impl FnOnce(&mut CollectionDefinition) -> Result<(T, Vec<Vec<u8>>)>,
    ) -> Result<T> {
        let _writers = collection.hold_writers()?;
        collection.check_there()?;
        let shape = collection.shape();
        let mut definition = shape.definition.clone();
        let (result, garbage) = change(&mut definition)?;
        if definition != shape.definition {
            self.storage.change_collection(&definition, &garbage)?;
            collection.set_definition(definition);
        }
        Ok(result)
    }

    /// Returns a guard. Other changes of definitions wait until it is dropped.
    pub(crate) fn change_turn(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Waits until no other index is being built, and returns a guard that keeps others waiting.
    /// `check_cancelled` is called at each try; its error ends the waiting.
    ///
    /// # Errors
    /// 21003 if [`FILLS_WAITING_MAX`] builds wait already, and the error of `check_cancelled`.
    pub(crate) fn fill_turn(
        &self,
        check_cancelled: CancellationCheck<'_>,
    ) -> Result<MutexGuard<'_, ()>> {
        let waiting = self.fills_waiting.fetch_add(1, Ordering::Relaxed);
        let turn = (waiting < FILLS_WAITING_MAX).then(|| self.wait_to_fill(check_cancelled));
        self.fills_waiting.fetch_sub(1, Ordering::Relaxed);
        turn.unwrap_or_else(|| {
            let message = "too many indexes wait to be filled: make them one after the other";
            Err(DocumentError::new(ErrorNumber::QUEUE_FULL, message))
        })
    }

    fn collections_count(&self) -> usize {
        let databases = self.databases.read();
        databases.values().map(|database| database.collections().len()).sum()
    }

    fn wait_to_fill(&self, check_cancelled: CancellationCheck<'_>) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(turn) = self.filling.try_lock() {
                return Ok(turn);
            }
            check_cancelled()?;
            std::thread::sleep(FILL_POLL);
        }
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Checks that the database exists and has no collection of this name.
    fn check_unused(&self, database: &Database, name: &str) -> Result<()> {
        if !std::ptr::eq(&*self.database(&database.name)?, database) {
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

/// Removes the indexes from a definition that are being filled. Returns the prefixes of the keys
/// of their entries, which become garbage.
pub(crate) fn take_unfinished_indexes(definition: &mut CollectionDefinition) -> Vec<Vec<u8>> {
    let storage = definition.storage;
    let unfinished = definition.indexes.extract_if(.., |index| index.state == IndexState::Filling);
    unfinished.map(|index| index_prefix(storage, index.id, index.unique)).collect()
}

/// Checks that one more may be added to `count` things, of which at most `limit` may exist.
fn check_count(count: usize, limit: usize, what: &str) -> Result<()> {
    match count < limit {
        true => Ok(()),
        false => {
            let message = format!("there are {limit} {what} already, which is the most");
            Err(DocumentError::new(ErrorNumber::RESOURCE_LIMIT, message))
        }
    }
}
