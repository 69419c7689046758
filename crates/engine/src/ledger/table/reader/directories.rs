//! The directories of a table, which it has beside its file: they come when it was written, or are
//! made later from its blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::directory::{Directory, directory_size_bytes};
use super::super::memory::TableMemory;
use super::super::stems::{Directories, PlacesBuilder};
use super::Table;
use crate::error::Result;
use crate::rules::TableRules;

impl Table {
    /// Takes the directories that were made when the table had been written.
    pub(crate) fn give_directories(&self, directories: Directories) {
        if let Some(keys) = directories.keys {
            // Whoever was first has made the same.
            let _ = self.directory.set(keys);
        }
        if let Some(stems) = directories.stems {
            self.stems.give(stems);
        }
    }

    /// Whether the table does not know the stems of its keys, and the budget has room for them.
    pub(crate) fn wants_stems(&self, budget: &TableMemory) -> bool {
        // There are no more of them than keys.
        self.stems.is_wanted() && budget.has_room_for_directory(directory_size_bytes(self.keys))
    }

    /// Where the stems are, if that is known.
    #[inline]
    pub(in crate::ledger::table) fn stems(&self) -> Option<&Directory> {
        self.stems.directory()
    }

    /// Whether there may be keys with the stem of this hash.
    #[inline]
    pub(crate) fn may_hold_stem(&self, hash: u64) -> bool {
        let stems = self.stems.directory();
        stems.is_none_or(|directory| directory.find(hash, |place, _| Some(place)).is_some())
    }

    /// Asks for what a look-up of this stem's hash needs first.
    #[inline]
    pub(crate) fn prefetch_stem(&self, hash: u64) {
        if let Some(directory) = self.stems.directory() {
            directory.prefetch(hash, false);
        }
    }

    /// Whether the table has no directory, and the budget has room for one.
    pub(crate) fn wants_directory(&self, budget: &TableMemory) -> bool {
        self.directory.get().is_none()
            && !self.is_plain.load(Ordering::Relaxed)
            && budget.has_room_for_directory(directory_size_bytes(self.keys))
    }

    /// Whether the table has a directory that names no records, and the budget has room for them.
    pub(crate) fn wants_records(&self, budget: &TableMemory) -> bool {
        !self.is_nameless.load(Ordering::Relaxed)
            && self.directory.get().is_some_and(|directory| directory.wants_records(budget))
    }

    /// Makes the directories from the blocks, that of the stems if `knows_stems`, or has that
    /// of the keys which there is name its records, unless `is_wanted` says no meanwhile. Damage is
    /// not this one's to report: the table then does without, and reads of the block will tell.
    pub(crate) fn make_directories(
        &self,
        budget: &Arc<TableMemory>,
        builder: &mut PlacesBuilder,
        (rules, knows_stems): (&TableRules, bool),
        is_wanted: impl Fn() -> bool,
    ) {
        builder.clear();
        let mut key = Vec::new();
        for block_index in 0..self.blocks() {
            if !is_wanted() {
                return;
            }
            if self.collect(block_index, &mut key, builder, rules).is_err() {
                self.do_without();
                return;
            }
        }
        if self.check_all().is_err() {
            self.do_without();
            return;
        }
        if knows_stems && self.stems.is_wanted() {
            match builder.stems(self.blocks(), budget) {
                Some(stems) => self.stems.give(stems),
                None => self.stems.do_without(),
            }
        }
        let builder = builder.keys();
        self.is_nameless.store(!builder.names_records(), Ordering::Relaxed);
        if let Some(directory) = self.directory.get() {
            directory.name_records(builder, budget);
            return;
        }
        match builder.finish(self.blocks(), budget) {
            Some(directory) => {
                let _ = self.directory.set(directory);
            }
            None if budget.has_room_for_directory(directory_size_bytes(self.keys)) => {
                self.is_plain.store(true, Ordering::Relaxed);
            }
            None => {}
        }
    }

    /// Has look-ups go without what cannot be made.
    fn do_without(&self) {
        self.is_plain.store(true, Ordering::Relaxed);
        self.is_nameless.store(true, Ordering::Relaxed);
        self.stems.do_without();
    }

    fn collect(
        &self,
        block_index: usize,
        key: &mut Vec<u8>,
        builder: &mut PlacesBuilder,
        rules: &TableRules,
    ) -> Result<()> {
        let faulty = |fault| self.corrupted(block_index, fault);
        let opened = self.open_block(block_index)?;
        let block = opened.block().map_err(faulty)?;
        for index in 0..block.entries() {
            let entry = block.entry(index).map_err(faulty)?;
            let is_same = key.strip_prefix(block.prefix()) == Some(entry.key_rest);
            if !is_same {
                key.clear();
                key.extend_from_slice(block.prefix());
                key.extend_from_slice(entry.key_rest);
                builder.add(&entry.with_key(key), (block_index, index), rules);
            }
        }
        Ok(())
    }

    /// Whether look-ups are answered by a directory.
    #[inline]
    pub(crate) fn has_directory(&self) -> bool {
        self.directory.get().is_some()
    }

    /// Memory of the directory.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let keys = self.directory.get().map_or(0, Directory::size_bytes);
        (keys + self.stems.size_bytes()) as u64
    }
}
