//! The options of tables in the form that their entries need, readable without a lock: writes ask
//! for them once per entry, flushes and merges once per table.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::compression::Compression;
use crate::prefix::{PrefixFunction, PrefixRules};

/// The longest value that the ledger can hold in addition to the journal, in bytes. A block holds
/// several values of this length.
pub const HELD_VALUE_LENGTH_MAX: u32 = 1 << 10;

/// The number of tables in a chunk of rules; their numbers are consecutive.
const CHUNK_TABLES: usize = 256;

const HELD_BITS: u32 = 16;
const COMPRESSION_BITS: u32 = 3;
const COMPRESSION_MASK: u32 = (1 << COMPRESSION_BITS) - 1;

/// The rule for the entries of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableRule {
    /// The longest value that the ledger holds, too, in bytes.
    pub(crate) held_length_max: u32,
    /// The compression of values in the journal.
    pub(crate) values: Compression,
    /// The compression of blocks of the ledger.
    pub(crate) blocks: Compression,
}

impl TableRule {
    fn pack(self) -> u32 {
        let compressions =
            u32::from(self.values.number()) | (u32::from(self.blocks.number()) << COMPRESSION_BITS);
        self.held_length_max.min(HELD_VALUE_LENGTH_MAX) | (compressions << HELD_BITS)
    }

    fn unpack(packed: u32) -> TableRule {
        let compression = |shift: u32| {
            let number = (packed >> (HELD_BITS + shift)) & COMPRESSION_MASK;
            Compression::from_number(number as u8).unwrap_or_default()
        };
        TableRule {
            held_length_max: packed & ((1 << HELD_BITS) - 1),
            values: compression(0),
            blocks: compression(COMPRESSION_BITS),
        }
    }

    /// True if the ledger holds a value of this length. An empty value is not held: its length in
    /// the ledger says everything.
    #[inline]
    pub(crate) fn holds(self, value_length: usize) -> bool {
        value_length > 0 && value_length <= self.held_length_max as usize
    }
}

/// The rules of all tables, by number. The catalogue and unknown tables have the default rule.
pub(crate) struct TableRules {
    chunks: Box<[OnceLock<Box<[AtomicU32]>>]>,
    prefixes: PrefixRules,
}

impl Default for TableRules {
    fn default() -> TableRules {
        let chunks = (usize::from(u16::MAX) + 1) / CHUNK_TABLES;
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        TableRules { chunks, prefixes: PrefixRules::default() }
    }
}

impl std::fmt::Debug for TableRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableRules").finish_non_exhaustive()
    }
}

impl TableRules {
    /// The rule of table `table`.
    #[inline]
    pub(crate) fn of(&self, table: u16) -> TableRule {
        let (chunk, index) = place(table);
        match self.chunks[chunk].get() {
            Some(chunk) => TableRule::unpack(chunk[index].load(Ordering::Relaxed)),
            None => TableRule::default(),
        }
    }

    /// The rule of the table that an internal key belongs to.
    #[inline]
    pub(crate) fn of_key(&self, key: &[u8]) -> TableRule {
        key.first_chunk::<2>()
            .map_or(TableRule::default(), |number| self.of(u16::from_be_bytes(*number)))
    }

    /// Sets the rule of table `table`.
    pub(crate) fn set(&self, table: u16, rule: TableRule) {
        let (chunk, index) = place(table);
        let none = || (0..CHUNK_TABLES).map(|_| AtomicU32::new(0)).collect();
        self.chunks[chunk].get_or_init(none)[index].store(rule.pack(), Ordering::Relaxed);
    }

    /// The prefix of an internal key, if its table has a prefix rule.
    #[inline]
    pub(crate) fn prefix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        self.prefixes.prefix_of(key)
    }

    /// Sets the prefix rule of table `table`. It must be set before the first key of the table is
    /// noted in this process.
    pub(crate) fn set_prefixes(&self, table: u16, prefix_of: PrefixFunction) {
        self.prefixes.set(table, prefix_of);
    }
}

fn place(table: u16) -> (usize, usize) {
    (usize::from(table) / CHUNK_TABLES, usize::from(table) % CHUNK_TABLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_kept_by_table() {
        let rules = TableRules::default();
        let rule = |held_length_max, values, blocks| TableRule { held_length_max, values, blocks };
        let (none, lz4) = (Compression::None, Compression::Lz4);
        rules.set(1, rule(64, none, lz4));
        rules.set(u16::MAX, rule(1_024, lz4, none));
        assert_eq!(rules.of(1), rule(64, none, lz4));
        assert_eq!(rules.of(u16::MAX), rule(1_024, lz4, none));
        assert_eq!(rules.of(2), TableRule::default());
        assert_eq!(rules.of_key(&[0, 1, 9]), rule(64, none, lz4));
        assert_eq!(rules.of_key(&[]), TableRule::default());
        assert!(rules.of(1).holds(64) && !rules.of(1).holds(65));
        assert!(!rules.of(1).holds(0) && !rules.of(2).holds(1));
    }
}
