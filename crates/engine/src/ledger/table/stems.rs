//! Where the stems of a table's keys are ([`crate::stem`]): a directory of its own, beside that of
//! the keys, that names the first key of each stem.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::directory::{Directory, DirectoryBuilder};
use super::memory::TableMemory;
use crate::codec::key_hash;
use crate::ledger::Entry;
use crate::rules::TableRules;

/// Collects where the keys of a table are, and where those of each stem begin.
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

/// What a table knows of the stems of its keys.
#[derive(Debug, Default)]
pub(super) struct KnownStems {
    directory: OnceLock<Directory>,
    /// No directory is to be made, because one cannot be.
    is_without: AtomicBool,
}

impl KnownStems {
    /// Where the stems are, if that is known.
    #[inline]
    pub(super) fn directory(&self) -> Option<&Directory> {
        self.directory.get()
    }

    /// Takes the directory, unless there is one.
    pub(super) fn give(&self, directory: Directory) {
        // Whoever was first has made the same.
        let _ = self.directory.set(directory);
    }

    /// Whether there is none and one could be made.
    pub(super) fn is_wanted(&self) -> bool {
        self.directory.get().is_none() && !self.is_without.load(Ordering::Relaxed)
    }

    /// There is not to be one.
    pub(super) fn do_without(&self) {
        self.is_without.store(true, Ordering::Relaxed);
    }

    /// Memory that it takes.
    pub(super) fn size_bytes(&self) -> usize {
        self.directory.get().map_or(0, Directory::size_bytes)
    }
}
