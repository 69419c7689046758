//! The options of tables in the form that their entries need, readable without a lock: writes ask
//! for them once per entry, flushes and merges once per table.

use std::sync::OnceLock;

use crate::compression::Compression;
use crate::prefix::{PrefixFunction, STEM_RULES_MAX};

/// The longest value that the ledger can hold in addition to the journal, in bytes. A block holds
/// several values of this length.
pub const HELD_VALUE_LENGTH_MAX: u32 = 1 << 10;

/// The number of tables in a chunk of rules; their numbers are consecutive.
const CHUNK_TABLES: usize = 256;

/// The rule for the entries of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableRule {
    /// The longest value that the ledger holds, too, in bytes.
    pub(crate) held_length_max: u32,
    /// The compression of values in the journal.
    pub(crate) values: Compression,
    /// The compression of blocks of the ledger.
    pub(crate) blocks: Compression,
    /// True if the table exists, holds objects, and has no option that adds work to its writes.
    pub(crate) is_plain: bool,
}

impl TableRule {
    /// True if the ledger holds a value of this length. An empty value is not held: its length in
    /// the ledger says everything.
    #[inline]
    pub(crate) fn holds(self, value_length: usize) -> bool {
        value_length > 0 && value_length <= self.held_length_max as usize
    }
}

/// The rules of the tables of a chunk.
type Chunk = Box<[OnceLock<TableRule>]>;

/// The rules of all tables, by number. The catalogue and unknown tables have the default rule.
pub(crate) struct TableRules {
    chunks: Box<[OnceLock<Chunk>]>,
    /// The prefix rules of the tables that have one, by number.
    prefixes: [OnceLock<(u16, PrefixFunction)>; STEM_RULES_MAX],
}

impl Default for TableRules {
    fn default() -> TableRules {
        let chunks = (usize::from(u16::MAX) + 1) / CHUNK_TABLES;
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        TableRules { chunks, prefixes: Default::default() }
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
        let rule = self.chunks[chunk].get().and_then(|rules| rules[index].get());
        rule.copied().unwrap_or_default()
    }

    /// The rule of the table that an internal key belongs to.
    #[inline]
    pub(crate) fn of_key(&self, key: &[u8]) -> TableRule {
        key.first_chunk::<2>()
            .map_or(TableRule::default(), |number| self.of(u16::from_be_bytes(*number)))
    }

    /// Sets the rule of table `table`, if it has none: the options of a table never change.
    pub(crate) fn set(&self, table: u16, rule: TableRule) {
        let (chunk, index) = place(table);
        let none = || (0..CHUNK_TABLES).map(|_| OnceLock::new()).collect();
        let _ = self.chunks[chunk].get_or_init(none)[index].set(rule);
    }

    /// The prefix of an internal key, including the table number in front, if its table has a
    /// prefix rule.
    #[inline]
    pub(crate) fn prefix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        for rule in &self.prefixes {
            let (table, prefix_of) = rule.get()?;
            if let Some(rest) = key.strip_prefix(&table.to_be_bytes()) {
                let length = prefix_of(rest)?;
                return key.get(..size_of::<u16>() + length);
            }
        }
        None
    }

    /// True if the table that an internal key belongs to has a prefix rule.
    pub(crate) fn has_prefixes(&self, key: &[u8]) -> bool {
        let mut rules = self.prefixes.iter().map_while(OnceLock::get);
        rules.any(|(table, _)| key.starts_with(&table.to_be_bytes()))
    }

    /// Sets the prefix rule of table `table`, if it has none. It must be set before the first key
    /// of the table is noted in this process.
    pub(crate) fn set_prefixes(&self, table: u16, prefix_of: PrefixFunction) {
        if !self.has_prefixes(&table.to_be_bytes()) {
            // There is a slot for each rule of the options.
            let _ = self.prefixes.iter().find(|rule| rule.set((table, prefix_of)).is_ok());
        }
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
        let rule = |held_length_max, values, blocks| TableRule {
            held_length_max,
            values,
            blocks,
            is_plain: true,
        };
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

    #[test]
    fn prefixes_follow_the_rule_of_their_table() {
        let rules = TableRules::default();
        assert_eq!(rules.prefix_of(&[0, 7, 1, 2]), None);
        rules.set_prefixes(7, |key| (key.len() > 1).then_some(1));
        rules.set_prefixes(7, |_| None);
        rules.set_prefixes(9, |key| Some(key.len()));
        assert_eq!(rules.prefix_of(&[0, 7, 1, 2]), Some(&[0, 7, 1][..]));
        assert_eq!(rules.prefix_of(&[0, 7, 1]), None);
        assert_eq!(rules.prefix_of(&[0, 8, 1, 2]), None);
        assert_eq!(rules.prefix_of(&[0, 9, 1, 2]), Some(&[0, 9, 1, 2][..]));
        assert_eq!(rules.prefix_of(&[]), None);
        assert!(rules.has_prefixes(&[0, 7]) && !rules.has_prefixes(&[0, 8, 7]));
    }
}
