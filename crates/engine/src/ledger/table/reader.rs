//! Reads a table through a map of its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_account::EngineCounts;
use pellucid_io::{FileSystem, Map, MapMode};

use super::block::{Block, BlockFault, check_block};
use super::filter::FilterShape;
use super::index::{FILTER_ALIGNMENT_BYTES, IndexShape, largest_key};
use super::{CLOSING_MAGIC, CLOSING_SIZE_BYTES, TableFacts, part_seed, table_path};
use crate::codec::{
    FILE_HEADER_LENGTH, FileHeader, FileKind, checksum, checksum_seed, read_u32, read_u64,
};
use crate::error::{Error, Result};
use crate::ledger::FoundEntry;
use crate::ledger::prefetch::prefetch_all;

/// Lines of a block that are asked for at once: what a processor can wait for.
const PREFETCH_LINES_MAX: usize = 16;

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    offset: usize,
    length: usize,
}

impl Part {
    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.offset..self.offset + self.length]
    }
}

/// An open table.
pub(crate) struct Table {
    facts: TableFacts,
    tombstones: u64,
    keys: u64,
    path: PathBuf,
    store_identity: u64,
    map: Arc<dyn Map>,
    filter: Part,
    filter_shape: FilterShape,
    index: Part,
    index_shape: IndexShape,
    /// A bit for each block: whether its checksum was found right.
    checked: Box<[AtomicU64]>,
}

impl Table {
    /// Opens the table that the manifest names with `facts`, and checks all but its blocks.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        directory: &Path,
        store_identity: u64,
        facts: TableFacts,
    ) -> Result<Table> {
        let path = table_path(directory, facts.number);
        let file = fs.open(&path, false).map_err(|error| Error::io("open", &path, error))?;
        let length = file.length().map_err(|error| Error::io("measure", &path, error))?;
        if length != facts.size_bytes {
            let what = format!("the file has {length} bytes, not {}", facts.size_bytes);
            return Err(Error::corruption(&path, length.min(facts.size_bytes), what));
        }
        let map =
            file.map(length, MapMode::Read).map_err(|error| Error::io("map", &path, error))?;
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
        let padding = index_shape.place(index_shape.blocks() - 1).end;
        if bytes[padding..closing.filter.offset].iter().any(|byte| *byte != 0) {
            let what = "there are bytes between the last block and the filter";
            return Err(Error::corruption(&path, padding as u64, what));
        }
        check_facts(&facts, &closing, largest_key(closing.index.of(bytes), index_shape.blocks()))
            .map_err(|what| Error::corruption(&path, closing.offset as u64, what))?;
        let checked = (0..index_shape.blocks().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Table {
            facts,
            tombstones: closing.tombstones,
            keys: closing.keys,
            path,
            store_identity,
            filter: closing.filter,
            filter_shape,
            index: closing.index,
            index_shape,
            checked,
            map,
        })
    }

    /// What the manifest holds of the table.
    pub(crate) fn facts(&self) -> &TableFacts {
        &self.facts
    }

    /// Number of tombstones.
    pub(crate) fn tombstones(&self) -> u64 {
        self.tombstones
    }

    /// Number of entries that may go once no snapshot needs them: tombstones and older versions.
    pub(crate) fn droppable(&self) -> u64 {
        self.tombstones + self.facts.entries.saturating_sub(self.keys)
    }

    /// Memory that the table holds beside the page cache.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Table>() + self.index_shape.size_bytes() + self.checked.len() * 8
    }

    /// Asks for the pages of the file, which was just written, to be mapped before a GET needs them.
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

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    /// Number of blocks.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.index_shape.blocks()
    }

    /// The first block whose last key is not below `key`, or the number of blocks.
    #[inline]
    pub(super) fn block_for(&self, key: &[u8]) -> usize {
        self.index_shape.search(self.index.of(self.bytes()), key)
    }

    /// Block `block`, whose checksum is checked if it never was.
    #[inline]
    pub(super) fn block(&self, block: usize) -> Result<Block<'_>> {
        let bytes = self.bytes();
        let place = self.index_shape.place(block);
        let block_bytes = &bytes[place.clone()];
        let is_checked = self.checked[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 == 1;
        if !is_checked {
            self.check_sum(block, place.start as u64, block_bytes)?;
        }
        Block::new(block_bytes).map_err(|fault| self.corrupted(block, fault))
    }

    #[cold]
    fn check_sum(&self, block: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let seed = part_seed(self.store_identity, self.facts.number, offset);
        if bytes.len() < 4 || read_u32(bytes, 0) != checksum(seed, &bytes[4..]) {
            let what = "the checksum of the block is wrong";
            return Err(Error::corruption(&self.path, offset, what));
        }
        self.checked[block / 64].fetch_or(1 << (block % 64), Ordering::Relaxed);
        Ok(())
    }

    /// The error for a fault in block `block`.
    #[cold]
    pub(super) fn corrupted(&self, block: usize, fault: BlockFault) -> Error {
        let begin = self.index_shape.place(block).start as u64;
        Error::corruption(&self.path, begin + u64::from(fault.offset), fault.what)
    }

    /// The newest entry of `key` that is not above `at_sequence`. `hash` is that of the key.
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        at_sequence: u64,
        counts: &mut EngineCounts,
    ) -> Result<Option<FoundEntry>> {
        counts.tables = counts.tables.saturating_add(1);
        if !self.filter_shape.passes(self.filter.of(self.bytes()), hash) {
            counts.filters_excluded = counts.filters_excluded.saturating_add(1);
            return Ok(None);
        }
        // The versions of a key may go on in the next block.
        for block_index in self.block_for(key)..self.blocks() {
            counts.blocks = counts.blocks.saturating_add(1);
            let block_bytes = &self.bytes()[self.index_shape.place(block_index)];
            prefetch_all(block_bytes, PREFETCH_LINES_MAX);
            let block = self.block(block_index)?;
            let faulty = |fault| self.corrupted(block_index, fault);
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
        for block in 0..self.blocks() {
            let bytes = self.bytes();
            let place = self.index_shape.place(block);
            let block_bytes = &bytes[place.clone()];
            self.check_sum(block, place.start as u64, block_bytes)?;
            check_block(block_bytes).map_err(|fault| self.corrupted(block, fault))?;
        }
        Ok(())
    }
}

