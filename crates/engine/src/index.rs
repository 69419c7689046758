//! Indexes: terms by which the objects of a table are found.
//!
//! The entries of an index have a table number of their own. Each is an ordinary record without a
//! value, of the same batch as its object: journal, recovery, collection, backup, rebuilding and
//! salvage treat it like any other, and none of them can tear the two apart.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

use pellucid_account::Timeline;

use crate::catalogue::{INDEX_NAME_LENGTH_MAX, IndexId, TableId};
use crate::engine::{Engine, Inner};
use crate::error::{Error, Result};
use crate::index_key::{put_index_key, split_index_key, term_bounds};
use crate::ledger::SnapshotGuard;
use crate::object::Object;
use crate::read_mode::ReadMode;
use crate::scan::{Direction, Scan};
use crate::selection::Selection;
use crate::snapshot::Snapshot;

/// What a write does to an index. It takes effect together with the write, or not at all.
///
/// The engine does not know by which terms an object was found before: a write that replaces or
/// deletes the object removes the terms that no longer apply. To add what is there, or to remove
/// what is not, is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexChange<'a> {
    pub(crate) index: IndexId,
    pub(crate) term: &'a [u8],
    pub(crate) is_added: bool,
}

impl<'a> IndexChange<'a> {
    /// The object is found by `term` from now on, until the entry is removed or the object that it
    /// was added with expires. A term has up to [`crate::TERM_LENGTH_MAX`] bytes, any of them.
    #[must_use]
    pub fn add(index: IndexId, term: &'a [u8]) -> IndexChange<'a> {
        IndexChange { index, term, is_added: true }
    }

    /// The object is no longer found by `term`.
    #[must_use]
    pub fn remove(index: IndexId, term: &'a [u8]) -> IndexChange<'a> {
        IndexChange { index, term, is_added: false }
    }
}

/// An entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexEntry<'a> {
    /// The term by which the object is found.
    pub term: &'a [u8],
    /// The key of the object.
    pub key: &'a [u8],
}

/// The entries of an index at one moment, one after another: in the order of their terms, and
/// within a term in that of the objects' keys.
pub struct IndexScan {
    inner: Arc<Inner>,
    guard: Arc<SnapshotGuard>,
    scan: Scan,
    table: TableId,
    /// Entries that may still be taken.
    left: u64,
    mode: ReadMode,
    /// The term that the last call returned.
    term: Vec<u8>,
}

impl std::fmt::Debug for IndexScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexScan").field("scan", &self.scan).finish_non_exhaustive()
    }
}

impl IndexScan {
    pub(crate) fn new(
        inner: Arc<Inner>,
        guard: Arc<SnapshotGuard>,
        index: IndexId,
        selection: &Selection<'_>,
        after: Option<(&[u8], &[u8])>,
        mode: ReadMode,
    ) -> Result<IndexScan> {
        inner.check_index(index)?;
        let (mut start, mut end) = term_bounds(selection.start, selection.end);
        let mut behind = Vec::new();
        if let Some((term, key)) = after {
            put_index_key(&mut behind, term, key)?;
            match selection.direction {
                Direction::Forward => start = narrower(start, behind, Ordering::Greater),
                Direction::Backward => end = narrower(end, behind, Ordering::Less),
            }
        }
        let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
        let entries = TableId(index.number);
        let direction = selection.direction;
        let scan =
            Scan::new(Arc::clone(&inner), Arc::clone(&guard), entries, bounds, direction, mode)?;
        let (table, left) = (index.table, selection.limit);
        Ok(IndexScan { inner, guard, scan, table, left, mode, term: Vec::new() })
    }

    /// The next entry; `None` at the end. The journal is not touched.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block is damaged.
    #[expect(clippy::should_implement_trait, reason = "it lends the key, which Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<IndexEntry<'_>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some((entry, _)) = self.scan.next_head()? else { return Ok(None) };
        self.left -= 1;
        split(&self.inner, entry, &mut self.term).map(Some)
    }

    /// The next entry with its object as it was at the same moment. There is none if it was deleted
    /// by a write that left the entry, or has expired.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block or a record is damaged.
    pub fn next_object(&mut self) -> Result<Option<(IndexEntry<'_>, Option<Object>)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some((entry, _)) = self.scan.next_head()? else { return Ok(None) };
        self.left -= 1;
        let entry = split(&self.inner, entry, &mut self.term)?;
        let sequence = self.guard.sequence();
        let timeline = &mut Timeline::off();
        let object = self.inner.get_at(self.table, entry.key, sequence, self.mode, timeline)?;
        Ok(Some((entry, object)))
    }
}

