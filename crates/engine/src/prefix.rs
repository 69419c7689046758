//! Prefixes: the first bytes of keys, for look-ups that know only these.
//!
//! A look-up in an index knows the values that it searches for, but not the object whose key
//! follows them. A scan finds such keys, but has to seek in every memtable and table whose key
//! range contains them. If a rule defines the prefix of a key, memtables and tables know which
//! prefixes they hold, as they know their keys: most of them are skipped, and the others know the
//! place of the first key of the prefix ([`crate::Snapshot::scan_prefix`]).
//!
//! Files do not contain prefixes. They are collected in memory, while tables are written or later,
//! so a program may add or remove a rule at any time.

use std::sync::OnceLock;

/// The length of a key's prefix, in bytes; `None` if the key has none.
///
/// A prefix must not be the beginning of a key that has another prefix or none. So the keys of a
/// prefix are exactly those that begin with it.
pub type PrefixFunction = fn(&[u8]) -> Option<usize>;

/// The prefix rule of a table.
#[derive(Clone, Copy, Debug)]
pub struct PrefixRule {
    /// The name of the table.
    pub table: &'static str,
    /// The function that returns the length of a key's prefix.
    pub prefix_of: PrefixFunction,
}

/// The most prefix rules of an engine. Each written entry is compared with the rules in use.
pub(crate) const STEM_RULES_MAX: usize = 4;

/// The rules of the tables that have one, by number.
#[derive(Debug, Default)]
pub(crate) struct PrefixRules([OnceLock<(u16, PrefixFunction)>; STEM_RULES_MAX]);

impl PrefixRules {
    /// Sets the rule of table `table`, if it has none.
    pub(crate) fn set(&self, table: u16, prefix_of: PrefixFunction) {
        let is_known = |rule: &OnceLock<_>| rule.get().is_some_and(|(known, _)| *known == table);
        if !self.0.iter().any(is_known) {
            // There is a slot for each rule of the options.
            let _ = self.0.iter().find(|rule| rule.set((table, prefix_of)).is_ok());
        }
    }

    /// The prefix of an internal key, including the table number in front.
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

/// The first key behind all keys that begin with `prefix`; `None` if there is none.
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
    fn prefixes_follow_the_rule_of_their_table() {
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
    fn the_end_of_a_prefix_is_the_next_key_behind_it() {
        assert_eq!(end_of_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(end_of_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(end_of_prefix(&[255]), None);
    }
}
