//! A version of the tree: the memtables and tables that make it up at a moment. It never changes,
//! so a reader that has loaded it needs no lock.

use std::convert::Infallible;
use std::sync::Arc;

use pellucid_account::EngineCounts;

use super::key_front::front_of;
use super::memtable::Memtable;
use super::options::LEVELS;
use super::table::{NoStepRecorder, StepTimes, Table, TableMetadata};
use super::{LookupRequest, LookupResult, NoRecordReader, RecordReader};
use crate::counter_set::{ReadMeasurement, ThreadCounters};
use crate::error::Result;

/// The value of `EngineCounts::found_in` for a key that was not found.
const FOUND_NOWHERE: u8 = 0;
/// The value of `EngineCounts::found_in` for a memtable.
const FOUND_IN_MEMTABLE: u8 = 1;
/// The value of `EngineCounts::found_in` for level 0; deeper levels follow.
const FOUND_IN_LEVEL_0: u8 = 2;

/// A memtable that takes no more entries.
#[derive(Clone)]
pub(crate) struct SealedMemtable {
    pub(crate) memtable: Arc<Memtable>,
    /// The sequence number up to which every record is in this memtable or in an older one.
    pub(crate) last_sequence: u64,
}

/// The tables of each level.
///
/// Tables of level 0 overlap, and are ordered from the newest: every sequence number of one is
/// above all of the next. Tables of a deeper level are ordered by their keys, and no key is in two
/// of them.
#[derive(Clone)]
pub(crate) struct Levels {
    tables: [Arc<[Arc<Table>]>; LEVELS],
    /// The first bytes of the tables' largest keys, in one array: a look-up finds the table that
    /// may hold its key without touching the others.
    fronts: [Arc<[u128]>; LEVELS],
    /// The number of levels down to the deepest that has tables.
    depth: usize,
}

impl Levels {
    /// Sorts the tables of each level. An error describes tables that overlap although they must
    /// not.
    pub(crate) fn new(
        tables: impl IntoIterator<Item = (usize, Arc<Table>)>,
    ) -> std::result::Result<Levels, String> {
        let mut levels: [Vec<Arc<Table>>; LEVELS] = [const { Vec::new() }; LEVELS];
        for (level, table) in tables {
            levels[level].push(table);
        }
        levels[0].sort_by_key(|table| std::cmp::Reverse(table.facts().highest_sequence));
        for level in &mut levels[1..] {
            level.sort_by(|a, b| a.facts().smallest.cmp(&b.facts().smallest));
        }
        let fault = |level: usize, pair: &[Arc<Table>]| {
            let numbers = (pair[0].facts().number, pair[1].facts().number);
            format!("tables {:x} and {:x} of level {level} overlap", numbers.0, numbers.1)
        };
        let newest_first = |pair: &&[Arc<Table>]| {
            pair[0].facts().lowest_sequence <= pair[1].facts().highest_sequence
        };
        if let Some(pair) = levels[0].windows(2).find(newest_first) {
            return Err(fault(0, pair));
        }
        for (level, tables) in levels.iter().enumerate().skip(1) {
            let touching =
                |pair: &&[Arc<Table>]| pair[0].facts().largest >= pair[1].facts().smallest;
            if let Some(pair) = tables.windows(2).find(touching) {
                return Err(fault(level, pair));
            }
        }
        let fronts_of = |tables: &Vec<Arc<Table>>| {
            tables.iter().map(|table| front_of(&table.facts().largest)).collect()
        };
        let fronts = std::array::from_fn(|level| fronts_of(&levels[level]));
        let depth = levels.iter().rposition(|tables| !tables.is_empty()).map_or(0, |last| last + 1);
        Ok(Levels { tables: levels.map(Arc::from), fronts, depth })
    }

    /// The tables of a level.
    #[inline]
    pub(crate) fn level(&self, level: usize) -> &Arc<[Arc<Table>]> {
        &self.tables[level]
    }

    /// All tables with their levels.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.tables
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// The size of the tables of a level, in bytes.
    pub(crate) fn size_bytes(&self, level: usize) -> u64 {
        self.tables[level].iter().map(|table| table.facts().size_bytes).sum()
    }