struct Closing {
    offset: usize,
    filter: Part,
    index: Part,
    entries: u64,
    lowest_sequence: u64,
    highest_sequence: u64,
    tombstones: u64,
    keys: u64,
}

fn check_facts(
    facts: &TableFacts,
    closing: &Closing,
    largest: &[u8],
) -> std::result::Result<(), &'static str> {
    if largest != &facts.largest[..] {
        return Err("the largest key is another one than the manifest says");
    }
    let figures = (facts.entries, facts.lowest_sequence, facts.highest_sequence);
    if figures != (closing.entries, closing.lowest_sequence, closing.highest_sequence) {
        return Err("the closing has other figures than the manifest");
    }
    Ok(())
}

/// Reads the closing of a table that fills `bytes`, and checks that its parts fit together.
fn read_closing(
    bytes: &[u8],
    store_identity: u64,
    number: u64,
) -> std::result::Result<Closing, (usize, &'static str)> {
    let least = FILE_HEADER_LENGTH + CLOSING_SIZE_BYTES;
    let Some(closing_offset) =
        bytes.len().checked_sub(CLOSING_SIZE_BYTES).filter(|_| bytes.len() >= least)
    else {
        return Err((0, "the file is too short for a table"));
    };
    let closing = &bytes[closing_offset..];
    let sum = checksum(checksum_seed(&[store_identity, number]), &closing[..88]);
    if closing[92..] != CLOSING_MAGIC || read_u32(closing, 88) != sum {
        return Err((closing_offset, "the checksum of the closing is wrong"));
    }
    let field = |index: usize| read_u64(closing, index * 8);
    let (filter_begin, filter_length, index_begin, index_length) =
        (field(0), field(1), field(2), field(3));
    let fits = filter_begin >= FILE_HEADER_LENGTH as u64
        && filter_begin.is_multiple_of(FILTER_ALIGNMENT_BYTES)
        && filter_begin.checked_add(filter_length) == Some(index_begin)
        && index_begin.checked_add(index_length) == Some(closing_offset as u64);
    if !fits {
        return Err((closing_offset, "the parts of the table do not fit together"));
    }
    // All four lie within the file, whose length is a usize.
    Ok(Closing {
        offset: closing_offset,
        filter: Part { offset: filter_begin as usize, length: filter_length as usize },
        index: Part { offset: index_begin as usize, length: index_length as usize },
        entries: field(4),
        lowest_sequence: field(5),
        highest_sequence: field(6),
        tombstones: field(7),
        keys: field(9),
    })
}

/// Reads the closing at the end of arbitrary bytes, as when a table is opened.
#[allow(dead_code, reason = "for fuzz targets, by way of the façade")]
pub(crate) fn check_closing(bytes: &[u8]) -> std::result::Result<(), (usize, &'static str)> {
    read_closing(bytes, 0, 0).map(|_| ())
}
