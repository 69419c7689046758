//! Merges several sorted sources of entries into one sorted sequence, for scans and for compaction.

use std::cmp::Ordering as Order;
use std::ops::Bound;
use std::sync::Arc;

use super::key_front::front_of;
use super::memtable::{Memtable, MemtableCursor};
use super::options::{LEVELS, lies_before, lies_behind};
use super::table::{Table, TableCursor};
use super::version::Version;
use super::{Direction, Entry, KeyRange};
use crate::codec::key_hash;
use crate::error::{Error, Result};
use crate::read_mode::ReadMode;

/// A cursor over consecutive tables that do not overlap, such as those of a level.
pub(crate) struct RunCursor {
    tables: Arc<[Arc<Table>]>,
    index: usize,
    cursor: Option<TableCursor>,
    mode: ReadMode,
    /// True if `aim` has already positioned the cursor for the next seek.
    is_aimed: bool,
}

/// The target of a prefix scan.
struct PrefixTarget<'a> {
    prefix: &'a [u8],
    hash: u64,
    range: &'a KeyRange<'a>,
    direction: Direction,
    mode: ReadMode,
}

impl RunCursor {
    /// A cursor over `tables`, which must be in order and must not overlap.
    pub(crate) fn new(tables: Arc<[Arc<Table>]>, mode: ReadMode) -> RunCursor {
        RunCursor { tables, index: 0, cursor: None, mode, is_aimed: false }
    }

    /// A cursor over `tables`, positioned at the first sought key in the scan's direction; `None`
    /// if the tables hold no such key. `table`, at `index` in `tables`, is the first table that
    /// does not end before the sought range.
    fn at_prefix(
        table: &Arc<Table>,
        index: usize,
        tables: impl FnOnce() -> Arc<[Arc<Table>]>,
        sought: &PrefixTarget<'_>,
    ) -> Result<Option<RunCursor>> {
        if !table.directories().may_hold_prefix(sought.hash) {
            return Ok(None);
        }
        let mut cursor = TableCursor::new(Arc::clone(table), sought.mode);
        let is_there = cursor.seek_prefix(sought.prefix, sought.hash)?;
        if is_there == Some(false) {
            // The last key of the table is behind the start of the prefix range, so no other table
            // has such keys.
            return Ok(None);
        }
        let mut run = RunCursor::new(tables(), sought.mode);
        if is_there.is_some() && sought.direction == Direction::Forward {
            (run.index, run.cursor) = (index, Some(cursor));
            return Ok(Some(run));
        }
        let mut source = Source::Run(run);
        seek(&mut source, sought.range, sought.direction)?;
        let Source::Run(run) = source else { return Ok(None) };
        Ok(Some(run))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref().and_then(TableCursor::entry)
    }

    fn open(&mut self, index: usize) -> Option<&mut TableCursor> {
        self.index = index;
        let table = self.tables.get(index);
        self.cursor = table.map(|table| TableCursor::new(Arc::clone(table), self.mode));
        self.cursor.as_mut()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.open(0).map_or(Ok(()), TableCursor::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        let last = self.tables.len().wrapping_sub(1);
        self.open(last).map_or(Ok(()), TableCursor::seek_last)
    }

    /// Prefetches the memory for a seek at or after `key`, which must be the next operation.
    fn aim(&mut self, key: &[u8]) {
        let index = self.tables.partition_point(|table| *table.facts().largest < *key);
        if let Some(cursor) = self.open(index) {
            cursor.aim(key);
        }
        self.is_aimed = true;
    }

    fn seek_at_or_after(&mut self, key: &[u8]) -> Result<()> {
        if !std::mem::take(&mut self.is_aimed) {
            self.aim(key);
        }
        self.cursor.as_mut().map_or(Ok(()), |cursor| cursor.seek_at_or_after(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.tables.partition_point(|table| *table.facts().smallest < *key);
        self.open(after.wrapping_sub(1)).map_or(Ok(()), |cursor| cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.entry().is_none() {
            return self.open(self.index + 1).map_or(Ok(()), TableCursor::seek_first);
        }
        Ok(())
    }

    fn previous(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.previous()?;
        if cursor.entry().is_none() {
            return self.open(self.index.wrapping_sub(1)).map_or(Ok(()), TableCursor::seek_last);
        }
        Ok(())
    }
}

/// A sorted source of entries.
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunCursor),
}

impl Source {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Source::Memtable(cursor) => cursor.entry(),
            Source::Run(cursor) => cursor.entry(),
        }
    }