    /// The deepest level that has tables; `None` if there are no tables.
    pub(crate) fn deepest(&self) -> Option<usize> {
        self.depth.checked_sub(1)
    }

    /// The tables of a level whose keys overlap the range from `smallest` to `largest`.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
    ) -> Vec<Arc<Table>> {
        let tables = self.tables[level].iter();
        tables.filter(|table| table.overlaps(smallest, largest)).cloned().collect()
    }

    /// True if a level deeper than `level` may hold `key`.
    pub(crate) fn may_hold_below(&self, level: usize, key: &[u8]) -> bool {
        (level + 1..LEVELS).any(|deeper| self.table_for(deeper, key).is_some())
    }

    /// The table of a level deeper than 0 that may hold `key`.
    fn table_for(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        let table = self.first_up_to(level, key, front_of(key))?;
        (*table.facts().smallest <= *key).then_some(table)
    }

    /// The first table of a level deeper than 0 whose largest key is not below `key`.
    #[inline]
    fn first_up_to(&self, level: usize, key: &[u8], front: u128) -> Option<&Arc<Table>> {
        let (tables, fronts) = (&self.tables[level], &self.fronts[level]);
        let mut index = fronts.partition_point(|other| *other < front);
        while fronts.get(index) == Some(&front) && *tables[index].facts().largest < *key {
            index += 1;
        }
        tables.get(index)
    }

    /// The levels without the tables numbered in `removed`, and with `added`.
    ///
    /// # Panics
    /// If tables overlap although they must not, which is a bug of the merge.
    pub(crate) fn edited(&self, removed: &[u64], added: &[(usize, Arc<Table>)]) -> Levels {
        let kept = self.all().filter(|(_, table)| !removed.contains(&table.facts().number));
        let kept = kept.map(|(level, table)| (level, Arc::clone(table)));
        match Levels::new(kept.chain(added.iter().cloned())) {
            Ok(levels) => levels,
            Err(fault) => panic!("a flush or merge would leave levels that cannot be: {fault}"),
        }
    }

    /// The facts of the tables for a manifest.
    pub(crate) fn facts(&self) -> Vec<(u8, TableMetadata)> {
        self.all().map(|(level, table)| (level as u8, table.facts().clone())).collect()
    }
}

/// The accounting of a look-up: counts the tables that are asked, and takes times if it is the turn
/// of this look-up.
#[derive(Default)]
pub(crate) struct LookupMetrics<'a> {
    /// `None` for look-ups by the engine itself, which are not counted.
    counted: Option<(ThreadCounters<'a>, ReadMeasurement)>,
}

