//! Reads a table through a map of its file.

mod directories;
mod unreadable;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_account::EngineCounts;
use pellucid_io::{FileSystem, MapMode, any_unreadable};

use super::block::{BLOCK_HEADER_SIZE_BYTES, Block, BlockFault, check_block};
use super::closing::{Part, check_facts, read_closing};
use super::directory::{Directory, EntryPlace};
use super::file::TableFile;
use super::filter::FilterShape;
use super::index::{IndexShape, largest_key};
use super::memory::{TableMemory, Taken};
use super::packed::{Opened, is_packed, unpack_block};
use super::stems::KnownStems;
use super::{TableFacts, part_seed};
use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind, checksum, read_u32};
use crate::error::{Error, Result};
use crate::ledger::{Answer, FoundEntry, Records};
use crate::mapped::Mapped;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_all};
use crate::resident::is_required;

/// Lines of a block that are asked for at once: what a processor can wait for.
const PREFETCH_LINES_MAX: usize = 16;

/// An open table.
pub(crate) struct Table {
    facts: TableFacts,
    tombstones: u64,
    keys: u64,
    stale_at_ms: u64,
    path: PathBuf,
    store_identity: u64,
    map: Mapped,
    filter: Part,
    filter_shape: FilterShape,
    index: Part,
    index_shape: IndexShape,
    /// A bit for each block: whether its checksum was found right.
    checked: Box<[AtomicU64]>,
    directory: OnceLock<Directory>,
    stems: KnownStems,
    /// No directory is to be made, because one cannot be.
    is_plain: AtomicBool,
    /// The directory is not to name records, because there are none.
    is_nameless: AtomicBool,
    /// A block of the table was unpacked.
    has_packed: AtomicBool,
    /// Entries of a block, on average: tells about where in its block an entry is.
    entries_a_block: usize,
    /// The memory of all tables, once this one is counted there.
    memory: Option<Arc<TableMemory>>,
    /// What is counted of the memory that it cannot do without.
    taken: Option<Taken>,
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|_| self.has_packed.load(Ordering::Relaxed))
        {
            memory.forget_blocks(self.facts.number);
        }
    }
}