    #[inline]
    fn advance(&mut self, direction: Direction) -> Result<()> {
        match (self, direction) {
            (Source::Memtable(cursor), Direction::Forward) => cursor.next(),
            (Source::Memtable(cursor), Direction::Backward) => cursor.previous(),
            (Source::Run(cursor), Direction::Forward) => return cursor.next(),
            (Source::Run(cursor), Direction::Backward) => return cursor.previous(),
        }
        Ok(())
    }

    /// Moves to the first entry whose key is not below `key`, or to the very first entry.
    fn seek_at_or_after(&mut self, key: Option<&[u8]>) -> Result<()> {
        match (self, key) {
            (Source::Memtable(cursor), Some(key)) => cursor.seek_at_or_after(key),
            (Source::Memtable(cursor), None) => cursor.seek_first(),
            (Source::Run(cursor), Some(key)) => return cursor.seek_at_or_after(key),
            (Source::Run(cursor), None) => return cursor.seek_first(),
        }
        Ok(())
    }

    /// Moves to the last entry whose key is below `key`, or to the very last entry.
    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<()> {
        match (self, key) {
            (Source::Memtable(cursor), Some(key)) => cursor.seek_before(key),
            (Source::Memtable(cursor), None) => cursor.seek_last(),
            (Source::Run(cursor), Some(key)) => return cursor.seek_before(key),
            (Source::Run(cursor), None) => return cursor.seek_last(),
        }
        Ok(())
    }
}

/// A merge of all entries of several sources, all versions included: by ascending key and
/// descending sequence number, or the other way round.
pub(crate) struct Merge {
    sources: Vec<Source>,
    /// A heap of the sources that are not at their end; the source of the next entry is at the top.
    heap: Vec<HeapItem>,
    direction: Direction,
}

/// A source, and the first bytes of its current key, which decide most comparisons.
#[derive(Clone, Copy)]
struct HeapItem {
    front: u128,
    source: usize,
}

impl Merge {
    /// A merge of `sources` that starts where `range` begins in `direction`. The caller checks the
    /// other end of the range, and skips an excluded start.
    pub(crate) fn new(
        mut sources: Vec<Source>,
        range: &KeyRange<'_>,
        direction: Direction,
    ) -> Result<Merge> {
        // Prefetch for all of them before the first one waits for memory.
        if let (Direction::Forward, Bound::Included(key) | Bound::Excluded(key)) =
            (direction, range.start)
        {
            for source in &mut sources {
                if let Source::Run(cursor) = source {
                    cursor.aim(key);
                }
            }
        }
        for source in &mut sources {
            seek(source, range, direction)?;
        }
        Ok(Merge::of_placed(sources, direction))
    }

