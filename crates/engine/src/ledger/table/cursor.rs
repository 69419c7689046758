//! A cursor over the entries of a table.

use std::sync::Arc;

use super::block::{Block, BlockFault};
use super::block_compression::BlockBytes;
use super::reader::Table;
use crate::error::{Error, Result};
use crate::ledger::{Entry, EntryKind};
use crate::read_mode::ReadMode;

/// The length of most keys, in bytes.
const KEY_BYTES_USUAL: usize = 96;

/// A cursor over the entries of a table, in both directions.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    /// The index of the current block; the number of blocks if there is no current entry.
    block: usize,
    index: usize,
    entries: usize,
    prefix_length: usize,
    /// The key of the current entry; its first bytes are the common prefix of the block.
    key: Vec<u8>,
    sequence: u64,
    kind: EntryKind,
    value_length: u32,
    stored_length: u32,
    written_at_ms: u64,
    expires_at_ms: u64,
    /// The decompressed block, if it is compressed in the file.
    unpacked: Option<Arc<[u8]>>,
    /// The range of the head in the file, or in the decompressed block.
    head: std::ops::Range<usize>,
    /// The range of the value there, if the table holds it.
    value: Option<std::ops::Range<usize>>,
    /// The block that [`TableCursor::aim`] found.
    aimed: Option<usize>,
    mode: ReadMode,
}

impl TableCursor {
    /// A cursor without a current entry.
    pub(crate) fn new(table: Arc<Table>, mode: ReadMode) -> TableCursor {
        TableCursor {
            block: table.blocks().count(),
            table,
            index: 0,
            entries: 0,
            prefix_length: 0,
            key: Vec::new(),
            sequence: 0,
            kind: EntryKind::Put,
            value_length: 0,
            stored_length: 0,
            written_at_ms: 0,
            expires_at_ms: 0,
            unpacked: None,
            head: 0..0,
            value: None,
            aimed: None,
            mode,
        }
    }

    /// Finds and prefetches the block for a seek at or after `key`, which must be the next
    /// operation. So the caller can aim several cursors before it waits for memory.
    pub(crate) fn aim(&mut self, key: &[u8]) {
        let block = self.table.blocks().find(key);
        self.table.blocks().prefetch(block);
        self.aimed = Some(block);
    }

