//! A store's parts of `execute`, as an owner tells them: by the numbers of the embedded engine's
//! ([`pellucid_embedded::parts`]), which the peer protocol has, whatever store the owner has.

use pellucid_account::{PARTS_MAX, Part};
use pellucid_embedded::parts;

/// The equivalents of other stores' parts, by their names. A part without a line here is told as
/// the rest.
const LIKE: [(&str, Part); 4] = [
    // RocksDB's.
    ("writer_order", parts::WRITER_WAIT),
    ("write_ahead_log", parts::JOURNAL_APPEND),
    ("files", parts::LEDGER),
    ("block_read", parts::JOURNAL_READ),
];

/// By the slot of a store's part, the slot that it is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerParts([Option<u8>; PARTS_MAX]);

impl OwnerParts {
    /// Of a store whose parts have these names.
    pub(crate) fn of(names: &[&str; PARTS_MAX]) -> OwnerParts {
        OwnerParts(names.map(|name| {
            let own = parts::NAMES.iter().position(|known| *known == name);
            let like = LIKE.iter().find(|(known, _)| *known == name).map(|(_, part)| part.slot());
            own.or(like).map(|slot| slot as u8)
        }))
    }

    /// The slot in which the time of a part is told; nothing if it belongs to the rest.
    pub(crate) fn slot(&self, slot: usize) -> Option<usize> {
        self.0[slot].map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_engines_parts_stay_where_they_are() {
        let known = OwnerParts::of(&parts::NAMES);
        assert!((0..PARTS_MAX).all(|slot| known.slot(slot) == Some(slot)));
    }

    /// They were told by their slots, so that the log was shown as the ledger, and memtable and
    /// files as the journal.
    #[test]
    fn rocksdbs_are_told_as_what_they_are() {
        let known = OwnerParts::of(&[
            "stall",
            "writer_order",
            "write_ahead_log",
            "memtable",
            "files",
            "block_read",
            "snapshot",
            "unused_7",
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