    /// A merge of sources that are positioned already.
    pub(super) fn of_placed(sources: Vec<Source>, direction: Direction) -> Merge {
        let first = |source: usize| {
            let entry = sources[source].entry()?;
            Some(HeapItem { front: front_of(entry.key), source })
        };
        let heap = (0..sources.len()).filter_map(first).collect();
        let mut merge = Merge { sources, heap, direction };
        for position in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(position);
        }
        merge
    }

    /// A merge of the entries of a version in `range`, for a reader at `at_sequence`. Some that are
    /// newer are left out.
    pub(crate) fn of_version(
        version: &Version,
        range: &KeyRange<'_>,
        direction: Direction,
        at_sequence: u64,
        mode: ReadMode,
    ) -> Result<Merge> {
        let memtables = memtables_for(version, at_sequence);
        let mut sources: Vec<Source> =
            memtables.flat_map(MemtableCursor::over_runs).map(Source::Memtable).collect();
        let level_0 = level_0_for(version, range, at_sequence);
        sources.extend(level_0.map(|table| run(std::slice::from_ref(table), mode)));
        for level in 1..LEVELS {
            let tables = version.levels.level(level);
            let first = tables.partition_point(|table| ends_before(range, table));
            if tables.get(first).is_some_and(|table| has_any_of(range, table)) {
                sources.push(Source::Run(RunCursor::new(Arc::clone(tables), mode)));
            }
        }
        Merge::new(sources, range, direction)
    }

    /// As [`Merge::of_version`], of the entries whose keys have the prefix `prefix`, by the rule of
    /// their table; `range` is the range of these keys. Sources that are known to have no such key
    /// are left out, and directories that know the prefix save the search.
    pub(crate) fn of_prefix(
        version: &Version,
        prefix: &[u8],
        range: &KeyRange<'_>,
        direction: Direction,
        at_sequence: u64,
        mode: ReadMode,
    ) -> Result<Merge> {
        let sought = PrefixTarget { prefix, hash: key_hash(prefix), range, direction, mode };
        let level_0 = version.levels.level(0);
        level_0.iter().for_each(|table| table.directories().prefetch_prefix(sought.hash));
        // The tables of a level, and the index of the first one that may hold the keys.
        type FirstTable<'a> = Option<(&'a Arc<[Arc<Table>]>, usize)>;
        let mut deeper: [FirstTable<'_>; LEVELS] = [None; LEVELS];
        for (level, place) in deeper.iter_mut().enumerate().skip(1) {
            let tables = version.levels.level(level);
            let first = tables.partition_point(|table| ends_before(range, table));
            if let Some(table) = tables.get(first).filter(|table| has_any_of(range, table)) {
                table.directories().prefetch_prefix(sought.hash);
                *place = Some((tables, first));
            }
        }
        // Usually there is one source. A source is large, so reserving room for more would make the
        // allocator handle a large block.
        let mut sources = Vec::with_capacity(1);
        for memtable in memtables_for(version, at_sequence) {
            if memtable.may_hold_prefix(sought.hash) {
                let cursors = MemtableCursor::over_runs(memtable);
                for mut source in cursors.into_iter().map(Source::Memtable) {
                    seek(&mut source, range, direction)?;
                    sources.push(source);
                }
            }
        }
        for table in level_0_for(version, range, at_sequence) {
            let alone = || [Arc::clone(table)].into();
            sources.extend(RunCursor::at_prefix(table, 0, alone, &sought)?.map(Source::Run));
        }
        for (tables, first) in deeper.into_iter().flatten() {
            let level = || Arc::clone(tables);
            let run = RunCursor::at_prefix(&tables[first], first, level, &sought)?;
            sources.extend(run.map(Source::Run));
        }
        Ok(Merge::of_placed(sources, direction))
    }

    /// The current entry; `None` at the end. Inlined always: a scan would copy the entry otherwise.
    #[inline(always)]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.heap.first().and_then(|first| self.sources[first.source].entry())
    }

    /// The error for a current entry that is out of order. The checksums of a table prove that its
    /// bytes are what was written, not that a correct program wrote them.
    #[cold]
    pub(crate) fn out_of_order(&self) -> Error {
        let source = self.heap.first().map(|first| &self.sources[first.source]);
        match source {
            Some(Source::Run(RunCursor { cursor: Some(cursor), .. })) => cursor.out_of_order(),
            _ => unreachable!("the keys of a memtable are in order"),
        }
    }

    /// Moves to the next entry.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let is_alone = self.heap.len() == 1;
        let Some(first) = self.heap.first_mut() else { return Ok(()) };
        let source = &mut self.sources[first.source];
        source.advance(self.direction)?;
        match source.entry() {
            // With a single source the front is never compared, so it need not be updated.
            Some(_) if is_alone => return Ok(()),
            Some(entry) => first.front = front_of(entry.key),
            None => {
                self.heap.swap_remove(0);
            }
        }
        self.sift_down(0);
        Ok(())
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.comes_before(right, left) {
                right
            } else {
                left
            };
            if !self.comes_before(child, position) {
                return;
            }
            self.heap.swap(child, position);
            position = child;
        }
    }

    /// True if the entry of the source at heap position `one` comes before the one at `other`.
    #[inline]
    fn comes_before(&self, one: usize, other: usize) -> bool {
        let (one, other) = (self.heap[one], self.heap[other]);
        let order = match one.front.cmp(&other.front) {
            Order::Equal => self.compare_entries(one.source, other.source),
            unequal => unequal,
        };
        match self.direction {
            Direction::Forward => order == Order::Less,
            Direction::Backward => order == Order::Greater,
        }
    }

    fn compare_entries(&self, one: usize, other: usize) -> Order {
        let (one, other) = (self.sources[one].entry(), self.sources[other].entry());
        let (Some(one), Some(other)) = (one, other) else { return Order::Equal };
        one.key.cmp(other.key).then_with(|| other.sequence.cmp(&one.sequence))
    }
}

