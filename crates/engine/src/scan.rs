//! Scans: the keys of a range, one after another, in constant memory.

use std::ops::Bound;
use std::sync::Arc;

use crate::codec::{InternalKey, TABLE_PREFIX_LENGTH};
use crate::error::Result;
use crate::expiry::ExpiryClock;
use crate::key_range::internal_range;
pub use crate::ledger::Direction;
use crate::ledger::{FoundEntry, LedgerScan, SnapshotGuard};
use crate::object::{Head, Object};
use crate::open_store::OpenStore;
use crate::read_ahead::ReadAhead;
use crate::read_mode::ReadMode;
use crate::table_id::TableId;

/// A view of the store as it was at one moment.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) store: Arc<OpenStore>,
    /// Keeps the entries that the view sees in the tables.
    pub(crate) guard: Arc<SnapshotGuard>,
    /// The mode of all reads.
    pub(crate) mode: ReadMode,
}

/// A scan: the keys of a range as they were at one moment, one after another.
pub struct Scan {
    ledger_scan: LedgerScan,
    ahead: ReadAhead,
    // Dropped last: it keeps the entries that the scan sees.
    view: View,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl Scan {
    pub(crate) fn new(
        view: View,
        table: TableId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Result<Scan> {
        let range = internal_range(table.0, bounds);
        let (range, at) = (range.as_key_range(), view.guard.sequence());
        let ledger_scan = view.store.ledger.scan(range, direction, at, view.mode)?;
        Ok(Scan { view, ledger_scan, ahead: ReadAhead::default() })
    }

    pub(crate) fn of_prefix(
        view: View,
        table: TableId,
        prefix: &[u8],
        direction: Direction,
    ) -> Result<Scan> {
        let mut internal = InternalKey::empty();
        internal.set(table.0, prefix)?;
        let (prefix, at) = (internal.as_bytes(), view.guard.sequence());
        let ledger_scan = view.store.ledger.scan_prefix(prefix, direction, at, view.mode)?;
        Ok(Scan { view, ledger_scan, ahead: ReadAhead::default() })
    }

    /// The next key with its head and value; `None` at the end.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block or a record is damaged. An error ends the scan: each
    /// further call returns it, too.
    #[expect(clippy::should_implement_trait, reason = "it lends the key, which Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        self.resume()?;
        let (ledger_scan, store) = (&mut self.ledger_scan, &self.view.store);
        let (segments, tally) = (store.journal.segments(), store.ledger.tally());
        let (time, mode) = (&store.time, self.view.mode);
        let find =
            |key: &mut Vec<u8>, found: &mut FoundEntry| advance(time, ledger_scan, key, found);
        let Some(row) = self.ahead.next(segments, mode, time, tally, find)? else {
            return Ok(None);
        };
        let object = Object { head: Head::taken_from(row.found), value: row.value };
        Ok(Some((&row.key[TABLE_PREFIX_LENGTH..], object)))
    }

    /// The next key with its head; `None` at the end. The journal is not touched.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block is damaged. An error ends the scan, as above.
    pub fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        self.resume()?;
        let (ledger_scan, time) = (&mut self.ledger_scan, &self.view.store.time);
        if self.ahead.is_empty() {
            // No read of the journal is needed, so no look-ahead is needed either.
            let mut found = FoundEntry::nothing();
            let is_there = find_live(time, ledger_scan, &mut found)?;
            let key = ledger_scan.key();
            return Ok(is_there.then(|| (&key[TABLE_PREFIX_LENGTH..], Head::from_found(found))));
        }
        let find =
            |key: &mut Vec<u8>, found: &mut FoundEntry| advance(time, ledger_scan, key, found);
        let next = self.ahead.next_found(time, find)?;
        Ok(next.map(|(key, found)| (&key[TABLE_PREFIX_LENGTH..], Head::taken_from(found))))
    }

    /// Releases the memory and the files that the scan holds beyond those that its snapshot keeps,
    /// for a caller that may not need the next key for a long time. The next call seeks again.
    pub fn release(&mut self) {
        self.ledger_scan.release();
        self.ahead.release();
    }

    /// Seeks again after a release.
    #[inline]
    fn resume(&mut self) -> Result<()> {
        if self.ledger_scan.is_released() {
            self.view.store.ledger.resume(&mut self.ledger_scan, self.view.mode)?;
        }
        Ok(())
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.ahead.count_reads(self.view.store.ledger.tally());
    }
}

/// Moves on as [`find_live`] does, and copies the key.
#[inline]
fn advance(
    time: &ExpiryClock,
    ledger_scan: &mut LedgerScan,
    key: &mut Vec<u8>,
    found: &mut FoundEntry,
) -> Result<bool> {
    let is_there = find_live(time, ledger_scan, found)?;
    if is_there {
        key.clear();
        key.extend_from_slice(ledger_scan.key());
    }
    Ok(is_there)
}

/// Moves on to the next live key; returns true if there was one.
#[inline]
fn find_live(
    time: &ExpiryClock,
    ledger_scan: &mut LedgerScan,
    found: &mut FoundEntry,
) -> Result<bool> {
    while ledger_scan.find_next(found)? {
        if time.is_live(found) {
            return Ok(true);
        }
        ledger_scan.pass()?;
    }
    Ok(false)
}
