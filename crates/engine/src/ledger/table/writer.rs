//! Writes a table, front to back.

use std::cmp::Ordering;
use std::sync::Arc;

use pellucid_clock::Clock;
use pellucid_io::FileSystem;

use super::block_builder::BlockBuilder;
use super::filter::build_filter;
use super::index::{FILTER_ALIGNMENT_BYTES, IndexBuilder};
use super::output::{TableOutput, WriterTimes};
use super::packed::pack_block;
use super::prefixes::PlacesBuilder;
use super::summary::Summary;
use super::{CLOSING_MAGIC, CLOSING_SIZE_BYTES, TableFacts, table_path};
use crate::codec::checksum;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::ledger::Entry;
use crate::rules::TableRules;

/// Blocks that are compressed hold so many times more: a kilobyte by itself has little to save.
const PACKED_BLOCK_FACTOR: usize = 4;

/// The settings of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableShape {
    /// Size at which a block is closed.
    pub(crate) block_size_bytes: usize,
    /// Bits of filter for each key.
    pub(crate) filter_bits_per_key: u32,
    /// The clock of the writer's times.
    pub(crate) clock: Clock,
    /// The rules of each table of keys: some have their blocks compressed.
    pub(crate) rules: Arc<TableRules>,
}

/// A block is filled up with zeros to its full size if one in so many of its bytes is missing, at
/// most.
const BLOCK_PADDING_SHARE: usize = 16;
/// And otherwise as long as all padding of the table is one in so many of its bytes, and one block:
/// where a digit of the keys carries over, a block ends early, and that one alone would make the
/// table's blocks uneven.
const TABLE_PADDING_SHARE: u64 = 64;

/// A table that was written.
#[derive(Debug)]
pub(crate) struct NewTable {
    /// Its facts for the manifest.
    pub(crate) facts: TableFacts,
    /// The places of its keys.
    pub(crate) places: PlacesBuilder,
    /// Its blocks.
    pub(crate) blocks: usize,
    /// The times of its writer.
    pub(crate) times: WriterTimes,
}

/// A table that is being written.
pub(crate) struct TableWriter {
    output: TableOutput,
    shape: TableShape,
    /// Zeros at the ends of blocks.
    padding_bytes: u64,
    block: BlockBuilder,
    /// The compression of the table of keys that the last entry belongs to.
    compression: Compression,
    /// Room for packing blocks.
    packed: Vec<u8>,
    index: IndexBuilder,
    places: PlacesBuilder,
    summary: Summary,
}

impl TableWriter {
    /// Creates the file of table `number` in the store's folder `directory`.
    pub(crate) fn create(
        fs: &dyn FileSystem,
        directory: &std::path::Path,
        store_identity: u64,
        number: u64,
        shape: TableShape,
    ) -> Result<TableWriter> {
        let path = table_path(directory, number);
        let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let (numbers, block_size_bytes) = ((store_identity, number), shape.block_size_bytes);
        Ok(TableWriter {
            output: TableOutput::new(file, path, numbers, shape.clock, block_size_bytes),
            shape,
            padding_bytes: 0,
            block: BlockBuilder::default(),
            compression: Compression::None,
            packed: Vec::new(),
            index: IndexBuilder::default(),
            places: PlacesBuilder::default(),
            summary: Summary::default(),
        })
    }

