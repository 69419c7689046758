//! Range scans and snapshots.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Head, Object, Range, Result, Scan, Snapshot, Table, check_key};
use rocksdb::{DBRawIteratorWithThreadMode, ReadOptions, SnapshotWithThreadMode};

use crate::account::accounted;
use crate::database::Database;
use crate::db::{Db, error_of};
use crate::entry::EntryHead;

/// RocksDB's snapshot of a database.
type BorrowedSnapshot<'a> = SnapshotWithThreadMode<'a, Db>;

/// A scan of a range, as of the moment at which it began.
pub(crate) struct RocksScan {
    // Stands before `_snapshot` and `_database`: fields are dropped in order.
    iterator: DBRawIteratorWithThreadMode<'static, Db>,
    _snapshot: Option<Arc<OwnedSnapshot>>,
    _database: Arc<Database>,
    reverse: bool,
    has_begun: bool,
    key: Vec<u8>,
    /// The expiry of the entry that was returned last; zero for never.
    expires_at_ms: u64,
}

/// A snapshot of RocksDB, and its database.
pub(crate) struct OwnedSnapshot {
    // Stands before `database`: fields are dropped in order.
    snapshot: BorrowedSnapshot<'static>,
    database: Arc<Database>,
    sequence: u64,
}

/// A snapshot of the store.
pub(crate) struct RocksSnapshot(pub(crate) Arc<OwnedSnapshot>);

impl OwnedSnapshot {
    pub(crate) fn now(database: &Arc<Database>) -> OwnedSnapshot {
        let sequence = database.last_sequence();
        let snapshot = database.db.snapshot();
        // SAFETY: the snapshot borrows the database. The database is on the heap, its `Arc` is in
        // the same struct, and it is dropped after the snapshot.
        let snapshot = unsafe {
            std::mem::transmute::<BorrowedSnapshot<'_>, BorrowedSnapshot<'static>>(snapshot)
        };
        OwnedSnapshot { snapshot, database: Arc::clone(database), sequence }
    }
}

/// Begins a scan; of a snapshot, if one is given.
pub(crate) fn scan(
    database: &Arc<Database>,
    moment: Option<&Arc<OwnedSnapshot>>,
    table: Table,
    range: Range<'_>,
) -> Result<Box<dyn Scan>> {
    let family = database.family(table)?;
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(range.start);
    let is_empty = range.end.is_some_and(|end| end <= range.start);
    if let Some(end) = range.end {
        options.set_iterate_upper_bound(if is_empty { range.start } else { end });
    }
    let iterator = match moment {
        Some(moment) => moment.snapshot.raw_iterator_cf_opt(family, options),
        None => database.db.raw_iterator_cf_opt(family, options),
    };
    // SAFETY: the iterator borrows the database and the snapshot. Both are on the heap, their
    // `Arc`s are in the same struct, and they are dropped after the iterator.
    let iterator = unsafe {
        std::mem::transmute::<
            DBRawIteratorWithThreadMode<'_, Db>,
            DBRawIteratorWithThreadMode<'static, Db>,
        >(iterator)
    };
    Ok(Box::new(RocksScan {
        iterator,
        _snapshot: moment.cloned(),
        _database: Arc::clone(database),
        reverse: range.reverse,
        has_begun: false,
        key: Vec::new(),
        expires_at_ms: 0,
    }))
}

impl RocksScan {
    /// Moves to the next entry that has not expired, and applies `shown` to it; `None` at the end.
    fn advance<T>(&mut self, shown: fn(EntryHead, &[u8]) -> T) -> Result<Option<T>> {
        loop {
            match (self.has_begun, self.reverse) {
                (false, false) => self.iterator.seek_to_first(),
                (false, true) => self.iterator.seek_to_last(),
                (true, _) if !self.iterator.valid() => return Ok(None),
                (true, false) => self.iterator.next(),
                (true, true) => self.iterator.prev(),
            }
            self.has_begun = true;
            let Some((key, bytes)) = self.iterator.item() else {
                return self.iterator.status().map(|()| None).map_err(error_of);
            };
            let (stored, value) = EntryHead::of(bytes)?;
            if stored.is_live() {
                self.expires_at_ms = stored.expires_at_ms;
                self.key.clear();
                self.key.extend_from_slice(key);
                return Ok(Some(shown(stored, value)));
            }
        }
    }
}

impl Scan for RocksScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        let object = self.advance(EntryHead::object)?;
        Ok(object.map(|object| (&self.key[..], object)))
    }

    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        let head = self.advance(EntryHead::head)?;
        Ok(head.map(|head| (&self.key[..], head)))
    }

    fn expires_at_ms(&self) -> Option<u64> {
        (self.expires_at_ms != 0).then_some(self.expires_at_ms)
    }
}

impl Snapshot for RocksSnapshot {
    fn sequence(&self) -> u64 {
        self.0.sequence
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>> {
        check_key(key)?;
        let family = self.0.database.family(table)?;
        accounted(timeline, || {
            let found = self.0.snapshot.get_pinned_cf(family, key).map_err(error_of)?;
            EntryHead::shown(found.as_deref(), EntryHead::object)
        })
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        scan(&self.0.database, Some(&self.0), table, range)
    }
}
