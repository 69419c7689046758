//! Translates the parts of the phase `execute` for the peer protocol. The protocol numbers parts as
//! the embedded engine does ([`pellucid_embedded::parts`]), whichever kind of store the owner has.

use pellucid_account::{PARTS_MAX, Part};
use pellucid_embedded::parts;

/// The engine's equivalents of parts that other stores have, by name. A part without an equivalent
/// is not sent, so it counts as the rest of `execute`.
const LIKE: [(&str, Part); 4] = [
    // RocksDB's.
    ("writer_order", parts::WRITER_WAIT),
    ("write_ahead_log", parts::JOURNAL_APPEND),
    ("files", parts::LEDGER),
    ("block_read", parts::JOURNAL_READ),
];

/// For each slot of a store's part, the slot in the peer protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerParts([Option<u8>; PARTS_MAX]);

impl OwnerParts {
    /// The translation for a store whose parts have these names.
    pub(crate) fn of(names: &[&str; PARTS_MAX]) -> OwnerParts {
        OwnerParts(names.map(|name| {
            let own = parts::NAMES.iter().position(|known| *known == name);
            let like = LIKE.iter().find(|(known, _)| *known == name).map(|(_, part)| part.slot());
            own.or(like).map(|slot| slot as u8)
        }))
    }

    /// The protocol's slot for the store's `slot`; `None` if the part counts as the rest.
    pub(crate) fn slot(&self, slot: usize) -> Option<usize> {
        self.0[slot].map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_embedded_engine_keep_their_slots() {
        let known = OwnerParts::of(&parts::NAMES);
        assert!((0..PARTS_MAX).all(|slot| known.slot(slot) == Some(slot)));
    }

    /// Regression: the slots were not translated, so that the peer showed RocksDB's log as the
    /// ledger, and its memtable and files as the journal.
    #[test]
    fn parts_of_rocksdb_are_translated_by_name() {
        let known = OwnerParts::of(&[
            "stall", "writer_order", "write_ahead_log", "memtable", "files", "block_read",
            "snapshot", "unused_7",
        ]);
        let slots = [0, 1, 2, 3, 4, 5, 6, 7].map(|slot| known.slot(slot));
        let of = |part: Part| Some(part.slot());
        let expected = [
            of(parts::STALL),
            of(parts::WRITER_WAIT),
            of(parts::JOURNAL_APPEND),
            of(parts::MEMTABLE),
            of(parts::LEDGER),
            of(parts::JOURNAL_READ),
            None,
            None,
        ];
        assert_eq!(slots, expected);
    }
}
