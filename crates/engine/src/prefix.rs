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
    fn the_end_of_a_prefix_is_the_next_key_behind_it() {
        assert_eq!(end_of_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(end_of_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(end_of_prefix(&[255]), None);
    }
}
