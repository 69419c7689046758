//! An open table, and look-ups in it.

use std::path::Path;
use std::sync::Arc;

use pellucid_account::EngineCounts;
use pellucid_io::{FileSystem, MapMode, any_unreadable};

use super::blocks::TableBlocks;
use super::directories::{TableDirectories, count_absent};
use super::directory::EntryLocation;
use super::file::TableFile;
use super::filter::FilterParameters;
use super::footer::{ByteRange, check_facts, read_footer};
use super::index::{TableIndex, largest_key};
use super::memory::TableMemory;
use super::memory_reservation::MemoryReservation;
use super::step_times::StepRecorder;
use super::{TableMetadata, part_seed};
use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind, checksum, read_u32};
use crate::error::{Error, Result};
use crate::ledger::{FoundEntry, LookupRequest, LookupResult, RecordReader};
use crate::mapped_file::MappedFile;

/// An open table.
pub(crate) struct Table {
    facts: TableMetadata,
    tombstones: u64,
    keys: u64,
    stale_at_ms: u64,
    blocks: TableBlocks,
    filter: ByteRange,
    filter_shape: FilterParameters,
    directories: TableDirectories,
    /// The counted memory that the table always needs.
    taken: Option<MemoryReservation>,
}

impl Table {
    /// Opens the table that the manifest names with `facts`, and validates everything except its
    /// blocks.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        directory: &Path,
        store_identity: u64,
        facts: TableMetadata,
    ) -> Result<Table> {
        Table::of_file(TableFile::open(fs, directory, facts)?, store_identity)
    }

    /// Opens a table as [`Table::open`] does, from a file that was opened before.
    pub(crate) fn of_file(table_file: TableFile, store_identity: u64) -> Result<Table> {
        let TableFile { facts, path, file } = table_file;
        let map = file.map(facts.size_bytes, MapMode::Read);
        let map = MappedFile::from(map.map_err(|error| Error::io("map", &path, error))?);
        let bytes = map.bytes();
        FileHeader::decode_expected(bytes, FileKind::Table, store_identity, facts.number, &path)?;
        let footer = read_footer(bytes, store_identity, facts.number)
            .map_err(|(offset, what)| Error::corruption(&path, offset as u64, what))?;
        let seed_of = |part: ByteRange| part_seed(store_identity, facts.number, part.offset as u64);
        for (part, what) in [
            (footer.filter, "the checksum of the filter is wrong"),
            (footer.index, "the checksum of the index is wrong"),
        ] {
            let part_bytes = part.of(bytes);
            if part_bytes.len() < 4
                || read_u32(part_bytes, 0) != checksum(seed_of(part), &part_bytes[4..])
            {
                return Err(Error::corruption(&path, part.offset as u64, what));
            }
        }
        let filter_shape = FilterParameters::read(footer.filter.of(bytes))
            .map_err(|what| Error::corruption(&path, footer.filter.offset as u64, what))?;
        let blocks = FILE_HEADER_LENGTH as u64..footer.filter.offset as u64;
        let index_shape =
            TableIndex::read(footer.index.of(bytes), &facts.smallest, blocks.start, blocks.end)
                .map_err(|(at, what)| {
                    Error::corruption(&path, (footer.index.offset + at) as u64, what)
                })?;
        let padding = index_shape.place(footer.index.of(bytes), index_shape.blocks() - 1).end;
        if bytes[padding..footer.filter.offset].iter().any(|byte| *byte != 0) {
            let what = "there are bytes between the last block and the filter";
            return Err(Error::corruption(&path, padding as u64, what));
        }
        check_facts(&facts, &footer, largest_key(footer.index.of(bytes), index_shape.blocks()))
            .map_err(|what| Error::corruption(&path, footer.offset as u64, what))?;
        let (number, entries) = (facts.number, facts.entries);
        let index = (footer.index, index_shape);
        Ok(Table {
            facts,
            tombstones: footer.tombstones,
            keys: footer.keys,
            stale_at_ms: footer.stale_at_ms,
            blocks: TableBlocks::new((number, store_identity), path, map, index, entries),
            filter: footer.filter,
            filter_shape,
            directories: TableDirectories::new(footer.keys),
            taken: None,
        })
    }

    /// Counts the table's memory, and holds its index if there is room for it.
    pub(crate) fn count_memory(&mut self, memory: &Arc<TableMemory>) {
        self.taken = Some(memory.take_always(self.fixed_bytes() as u64));
        self.blocks.use_memory(memory);
    }

    /// The memory that the table always needs: itself, its facts, a bit per block.
    fn fixed_bytes(&self) -> usize {
        let facts = self.facts.smallest.len() + self.facts.largest.len();
        size_of::<Table>() + facts + self.blocks.fixed_bytes()
    }

    /// The facts of the table in the manifest.
    pub(crate) fn facts(&self) -> &TableMetadata {
        &self.facts
    }

    /// The number of tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// True if so many entries have expired at `now_ms` that the table should be rewritten.
    pub(crate) fn is_stale(&self, now_ms: u64) -> bool {
        self.stale_at_ms != 0 && self.stale_at_ms <= now_ms
    }

    /// The number of entries that can be dropped once no snapshot needs them: tombstones and older
    /// versions.
    pub(crate) fn droppable(&self) -> u64 {
        self.tombstones + self.facts.entries.saturating_sub(self.keys)
    }

    /// The memory of the table outside the page cache, in bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let directories = self.directories.size_bytes() as usize;
        self.fixed_bytes() + self.blocks.index_bytes() + directories
    }

    /// The blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> &TableBlocks {
        &self.blocks
    }

    /// The directories.
    #[inline]
    pub(crate) fn directories(&self) -> &TableDirectories {
        &self.directories
    }

    /// Sets the directories, which were built when the table was written.
    pub(crate) fn set_directories(&mut self, directories: TableDirectories) {
        self.directories = directories;
    }

    /// True if `key` lies between the smallest and the largest key.
    #[inline]
    pub(crate) fn spans(&self, key: &[u8]) -> bool {
        *self.facts.smallest <= *key && key <= &self.facts.largest[..]
    }

    /// True if the key range of the table overlaps the range from `smallest` to `largest`.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        &self.facts.smallest[..] <= largest && smallest <= &self.facts.largest[..]
    }

    /// The newest entry of the key at or below the sequence number, or the answer of `records` for
    /// its record.
    #[inline]
    pub(crate) fn get<R: RecordReader>(
        &self,
        sought: &LookupRequest<'_>,
        counts: &mut EngineCounts,
        records: &mut R,
        steps: &mut impl StepRecorder,
    ) -> Result<Option<LookupResult<R::Answer>>> {
        counts.tables = counts.tables.saturating_add(1);
        let answer = if let Some(directory) = self.directories.keys() {
            let blocks_before = counts.blocks;
            let found = directory.find(sought.hash, |place, slot| {
                steps.end(|of| &of.directory);
                if R::ARE_READ
                    && let Some(record) = directory.record_at(slot)
                    && record <= sought.at_sequence
                    && let Some(answer) = records.read(record)
                {
                    return Some(Ok(Some(LookupResult::Record(answer))));
                }
                let fetched = steps.fetch(&self.blocks, place.block, sought.mode);
                let found = fetched.and_then(|()| self.get_at(place, sought, counts)).transpose();
                steps.end(|of| &of.search);
                found.map(|found| found.map(|found| found.map(LookupResult::Entry)))
            });
            if found.is_none() {
                if counts.blocks == blocks_before {
                    steps.end(|of| &of.directory);
                }
                count_absent(blocks_before, counts);
            }
            found.transpose().map(Option::flatten)
        } else {
            self.get_by_index(sought, counts, steps).map(|found| found.map(LookupResult::Entry))
        };
        if any_unreadable() {
            self.check_way_to(sought.key)?;
        }
        answer
    }

    /// The newest entry of the key at or below the sequence number, without a directory.
    #[inline]
    fn get_by_index(
        &self,
        sought: &LookupRequest<'_>,
        counts: &mut EngineCounts,
        steps: &mut impl StepRecorder,
    ) -> Result<Option<FoundEntry>> {
        let passes = self.filter_shape.passes(self.filter.of(self.blocks.bytes()), sought.hash);
        steps.end(|of| &of.filter);
        if !passes {
            counts.filters_excluded = counts.filters_excluded.saturating_add(1);
            return Ok(None);
        }
        let block = self.blocks.find(sought.key);
        steps.end(|of| &of.index);
        if block < self.blocks.count() {
            steps.fetch(&self.blocks, block, sought.mode)?;
        }
        let found = self.search_from(block, sought, counts);
        steps.end(|of| &of.search);
        found
    }

    /// The newest entry of the key at or below the sequence number, if the key's newest entry is at
    /// `place`. `None` if another key is there; `Some(None)` if all entries of the key are above
    /// the sequence number.
    #[inline]
    fn get_at(
        &self,
        place: EntryLocation,
        sought: &LookupRequest<'_>,
        counts: &mut EngineCounts,
    ) -> Result<Option<Option<FoundEntry>>> {
        counts.blocks = counts.blocks.saturating_add(1);
        self.blocks.prefetch_entry(place);
        let faulty = |fault| self.blocks.corrupted(place.block, fault);
        let opened = self.blocks.open(place.block, sought.mode)?;
        let block = opened.block().map_err(faulty)?;
        if place.entry >= block.entries() {
            return Ok(None);
        }
        match block.entry_of(place.entry, sought.key).map_err(faulty)? {
            None => Ok(None),
            Some(entry) if entry.sequence <= sought.at_sequence => {
                Ok(Some(Some(entry.with_key(sought.key).to_found())))
            }
            Some(_) => self.search_from(place.block, sought, counts).map(Some),
        }
    }

    /// Looks up a key in the blocks from `first` on: its versions may continue in the next block.
    #[inline]
    fn search_from(
        &self,
        first: usize,
        sought: &LookupRequest<'_>,
        counts: &mut EngineCounts,
    ) -> Result<Option<FoundEntry>> {
        let key = sought.key;
        for index in first..self.blocks.count() {
            counts.blocks = counts.blocks.saturating_add(1);
            self.blocks.prefetch(index);
            let faulty = |fault| self.blocks.corrupted(index, fault);
            let opened = self.blocks.open(index, sought.mode)?;
            let block = opened.block().map_err(faulty)?;
            let entry = block.search(key, sought.at_sequence).map_err(faulty)?;
            if entry < block.entries() {
                let found = block.entry_of(entry, key).map_err(faulty)?;
                if found.is_none() {
                    counts.filters_false = counts.filters_false.saturating_add(1);
                }
                return Ok(found.map(|entry| entry.with_key(key).to_found()));
            }
        }
        Ok(None)
    }

    /// Returns an error if a page that a look-up of `key` has used could not be read.
    #[cold]
    fn check_way_to(&self, key: &[u8]) -> Result<()> {
        if self.blocks.is_readable() {
            return Ok(());
        }
        if !self.directories.has_keys() {
            self.blocks.check_part(self.filter)?;
        }
        self.blocks.check_way_to(key)
    }

    /// Checks every block completely, even those that were checked before.
    #[cfg(test)]
    pub(crate) fn verify(&self) -> Result<()> {
        self.blocks.problems().next().map_or(Ok(()), Err)
    }
}
