//! Prefixes: the beginnings by which keys are looked up of which no more is known.
//!
//! Who looks an index entry up knows the values that it is for, and not the object whose key comes
//! behind them. A scan finds such keys, but it has to seek in every memtable and table whose keys
//! lie around them. Where a rule says which beginning of a key its prefix is, memtables and tables
//! know the prefixes that they hold in the way in which they know keys: most of them are passed
//! over, and the others say where the first key of the prefix is
//! ([`crate::Snapshot::scan_prefix`]).
//!
//! Files know nothing of prefixes. They are collected in memory, while tables are written or later,
//! so that a rule may come and go with the program.

use std::sync::OnceLock;

/// The number of first bytes of a key that are its prefix; nothing if it has none.
///
/// No prefix may be the beginning of another key that has another prefix or none: the keys of a
/// prefix are then those that begin with it.
pub type PrefixOf = fn(&[u8]) -> Option<usize>;

/// Says which keys of a table have prefixes.
#[derive(Clone, Copy, Debug)]
pub struct PrefixRule {
    /// The name of the table.
    pub table: &'static str,
    /// The rule.
    pub prefix_of: PrefixOf,
}

/// Rules that an engine takes. Each entry that is written looks through those that are in use.
pub(crate) const STEM_RULES_MAX: usize = 4;

/// The rules of the tables that have one, by number.
#[derive(Debug, Default)]
pub(crate) struct PrefixRules([OnceLock<(u16, PrefixOf)>; STEM_RULES_MAX]);

impl PrefixRules {
    /// Sets the rule of table `table`, if it has none.
    pub(crate) fn set(&self, table: u16, prefix_of: PrefixOf) {
        let is_known = |rule: &OnceLock<_>| rule.get().is_some_and(|(known, _)| *known == table);
        if !self.0.iter().any(is_known) {
            // There is a place for each rule of the options.
            let _ = self.0.iter().find(|rule| rule.set((table, prefix_of)).is_ok());
        }
    }

    /// The prefix of an internal key, with the number of its table in front.
    #[inline]
    pub(crate) fn prefix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        for rule in &self.0 {
            let (table, prefix_of) = rule.get()?;
            if let Some(rest) = key.strip_prefix(&table.to_be_bytes()) {
                let length = prefix_of(rest)?;
                return key.get(..size_of::<u16>() + length);
            }
        }
        None
    }
}

/// The first key behind all that begin with `prefix`, if there is one.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_their_table() {
        let rules = PrefixRules::default();
        assert_eq!(rules.prefix_of(&[0, 7, 1, 2]), None);
        rules.set(7, |key| (key.len() > 1).then_some(1));
        rules.set(7, |_| None);
        rules.set(9, |key| Some(key.len()));
        assert_eq!(rules.prefix_of(&[0, 7, 1, 2]), Some(&[0, 7, 1][..]));
        assert_eq!(rules.prefix_of(&[0, 7, 1]), None);
        assert_eq!(rules.prefix_of(&[0, 8, 1, 2]), None);
        assert_eq!(rules.prefix_of(&[0, 9, 1, 2]), Some(&[0, 9, 1, 2][..]));
        assert_eq!(rules.prefix_of(&[]), None);
    }

    #[test]
    fn ends_of_prefixes() {
        assert_eq!(end_of_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(end_of_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(end_of_prefix(&[255]), None);
    }
}
