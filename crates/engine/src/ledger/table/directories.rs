//! The directories of a table, which it has beside its file: they come when it was written, or are
//! made later from its blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_account::EngineCounts;

use super::blocks::TableBlocks;
use super::directory::{Directory, directory_size_bytes};
use super::memory::TableMemory;
use super::prefixes::{Directories, PlacesBuilder};
use crate::error::Result;
use crate::read_mode::ReadMode;
use crate::rules::TableRules;

/// The directories of an open table, as far as they were made.
pub(crate) struct TableDirectories {
    /// Number of keys of the table.
    count: u64,
    keys: OnceLock<Directory>,
    prefixes: OnceLock<Directory>,
    /// No directory of keys is to be made, because one cannot be.
    is_plain: AtomicBool,
    /// The directory is not to name records, because there are none.
    is_nameless: AtomicBool,
    /// No directory of prefixes is to be made, because one cannot be.
    is_without_prefixes: AtomicBool,
}

impl TableDirectories {
    /// No directories so far of a table with `count` keys.
    pub(super) fn new(count: u64) -> TableDirectories {
        TableDirectories {
            count,
            keys: OnceLock::new(),
            prefixes: OnceLock::new(),
            is_plain: AtomicBool::new(false),
            is_nameless: AtomicBool::new(false),
            is_without_prefixes: AtomicBool::new(false),
        }
    }

    /// Takes the directories that were made when the table had been written. Those that are there
    /// already are the same.
    pub(crate) fn give(&self, directories: Directories) {
        if let Some(keys) = directories.keys {
            let _ = self.keys.set(keys);
        }
        if let Some(prefixes) = directories.prefixes {
            let _ = self.prefixes.set(prefixes);
        }
    }

    /// The directory of the keys, if there is one.
    #[inline]
    pub(super) fn keys(&self) -> Option<&Directory> {
        self.keys.get()
    }

    /// The directory of the prefixes, if there is one.
    #[inline]
    pub(super) fn prefixes(&self) -> Option<&Directory> {
        self.prefixes.get()
    }

    /// True if look-ups are answered by a directory.
    #[inline]
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    /// Asks for the memory that a look-up of this hash needs first, by way of records or not.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, with_records: bool) {
        if let Some(directory) = self.keys.get() {
            directory.prefetch(hash, with_records);
        }
    }

    /// Asks for the memory that a look-up of this prefix's hash needs first.
    #[inline]
    pub(crate) fn prefetch_prefix(&self, hash: u64) {
        if let Some(directory) = self.prefixes.get() {
            directory.prefetch(hash, false);
        }
    }

    /// False if there are no keys with the prefix of this hash.
    #[inline]
    pub(crate) fn may_hold_prefix(&self, hash: u64) -> bool {
        let prefixes = self.prefixes.get();
        prefixes.is_none_or(|directory| directory.find(hash, |place, _| Some(place)).is_some())
    }

    /// True if the prefixes are not known, and the budget has room for them.
    pub(crate) fn wants_prefixes(&self, budget: &TableMemory) -> bool {
        // There are no more of them than keys.
        self.are_prefixes_wanted()
            && budget.has_room_for_directory(directory_size_bytes(self.count))
    }

    fn are_prefixes_wanted(&self) -> bool {
        self.prefixes.get().is_none() && !self.is_without_prefixes.load(Ordering::Relaxed)
    }

    /// True if there is no directory of keys, and the budget has room for one.
    pub(crate) fn wants_keys(&self, budget: &TableMemory) -> bool {
        !self.has_keys()
            && !self.is_plain.load(Ordering::Relaxed)
            && budget.has_room_for_directory(directory_size_bytes(self.count))
    }

    /// True if the directory of keys names no records, and the budget has room for them.
    pub(crate) fn wants_records(&self, budget: &TableMemory) -> bool {
        !self.is_nameless.load(Ordering::Relaxed)
            && self.keys.get().is_some_and(|directory| directory.wants_records(budget))
    }

    /// Memory of the directories.
    pub(crate) fn size_bytes(&self) -> u64 {
        let directories = [self.keys.get(), self.prefixes.get()].into_iter().flatten();
        directories.map(|directory| directory.size_bytes() as u64).sum()
    }

    /// Makes the directories from the blocks, that of the prefixes if `knows_prefixes`, or has that
    /// of the keys name its records, unless `is_wanted` says no meanwhile. Damage is not reported
    /// here: the table then does without, and reads of the block will tell.
    pub(crate) fn make(
        &self,
        blocks: &TableBlocks,
        budget: &Arc<TableMemory>,
        builder: &mut PlacesBuilder,
        (rules, knows_prefixes): (&TableRules, bool),
        is_wanted: impl Fn() -> bool,
    ) {
        builder.clear();
        let mut key = Vec::new();
        for block in 0..blocks.count() {
            if !is_wanted() {
                return;
            }
            if collect(blocks, block, &mut key, builder, rules).is_err() {
                self.do_without();
                return;
            }
        }
        if blocks.check_all().is_err() {
            self.do_without();
            return;
        }
        if knows_prefixes && self.are_prefixes_wanted() {
            match builder.prefixes(blocks.count(), budget) {
                Some(prefixes) => drop(self.prefixes.set(prefixes)),
                None => self.is_without_prefixes.store(true, Ordering::Relaxed),
            }
        }
        let builder = builder.keys();
        self.is_nameless.store(!builder.names_records(), Ordering::Relaxed);
        if let Some(directory) = self.keys.get() {
            directory.name_records(builder, budget);
            return;
        }
        match builder.finish(blocks.count(), budget) {
            Some(directory) => drop(self.keys.set(directory)),
            None if budget.has_room_for_directory(directory_size_bytes(self.count)) => {
                self.is_plain.store(true, Ordering::Relaxed);
            }
            None => {}
        }
    }

    /// Has look-ups go without the directories that cannot be made.
    fn do_without(&self) {
        self.is_plain.store(true, Ordering::Relaxed);
        self.is_nameless.store(true, Ordering::Relaxed);
        self.is_without_prefixes.store(true, Ordering::Relaxed);
    }
}

fn collect(
    blocks: &TableBlocks,
    block_index: usize,
    key: &mut Vec<u8>,
    builder: &mut PlacesBuilder,
    rules: &TableRules,
) -> Result<()> {
    let faulty = |fault| blocks.corrupted(block_index, fault);
    let opened = blocks.open(block_index, ReadMode::MayBlock)?;
    let block = opened.block().map_err(faulty)?;
    for index in 0..block.entries() {
        let entry = block.entry(index).map_err(faulty)?;
        let is_same = key.strip_prefix(block.prefix()) == Some(entry.key);
        if !is_same {
            key.clear();
            key.extend_from_slice(block.prefix());
            key.extend_from_slice(entry.key);
            builder.add(&entry.with_key(key), (block_index, index), rules);
        }
    }
    Ok(())
}

/// Counts a directory's answer that the key is not there: a false positive if a block had to be
/// looked into.
#[inline]
pub(super) fn count_absent(blocks_before: u8, counts: &mut EngineCounts) {
    let counter = match counts.blocks != blocks_before {
        true => &mut counts.filters_false,
        false => &mut counts.filters_excluded,
    };
    *counter = counter.saturating_add(1);
}
