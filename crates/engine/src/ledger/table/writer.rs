//! The writer of a table, from front to back.

use std::cmp::Ordering;
use std::sync::Arc;

use pellucid_io::FileSystem;

use super::block_builder::BlockBuilder;
use super::block_compression::pack_block;
use super::directory_set::DirectorySetBuilder;
use super::filter::build_filter;
use super::index::{FILTER_ALIGNMENT_BYTES, IndexBuilder};
use super::output::TableOutput;
use super::summary::Summary;
use super::{FOOTER_MAGIC, FOOTER_SIZE_BYTES, TableMetadata, table_path};
use crate::codec::checksum;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::ledger::{Entry, LedgerOptions};
use crate::stats::JobFigures;

/// Compressed blocks are this many times larger: a block of one kilobyte would compress badly.
const PACKED_BLOCK_FACTOR: usize = 4;

/// A block is padded with zeros to its full size if at most one in this many of its bytes is
/// missing.
const BLOCK_PADDING_SHARE: usize = 16;
/// A block is also padded as long as all padding of the table is at most one in this many of its
/// bytes, plus one block: where a digit of the keys carries over, a block ends early, and a single
/// short block would make the table's blocks uneven.
const TABLE_PADDING_SHARE: u64 = 64;

/// A table that was written.
#[derive(Debug)]
pub(crate) struct NewTable {
    /// The facts for the manifest.
    pub(crate) facts: TableMetadata,
    /// The places of the keys.
    pub(crate) places: DirectorySetBuilder,
    /// The number of blocks.
    pub(crate) blocks: usize,
    /// The times of the writer.
    pub(crate) times: JobFigures,
}

/// A table that is being written.
pub(crate) struct TableWriter {
    output: TableOutput,
    options: Arc<LedgerOptions>,
    /// The number of padding bytes at the ends of blocks.
    padding_bytes: u64,
    block: BlockBuilder,
    /// The compression of blocks in the table of keys to which the last entry belongs.
    compression: Compression,
    /// A scratch buffer for compressing blocks.
    packed: Vec<u8>,
    index: IndexBuilder,
    places: DirectorySetBuilder,
    summary: Summary,
}

impl TableWriter {
    /// Creates the file of table `number` in the store's directory. The keys are collected in
    /// `places`, which may have been used before, so that its memory is reused.
    pub(crate) fn create(
        fs: &dyn FileSystem,
        directory: &std::path::Path,
        store_identity: u64,
        number: u64,
        options: Arc<LedgerOptions>,
        mut places: DirectorySetBuilder,
    ) -> Result<TableWriter> {
        let path = table_path(directory, number);
        let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        places.clear();
        let (numbers, block_size_bytes) = ((store_identity, number), options.block_size_bytes);
        Ok(TableWriter {
            output: TableOutput::new(file, path, numbers, options.clock, block_size_bytes),
            options,
            padding_bytes: 0,
            block: BlockBuilder::default(),
            compression: Compression::None,
            packed: Vec::new(),
            index: IndexBuilder::default(),
            places,
            summary: Summary::default(),
        })
    }

    /// The last key that was added; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.summary.last_key()
    }

    /// The times so far.
    pub(crate) fn times(&self) -> &JobFigures {
        &self.output.times
    }

    /// The size of the closed blocks so far, without the filter, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.output.offset()
    }

    /// The memory of the data that is collected, which grows with the entries, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.places.memory_bytes() + self.index.memory_bytes() + self.summary.memory_bytes()
    }

    /// Adds an entry. Entries must be added in the order of ascending keys and descending sequence
    /// numbers.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let is_first = self.summary.is_empty();
        let order = self.summary.last_key().cmp(entry.key);
        let is_new_key = is_first || order != Ordering::Equal;
        assert!(is_first || order != Ordering::Greater, "entries come in order");
        let block_size_bytes = match self.compression {
            Compression::None => self.options.block_size_bytes,
            Compression::Lz4 => self.options.block_size_bytes * PACKED_BLOCK_FACTOR,
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
            self.places.add(entry, place, &self.options.rules);
            self.summary.note_key(entry.key);
        }
        self.block.add(entry);
        self.summary.add(entry);
        Ok(())
    }

    /// Begins the table of keys to which `key` belongs. If blocks of this or the previous table of
    /// keys are compressed, closes the block, so that it holds keys of one table only.
    fn begin_keys_of(&mut self, key: &[u8]) -> Result<()> {
        let compression = self.options.rules.of_key(key).blocks;
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
        // The last key noted is that of the block's last entry, because `add` closes a block before
        // it notes a new key.
        self.block.finish(buffer);
        // If all blocks have one length, a block is found without looking up its beginning.
        let missing = self.options.block_size_bytes.saturating_sub(buffer.len() - begin);
        let padding = self.padding_bytes + missing as u64;
        let is_little = missing <= self.options.block_size_bytes / BLOCK_PADDING_SHARE
            || padding <= self.options.block_size_bytes as u64 + offset / TABLE_PADDING_SHARE;
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

    /// Writes the rest, and returns once the table is on the medium. Its name is durable only after
    /// a sync of the folder.
    pub(crate) fn finish(mut self) -> Result<NewTable> {
        assert!(!self.summary.is_empty(), "a table has at least one entry");
        self.close_block(true)?;
        let begun = self.options.clock.stopwatch();
        self.output.align(FILTER_ALIGNMENT_BYTES);
        let filter_offset = self.output.offset();
        let begin = self.output.buffer.len();
        let hashes = self.places.keys().hashes();
        build_filter(hashes, self.options.filter_bits_per_key, &mut self.output.buffer);
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
        let mut footer = [0; FOOTER_SIZE_BYTES];
        let fields = parts.into_iter().chain(figures);
        for (place, field) in footer.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(self.output.closing_seed(), &footer[..88]);
        footer[88..92].copy_from_slice(&sum.to_le_bytes());
        footer[92..].copy_from_slice(&FOOTER_MAGIC);
        self.output.buffer.extend_from_slice(&footer);
    }
}