    /// The key that was added last; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.summary.last_key()
    }

    /// The times so far.
    pub(crate) fn times(&self) -> WriterTimes {
        self.output.times
    }

    /// Bytes of the closed blocks so far, filter not included.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.output.offset()
    }

    /// Collects keys in the memory of `places`, which others have used before.
    pub(crate) fn with_memory(mut self, places: PlacesBuilder) -> TableWriter {
        assert!(self.summary.is_empty(), "memory is lent before the first entry");
        self.places = places;
        self.places.clear();
        self
    }

    /// Memory of what is collected of the entries: it grows with them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.places.memory_bytes() + self.index.memory_bytes() + self.summary.memory_bytes()
    }

    /// Adds an entry, which must follow the one before in the order: key ascending, sequence number
    /// descending.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let is_first = self.summary.is_empty();
        let order = self.summary.last_key().cmp(entry.key);
        let is_new_key = is_first || order != Ordering::Equal;
        assert!(is_first || order != Ordering::Greater, "entries come in order");
        let block_size_bytes = match self.compression {
            Compression::None => self.shape.block_size_bytes,
            Compression::Lz4 => self.shape.block_size_bytes * PACKED_BLOCK_FACTOR,
        };
        if !self.block.is_empty()
            && (self.block.is_full() || self.block.size_with_bytes(entry) > block_size_bytes)
        {
            self.close_block(false)?;
        }
        let last_table = self.summary.last_key().first_chunk::<2>();
        if is_first || last_table != entry.key.first_chunk::<2>() {
            self.begin_keys_of(entry.key)?;
        }
        if is_new_key {
            let place = (self.index.blocks(), self.block.entries());
            self.places.add(entry, place, &self.shape.rules);
            self.summary.note_key(entry.key);
        }
        self.block.add(entry);
        self.summary.add(entry);
        Ok(())
    }

    /// Sees to it that a block holds entries of one table of keys only, if any of them is to be
    /// compressed: that of `key` begins.
    fn begin_keys_of(&mut self, key: &[u8]) -> Result<()> {
        let compression = self.shape.rules.of_key(key).blocks;
        let either = compression != Compression::None || self.compression != Compression::None;
        if either && !self.block.is_empty() {
            self.close_block(false)?;
        }
        self.compression = compression;
        Ok(())
    }

    fn close_block(&mut self, is_last: bool) -> Result<()> {
        let offset = self.output.offset();
        let buffer = &mut self.output.buffer;
        let begin = buffer.len();
        // The key added last is that of the block's last entry only if the block is closed before a
        // new key is noted; `add` does so.
        self.block.finish(buffer);
        // Blocks of one length are found without a look at where each of them begins.
        let missing = self.shape.block_size_bytes.saturating_sub(buffer.len() - begin);
        let padding = self.padding_bytes + missing as u64;
        let is_little = missing <= self.shape.block_size_bytes / BLOCK_PADDING_SHARE
            || padding <= self.shape.block_size_bytes as u64 + offset / TABLE_PADDING_SHARE;
        if !is_last && is_little && self.compression == Compression::None {
            self.padding_bytes = padding;
            buffer.resize(buffer.len() + missing, 0);
            BlockBuilder::note_padding(&mut buffer[begin..]);
        }
        pack_block(buffer, begin, self.compression, &mut self.packed);
        let length = (buffer.len() - begin) as u32;
        self.index.add(offset, length, self.summary.last_key());
        self.output.seal(begin);
        self.output.write_pieces()
    }

    /// Writes the rest, and returns once the table is on the medium. Its name is not: that takes a
    /// sync of the folder.
    pub(crate) fn finish(mut self) -> Result<NewTable> {
        assert!(!self.summary.is_empty(), "a table has at least one entry");
        self.close_block(true)?;
        let begun = self.shape.clock.stopwatch();
        self.output.align(FILTER_ALIGNMENT_BYTES);
        let filter_offset = self.output.offset();
        let begin = self.output.buffer.len();
        let hashes = self.places.keys().hashes();
        build_filter(hashes, self.shape.filter_bits_per_key, &mut self.output.buffer);
        self.output.seal(begin);
        let index_offset = self.output.offset();
        let begin = self.output.buffer.len();
        self.index.finish(&mut self.output.buffer);
        self.output.seal(begin);
        self.add_closing(filter_offset, index_offset);
        self.output.times.filter_ns += begun.elapsed_ns();
        let size_bytes = self.output.finish()?;
        let facts = self.summary.into_facts(self.output.number(), size_bytes);
        let (places, blocks) = (self.places, self.index.blocks());
        Ok(NewTable { facts, places, blocks, times: self.output.times })
    }

    fn add_closing(&mut self, filter_offset: u64, index_offset: u64) {
        let parts = [
            filter_offset,
            index_offset - filter_offset,
            index_offset,
            self.output.offset() - index_offset,
        ];
        let figures = self.summary.closing_fields(self.places.keys().hashes().len() as u64);
        let mut closing = [0; CLOSING_SIZE_BYTES];
        let fields = parts.into_iter().chain(figures);
        for (place, field) in closing.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(self.output.closing_seed(), &closing[..88]);
        closing[88..92].copy_from_slice(&sum.to_le_bytes());
        closing[92..].copy_from_slice(&CLOSING_MAGIC);
        self.output.buffer.extend_from_slice(&closing);
    }
}
