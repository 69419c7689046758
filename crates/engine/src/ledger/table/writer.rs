//! Writes a table, front to back.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use pellucid_clock::Clock;
use pellucid_io::{File, FileSystem};

use super::block_builder::BlockBuilder;
use super::filter::build_filter;
use super::index::{FILTER_ALIGNMENT_BYTES, IndexBuilder};
use super::packed::pack_block;
use super::stems::PlacesBuilder;
use super::{CLOSING_MAGIC, CLOSING_SIZE_BYTES, TableFacts, part_seed, table_path};
use crate::codec::{FileHeader, FileKind, checksum, checksum_seed};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::ledger::{Entry, Kind};
use crate::rules::TableRules;

/// Bytes that are collected before they are written to the file, at a multiple of as many: the
/// page cache takes them in one page, and a kernel that does not preempt itself lets nothing else
/// run meanwhile. 2 MiB held requests up for 5 ms where the host had to find the memory first, and
/// look-ups are as fast with these (docs/request-path.md).
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Blocks that are compressed hold so many times more: a kilobyte by itself has little to save.
const PACKED_BLOCK_FACTOR: usize = 4;

/// The settings of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableShape {
    /// Size at which a block is closed.
    pub(crate) block_size_bytes: usize,
    /// Bits of filter for each key.
    pub(crate) filter_bits_per_key: u32,
    /// What the writing is timed with.
    pub(crate) clock: Clock,
    /// Which tables of keys have their blocks compressed.
    pub(crate) rules: Arc<TableRules>,
}

/// A block is filled up with zeros to its full size if one in so many of its bytes is missing, at
/// most.
const BLOCK_PADDING_SHARE: usize = 16;
/// And otherwise as long as all padding of the table is one in so many of its bytes, and one block:
/// where a digit of the keys carries over, a block ends early, and that one alone would make the
/// table's blocks uneven.
const TABLE_PADDING_SHARE: u64 = 64;
/// A table is stale once one in so many of its entries has expired.
const STALE_ONE_IN: u64 = 4;

/// A table that was written.
#[derive(Debug)]
pub(crate) struct NewTable {
    /// What the manifest shall hold of it.
    pub(crate) facts: TableFacts,
    /// Where its keys are.
    pub(crate) places: PlacesBuilder,
    /// Its blocks.
    pub(crate) blocks: usize,
    /// What took how long.
    pub(crate) times: WriterTimes,
}

/// Where a writer's time went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriterTimes {
    /// Building filter and index.
    pub(crate) filter_ns: u64,
    /// Writing to the file.
    pub(crate) write_ns: u64,
    /// Syncing it.
    pub(crate) sync_ns: u64,
}

impl WriterTimes {
    /// Adds the times of another writer.
    pub(crate) fn add(&mut self, other: WriterTimes) {
        self.filter_ns += other.filter_ns;
        self.write_ns += other.write_ns;
        self.sync_ns += other.sync_ns;
    }

    /// All of it.
    pub(crate) fn sum_ns(self) -> u64 {
        self.filter_ns + self.write_ns + self.sync_ns
    }
}

