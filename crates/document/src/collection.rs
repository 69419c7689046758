//! A collection in memory: its current definition, and the number of its documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use pellucid_thread::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::definition::{CollectionDefinition, CollectionKind, IndexState};
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::index::Index;
use crate::layout::documents_prefix;

/// The interval at which a change of a collection looks whether its batches are finished.
const BATCHES_POLL: Duration = Duration::from_millis(1);
/// The looks during which writers wait for batches under way, before they get a turn: at first and
/// at most. Each time they wait for twice as many.
const LOOKS: (u32, u32) = (8, 1_000);
/// The times that writers are made to wait before the change is refused.
const HOLDS_MAX: u32 = 30;

/// The number of shapes that this process has made.
static SHAPES: AtomicU64 = AtomicU64::new(0);

/// The definition of a collection, with what is derived from it: key prefixes and indexes. A shape
/// never changes; a changed definition gets a new shape.
#[derive(Debug)]
pub struct CollectionSchema {
    /// The definition.
    pub definition: CollectionDefinition,
    /// The indexes, also those that are being filled.
    pub indexes: Vec<Arc<Index>>,
    /// A number that no other shape of this process has.
    pub(crate) version: u64,
    pub(crate) documents_prefix: Vec<u8>,
    /// `name/`, the beginning of each document's `_id`.
    pub(crate) id_prefix: String,
}

impl CollectionSchema {
    pub(crate) fn new(definition: CollectionDefinition) -> CollectionSchema {
        let storage = definition.storage;
        let indexes = definition.indexes.iter();
        let indexes = indexes.map(|index| Arc::new(Index::new(index.clone(), storage))).collect();
        let id_prefix = format!("{}/", definition.name);
        let documents_prefix = documents_prefix(storage);
        let version = SHAPES.fetch_add(1, Ordering::Relaxed);
        CollectionSchema { indexes, version, documents_prefix, id_prefix, definition }
    }

    /// The indexes that reads may use.
    pub fn readable_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.definition.state == IndexState::Ready)
    }

    /// The key in the store of a document.
    pub(crate) fn document_key(&self, key: &[u8]) -> Vec<u8> {
        [&self.documents_prefix, key].concat()
    }

    /// The prefix of the keys of its documents in the store's table. Another one after the
    /// collection is truncated.
    #[must_use]
    pub fn documents_prefix(&self) -> &[u8] {
        &self.documents_prefix
    }

    /// True if the documents are edges, with `_from` and `_to`.
    #[must_use]
    pub fn is_edges(&self) -> bool {
        self.definition.kind == CollectionKind::Edges
    }
}

/// A collection of a database.
#[derive(Debug)]
pub struct Collection {
    /// Its number.
    pub id: u64,
    shape: ArcSwap<CollectionSchema>,
    /// Held for reading while a batch is handed to the store, and for writing while the shape
    /// changes and no batch is under way, so that no batch takes effect that was made for an older
    /// shape.
    structure: RwLock<()>,
    /// The batches that were handed to the store, and whose answers are not taken.
    under_way: AtomicUsize,
    count: AtomicI64,
    /// True if it is unknown whether a batch was written, and so whether the count is right.
    is_count_uncertain: AtomicBool,
    last_sequence: AtomicU64,
    last_number: AtomicU64,
    /// True if keys that were given may be numbers, so that a number has to be looked up before it
    /// is made a key.
    has_number_keys: AtomicBool,
    is_dropped: AtomicBool,
}

impl Collection {
    pub(crate) fn new(definition: CollectionDefinition, count: u64, sequence: u64) -> Collection {
        Collection {
            id: definition.id,
            shape: ArcSwap::from_pointee(CollectionSchema::new(definition)),
            structure: RwLock::new(()),
            under_way: AtomicUsize::new(0),
            count: AtomicI64::new(i64::try_from(count).unwrap_or(i64::MAX)),
            is_count_uncertain: AtomicBool::new(false),
            last_sequence: AtomicU64::new(sequence),
            last_number: AtomicU64::new(0),
            has_number_keys: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
        }
    }

    /// Its current shape.
    #[must_use]
    pub fn shape(&self) -> Arc<CollectionSchema> {
        self.shape.load_full()
    }

    /// Its current name.
    #[must_use]
    pub fn name(&self) -> String {
        self.shape.load().definition.name.clone()
    }

