//! The memory that is held of tables beside the page cache, and its limit.
//!
//! What a table cannot do without (its facts, a bit for each block) is counted and never refused.
//! Indexes and directories only make answers quick: they are not held where they would go beyond
//! the limit, and tables answer from the page cache then.

use std::sync::Arc;

use super::cache::BlockCache;
use super::taken::{Taken, UsedBytes};

/// The share of the limit that directories leave for the indexes of tables to come: an index
/// takes a fifth of a directory, and spares as much.
const LEFT_BY_DIRECTORIES: u64 = 8;
/// The share of the limit that records named by directories leave for directories to come.
const LEFT_BY_RECORDS: u64 = 5;

/// The memory of all tables of a store.
#[derive(Debug)]
pub(crate) struct TableMemory {
    limit_bytes: u64,
    used: UsedBytes,
    /// Blocks that were unpacked.
    blocks: BlockCache,
}

impl TableMemory {
    /// Memory of at most `limit_bytes`, as far as it can be refused.
    pub(crate) fn new(limit_bytes: u64) -> Arc<TableMemory> {
        let blocks = BlockCache::new(limit_bytes);
        Arc::new(TableMemory { limit_bytes, used: UsedBytes::default(), blocks })
    }

    /// Bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.get()
    }

    /// Block `key.1` of table `key.0`, from the cache or from `unpack`.
    pub(super) fn cached_block<E>(
        &self,
        key: (u64, usize),
        unpack: impl FnOnce() -> Result<Arc<[u8]>, E>,
    ) -> Result<Arc<[u8]>, E> {
        self.blocks.get(key, |bytes| self.take(bytes), unpack)
    }

    /// Forgets the unpacked blocks of a table that is gone.
    pub(super) fn forget_blocks(&self, table: u64) {
        self.blocks.forget(table);
    }

    fn directories_limit_bytes(&self) -> u64 {
        self.limit_bytes - self.limit_bytes / LEFT_BY_DIRECTORIES
    }

    /// True if a directory of so many bytes would be within the limit now.
    pub(super) fn has_room_for_directory(&self, bytes: u64) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.directories_limit_bytes()
    }

    /// Takes so many bytes for a directory, if they are within the limit.
    pub(super) fn take_for_directory(&self, bytes: u64) -> Option<Taken> {
        self.used.take_within(bytes, self.directories_limit_bytes())
    }

    fn records_limit_bytes(&self) -> u64 {
        self.limit_bytes - self.limit_bytes / LEFT_BY_RECORDS
    }

    /// True if there is room now to name the records of a directory of so many bytes.
    pub(super) fn has_room_for_records(&self, bytes: u64) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.records_limit_bytes()
    }

    /// Takes so many bytes for the records that a directory names, if they are within the limit.
    pub(super) fn take_for_records(&self, bytes: u64) -> Option<Taken> {
        self.used.take_within(bytes, self.records_limit_bytes())
    }

    /// Takes so many bytes if they are within the limit.
    pub(super) fn take(&self, bytes: u64) -> Option<Taken> {
        self.used.take_within(bytes, self.limit_bytes)
    }

    /// Takes so many bytes, within the limit or not.
    pub(super) fn take_always(&self, bytes: u64) -> Taken {
        self.used.take_always(bytes)
    }
}
