//! Everything of one store: opening, and what the catalogue and the documents share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_store::{Acknowledgement, Condition, Operation, Range, Scan, Store, Table, Written};
use pellucid_thread::{Mutex, Recurring, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::collection::Collection;
use crate::database::Database;
use crate::definition::{CollectionDefinition, DatabaseDefinition, IndexState};
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::layout::{
    DefinitionKind, definition_key, definitions_prefix, documents_prefix, end_of_prefix,
    garbage_key, index_prefix, part_of,
};
use crate::lease::{Lease, keep};
use crate::names::SYSTEM_DATABASE;
use crate::ticks::Ticks;

/// The name of the table that everything lies in.
pub const TABLE: &str = "documents";

/// The number of the database that is always there.
pub(crate) const SYSTEM_DATABASE_ID: u64 = 1;

/// By storage number, how many documents there are, and the highest sequence number among them.
type Counts = BTreeMap<u64, (u64, u64)>;

/// The databases of a store.
pub struct Documents {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) table: Table,
    pub(crate) ticks: Ticks,
    pub(crate) databases: RwLock<BTreeMap<String, Arc<Database>>>,
    /// Held while definitions change, so that they change one after another.
    pub(crate) changing: Mutex<()>,
    /// Held while an index is made, so that they are made one after another.
    pub(crate) filling: Mutex<()>,
    /// The highest sequence number that a write of documents came back with.
    pub(crate) last_sequence: AtomicU64,
    identity: OnceLock<String>,
    /// Whether what is in the store is in memory.
    is_loaded: AtomicBool,
    /// Whether something may have been given up that was not removed yet.
    pub(crate) may_have_garbage: AtomicBool,
    /// Held while it is brought there.
    loading: Mutex<()>,
    /// Whose the documents are, if others write to the store as well.
    lease: Option<Arc<Lease>>,
    /// Keeps the lease; it ends before the store does.
    _keeper: Option<Recurring>,
}

impl Documents {
    /// Opens what is in `store`, and makes the database that is always there. As
    /// [`Documents::open_named`], for a process without a name.
    ///
    /// # Errors
    /// As [`Documents::open_named`].
    pub fn open(store: Arc<dyn Store>) -> Result<Documents> {
        Documents::open_named(store, &format!("process {}", std::process::id()))
    }

    /// Opens what is in `store`, and makes the database that is always there. If others write to
    /// the store as well, one process serves its documents at a time, whose name the others tell:
    /// until it has ended, they have no database ([`Documents::serve`]).
    ///
    /// # Errors
    /// If the store fails, or holds definitions that make no sense.
    pub fn open_named(store: Arc<dyn Store>, name: &str) -> Result<Documents> {
        let lease = Lease::of(&store, name, Clock::monotonic())?.map(Arc::new);
        if let Some(lease) = &lease {
            lease.look()?;
        }
        let keeper = lease.as_ref().map(keep).transpose()?;
        Documents::open_with(store, lease, keeper)
    }

    /// As [`Documents::open_named`], with a lease that was looked at.
    pub(crate) fn open_with(
        store: Arc<dyn Store>,
        lease: Option<Arc<Lease>>,
        keeper: Option<Recurring>,
    ) -> Result<Documents> {
        let table = store.table_in_parts(TABLE, part_of)?;
        let documents = Documents {
            ticks: Ticks::new(),
            databases: RwLock::default(),
            changing: Mutex::new(()),
            filling: Mutex::new(()),
            last_sequence: AtomicU64::new(0),
            identity: OnceLock::new(),
            is_loaded: AtomicBool::new(false),
            may_have_garbage: AtomicBool::new(true),
            loading: Mutex::new(()),
            _keeper: keeper,
            lease,
            table,
            store,
        };
        if documents.may_write().is_ok() {
            documents.serve()?;
        }
        Ok(documents)
    }

