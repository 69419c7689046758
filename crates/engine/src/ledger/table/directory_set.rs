//! Collects the places of a table's keys and prefixes ([`crate::prefix`]) for two directories: one
//! of all keys, and one of the first key of each prefix.

use super::directory::DirectoryBuilder;
use crate::codec::key_hash;
use crate::ledger::Entry;
use crate::rules::TableRules;

/// Collects the places of a table's keys, and of the first key of each prefix.
#[derive(Debug, Default)]
pub(crate) struct DirectorySetBuilder {
    keys: DirectoryBuilder,
    prefixes: DirectoryBuilder,
    /// The prefix that was added last; empty if there is none yet.
    prefix: Vec<u8>,
}

impl DirectorySetBuilder {
    /// Notes that `entry`, the newest of its key, is entry `index` of block `block`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        entry: &Entry<'_>,
        (block, index): (usize, usize),
        rules: &TableRules,
    ) {
        self.keys.add(key_hash(entry.key), block, index, entry.record_to_read());
        if let Some(prefix) = rules.prefix_of(entry.key)
            && self.prefix != prefix
        {
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            self.prefixes.add(key_hash(prefix), block, index, None);
        }
    }

    /// The builder of the directory of the keys.
    pub(crate) fn keys(&self) -> &DirectoryBuilder {
        &self.keys
    }

    /// The builder of the directory of the prefixes.
    pub(super) fn prefixes(&self) -> &DirectoryBuilder {
        &self.prefixes
    }

    /// The memory of the builder, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.keys.memory_bytes() + self.prefixes.memory_bytes()
    }

    /// Removes all keys, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.prefixes.clear();
        self.prefix.clear();
    }
}
