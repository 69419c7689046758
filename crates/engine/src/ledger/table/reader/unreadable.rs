//! What a look-up used, checked behind it: blocks are checked against their checksums when they are
//! used first, and a page of one that the system gave up since may not come back.

use pellucid_io::any_unreadable;

use super::Table;
use crate::error::Result;

impl Table {
    /// An error if a page of block `block`, which was just used, cannot be read.
    #[inline]
    pub(in crate::ledger::table) fn check_block(&self, block: usize) -> Result<()> {
        if any_unreadable() { self.check_block_slowly(block) } else { Ok(()) }
    }

    #[cold]
    fn check_block_slowly(&self, block: usize) -> Result<()> {
        self.map.check(self.block_place(block), &self.path)
    }

    /// An error if a page of the index, by which a block was just looked for, cannot be read.
    #[inline]
    pub(in crate::ledger::table) fn check_index(&self) -> Result<()> {
        let begin = self.index.offset;
        self.map.check(begin..begin + self.index.length, &self.path)
    }

    /// An error if a page of the table cannot be read.
    pub(crate) fn check_all(&self) -> Result<()> {
        self.map.check(0..self.map.length(), &self.path)
    }

    /// An error if a page cannot be read that a look-up of `key` has used.
    #[cold]
    pub(in crate::ledger::table) fn check_way_to(&self, key: &[u8]) -> Result<()> {
        if self.map.unreadable_in(0, self.map.length()).is_none() {
            return Ok(());
        }
        if self.directory.get().is_none() {
            let begin = self.filter.offset;
            self.map.check(begin..begin + self.filter.length, &self.path)?;
        }
        self.check_index()?;
        // Its versions go on in the next block where it is the last key of one.
        for block in self.block_for(key)..self.blocks() {
            self.check_block(block)?;
            if self.index_shape.last_key(self.index.of(self.bytes()), block) != Some(key) {
                break;
            }
        }
        Ok(())
    }
}
