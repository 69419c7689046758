//! The memory of the parts of tables that are held outside the page cache, and its limit.
//!
//! The memory that a table always needs (its facts, a bit per block) is counted and never refused.
//! Indexes and directories only make answers fast: if they would exceed the limit, they are not
//! held, and tables answer from the page cache.

use std::sync::Arc;

use super::cache::BlockCache;
use super::memory_reservation::{MemoryReservation, UsedBytes};

/// Directories leave one in this many of the limit's bytes for the indexes of later tables: an
/// index takes a fifth of a directory's memory, and saves as many accesses.
const LEFT_BY_DIRECTORIES: u64 = 8;
/// Named records leave one in this many of the limit's bytes for later directories.
const LEFT_BY_RECORDS: u64 = 5;

/// The memory of all tables of a store.
#[derive(Debug)]
pub(crate) struct TableMemory {
    limit_bytes: u64,
    used: UsedBytes,
    /// The cache of decompressed blocks.
    blocks: BlockCache,
}

impl TableMemory {
    /// Memory with a limit of `limit_bytes`, apart from what is never refused.
    pub(crate) fn new(limit_bytes: u64) -> Arc<TableMemory> {
        let blocks = BlockCache::new(limit_bytes);
        Arc::new(TableMemory { limit_bytes, used: UsedBytes::default(), blocks })
    }

    /// The bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.get()
    }

    /// Block `key.1` of table `key.0`, from the cache or else from `unpack`.
    pub(super) fn cached_block<E>(
        &self,
        key: (u64, usize),
        unpack: impl FnOnce() -> Result<Arc<[u8]>, E>,
    ) -> Result<Arc<[u8]>, E> {
        self.blocks.get(key, |bytes| self.take(bytes), unpack)
    }

    /// Drops the cached blocks of a table that was removed.
    pub(super) fn forget_blocks(&self, table: u64) {
        self.blocks.forget(table);
    }

    fn directories_limit_bytes(&self) -> u64 {
        self.limit_bytes - self.limit_bytes / LEFT_BY_DIRECTORIES
    }

    /// True if a directory of `bytes` would be within the limit now.
    pub(super) fn has_room_for_directory(&self, bytes: u64) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.directories_limit_bytes()
    }

    /// Takes `bytes` for a directory; `None` if that would exceed the limit.
    pub(super) fn take_for_directory(&self, bytes: u64) -> Option<MemoryReservation> {
        self.used.take_within(bytes, self.directories_limit_bytes())
    }

    fn records_limit_bytes(&self) -> u64 {
        self.limit_bytes - self.limit_bytes / LEFT_BY_RECORDS
    }

    /// True if there is room now to name the records of a directory of `bytes`.
    pub(super) fn has_room_for_records(&self, bytes: u64) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.records_limit_bytes()
    }

    /// Takes `bytes` for the records that a directory names; `None` if that would exceed the limit.
    pub(super) fn take_for_records(&self, bytes: u64) -> Option<MemoryReservation> {
        self.used.take_within(bytes, self.records_limit_bytes())
    }

    /// Takes `bytes`; `None` if that would exceed the limit.
    pub(super) fn take(&self, bytes: u64) -> Option<MemoryReservation> {
        self.used.take_within(bytes, self.limit_bytes)
    }

    /// Takes `bytes`, even if that exceeds the limit.
    pub(super) fn take_always(&self, bytes: u64) -> MemoryReservation {
        self.used.take_always(bytes)
    }
}
