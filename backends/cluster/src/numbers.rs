//! Integers in frames: little-endian, read at offsets that the caller has checked, and the encoding
//! of conditions.

use pellucid_store::Condition;

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"))
}

/// The encoding of a condition: its kind and its sequence number.
pub(crate) fn numbers_of(condition: Condition) -> (u8, u64) {
    match condition {
        Condition::None => (0, 0),
        Condition::Absent => (1, 0),
        Condition::Present => (2, 0),
        Condition::Sequence(sequence) => (3, sequence),
    }
}

/// The condition with this encoding; `None` if the kind is unknown.
pub(crate) fn condition_of(kind: u8, sequence: u64) -> Option<Condition> {
    match kind {
        0 => Some(Condition::None),
        1 => Some(Condition::Absent),
        2 => Some(Condition::Present),
        3 => Some(Condition::Sequence(sequence)),
        _ => None,
    }
}
