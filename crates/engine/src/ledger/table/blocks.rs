//! The blocks of an open table, in a map of its file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pellucid_io::any_unreadable;

use super::block::{BLOCK_HEADER_SIZE_BYTES, Block, BlockFault};
use super::block_compression::{BlockBytes, check_block, is_packed, unpack_block};
use super::directory::EntryLocation;
use super::footer::ByteRange;
use super::index::TableIndex;
use super::memory::TableMemory;
use super::part_seed;
use crate::codec::{checksum, read_u32};
use crate::error::{Error, Result};
use crate::mapped_file::MappedFile;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_all};
use crate::read_mode::ReadMode;

/// The most cache lines of a block that are prefetched at once: as many as a processor can have
/// outstanding.
const PREFETCH_LINES_MAX: usize = 16;

/// The blocks of a table. The checksum of a block is verified when it is first used.
pub(crate) struct TableBlocks {
    number: u64,
    path: PathBuf,
    store_identity: u64,
    map: MappedFile,
    index: ByteRange,
    index_shape: TableIndex,
    /// A bit for each block, set once its checksum was verified.
    checked: Box<[AtomicU64]>,
    /// True if a block of the table was decompressed.
    has_packed: AtomicBool,
    /// The average number of entries per block, to estimate where in its block an entry is.
    entries_a_block: usize,
    /// The memory of all tables, set once this table is counted there.
    memory: Option<Arc<TableMemory>>,
}

impl Drop for TableBlocks {
    fn drop(&mut self) {
        let memory = self.memory.take().filter(|_| self.has_packed.load(Ordering::Relaxed));
        if let Some(memory) = memory {
            memory.forget_blocks(self.number);
        }
    }
}

impl TableBlocks {
    /// The blocks of table `number` with `entries` entries, as described by its index, which must
    /// be valid.
    pub(super) fn new(
        (number, store_identity): (u64, u64),
        path: PathBuf,
        map: MappedFile,
        (index, index_shape): (ByteRange, TableIndex),
        entries: u64,
    ) -> TableBlocks {
        let count = index_shape.blocks();
        TableBlocks {
            number,
            path,
            store_identity,
            map,
            index,
            index_shape,
            checked: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            has_packed: AtomicBool::new(false),
            entries_a_block: (entries as usize).div_ceil(count).max(1),
            memory: None,
        }
    }

    /// Holds the index in `memory` if there is room for it, and caches decompressed blocks there.
    pub(super) fn use_memory(&mut self, memory: &Arc<TableMemory>) {
        self.memory = Some(Arc::clone(memory));
        self.index_shape.hold(self.index.of(self.map.bytes()), memory);
    }

    /// The memory that the blocks always need: the path, and a bit for each block.
    pub(super) fn fixed_bytes(&self) -> usize {
        self.path.as_os_str().len() + self.checked.len() * size_of::<AtomicU64>()
    }

    /// The memory of the index, in bytes.
    #[cfg(test)]
    pub(super) fn index_bytes(&self) -> usize {
        self.index_shape.size_bytes()
    }

    /// The number of blocks, and the number of those whose checksums were verified since the table
    /// was opened.
    pub(crate) fn checked(&self) -> (u64, u64) {
        let bits = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        (self.count() as u64, self.checked.iter().map(bits).sum())
    }

    /// Asks the system to map the pages of the file, which was just written, before a GET needs
    /// them.
    pub(crate) fn prefault(&self) {
        self.map.prefault(0, self.map.length());
    }

