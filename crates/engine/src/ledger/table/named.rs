//! The records that a directory names: beside each of its slots the sequence number of the entry
//! there, so that a GET goes from the directory to the record at once. The record has all that the
//! entry's block would say, the key among it, and the block would be one more wait.
//!
//! It takes as much memory as the directory, and comes second: a table gets it while enough is left
//! for the directories of others.

use std::sync::Arc;

use pellucid_io::ZeroedMemory;

use super::memory::TableMemory;
use super::taken::Taken;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};

/// Sequence numbers side by side, for the slots of a directory: their lower halves, 0 for none.
#[derive(Debug)]
pub(super) struct NamedRecords {
    memory: ZeroedMemory,
    slots: usize,
    /// All sequence numbers lie less than the range of a half below it, or are it.
    highest: u64,
    _taken: Taken,
}

impl NamedRecords {
    /// None for any of `lines` lines of slots; nothing if the budget has no room for them.
    pub(super) fn new(lines: usize, highest: u64, budget: &Arc<TableMemory>) -> Option<Self> {
        let size_bytes = lines * CACHE_LINE_BYTES;
        let taken = budget.take_for_records(size_bytes as u64)?;
        let memory = ZeroedMemory::new(size_bytes);
        Some(NamedRecords { memory, slots: size_bytes / 4, highest, _taken: taken })
    }

    /// Notes the lower half of a sequence number.
    pub(super) fn set(&mut self, slot: usize, half: u32) {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the slot lies within the memory, which nobody else has yet.
        unsafe { self.memory.pointer().cast::<u32>().add(slot).write(half) };
    }

    /// The sequence number of the record at a slot, if it is named.
    #[inline]
    pub(super) fn at(&self, slot: usize) -> Option<u64> {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the slot lies within the memory, which is not written any more.
        let half = unsafe { self.memory.pointer().cast::<u32>().add(slot).read() };
        let below = (self.highest as u32).wrapping_sub(half);
        (half != 0).then(|| self.highest - u64::from(below))
    }

    /// Asks for the line of slots with this number.
    #[inline]
    pub(super) fn prefetch(&self, line: usize) {
        prefetch(self.memory.pointer().wrapping_add(line * CACHE_LINE_BYTES));
    }

    /// Bytes of memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.memory.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_return_whole_across_the_border_of_a_half() {
        let (budget, half) = (TableMemory::new(1 << 20), 1_u64 << 32);
        let highest = 3 * half + 5;
        let mut named = NamedRecords::new(2, highest, &budget).expect("there is room");
        let sequences = [highest, 3 * half + 1, 3 * half - 1, 2 * half + 6];
        for (slot, sequence) in sequences.into_iter().enumerate() {
            named.set(slot, sequence as u32);
        }
        for (slot, sequence) in sequences.into_iter().enumerate() {
            assert_eq!(named.at(slot), Some(sequence));
        }
        assert_eq!(named.at(31), None);
        assert_eq!(budget.used_bytes(), 128);
        assert!(NamedRecords::new(1 << 20, 1, &budget).is_none(), "beyond the budget");
    }
}