/// A table that is being written.
pub(crate) struct TableWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    store_identity: u64,
    number: u64,
    shape: TableShape,
    buffer: Vec<u8>,
    /// Bytes that are in the file already: the buffer begins there.
    written_bytes: u64,
    /// Of them, zeros at the ends of blocks.
    padding_bytes: u64,
    block: BlockBuilder,
    /// How the blocks of the table of keys are compressed that the last entry belongs to.
    compression: Compression,
    /// Where blocks are packed.
    packed: Vec<u8>,
    index: IndexBuilder,
    places: PlacesBuilder,
    times: WriterTimes,
    entries: u64,
    tombstones: u64,
    value_bytes: u64,
    /// When the entries that expire do so.
    expiries_ms: Vec<u64>,
    lowest_sequence: u64,
    highest_sequence: u64,
    smallest: Vec<u8>,
    last: Vec<u8>,
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
        let mut buffer = Vec::with_capacity(WRITE_BUFFER_BYTES + shape.block_size_bytes);
        let header = FileHeader::new(FileKind::Table, store_identity, number);
        buffer.extend_from_slice(&header.encode());
        Ok(TableWriter {
            file,
            path,
            store_identity,
            number,
            shape,
            buffer,
            written_bytes: 0,
            padding_bytes: 0,
            block: BlockBuilder::default(),
            compression: Compression::None,
            packed: Vec::new(),
            index: IndexBuilder::default(),
            places: PlacesBuilder::default(),
            times: WriterTimes::default(),
            entries: 0,
            tombstones: 0,
            value_bytes: 0,
            expiries_ms: Vec::new(),
            lowest_sequence: u64::MAX,
            highest_sequence: 0,
            smallest: Vec::new(),
            last: Vec::new(),
        })
    }

    /// The key that was added last; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// What took how long, so far.
    pub(crate) fn times(&self) -> WriterTimes {
        self.times
    }

    /// Bytes of the closed blocks so far, filter not included.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.offset()
    }

    fn offset(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// Collects keys in the memory of `places`, which others have used before.
    pub(crate) fn with_memory(mut self, places: PlacesBuilder) -> TableWriter {
        assert!(self.entries == 0, "memory is lent before the first entry");
        self.places = places;
        self.places.clear();
        self
    }

    /// Memory of what is collected of the entries: it grows with them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let expiries = self.expiries_ms.len() * size_of::<u64>();
        self.places.memory_bytes() + self.index.memory_bytes() + expiries as u64
    }

    /// Adds an entry, which must follow the one before in the order: key ascending, sequence number
    /// descending.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let order = self.last[..].cmp(entry.key);
        let is_new_key = self.entries == 0 || order != Ordering::Equal;
        assert!(self.entries == 0 || order != Ordering::Greater, "entries come in order");
        let block_size_bytes = match self.compression {
            Compression::None => self.shape.block_size_bytes,
            Compression::Lz4 => self.shape.block_size_bytes * PACKED_BLOCK_FACTOR,
        };
        if !self.block.is_empty()
            && (self.block.is_full() || self.block.size_with_bytes(entry) > block_size_bytes)
        {
            self.close_block(false)?;
        }
        if self.entries == 0 || self.last.first_chunk::<2>() != entry.key.first_chunk::<2>() {
            self.begin_keys_of(entry.key)?;
        }
        if is_new_key {
            let place = (self.index.blocks(), self.block.entries());
            self.places.add(entry, place, &self.shape.rules);
            self.last.clear();
            self.last.extend_from_slice(entry.key);
        }
        if self.entries == 0 {
            self.smallest = entry.key.to_vec();
        }
        self.block.add(entry);
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == Kind::Delete);
        self.value_bytes += u64::from(entry.value_length);
        if entry.expires_at_ms != 0 {
            self.expiries_ms.push(entry.expires_at_ms);
        }
        self.lowest_sequence = self.lowest_sequence.min(entry.sequence);
        self.highest_sequence = self.highest_sequence.max(entry.sequence);
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
        let begin = self.buffer.len();
        let offset = self.offset();
        // The key added last is that of the block's last entry only if the block is closed before a
        // new key is noted; `add` does so.
        self.block.finish(&mut self.buffer);
        // Blocks of one length are found without a look at where each of them begins.
        let missing = self.shape.block_size_bytes.saturating_sub(self.buffer.len() - begin);
        let padding = self.padding_bytes + missing as u64;
        let is_little = missing <= self.shape.block_size_bytes / BLOCK_PADDING_SHARE
            || padding <= self.shape.block_size_bytes as u64 + offset / TABLE_PADDING_SHARE;
        if !is_last && is_little && self.compression == Compression::None {
            self.padding_bytes = padding;
            self.buffer.resize(self.buffer.len() + missing, 0);
            BlockBuilder::note_padding(&mut self.buffer[begin..]);
        }
        pack_block(&mut self.buffer, begin, self.compression, &mut self.packed);
        let length = (self.buffer.len() - begin) as u32;
        self.index.add(offset, length, &self.last);
        self.seal(begin);
        if self.buffer.len() >= WRITE_BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    /// Puts the checksum in front of the part that begins at `begin` of the buffer and ends with
    /// it.
    fn seal(&mut self, begin: usize) {
        let offset = self.written_bytes + begin as u64;
        let seed = part_seed(self.store_identity, self.number, offset);
        let sum = checksum(seed, &self.buffer[begin + 4..]);
        self.buffer[begin..begin + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Writes the whole pieces of the buffer.
    fn write_out(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let whole = buffer.len() - buffer.len() % WRITE_BUFFER_BYTES;
        for piece in buffer[..whole].chunks(WRITE_BUFFER_BYTES) {
            self.write_piece(piece)?;
        }
        buffer.drain(..whole);
        self.buffer = buffer;
        Ok(())
    }

    fn write_piece(&mut self, piece: &[u8]) -> Result<()> {
        let begun = self.shape.clock.stopwatch();
        self.file
            .write_all_at(piece, self.written_bytes)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.times.write_ns += begun.elapsed_ns();
        self.written_bytes += piece.len() as u64;
        Ok(())
    }

    /// Writes what is left, and returns once the table is on the medium. Its name is not: that
    /// takes a sync of the folder.
    pub(crate) fn finish(mut self) -> Result<NewTable> {
        assert!(self.entries > 0, "a table has at least one entry");
        self.close_block(true)?;
        let padded = self.offset().next_multiple_of(FILTER_ALIGNMENT_BYTES);
        self.buffer.resize(self.buffer.len() + (padded - self.offset()) as usize, 0);
        let begun = self.shape.clock.stopwatch();
        let filter_offset = self.offset();
        let begin = self.buffer.len();
        let hashes = self.places.keys().hashes();
        build_filter(hashes, self.shape.filter_bits_per_key, &mut self.buffer);
        self.seal(begin);
        let index_offset = self.offset();
        let begin = self.buffer.len();
        self.index.finish(&mut self.buffer);
        self.seal(begin);
        self.add_closing(filter_offset, index_offset);
        self.times.filter_ns += begun.elapsed_ns();
        let rest = std::mem::take(&mut self.buffer);
        for piece in rest.chunks(WRITE_BUFFER_BYTES) {
            self.write_piece(piece)?;
        }
        let begun = self.shape.clock.stopwatch();
        self.file.sync().map_err(|error| Error::io("sync", &self.path, error))?;
        self.times.sync_ns += begun.elapsed_ns();
        let facts = TableFacts {
            number: self.number,
            size_bytes: self.written_bytes,
            entries: self.entries,
            lowest_sequence: self.lowest_sequence,
            highest_sequence: self.highest_sequence,
            smallest: self.smallest.into(),
            largest: self.last.into(),
        };
        let (places, blocks) = (self.places, self.index.blocks());
        Ok(NewTable { facts, places, blocks, times: self.times })
    }

    /// When so many entries will have expired that it is worth to write the table anew; 0 for
    /// never.
    fn stale_at_ms(&mut self) -> u64 {
        let share = (self.entries / STALE_ONE_IN).max(1) as usize;
        if self.expiries_ms.len() < share {
            return 0;
        }
        *self.expiries_ms.select_nth_unstable(share - 1).1
    }

    fn add_closing(&mut self, filter_offset: u64, index_offset: u64) {
        let stale_at_ms = self.stale_at_ms();
        let fields = [
            filter_offset,
            index_offset - filter_offset,
            index_offset,
            self.offset() - index_offset,
            self.entries,
            self.lowest_sequence,
            self.highest_sequence,
            self.tombstones,
            self.value_bytes,
            self.places.keys().hashes().len() as u64,
            stale_at_ms,
        ];
        let mut closing = [0; CLOSING_SIZE_BYTES];
        for (place, field) in closing.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let seed = checksum_seed(&[self.store_identity, self.number]);
        let sum = checksum(seed, &closing[..88]);
        closing[88..92].copy_from_slice(&sum.to_le_bytes());
        closing[92..].copy_from_slice(&CLOSING_MAGIC);
        self.buffer.extend_from_slice(&closing);
    }
}