    /// All bytes of the file.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    /// The number of blocks.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.index_shape.blocks()
    }

    /// The range of block `block` in the file.
    #[inline]
    fn place(&self, block: usize) -> Range<usize> {
        self.index_shape.place(self.index.of(self.bytes()), block)
    }

    /// The first block whose last key is not below `key`; the number of blocks if there is none.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        self.index_shape.search(self.index.of(self.bytes()), key)
    }

    /// Opens block `block`: verifies its checksum if that was never done, and decompresses it if it
    /// is compressed.
    #[inline]
    pub(super) fn open(&self, block: usize, mode: ReadMode) -> Result<BlockBytes<'_>> {
        let bytes = self.bytes();
        let place = self.place(block);
        if mode == ReadMode::InMemory && !self.is_resident(block) {
            return Err(Error::NotInMemory);
        }
        let block_bytes = &bytes[place.clone()];
        let is_checked = self.checked[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 == 1;
        if !is_checked {
            self.check_sum(block, place.start as u64, block_bytes)?;
        }
        if is_packed(block_bytes) {
            return self.unpacked(block, block_bytes).map(BlockBytes::Unpacked);
        }
        Ok(BlockBytes::Mapped(block_bytes))
    }

    /// Decompresses block `block`, whose compressed form is `bytes`, or takes it from the cache.
    #[cold]
    fn unpacked(&self, block: usize, bytes: &[u8]) -> Result<Arc<[u8]>> {
        let unpack = || unpack_block(bytes).map_err(|fault| self.corrupted(block, fault));
        match &self.memory {
            Some(memory) => {
                self.has_packed.store(true, Ordering::Relaxed);
                memory.cached_block((self.number, block), unpack)
            }
            None => unpack(),
        }
    }

    /// Block `block`, for reading its entries again: [`TableBlocks::open`] has found it valid, not
    /// compressed, and with this number of entries.
    #[inline]
    pub(super) fn entered(&self, block: usize, entries: usize) -> Block<'_> {
        Block::of_checked(&self.bytes()[self.place(block)], entries)
    }

    #[cold]
    fn check_sum(&self, block: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let seed = part_seed(self.store_identity, self.number, offset);
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
        let begin = self.place(block).start as u64;
        Error::corruption(&self.path, begin + u64::from(fault.offset), fault.what)
    }

    /// Prefetches block `block`, if there is one with this index.
    pub(super) fn prefetch(&self, block: usize) {
        if block < self.count() {
            prefetch_all(&self.bytes()[self.place(block)], PREFETCH_LINES_MAX);
        }
    }

    /// True if block `block` is in memory.
    pub(super) fn is_resident(&self, block: usize) -> bool {
        let place = self.place(block);
        self.map.is_resident(place.start, place.len())
    }

    /// The last byte of block `block`.
    pub(super) fn last_byte(&self, block: usize) -> u8 {
        self.bytes()[self.place(block)].last().copied().unwrap_or(0)
    }

    /// Prefetches the cache lines of a block that reading one entry takes: the header, the entry's
    /// offset, the common prefix, and the estimated position of the entry.
    #[inline]
    pub(super) fn prefetch_entry(&self, place: EntryLocation) {
        let range = self.place(place.block);
        let (begin, length) = (self.bytes()[range.clone()].as_ptr(), range.len());
        let offsets_end = BLOCK_HEADER_SIZE_BYTES + 4 * self.entries_a_block;
        let entries = length.saturating_sub(offsets_end);
        let about = offsets_end + entries * place.entry / self.entries_a_block;
        let offset = BLOCK_HEADER_SIZE_BYTES + 4 * place.entry;
        for at in [0, offset, offsets_end, about, about + CACHE_LINE_BYTES] {
            prefetch(begin.wrapping_add(at));
        }
    }

    /// Returns an error if a page of block `block`, which was just used, could not be read.
    #[inline]
    pub(super) fn check_block(&self, block: usize) -> Result<()> {
        if any_unreadable() { self.check_block_slowly(block) } else { Ok(()) }
    }

    #[cold]
    fn check_block_slowly(&self, block: usize) -> Result<()> {
        self.map.check(self.place(block), &self.path)
    }

    /// Returns an error if a page of the index, which was just searched, could not be read.
    #[inline]
    pub(super) fn check_index(&self) -> Result<()> {
        self.check_part(self.index)
    }

    /// Returns an error if a page of the table could not be read.
    pub(crate) fn check_all(&self) -> Result<()> {
        self.map.check(0..self.map.length(), &self.path)
    }

    /// Returns an error if a page of the index or of a block that a look-up of `key` has used could
    /// not be read.
    #[cold]
    pub(super) fn check_way_to(&self, key: &[u8]) -> Result<()> {
        self.check_index()?;
        // If the key is the last of a block, its versions may continue in the next block.
        for block in self.find(key)..self.count() {
            self.check_block(block)?;
            if self.index_shape.last_key(self.index.of(self.bytes()), block) != Some(key) {
                break;
            }
        }
        Ok(())
    }

    /// Returns an error if a page of `part` could not be read.
    #[cold]
    pub(super) fn check_part(&self, part: ByteRange) -> Result<()> {
        self.map.check(part.offset..part.offset + part.length, &self.path)
    }

    /// True if every page of the file that was read so far could be read.
    pub(super) fn is_readable(&self) -> bool {
        self.map.unreadable_in(0, self.map.length()).is_none()
    }

    /// Checks all blocks; iterates over their errors.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Error> {
        (0..self.count()).filter_map(|block| {
            let place = self.place(block);
            let block_bytes = &self.bytes()[place.clone()];
            let checked = self.check_sum(block, place.start as u64, block_bytes);
            let is_sound =
                || check_block(block_bytes).map_err(|fault| self.corrupted(block, fault));
            checked.and_then(|()| is_sound()).err()
        })
    }
}