    /// The current entry.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        if self.block >= self.table.blocks().count() {
            return None;
        }
        let head: &[u8] = if self.head.is_empty() { &[] } else { &self.bytes()[self.head.clone()] };
        Some(Entry {
            key: &self.key,
            sequence: self.sequence,
            kind: self.kind,
            value_length: self.value_length,
            stored_length: self.stored_length,
            written_at_ms: self.written_at_ms,
            expires_at_ms: self.expires_at_ms,
            head,
            value: self.value.clone().map(|value| &self.bytes()[value]),
        })
    }

    /// The error for a current entry that is out of order, with the offset of its block.
    #[cold]
    pub(crate) fn out_of_order(&self) -> Error {
        let what = "an entry of the block is out of order";
        self.table.blocks().corrupted(self.block, BlockFault { offset: 0, what })
    }

    /// The bytes that contain heads and values.
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.unpacked.as_deref().unwrap_or_else(|| self.table.blocks().bytes())
    }

    /// Moves to the first entry.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        self.enter(0, |_| 0)
    }

    /// Moves to the last entry.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        self.enter(self.table.blocks().count() - 1, |entries| entries - 1)
    }

    /// Moves to the first entry of the block in the middle.
    pub(crate) fn seek_middle(&mut self) -> Result<()> {
        self.enter(self.table.blocks().count() / 2, |_| 0)
    }

    /// Moves to the first entry whose key is not below `key`.
    pub(crate) fn seek_at_or_after(&mut self, key: &[u8]) -> Result<()> {
        let block = self.aimed.take().unwrap_or_else(|| self.table.blocks().find(key));
        if block == self.table.blocks().count() {
            self.block = block;
            return self.table.blocks().check_index();
        }
        // The last key of the block is not below `key`, so the entry is in it.
        let index = self.search(block, key)?;
        self.enter(block, |entries| index.min(entries - 1))
    }

    /// Moves to the first entry whose key has the prefix `prefix`, which has this hash. Returns
    /// whether there is one; `None` if the table does not know the prefixes of its keys.
    pub(crate) fn seek_prefix(&mut self, prefix: &[u8], hash: u64) -> Result<Option<bool>> {
        let table = Arc::clone(&self.table);
        let Some(directory) = table.directories().prefixes() else { return Ok(None) };
        let found = directory.find(hash, |place, _| {
            table.blocks().prefetch_entry(place);
            match self.enter(place.block, |entries| place.entry.min(entries - 1)) {
                Err(error) => Some(Err(error)),
                Ok(()) => self.key.starts_with(prefix).then_some(Ok(true)),
            }
        });
        if found.is_none() {
            self.block = table.blocks().count();
        }
        found.unwrap_or(Ok(false)).map(Some)
    }

    /// Moves to the last entry whose key is below `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let block = self.table.blocks().find(key);
        if block == self.table.blocks().count() {
            self.table.blocks().check_index()?;
            return self.seek_last();
        }
        match self.search(block, key)? {
            0 => self.enter_before(block),
            index => self.enter(block, |entries| index.min(entries) - 1),
        }
    }

    /// Moves to the next entry; there must be a current one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        self.check_left()?;
        if self.index + 1 < self.entries {
            self.index += 1;
            return self.read();
        }
        self.enter(self.block + 1, |_| 0)
    }

    /// Moves to the previous entry; there must be a current one.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<()> {
        self.check_left()?;
        if self.index > 0 {
            self.index -= 1;
            return self.read();
        }
        self.enter_before(self.block)
    }

    /// Returns an error if the block of the current entry could not be read. An unreadable page
    /// below its head or value is noticed only after their use.
    #[inline]
    fn check_left(&self) -> Result<()> {
        match self.block < self.table.blocks().count() {
            true => self.table.blocks().check_block(self.block),
            false => Ok(()),
        }
    }

    fn search(&self, block: usize, key: &[u8]) -> Result<usize> {
        self.table.blocks().check_index()?;
        let opened = self.table.blocks().open(block, self.mode)?;
        let found = opened.block().and_then(|block| block.search(key, u64::MAX));
        found.map_err(|fault| self.table.blocks().corrupted(block, fault))
    }

    fn enter_before(&mut self, block: usize) -> Result<()> {
        match block.checked_sub(1) {
            Some(before) => self.enter(before, |entries| entries - 1),
            None => {
                self.block = self.table.blocks().count();
                Ok(())
            }
        }
    }

    /// Moves into a block, to the index that `choose` returns for the block's number of entries.
    fn enter(&mut self, block: usize, choose: impl FnOnce(usize) -> usize) -> Result<()> {
        self.block = block;
        if block >= self.table.blocks().count() {
            return Ok(());
        }
        let opened = self.table.blocks().open(block, self.mode)?;
        let entered =
            opened.block().map_err(|fault| self.table.blocks().corrupted(block, fault))?;
        self.entries = entered.entries();
        self.index = choose(self.entries);
        self.key.clear();
        if self.key.capacity() == 0 {
            // One allocation for the common prefix and the rest of the key.
            self.key.reserve(KEY_BYTES_USUAL);
        }
        self.key.extend_from_slice(entered.prefix());
        self.prefix_length = entered.prefix().len();
        self.unpacked = match opened {
            BlockBytes::Mapped(_) => None,
            BlockBytes::Unpacked(bytes) => Some(bytes),
        };
        self.read()
    }

    #[inline]
    fn read(&mut self) -> Result<()> {
        let table = &*self.table;
        let (base, block) = match &self.unpacked {
            None => (table.blocks().bytes(), table.blocks().entered(self.block, self.entries)),
            Some(bytes) => (&bytes[..], Block::of_checked(bytes, self.entries)),
        };
        let entry =
            block.entry(self.index).map_err(|fault| table.blocks().corrupted(self.block, fault))?;
        self.key.truncate(self.prefix_length);
        self.key.extend_from_slice(entry.key);
        self.sequence = entry.sequence;
        self.kind = entry.kind;
        self.value_length = entry.value_length;
        self.stored_length = entry.stored_length;
        self.written_at_ms = entry.written_at_ms;
        self.expires_at_ms = entry.expires_at_ms;
        self.head = match entry.head.is_empty() {
            true => 0..0,
            false => {
                let begin = entry.head.as_ptr().addr() - base.as_ptr().addr();
                begin..begin + entry.head.len()
            }
        };
        self.value = entry.value.map(|value| {
            let begin = value.as_ptr().addr() - base.as_ptr().addr();
            begin..begin + value.len()
        });
        table.blocks().check_block(self.block)
    }
}
