//! Keys of a table and their prefixes ([`crate::stem`]), with their positions, collected for two
//! directories: one of the keys, and one that names the first key of each prefix.

use std::sync::Arc;

use super::directory::{Directory, DirectoryBuilder};
use super::memory::TableMemory;
use crate::codec::key_hash;
use crate::ledger::Entry;
use crate::rules::TableRules;

/// Collects the places of a table's keys, and those of the first key of each stem.
#[derive(Debug, Default)]
pub(crate) struct PlacesBuilder {
    keys: DirectoryBuilder,
    stems: DirectoryBuilder,
    /// The stem that was added last; none is empty.
    stem: Vec<u8>,
}

/// The directories of a table that was written, as far as there was room for them.
pub(crate) struct Directories {
    pub(super) keys: Option<Directory>,
    pub(super) stems: Option<Directory>,
}

impl PlacesBuilder {
    /// Notes that `entry`, the newest of its key, is entry `index` of block `block`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        entry: &Entry<'_>,
        (block, index): (usize, usize),
        rules: &TableRules,
    ) {
        self.keys.add(key_hash(entry.key), block, index, entry.record_to_read());
        if let Some(stem) = rules.stem_of(entry.key)
            && self.stem != stem
        {
            self.stem.clear();
            self.stem.extend_from_slice(stem);
            self.stems.add(key_hash(stem), block, index, None);
        }
    }

    /// The keys.
    pub(crate) fn keys(&self) -> &DirectoryBuilder {
        &self.keys
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.keys.memory_bytes() + self.stems.memory_bytes()
    }

    /// Forgets all keys, and keeps the memory for others.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.stems.clear();
        self.stem.clear();
    }

    /// The directories of a table of `blocks` blocks; that of the stems if `with_stems`.
    pub(crate) fn finish(
        &self,
        blocks: usize,
        with_stems: bool,
        budget: &Arc<TableMemory>,
    ) -> Directories {
        let keys = self.keys.finish(blocks, budget);
        Directories { keys, stems: with_stems.then(|| self.stems(blocks, budget)).flatten() }
    }

    /// The directory of the stems alone.
    pub(super) fn stems(&self, blocks: usize, budget: &Arc<TableMemory>) -> Option<Directory> {
        self.stems.finish(blocks, budget)
    }
}
