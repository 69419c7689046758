//! The directories of a table. They are not in its file: they are built when it is written, or
//! later from its blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_account::EngineCounts;

use super::blocks::TableBlocks;
use super::directory::{Directory, DirectoryBuilder, directory_size_bytes};
use super::directory_set::DirectorySetBuilder;
use super::memory::TableMemory;
use crate::error::Result;
use crate::read_mode::ReadMode;
use crate::rules::TableRules;

/// The directories of an open table that exist so far.
pub(crate) struct TableDirectories {
    /// The number of keys of the table.
    count: u64,
    keys: OnceLock<Directory>,
    prefixes: OnceLock<Directory>,
    /// True if a directory of the keys cannot be built, so that none is tried again.
    is_plain: AtomicBool,
    /// True if the directory need not name records, because there are none to name.
    is_nameless: AtomicBool,
    /// True if a directory of the prefixes cannot be built, so that none is tried again.
    is_without_prefixes: AtomicBool,
}

impl TableDirectories {
    /// A table with `count` keys, without directories.
    pub(crate) fn new(count: u64) -> TableDirectories {
        TableDirectories {
            count,
            keys: OnceLock::new(),
            prefixes: OnceLock::new(),
            is_plain: AtomicBool::new(false),
            is_nameless: AtomicBool::new(false),
            is_without_prefixes: AtomicBool::new(false),
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

    /// True if there is a directory of the keys, which then answers look-ups.
    #[inline]
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    /// Prefetches the memory that a look-up of this hash reads first; `with_records` if it reads
    /// records.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, with_records: bool) {
        if let Some(directory) = self.keys.get() {
            directory.prefetch(hash, with_records);
        }
    }

    /// Prefetches the memory that a look-up of this prefix hash reads first.
    #[inline]
    pub(crate) fn prefetch_prefix(&self, hash: u64) {
        if let Some(directory) = self.prefixes.get() {
            directory.prefetch(hash, false);
        }
    }

    /// False if there are surely no keys with the prefix of this hash.
    #[inline]
    pub(crate) fn may_hold_prefix(&self, hash: u64) -> bool {
        let prefixes = self.prefixes.get();
        prefixes.is_none_or(|directory| directory.find(hash, |place, _| Some(place)).is_some())
    }

    /// True if there is no directory of the prefixes, and the budget has room for one.
    pub(crate) fn wants_prefixes(&self, budget: &TableMemory) -> bool {
        // There are at most as many prefixes as keys.
        self.are_prefixes_wanted()
            && budget.has_room_for_directory(directory_size_bytes(self.count))
    }

    fn are_prefixes_wanted(&self) -> bool {
        self.prefixes.get().is_none() && !self.is_without_prefixes.load(Ordering::Relaxed)
    }

    /// True if there is no directory of the keys, and the budget has room for one.
    pub(crate) fn wants_keys(&self, budget: &TableMemory) -> bool {
        !self.has_keys()
            && !self.is_plain.load(Ordering::Relaxed)
            && budget.has_room_for_directory(directory_size_bytes(self.count))
    }

    /// True if the directory of the keys does not name records, and the budget has room for that.
    pub(crate) fn wants_records(&self, budget: &TableMemory) -> bool {
        !self.is_nameless.load(Ordering::Relaxed)
            && self.keys.get().is_some_and(|directory| directory.wants_records(budget))
    }

    /// The memory of the directories, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        let directories = [self.keys.get(), self.prefixes.get()].into_iter().flatten();
        directories.map(|directory| directory.size_bytes() as u64).sum()
    }

    /// Builds the missing directories from the blocks, as [`TableDirectories::build`] does. Gives
    /// up if `is_wanted` returns false meanwhile. Damage is not reported here: the table then goes
    /// without directories, and reads of the block report it.
    pub(crate) fn make(
        &self,
        blocks: &TableBlocks,
        budget: &Arc<TableMemory>,
        builder: &mut DirectorySetBuilder,
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
        self.build(builder, blocks.count(), budget, knows_prefixes);
    }

    /// Builds the missing directories of a table of `blocks` blocks from the keys in `builder`, as
    /// far as the budget has room. Prefixes get one only if `knows_prefixes`. Makes a directory of
    /// the keys that exists name its records.
    pub(crate) fn build(
        &self,
        builder: &DirectorySetBuilder,
        blocks: usize,
        budget: &Arc<TableMemory>,
        knows_prefixes: bool,
    ) {
        let build = |places: &DirectoryBuilder, slot: &OnceLock<_>, is_impossible: &AtomicBool| {
            match places.finish(blocks, budget) {
                Some(directory) => drop(slot.set(directory)),
                None if budget.has_room_for_directory(directory_size_bytes(self.count)) => {
                    is_impossible.store(true, Ordering::Relaxed);
                }
                None => {}
            }
        };
        let (keys, known) = (builder.keys(), self.keys.get());
        self.is_nameless.store(!keys.names_records(), Ordering::Relaxed);
        if known.is_none() {
            build(keys, &self.keys, &self.is_plain);
        }
        if knows_prefixes && self.are_prefixes_wanted() {
            build(builder.prefixes(), &self.prefixes, &self.is_without_prefixes);
        }
        if let Some(directory) = known {
            directory.name_records(keys, budget);
        }
    }

    /// Makes look-ups go without the directories that cannot be built.
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
    builder: &mut DirectorySetBuilder,
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

/// Counts a directory's answer that the key is absent: as a false positive if a block had to be
/// read.
#[inline]
pub(super) fn count_absent(blocks_before: u8, counts: &mut EngineCounts) {
    let counter = match counts.blocks != blocks_before {
        true => &mut counts.filters_false,
        false => &mut counts.filters_excluded,
    };
    *counter = counter.saturating_add(1);
}