impl<'a> LookupMetrics<'a> {
    #[inline]
    pub(crate) fn begin(counting: ThreadCounters<'a>) -> LookupMetrics<'a> {
        LookupMetrics { counted: Some((counting, counting.turn(&counting.turns.reads))) }
    }

    /// Ends the look-up, and counts it by the place where the key was found.
    #[inline]
    pub(crate) fn end(&self, counts: &mut EngineCounts) {
        counts.look_ups = counts.look_ups.saturating_add(1);
        let Some((counting, turn)) = self.counted else { return };
        let place = &counting.found[usize::from(counts.found_in)];
        counting.add(&place.count, 1);
        if let ReadMeasurement::Timed(begun) = turn {
            counting.add_sample(&place.time, begun);
        }
    }

    #[inline]
    fn ask<R: RecordReader>(
        &self,
        level: usize,
        table: &Table,
        counts: &mut EngineCounts,
        sought: &LookupRequest<'_>,
        records: &mut R,
    ) -> Result<Option<LookupResult<R::Answer>>> {
        let Some((counting, turn)) = &self.counted else {
            return table.get(sought, counts, records, &mut NoStepRecorder);
        };
        // The counts of a request saturate at 255, so each table is counted separately.
        let mut asked = EngineCounts::default();
        let of_level = &counting.levels[level];
        let is_timed = matches!(turn, ReadMeasurement::Timed(_));
        let begun = is_timed.then(|| counting.now());
        // Samples read the entry, not the record, so that the times are the ledger's alone.
        let entry = |found: Option<LookupResult<Infallible>>| {
            found.map(|found| LookupResult::Entry(found.into_entry()))
        };
        let answer = match turn {
            ReadMeasurement::Counted => table.get(sought, &mut asked, records, &mut NoStepRecorder),
            ReadMeasurement::Timed(_) => {
                table.get(sought, &mut asked, &mut NoRecordReader, &mut NoStepRecorder).map(entry)
            }
            ReadMeasurement::Stepped => {
                let mut steps = StepTimes::begin(counting, &of_level.steps);
                get_by_steps(table, sought, &mut asked, &mut steps).map(entry)
            }
        };
        if let Some(begun) = begun {
            counting.add_sample(&of_level.time, begun);
        }
        counting.add(&of_level.asked, 1);
        counting.add(&of_level.by_index, u64::from(!table.directories().has_keys()));
        let each = [
            (&of_level.excluded, asked.filters_excluded, &mut counts.filters_excluded),
            (&of_level.false_positives, asked.filters_false, &mut counts.filters_false),
            (&of_level.blocks_searched, asked.blocks, &mut counts.blocks),
        ];
        for (counter, amount, of_request) in each {
            counting.add(counter, u64::from(amount));
            *of_request = of_request.saturating_add(amount);
        }
        counts.tables = counts.tables.saturating_add(1);
        answer
    }
}

/// Looks up with timing of the steps, apart from the code of other look-ups.
#[cold]
fn get_by_steps(
    table: &Table,
    sought: &LookupRequest<'_>,
    counts: &mut EngineCounts,
    steps: &mut StepTimes<'_>,
) -> Result<Option<LookupResult<Infallible>>> {
    table.get(sought, counts, &mut NoRecordReader, steps)
}

/// A version of the tree.
pub(crate) struct Version {
    pub(crate) active: Arc<Memtable>,
    /// The sealed memtables, newest first.
    pub(crate) sealed: Vec<SealedMemtable>,
    pub(crate) levels: Levels,
}

impl Version {
    /// The newest entry of a key at or below a sequence number. The sources are asked from the
    /// newest to the oldest: all versions of a key in one are newer than those in the next.
    #[inline]
    pub(crate) fn find<R: RecordReader>(
        &self,
        sought: &LookupRequest<'_>,
        counts: &mut EngineCounts,
        asking: &LookupMetrics<'_>,
        records: &mut R,
    ) -> Result<Option<LookupResult<R::Answer>>> {
        counts.found_in = FOUND_NOWHERE;
        let (levels, key, hash) = (&self.levels, sought.key, sought.hash);
        let sealed = self.sealed.iter().map(|sealed| &sealed.memtable);
        for memtable in std::iter::once(&self.active).chain(sealed) {
            if let Some(found) = memtable.get(key, hash, sought.at_sequence) {
                counts.found_in = FOUND_IN_MEMTABLE;
                return Ok(Some(LookupResult::Entry(found.to_found())));
            }
        }
        let mut deeper: [Option<&Table>; LEVELS] = [None; LEVELS];
        if levels.depth > 1 {
            let front = front_of(key);
            // Prefetch for all levels first, so that their memory latencies overlap.
            for (level, candidate) in deeper.iter_mut().enumerate().take(levels.depth).skip(1) {
                // The key may be below the smallest key of the table; its directory finds that out,
                // too.
                *candidate = levels.first_up_to(level, key, front).map(|table| &**table);
                if let Some(table) = candidate {
                    table.directories().prefetch(hash, R::ARE_READ);
                }
            }
        }
        for table in levels.tables[0].iter() {
            table.directories().prefetch(hash, R::ARE_READ);
        }
        for table in levels.tables[0].iter().filter(|table| table.spans(key)) {
            if let Some(found) = asking.ask(0, table, counts, sought, records)? {
                counts.found_in = FOUND_IN_LEVEL_0;
                return Ok(Some(found));
            }
        }
        for (level, table) in deeper.into_iter().enumerate().take(levels.depth) {
            let Some(table) = table else { continue };
            let answer = asking.ask(level, table, counts, sought, records);
            if let Some(found) = answer? {
                counts.found_in = FOUND_IN_LEVEL_0 + level as u8;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