    /// The number of its documents.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::try_from(self.count.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The sequence number of its latest write; zero if none is known.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence.load(Ordering::Relaxed)
    }

    /// The last number that was given to a document as its key; zero if there is none since the
    /// store was opened.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        self.last_number.load(Ordering::Relaxed)
    }

    /// True once the collection is removed.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// Checks that the collection was not removed.
    pub(crate) fn check_there(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(DocumentError::collection_not_found(&self.name()));
        }
        Ok(())
    }

    pub(crate) fn note_number(&self, number: u64) {
        self.last_number.fetch_max(number, Ordering::Relaxed);
    }

    pub(crate) fn has_number_keys(&self) -> bool {
        self.has_number_keys.load(Ordering::Relaxed)
    }

    pub(crate) fn expect_number_keys(&self) {
        // Many threads read the flag, so it is not written needlessly.
        if !self.has_number_keys() {
            self.has_number_keys.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a batch that was written: `more` documents were added, or removed if negative.
    pub(crate) fn note_written(&self, more: i64, sequence: u64) {
        self.count.fetch_add(more, Ordering::Relaxed);
        self.last_sequence.fetch_max(sequence, Ordering::Relaxed);
    }

    /// Notes that a batch may be written or not.
    pub(crate) fn doubt_count(&self) {
        self.is_count_uncertain.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_count_uncertain(&self) -> bool {
        self.is_count_uncertain.load(Ordering::Relaxed)
    }

    /// Corrects the count. The caller holds the guard of [`Collection::hold_writers`].
    pub(crate) fn set_count(&self, count: u64) {
        self.count.store(i64::try_from(count).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// True if a writer would have to wait now, so that an event loop must not write.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.structure.has_writer()
    }

    /// Returns a guard. The shape does not change until it is dropped.
    pub(crate) fn hold_shape(&self) -> RwLockReadGuard<'_, ()> {
        self.structure.read()
    }

    /// As [`Collection::hold_shape`], for a thread that must not wait; `None` if it would have to.
    pub(crate) fn try_hold_shape(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.structure.try_read()
    }

    /// Returns a guard once no batch is under way. Writers wait until it is dropped.
    ///
    /// # Errors
    /// 21003 if batches stay under way.
    pub(crate) fn hold_writers(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let mut looks = LOOKS.0;
        for _ in 0..HOLDS_MAX {
            let guard = self.structure.write();
            for _ in 0..looks {
                if !self.has_batches() {
                    return Ok(guard);
                }
                std::thread::sleep(BATCHES_POLL);
            }
            drop(guard);
            looks = LOOKS.1.min(2 * looks);
            std::thread::sleep(BATCHES_POLL);
        }
        let message = format!(
            "the store has not answered writes to the collection {} for long: try again once it \
             answers",
            self.name()
        );
        Err(DocumentError::new(ErrorNumber::QUEUE_FULL, message))
    }

    /// True if the store has not answered batches that were handed to it.
    pub(crate) fn has_batches(&self) -> bool {
        self.under_way.load(Ordering::Acquire) != 0
    }

    /// Counts a batch as under way until the returned value is dropped. The caller holds the guard
    /// of [`Collection::hold_shape`].
    pub(crate) fn begin_batch(self: &Arc<Self>) -> InFlightBatch {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        InFlightBatch(Arc::clone(self))
    }

    /// True if `shape` is still the current one.
    pub(crate) fn has_shape(&self, shape: &Arc<CollectionSchema>) -> bool {
        Arc::ptr_eq(&self.shape.load(), shape)
    }

    /// True if the collection still has the documents and the readable indexes of `shape`.
    pub(crate) fn has_data_of(&self, shape: &CollectionSchema) -> bool {
        let current = self.shape.load();
        let has_index = |index: &Arc<Index>| {
            let id = index.definition.id;
            current.readable_indexes().any(|current| current.definition.id == id)
        };
        !self.is_dropped()
            && current.definition.storage == shape.definition.storage
            && shape.readable_indexes().all(has_index)
    }

    /// Sets a new definition. The caller holds the guard of [`Collection::hold_writers`]. With a
    /// new storage number, the collection is empty.
    pub(crate) fn set_definition(&self, definition: CollectionDefinition) {
        if definition.storage != self.shape.load().definition.storage {
            self.count.store(0, Ordering::Relaxed);
        }
        self.shape.store(Arc::new(CollectionSchema::new(definition)));
    }

    /// Marks the collection as removed. The caller holds the guard of
    /// [`Collection::hold_writers`].
    pub(crate) fn set_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }
}

/// A batch that is under way, with the collection that it writes to.
#[derive(Debug)]
pub(crate) struct InFlightBatch(pub(crate) Arc<Collection>);

impl Drop for InFlightBatch {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Release);
    }
}