fn seek(source: &mut Source, range: &KeyRange<'_>, direction: Direction) -> Result<()> {
    match (direction, range.start, range.end) {
        (Direction::Forward, Bound::Included(key) | Bound::Excluded(key), _) => {
            source.seek_at_or_after(Some(key))
        }
        (Direction::Forward, Bound::Unbounded, _) => source.seek_at_or_after(None),
        (Direction::Backward, _, Bound::Excluded(key)) => source.seek_before(Some(key)),
        (Direction::Backward, _, Bound::Included(key)) => {
            // There is no key between a key and the same key with a zero appended.
            let behind = [key, &[0]].concat();
            source.seek_before(Some(&behind))
        }
        (Direction::Backward, _, Bound::Unbounded) => source.seek_before(None),
    }
}

/// A source of the entries of `tables`, which must be in order and must not overlap.
pub(crate) fn run(tables: &[Arc<Table>], mode: ReadMode) -> Source {
    Source::Run(RunCursor::new(tables.into(), mode))
}

/// The memtables of a version that may hold entries that a reader at `at_sequence` sees.
fn memtables_for(version: &Version, at_sequence: u64) -> impl Iterator<Item = &Arc<Memtable>> {
    let sealed = version.sealed.iter().map(|sealed| &sealed.memtable);
    let memtables = std::iter::once(&version.active).chain(sealed);
    memtables.filter(move |memtable| !memtable.is_newer_than(at_sequence))
}

/// The tables of level 0 that may hold entries in `range` that a reader at `at_sequence` sees.
fn level_0_for<'a>(
    version: &'a Version,
    range: &'a KeyRange<'_>,
    at_sequence: u64,
) -> impl Iterator<Item = &'a Arc<Table>> {
    let tables = version.levels.level(0).iter();
    tables.filter(move |table| {
        table.facts().lowest_sequence <= at_sequence && has_any_of(range, table)
    })
}

/// True if a table may hold keys of `range`; otherwise it need not be opened.
fn has_any_of(range: &KeyRange<'_>, table: &Table) -> bool {
    lies_before(&table.facts().smallest, range.end) && !ends_before(range, table)
}

/// True if all keys of a table lie before `range`.
fn ends_before(range: &KeyRange<'_>, table: &Table) -> bool {
    !lies_behind(&table.facts().largest, range.start)
}
