//! Indexes: terms that find the objects of a table.
//!
//! The entries of an index have a table number of their own. Each is an ordinary record without a
//! value, in the same batch as its object. So journal, recovery, garbage collection, backup,
//! rebuilding and salvage treat it like any other record, and never separate the two.

use std::cmp::Ordering;
use std::ops::Bound;

use pellucid_account::Timeline;

use crate::error::{Error, Result};
use crate::index_key::{put_index_key, split_index_key, term_bounds};
use crate::object::Object;
use crate::open_store::OpenStore;
use crate::scan::{Direction, Scan, View};
use crate::selection::Selection;
use crate::table_id::{IndexId, TableId};

/// An entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexEntry<'a> {
    /// The term by which the object is found.
    pub term: &'a [u8],
    /// The key of the object.
    pub key: &'a [u8],
}

/// The entries of an index as they were at one moment, one after another: in the order of their
/// terms, and within a term in the order of the objects' keys.
pub struct IndexScan {
    view: View,
    scan: Scan,
    table: TableId,
    /// The number of entries that may still be returned.
    left: u64,
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
        view: View,
        index: IndexId,
        selection: &Selection<'_>,
        after: Option<(&[u8], &[u8])>,
    ) -> Result<IndexScan> {
        view.store.catalogue.check_index(index)?;
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
        let scan = Scan::new(view.clone(), TableId(index.number), bounds, selection.direction)?;
        let (table, left) = (index.table, selection.limit);
        Ok(IndexScan { view, scan, table, left, term: Vec::new() })
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
        split(&self.view.store, entry, &mut self.term).map(Some)
    }

    /// The next entry with its object as it was at the same moment. The object is `None` if it has
    /// expired, or if a write deleted it and left the entry.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block or a record is damaged.
    pub fn next_object(&mut self) -> Result<Option<(IndexEntry<'_>, Option<Object>)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some((entry, _)) = self.scan.next_head()? else { return Ok(None) };
        self.left -= 1;
        let entry = split(&self.view.store, entry, &mut self.term)?;
        let View { store, guard, mode } = &self.view;
        let (sequence, timeline) = (guard.sequence(), &mut Timeline::off());
        let object = store.reader.get(self.table, entry.key, sequence, *mode, timeline)?;
        Ok(Some((entry, object)))
    }
}

/// The entry whose key is `index_key`; its term is put into `term`.
fn split<'a>(
    store: &OpenStore,
    index_key: &'a [u8],
    term: &'a mut Vec<u8>,
) -> Result<IndexEntry<'a>> {
    match split_index_key(index_key, term) {
        Some(key) => Ok(IndexEntry { term, key }),
        None => {
            let what = "an index holds a key that is none of an entry";
            Err(Error::corruption(&store.directory, 0, what))
        }
    }
}

/// The narrower of two bounds: `bound`, or the one behind `entry`.
fn narrower(bound: Bound<Vec<u8>>, entry: Vec<u8>, beyond: Ordering) -> Bound<Vec<u8>> {
    match &bound {
        Bound::Included(key) | Bound::Excluded(key) if key.cmp(&entry) == beyond => bound,
        _ => Bound::Excluded(entry),
    }
}