impl Table {
    /// Opens the table that the manifest names with `facts`, and checks all but its blocks.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        directory: &Path,
        store_identity: u64,
        facts: TableFacts,
    ) -> Result<Table> {
        Table::of_file(TableFile::open(fs, directory, facts)?, store_identity)
    }

    /// As [`Table::open`], of a file that was opened before.
    pub(crate) fn of_file(table_file: TableFile, store_identity: u64) -> Result<Table> {
        let TableFile { facts, path, file } = table_file;
        let map = file.map(facts.size_bytes, MapMode::Read);
        let map = Mapped::from(map.map_err(|error| Error::io("map", &path, error))?);
        let bytes = map.bytes();
        FileHeader::decode_expected(bytes, FileKind::Table, store_identity, facts.number, &path)?;
        let closing = read_closing(bytes, store_identity, facts.number)
            .map_err(|(offset, what)| Error::corruption(&path, offset as u64, what))?;
        let seed_of = |part: Part| part_seed(store_identity, facts.number, part.offset as u64);
        for (part, what) in [
            (closing.filter, "the checksum of the filter is wrong"),
            (closing.index, "the checksum of the index is wrong"),
        ] {
            let part_bytes = part.of(bytes);
            if part_bytes.len() < 4
                || read_u32(part_bytes, 0) != checksum(seed_of(part), &part_bytes[4..])
            {
                return Err(Error::corruption(&path, part.offset as u64, what));
            }
        }
        let filter_shape = FilterShape::read(closing.filter.of(bytes))
            .map_err(|what| Error::corruption(&path, closing.filter.offset as u64, what))?;
        let blocks = FILE_HEADER_LENGTH as u64..closing.filter.offset as u64;
        let index_shape =
            IndexShape::read(closing.index.of(bytes), &facts.smallest, blocks.start, blocks.end)
                .map_err(|(at, what)| {
                    Error::corruption(&path, (closing.index.offset + at) as u64, what)
                })?;
        let padding = index_shape.place(closing.index.of(bytes), index_shape.blocks() - 1).end;
        if bytes[padding..closing.filter.offset].iter().any(|byte| *byte != 0) {
            let what = "there are bytes between the last block and the filter";
            return Err(Error::corruption(&path, padding as u64, what));
        }
        check_facts(&facts, &closing, largest_key(closing.index.of(bytes), index_shape.blocks()))
            .map_err(|what| Error::corruption(&path, closing.offset as u64, what))?;
        let checked = (0..index_shape.blocks().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let entries_a_block = (facts.entries as usize).div_ceil(index_shape.blocks()).max(1);
        Ok(Table {
            facts,
            tombstones: closing.tombstones,
            keys: closing.keys,
            stale_at_ms: closing.stale_at_ms,
            path,
            store_identity,
            filter: closing.filter,
            filter_shape,
            index: closing.index,
            index_shape,
            checked,
            directory: OnceLock::new(),
            stems: KnownStems::default(),
            is_plain: AtomicBool::new(false),
            is_nameless: AtomicBool::new(false),
            entries_a_block,
            memory: None,
            has_packed: AtomicBool::new(false),
            taken: None,
            map,
        })
    }

    /// Has the table's memory counted, and holds its index if there is room for it.
    pub(crate) fn count_memory(&mut self, memory: &Arc<TableMemory>) {
        self.taken = Some(memory.take_always(self.fixed_bytes() as u64));
        self.memory = Some(Arc::clone(memory));
        self.index_shape.hold(self.index.of(self.map.bytes()), memory);
    }

    /// Memory that the table cannot do without: itself, its facts, a bit for each block.
    fn fixed_bytes(&self) -> usize {
        let facts = self.facts.smallest.len() + self.facts.largest.len();
        let path = self.path.as_os_str().len();
        size_of::<Table>() + facts + path + self.checked.len() * size_of::<AtomicU64>()
    }

    /// What the manifest holds of the table.
    pub(crate) fn facts(&self) -> &TableFacts {
        &self.facts
    }

    /// Number of tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// Whether, at `now_ms`, so many entries have expired that it is worth to write the table anew.
    pub(crate) fn is_stale(&self, now_ms: u64) -> bool {
        self.stale_at_ms != 0 && self.stale_at_ms <= now_ms
    }

    /// Number of entries that may go once no snapshot needs them: tombstones and older versions.
    pub(crate) fn droppable(&self) -> u64 {
        self.tombstones + self.facts.entries.saturating_sub(self.keys)
    }

    /// Memory that the table holds beside the page cache.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let directory = self.directory.get().map_or(0, Directory::size_bytes);
        self.fixed_bytes() + self.index_shape.size_bytes() + directory + self.stems.size_bytes()
    }

    /// Blocks, and how many of them were checked since the table was opened.
    pub(crate) fn blocks_checked(&self) -> (u64, u64) {
        let bits = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        (self.blocks() as u64, self.checked.iter().map(bits).sum())
    }

    /// Asks for what a look-up of this hash needs first, by way of records or not.
    #[inline]
    pub(crate) fn prefetch_hash(&self, hash: u64, with_records: bool) {
        if let Some(directory) = self.directory.get() {
            directory.prefetch(hash, with_records);
        }
    }

    /// Asks for the pages of the file, which was just written, to be mapped before a GET needs
    /// them.
    pub(crate) fn prefault(&self) {
        self.map.prefault(0, self.map.length());
    }

    /// Whether `key` lies between the smallest and the largest key.
    #[inline]
    pub(crate) fn spans(&self, key: &[u8]) -> bool {
        *self.facts.smallest <= *key && key <= &self.facts.largest[..]
    }

    /// Whether keys of the table lie between `smallest` and `largest`, by its ends.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        &self.facts.smallest[..] <= largest && smallest <= &self.facts.largest[..]
    }

    /// All bytes of the file.
    pub(crate) fn file_bytes(&self) -> &[u8] {
        self.bytes()
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    /// Number of blocks.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.index_shape.blocks()
    }

    /// Where block `block` is in the file.
    #[inline]
    fn block_place(&self, block: usize) -> std::ops::Range<usize> {
        self.index_shape.place(self.index.of(self.bytes()), block)
    }

    /// The first block whose last key is not below `key`, or the number of blocks.
    #[inline]
    pub(super) fn block_for(&self, key: &[u8]) -> usize {
        self.index_shape.search(self.index.of(self.bytes()), key)
    }

    /// Block `block`, whose checksum is checked if it never was, unpacked if it is packed.
    #[inline]
    pub(super) fn open_block(&self, block: usize) -> Result<Opened<'_>> {
        let bytes = self.bytes();
        let place = self.block_place(block);
        if is_required() && !self.is_block_resident(block) {
            return Err(Error::NotInMemory);
        }
        let block_bytes = &bytes[place.clone()];
        let is_checked = self.checked[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 == 1;
        if !is_checked {
            self.check_sum(block, place.start as u64, block_bytes)?;
        }
        if is_packed(block_bytes) {
            return self.unpacked(block, block_bytes).map(Opened::Unpacked);
        }
        Ok(Opened::Mapped(block_bytes))
    }

    /// Block `block`, which is packed in `bytes`, from the cache if there is one.
    #[cold]
    fn unpacked(&self, block: usize, bytes: &[u8]) -> Result<Arc<[u8]>> {
        let unpack = || unpack_block(bytes).map_err(|fault| self.corrupted(block, fault));
        match &self.memory {
            Some(memory) => {
                self.has_packed.store(true, Ordering::Relaxed);
                memory.cached_block((self.facts.number, block), unpack)
            }
            None => unpack(),
        }
    }

    /// Block `block`, which [`Table::open_block`] said before is sound, not packed, and has so
    /// many entries, for its entries alone.
    #[inline]
    pub(super) fn entered_block(&self, block: usize, entries: usize) -> Block<'_> {
        Block::of_checked(&self.bytes()[self.block_place(block)], entries)
    }

    #[cold]
    fn check_sum(&self, block: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let seed = part_seed(self.store_identity, self.facts.number, offset);
        if bytes.len() < 4 || read_u32(bytes, 0) != checksum(seed, &bytes[4..]) {
            self.check_block(block)?;
            let what = "the checksum of the block is wrong";
            return Err(Error::corruption(&self.path, offset, what));
        }
        self.checked[block / 64].fetch_or(1 << (block % 64), Ordering::Relaxed);
        Ok(())
    }

    /// The error for a fault in block `block`.
    #[cold]
    pub(super) fn corrupted(&self, block: usize, fault: BlockFault) -> Error {
        if let Err(unreadable) = self.check_block(block) {
            return unreadable;
        }
        let begin = self.block_place(block).start as u64;
        Error::corruption(&self.path, begin + u64::from(fault.offset), fault.what)
    }

    /// The newest entry of `key` that is not above `at_sequence`, or what `records` says of its
    /// record. `hash` is that of the key.
    #[inline]
    pub(crate) fn get<R: Records>(
        &self,
        (key, hash, at_sequence): (&[u8], u64, u64),
        counts: &mut EngineCounts,
        records: &mut R,
    ) -> Result<Option<Answer<R::Answer>>> {
        let answer = self.answer((key, hash, at_sequence), counts, records);
        if any_unreadable() {
            self.check_way_to(key)?;
        }
        answer
    }

    #[inline]
    fn answer<R: Records>(
        &self,
        (key, hash, at_sequence): (&[u8], u64, u64),
        counts: &mut EngineCounts,
        records: &mut R,
    ) -> Result<Option<Answer<R::Answer>>> {
        counts.tables = counts.tables.saturating_add(1);
        if let Some(directory) = self.directory.get() {
            return self.get_by(directory, (key, hash, at_sequence), counts, records);
        }
        if !self.passes_filter(hash) {
            counts.filters_excluded = counts.filters_excluded.saturating_add(1);
            return Ok(None);
        }
        let found = self.search_blocks(key, self.block_for(key), at_sequence, counts)?;
        Ok(found.map(Answer::Entry))
    }

    /// Whether the filter lets the hash pass.
    #[inline]
    pub(super) fn passes_filter(&self, hash: u64) -> bool {
        self.filter_shape.passes(self.filter.of(self.bytes()), hash)
    }

    /// The directory, if there is one.
    pub(super) fn directory(&self) -> Option<&Directory> {
        self.directory.get()
    }

    /// Asks for the memory of block `block`, if there is such a one.
    pub(super) fn prefetch_block(&self, block: usize) {
        if block < self.blocks() {
            prefetch_all(&self.bytes()[self.block_place(block)], PREFETCH_LINES_MAX);
        }
    }

    /// Whether block `block` is in memory.
    pub(super) fn is_block_resident(&self, block: usize) -> bool {
        let place = self.block_place(block);
        self.map.is_resident(place.start, place.len())
    }

    /// The last byte of block `block`.
    pub(super) fn last_byte(&self, block: usize) -> u8 {
        self.bytes()[self.block_place(block)].last().copied().unwrap_or(0)
    }

    /// Looks a key up by the directory.
    #[inline]
    fn get_by<R: Records>(
        &self,
        directory: &Directory,
        (key, hash, at_sequence): (&[u8], u64, u64),
        counts: &mut EngineCounts,
        records: &mut R,
    ) -> Result<Option<Answer<R::Answer>>> {
        let blocks_before = counts.blocks;
        let found = directory.find(hash, |place, slot| {
            if R::ARE_READ
                && let Some(record) = directory.record_at(slot)
                && record <= at_sequence
                && let Some(answer) = records.read(record)
            {
                return Some(Ok(Some(Answer::Record(answer))));
            }
            let found = self.get_at(place, key, at_sequence, counts).transpose();
            found.map(|found| found.map(|found| found.map(Answer::Entry)))
        });
        if found.is_none() {
            count_absent(blocks_before, counts);
        }
        found.transpose().map(Option::flatten)
    }

    /// The newest entry of `key` that is not above `at_sequence`, if the key's newest entry is at
    /// `place`: `Some(None)` if all of them are above.
    #[inline]
    pub(super) fn get_at(
        &self,
        place: EntryPlace,
        key: &[u8],
        at_sequence: u64,
        counts: &mut EngineCounts,
    ) -> Result<Option<Option<FoundEntry>>> {
        counts.blocks = counts.blocks.saturating_add(1);
        self.prefetch_entry(place);
        let faulty = |fault| self.corrupted(place.block, fault);
        let opened = self.open_block(place.block)?;
        let block = opened.block().map_err(faulty)?;
        if place.entry >= block.entries() {
            return Ok(None);
        }
        match block.entry_of(place.entry, key).map_err(faulty)? {
            None => Ok(None),
            Some(entry) if entry.sequence <= at_sequence => {
                Ok(Some(Some(entry.with_key(key).to_found())))
            }
            Some(_) => self.search_blocks(key, place.block, at_sequence, counts).map(Some),
        }
    }

    /// Asks for the lines of a block that reading one entry takes: its header, the entry's offset,
    /// the shared prefix, and about where the entry is.
    #[inline]
    pub(super) fn prefetch_entry(&self, place: EntryPlace) {
        let range = self.block_place(place.block);
        let (begin, length) = (self.bytes()[range.clone()].as_ptr(), range.len());
        let offsets_end = BLOCK_HEADER_SIZE_BYTES + 4 * self.entries_a_block;
        let entries = length.saturating_sub(offsets_end);
        let about = offsets_end + entries * place.entry / self.entries_a_block;
        let offset = BLOCK_HEADER_SIZE_BYTES + 4 * place.entry;
        for at in [0, offset, offsets_end, about, about + CACHE_LINE_BYTES] {
            prefetch(begin.wrapping_add(at));
        }
    }

    /// Looks a key up in the blocks from `first` on: its versions may go on in the next block.
    #[inline]
    pub(super) fn search_blocks(
        &self,
        key: &[u8],
        first: usize,
        at_sequence: u64,
        counts: &mut EngineCounts,
    ) -> Result<Option<FoundEntry>> {
        for block_index in first..self.blocks() {
            counts.blocks = counts.blocks.saturating_add(1);
            let block_bytes = &self.bytes()[self.block_place(block_index)];
            prefetch_all(block_bytes, PREFETCH_LINES_MAX);
            let faulty = |fault| self.corrupted(block_index, fault);
            let opened = self.open_block(block_index)?;
            let block = opened.block().map_err(faulty)?;
            let index = block.search(key, at_sequence).map_err(faulty)?;
            if index < block.entries() {
                let found = block.entry_of(index, key).map_err(faulty)?;
                if found.is_none() {
                    counts.filters_false = counts.filters_false.saturating_add(1);
                }
                return Ok(found.map(|entry| entry.with_key(key).to_found()));
            }
        }
        Ok(None)
    }

    /// Checks every block wholly, whether it was checked before or not.
    pub(crate) fn verify(&self) -> Result<()> {
        self.problems().next().map_or(Ok(()), Err)
    }

    /// What is wrong with the blocks, one after another.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Error> {
        (0..self.blocks()).filter_map(|block| {
            let place = self.block_place(block);
            let block_bytes = &self.bytes()[place.clone()];
            let checked = self.check_sum(block, place.start as u64, block_bytes);
            let is_sound =
                || check_block(block_bytes).map_err(|fault| self.corrupted(block, fault));
            checked.and_then(|()| is_sound()).err()
        })
    }
}

/// Counts a directory's answer that the key is not there: a false positive if a block had to be
/// looked into.
#[inline]
pub(super) fn count_absent(blocks_before: u8, counts: &mut EngineCounts) {
    let counter = match counts.blocks != blocks_before {
        true => &mut counts.filters_false,
        false => &mut counts.filters_excluded,
    };
    *counter = counter.saturating_add(1);
}