/// The entry that lies under `index_key`; its term is put into `term`.
fn split<'a>(inner: &Inner, index_key: &'a [u8], term: &'a mut Vec<u8>) -> Result<IndexEntry<'a>> {
    match split_index_key(index_key, term) {
        Some(key) => Ok(IndexEntry { term, key }),
        None => {
            let what = "an index holds a key that is none of an entry";
            Err(Error::corruption(&inner.directory, 0, what))
        }
    }
}

/// `bound`, or the place behind `entry` if fewer entries lie beyond that.
fn narrower(bound: Bound<Vec<u8>>, entry: Vec<u8>, beyond: Ordering) -> Bound<Vec<u8>> {
    match &bound {
        Bound::Included(key) | Bound::Excluded(key) if key.cmp(&entry) == beyond => bound,
        _ => Bound::Excluded(entry),
    }
}

impl Engine {
    /// The index called `name` of `table`; it is made if there is none. Its name has 1 to
    /// [`crate::INDEX_NAME_LENGTH_MAX`] bytes. An index that is made for a table with objects knows
    /// nothing of these: it has the entries that writes add
    /// ([`crate::Operation::with_index_changes`]).
    ///
    /// ```
    /// # use pellucid_account::Timeline;
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// # let mut timeline = Timeline::off();
    /// let fruit = engine.table("fruit")?;
    /// let by_colour = engine.index(fruit, "colour")?;
    /// let changes = [IndexChange::add(by_colour, b"green"), IndexChange::add(by_colour, b"red")];
    /// let apple = Operation::put(fruit, b"apple", b"...").with_index_changes(&changes);
    /// engine.write(&[apple], Acknowledgement::Os)?;
    ///
    /// let mut scan = engine.scan_index(by_colour, &Selection::one(b"red"))?;
    /// assert_eq!(scan.next()?, Some(IndexEntry { term: b"red", key: b"apple" }));
    /// assert_eq!(scan.next()?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::IndexLate`] if there is none and the table has objects: the engine does not know
    /// their terms. [`Error::TableUnknown`], [`Error::TablesExhausted`], an [`Error::Option`] for
    /// such a name, and as [`Engine::write`].
    pub fn index(&self, table: TableId, name: &str) -> Result<IndexId> {
        if name.is_empty() || name.len() > INDEX_NAME_LENGTH_MAX {
            let what = format!("the name of an index has 1 to {INDEX_NAME_LENGTH_MAX} bytes");
            return Err(Error::Option { what });
        }
        match self.inner.find_index(table, name) {
            Some(index) => Ok(index),
            None => self.inner.make_index(table, name),
        }
    }

    /// All indexes of a table, by name.
    #[must_use]
    pub fn indexes(&self, table: TableId) -> Vec<(String, IndexId)> {
        let catalogue = self.inner.catalogue.read().unwrap_or_else(PoisonError::into_inner);
        catalogue.indexes(table)
    }

    /// The entries of an index whose terms are selected, as they are now.
    ///
    /// # Errors
    /// As [`Engine::get`], and [`Error::IndexUnknown`].
    pub fn scan_index(&self, index: IndexId, selection: &Selection<'_>) -> Result<IndexScan> {
        self.snapshot().scan_index(index, selection)
    }

    /// As [`Engine::scan_index`], but only what comes behind the entry of `key` under `term` in the
    /// selection's direction, whether that entry is still there or not: the next page.
    ///
    /// # Errors
    /// As [`Engine::scan_index`], and [`Error::TermLength`] and [`Error::KeyLength`] if there
    /// cannot be such an entry.
    pub fn scan_index_after(
        &self,
        index: IndexId,
        selection: &Selection<'_>,
        term: &[u8],
        key: &[u8],
    ) -> Result<IndexScan> {
        self.snapshot().scan_index_after(index, selection, term, key)
    }
}

impl Snapshot {
    /// As [`Engine::scan_index`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`Engine::scan_index`].
    pub fn scan_index(&self, index: IndexId, selection: &Selection<'_>) -> Result<IndexScan> {
        let (inner, guard, mode) = self.parts();
        IndexScan::new(inner, guard, index, selection, None, mode)
    }

    /// As [`Engine::scan_index_after`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`Engine::scan_index_after`].
    pub fn scan_index_after(
        &self,
        index: IndexId,
        selection: &Selection<'_>,
        term: &[u8],
        key: &[u8],
    ) -> Result<IndexScan> {
        let (inner, guard, mode) = self.parts();
        IndexScan::new(inner, guard, index, selection, Some((term, key)), mode)
    }
}
