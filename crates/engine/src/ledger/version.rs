//! A version of the tree: the memtables and tables that make it up at a moment. It never changes,
//! so a reader that has loaded it needs no lock.

use std::sync::Arc;

use pellucid_account::EngineCounts;

use super::front::front_of;
use super::memtable::Memtable;
use super::options::LEVELS;
use super::table::{StepTimes, Table, TableFacts, get_by_steps};
use super::{Answer, FoundEntry, NoRecords, Records, Sought};
use crate::codec::key_hash;
use crate::error::Result;
use crate::read_mode::ReadMode;
use crate::tally::{Counting, Turn};

/// Value of `EngineCounts::found_in` for a key that is nowhere.
const FOUND_NOWHERE: u8 = 0;
/// Value of `EngineCounts::found_in` for a memtable.
const FOUND_IN_MEMTABLE: u8 = 1;
/// Value of `EngineCounts::found_in` for level 0.
const FOUND_IN_LEVEL_0: u8 = 2;

/// A memtable that takes no more entries.
#[derive(Clone)]
pub(crate) struct SealedMemtable {
    pub(crate) memtable: Arc<Memtable>,
    /// Every record up to it is in this memtable or in one before it.
    pub(crate) last_sequence: u64,
}

/// The tables of each level.
///
/// Those of level 0 overlap and stand newest first: every sequence number of one is above all of
/// the next. Those of a deeper level stand by their keys, and no key lies in two of them.
#[derive(Clone)]
pub(crate) struct Levels {
    tables: [Arc<[Arc<Table>]>; LEVELS],
    /// The beginnings of the tables' largest keys, side by side: a look-up need not visit the
    /// tables to learn which one may have its key.
    fronts: [Arc<[u128]>; LEVELS],
    /// Levels down to the deepest that has tables.
    depth: usize,
}

impl Levels {
    /// Puts tables of each level in order. An error says what cannot be.
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

    /// Bytes of the tables of a level.
    pub(crate) fn size_bytes(&self, level: usize) -> u64 {
        self.tables[level].iter().map(|table| table.facts().size_bytes).sum()
    }

    /// The deepest level that has tables.
    pub(crate) fn deepest(&self) -> Option<usize> {
        self.depth.checked_sub(1)
    }

    /// The tables of a level whose keys reach into the range.
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

    /// The table of a level below 0 that may hold `key`.
    fn table_for(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        let table = self.first_up_to(level, key, front_of(key))?;
        (*table.facts().smallest <= *key).then_some(table)
    }

    /// The first table of a level below 0 whose largest key is not below `key`.
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
    /// If they do not fit: whoever merges answers for that.
    pub(crate) fn edited(&self, removed: &[u64], added: &[(usize, Arc<Table>)]) -> Levels {
        let kept = self.all().filter(|(_, table)| !removed.contains(&table.facts().number));
        let kept = kept.map(|(level, table)| (level, Arc::clone(table)));
        match Levels::new(kept.chain(added.iter().cloned())) {
            Ok(levels) => levels,
            Err(fault) => panic!("a flush or merge would leave levels that cannot be: {fault}"),
        }
    }

    /// The facts of the tables for a manifest.
    pub(crate) fn facts(&self) -> Vec<(u8, TableFacts)> {
        self.all().map(|(level, table)| (level as u8, table.facts().clone())).collect()
    }
}

/// The account of a look-up: counts what the tables are asked, and takes the time where it is this
/// one's turn.
#[derive(Default)]
pub(crate) struct Asking<'a> {
    /// None for look-ups that nobody outside asked for, which have no turn either.
    counted: Option<(Counting<'a>, Turn)>,
}

impl<'a> Asking<'a> {
    #[inline]
    pub(crate) fn begin(counting: Counting<'a>) -> Asking<'a> {
        Asking { counted: Some((counting, counting.turn(&counting.turns.reads))) }
    }

    /// Counts the look-up, which is over, by where it has found the key.
    #[inline]
    pub(crate) fn end(&self, counts: &mut EngineCounts) {
        counts.look_ups = counts.look_ups.saturating_add(1);
        let Some((counting, turn)) = self.counted else { return };
        let place = &counting.found[usize::from(counts.found_in)];
        counting.add(&place.count, 1);
        if let Turn::Timed(begun) = turn {
            counting.add_sample(&place.time, begun);
        }
    }

    #[inline]
    fn ask<R: Records>(
        &self,
        level: usize,
        table: &Table,
        counts: &mut EngineCounts,
        sought: &Sought<'_>,
        records: &mut R,
    ) -> Result<Option<Answer<R::Answer>>> {
        let Some((counting, turn)) = &self.counted else {
            return table.get(sought, counts, records);
        };
        // The steps within each table are timed instead of the whole.
        let (is_timed, is_stepped) = (matches!(turn, Turn::Timed(_)), *turn == Turn::Stepped);
        // Those of a request end at 255.
        let mut asked = EngineCounts::default();
        let of_level = &counting.levels[level];
        let begun = is_timed.then(|| counting.now());
        let answer = match (is_stepped, is_timed) {
            (false, false) => table.get(sought, &mut asked, records),
            (true, _) => {
                let mut steps = StepTimes::begin(counting, &of_level.steps);
                let found = get_by_steps(table, sought, &mut asked, &mut steps);
                found.map(|found| found.map(Answer::Entry))
            }
            // Those by which the ledger is told from the journal go by way of the entry.
            (false, true) => {
                let found = table.get(sought, &mut asked, &mut NoRecords);
                found.map(|found| found.map(|found| Answer::Entry(found.into_entry())))
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

/// The tree at a moment.
pub(crate) struct Version {
    pub(crate) active: Arc<Memtable>,
    /// Newest first.
    pub(crate) sealed: Vec<SealedMemtable>,
    pub(crate) levels: Levels,
}

impl Version {
    /// As [`Version::find`], for the engine itself: it is not counted.
    pub(crate) fn peek(&self, key: &[u8], at_sequence: u64) -> Result<Option<FoundEntry>> {
        let asking = Asking::default();
        let mut counts = EngineCounts::default();
        let (hash, mode) = (key_hash(key), ReadMode::MayBlock);
        let sought = Sought { key, hash, at_sequence, mode };
        let found = self.find(&sought, &mut counts, &asking, &mut NoRecords)?;
        Ok(found.map(Answer::into_entry))
    }

    /// The newest entry of a key that is not above a sequence number. Sources are asked from the
    /// newest to the oldest: all versions of a key in one are newer than those in the next.
    #[inline]
    pub(crate) fn find<R: Records>(
        &self,
        sought: &Sought<'_>,
        counts: &mut EngineCounts,
        asking: &Asking<'_>,
        records: &mut R,
    ) -> Result<Option<Answer<R::Answer>>> {
        counts.found_in = FOUND_NOWHERE;
        let (levels, key, hash) = (&self.levels, sought.key, sought.hash);
        let sealed = self.sealed.iter().map(|sealed| &sealed.memtable);
        for memtable in std::iter::once(&self.active).chain(sealed) {
            if let Some(found) = memtable.get(key, hash, sought.at_sequence) {
                counts.found_in = FOUND_IN_MEMTABLE;
                return Ok(Some(Answer::Entry(found.to_found())));
            }
        }
        let mut deeper: [Option<&Table>; LEVELS] = [None; LEVELS];
        if levels.depth > 1 {
            let front = front_of(key);
            // All are asked ahead, so that one wait serves for all.
            for (level, candidate) in deeper.iter_mut().enumerate().take(levels.depth).skip(1) {
                // That the key lies below the table's smallest one, its directory knows as well.
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