    /// Serves the documents if they are this process's, and says why not if they are not. To be
    /// called again and again where others write to the store: it is here that documents are
    /// served once they are free.
    ///
    /// # Errors
    /// 503 if another process serves them; as [`Documents::open_named`] if they are found free.
    pub fn serve(&self) -> Result<()> {
        if let Err(refusal) = self.may_write() {
            // Who serves them now may give something up.
            self.may_have_garbage.store(true, Ordering::Release);
            return Err(refusal);
        }
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_loaded.load(Ordering::Acquire) {
            self.load()?;
            self.is_loaded.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Ends serving documents, so that another process may.
    pub fn release(&self) {
        if let Some(lease) = &self.lease {
            lease.release();
        }
    }

    /// Refuses if the documents are another process's.
    pub(crate) fn may_write(&self) -> Result<()> {
        match &self.lease {
            Some(lease) if !lease.is_ours() => Err(lease.refusal()),
            _ => Ok(()),
        }
    }

    /// Refuses if the documents are another process's, or were until just now.
    ///
    /// # Errors
    /// 503, with who serves them.
    pub fn check_served(&self) -> Result<()> {
        self.may_write()?;
        if !self.is_loaded.load(Ordering::Acquire) {
            let message = "the documents of the store are being opened: ask again in a moment";
            return Err(DocumentError::new(ErrorNumber::HTTP_SERVICE_UNAVAILABLE, message));
        }
        Ok(())
    }

    /// Brings what is in the store to memory.
    fn load(&self) -> Result<()> {
        let opening = Opening { store: &*self.store, table: self.table };
        if let Some(ceiling) = opening.definitions(DefinitionKind::Ticks)?.into_iter().next() {
            self.ticks.go_on(ceiling);
        }
        // Only a try that failed has set it before, to the same.
        let _ = self.identity.set(opening.identity()?);
        let databases: Vec<DatabaseDefinition> = opening.definitions(DefinitionKind::Database)?;
        let mut by_id: BTreeMap<u64, Arc<Database>> = BTreeMap::new();
        for definition in databases {
            by_id.insert(definition.id, Arc::new(Database::new(definition)));
        }
        if !by_id.contains_key(&SYSTEM_DATABASE_ID) {
            let definition =
                DatabaseDefinition { id: SYSTEM_DATABASE_ID, name: SYSTEM_DATABASE.to_owned() };
            self.put_definition(DefinitionKind::Database, definition.id, &definition)?;
            by_id.insert(definition.id, Arc::new(Database::new(definition)));
        }
        let noted = self.take_noted_counts(&opening)?;
        for definition in opening.definitions(DefinitionKind::Collection)? {
            let definition = self.without_unfinished_indexes(definition)?;
            let Some(database) = by_id.get(&definition.database) else {
                let name = definition.name;
                let message = format!("the collection {name} is in a database that is not there");
                return Err(DocumentError::new(ErrorNumber::INTERNAL, message));
            };
            let (count, sequence) = match noted.get(&definition.storage) {
                Some(noted) => *noted,
                None => opening.count(definition.storage)?,
            };
            self.last_sequence.fetch_max(sequence, Ordering::Relaxed);
            database.add(Arc::new(Collection::new(definition, count, sequence)));
        }
        let by_name = by_id.into_values().map(|database| (database.name.clone(), database));
        *self.databases.write().unwrap_or_else(PoisonError::into_inner) = by_name.collect();
        Ok(())
    }

    /// Notes how many documents each collection has, so that the next opening need not count them.
    /// The last that is done before the store is closed: the note is for who opens it next, and
    /// whoever opened it writes only once the note is gone.
    ///
    /// # Errors
    /// If the store fails; then the next opening counts.
    pub fn note_counts(&self) -> Result<()> {
        let databases = self.databases.read().unwrap_or_else(PoisonError::into_inner);
        let collections = databases.values().flat_map(|database| database.collections());
        let counts: Counts = collections
            .map(|collection| {
                let storage = collection.shape().definition.storage;
                (storage, (collection.count(), collection.last_sequence()))
            })
            .collect();
        self.put_definition(DefinitionKind::Counts, 0, &counts)
    }

    /// The counts that were noted at the last closing, if nothing was written since.
    fn take_noted_counts(&self, opening: &Opening<'_>) -> Result<Counts> {
        let Some(counts) = opening.definitions(DefinitionKind::Counts)?.into_iter().next() else {
            return Ok(Counts::new());
        };
        // Before anything else is written: from here on it does not hold.
        self.change(&[(definition_key(DefinitionKind::Counts, 0), None)], &[])?;
        Ok(counts)
    }

    /// What tells this store from others, in the names that ArangoDB calls globally unique.
    /// Empty while another process serves the documents.
    #[must_use]
    pub fn identity(&self) -> &str {
        self.identity.get().map_or("", String::as_str)
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Bytes that a document may have in its binary form.
    #[must_use]
    pub fn document_bytes_max(&self) -> usize {
        self.store.properties().value_bytes_max
    }

    /// A number that nothing else has.
    ///
    /// # Errors
    /// If the store fails.
    pub fn next_tick(&self) -> Result<u64> {
        self.ticks.next(|ceiling| self.put_definition(DefinitionKind::Ticks, 0, &ceiling))
    }

    /// Removes indexes that were being filled when the process ended.
    fn without_unfinished_indexes(
        &self,
        mut definition: CollectionDefinition,
    ) -> Result<CollectionDefinition> {
        let is_unfinished = |state| state == IndexState::Filling;
        let unfinished: Vec<_> =
            definition.indexes.extract_if(.., |index| is_unfinished(index.state)).collect();
        if !unfinished.is_empty() {
            let prefixes = unfinished
                .iter()
                .map(|index| index_prefix(definition.storage, index.id, index.unique))
                .collect::<Vec<_>>();
            self.change_collection(&definition, &prefixes)?;
        }
        Ok(definition)
    }

    /// Writes a collection's definition, and gives up what lies under `garbage`, in one batch.
    pub(crate) fn change_collection(
        &self,
        definition: &CollectionDefinition,
        garbage: &[Vec<u8>],
    ) -> Result<()> {
        let key = definition_key(DefinitionKind::Collection, definition.id);
        self.change(&[(key, Some(json_of(definition)?))], garbage)
    }

    /// Writes or removes definitions, and gives up what lies under `garbage`, in one batch.
    pub(crate) fn change(
        &self,
        definitions: &[(Vec<u8>, Option<Vec<u8>>)],
        garbage: &[Vec<u8>],
    ) -> Result<()> {
        let garbage: Vec<_> = garbage.iter().map(|prefix| garbage_key(prefix)).collect();
        let definitions =
            definitions.iter().map(|(key, value)| plain_operation(key, value.as_deref()));
        let garbage = garbage.iter().map(|key| plain_operation(key, Some(&[])));
        let gives_up = garbage.len() > 0;
        let operations: Vec<_> = definitions.chain(garbage).collect();
        let written = self.write(&operations, Acknowledgement::Os);
        if gives_up {
            // Afterwards, or whoever looks just now would find nothing and not look again; and also
            // where it failed, since it may have been written all the same.
            self.may_have_garbage.store(true, Ordering::Release);
        }
        written.map(|_| ())
    }

    pub(crate) fn put_definition(
        &self,
        kind: DefinitionKind,
        id: u64,
        definition: &impl Serialize,
    ) -> Result<()> {
        self.change(&[(definition_key(kind, id), Some(json_of(definition)?))], &[])
    }

    /// Writes, and waits until it is acknowledged.
    pub(crate) fn write(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<Written> {
        self.may_write()?;
        let mut timeline = Timeline::off();
        let written =
            self.store.write(self.table, operations, acknowledgement, &mut timeline).wait()?;
        Ok(written)
    }

    /// Walks all keys with `prefix`, from `start` on.
    pub(crate) fn scan_prefix(&self, prefix: &[u8], start: &[u8]) -> Result<Box<dyn Scan>> {
        scan_prefix(&*self.store, self.table, prefix, start)
    }
}

/// An operation without a condition.
pub(crate) fn plain_operation<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Operation<'a> {
    Operation { key, value, condition: Condition::None, lifetime_ms: None }
}

/// The JSON of a definition.
pub(crate) fn json_of(definition: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(definition)
        .map_err(|error| DocumentError::new(ErrorNumber::INTERNAL, error.to_string()))
}

pub(crate) fn scan_prefix(
    store: &dyn Store,
    table: Table,
    prefix: &[u8],
    start: &[u8],
) -> Result<Box<dyn Scan>> {
    let end = end_of_prefix(prefix);
    let range = Range { start: start.max(prefix), end: end.as_deref(), reverse: false };
    Ok(store.scan(table, range)?)
}

/// A store whose definitions are being read.
pub(crate) struct Opening<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) table: Table,
}

impl Opening<'_> {
    pub(crate) fn definitions<T: DeserializeOwned>(&self, kind: DefinitionKind) -> Result<Vec<T>> {
        let prefix = definitions_prefix(kind);
        let mut scan = scan_prefix(self.store, self.table, &prefix, &prefix)?;
        let mut definitions = Vec::new();
        while let Some((_, object)) = scan.next()? {
            let parsed = serde_json::from_slice(&object.value);
            definitions.push(parsed.map_err(|error| {
                let message = format!("a definition in the store makes no sense: {error}");
                DocumentError::new(ErrorNumber::INTERNAL, message)
            })?);
        }
        Ok(definitions)
    }

    /// How many documents there are, and the highest sequence number among them.
    fn count(&self, storage: u64) -> Result<(u64, u64)> {
        let prefix = documents_prefix(storage);
        let mut scan = scan_prefix(self.store, self.table, &prefix, &prefix)?;
        let (mut count, mut sequence) = (0, 0);
        while let Some((_, head)) = scan.next_head()? {
            count += 1;
            sequence = head.sequence.max(sequence);
        }
        Ok((count, sequence))
    }

    /// Made once, from the time, which tells stores apart well enough for a name.
    fn identity(&self) -> Result<String> {
        if let Some(identity) = self.definitions(DefinitionKind::Identity)?.into_iter().next() {
            return Ok(identity);
        }
        let now = pellucid_clock::WallTime::now().unix_ms();
        let identity = format!("h{:012X}", now & 0xFFFF_FFFF_FFFF);
        let key = definition_key(DefinitionKind::Identity, 0);
        let value = json_of(&identity)?;
        let operations = [plain_operation(&key, Some(&value))];
        let mut timeline = Timeline::off();
        self.store.write(self.table, &operations, Acknowledgement::Os, &mut timeline).wait()?;
        Ok(identity)
    }
}
