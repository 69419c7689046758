//! The records that a directory names: for each slot, the sequence number of the record of its
//! entry, so that a GET goes from the directory straight to the record. The record has all that the
//! entry in the block has, including the key, and the block would be one more cache miss.
//!
//! It takes as much memory as the directory, and comes second: a table gets it only if enough
//! memory is left for the directories of others.

use std::sync::Arc;

use pellucid_io::ZeroedMemory;

use super::memory::TableMemory;
use super::memory_reservation::MemoryReservation;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};

/// The lower halves of sequence numbers, one for each slot of a directory; 0 for none.
#[derive(Debug)]
pub(super) struct RecordSequences {
    memory: ZeroedMemory,
    slots: usize,
    /// The highest sequence number; all others are less than 2³² below it.
    highest: u64,
    _taken: MemoryReservation,
}

impl RecordSequences {
    /// An array without records for `lines` lines of slots; `None` if the budget has no room for
    /// it.
    pub(super) fn new(lines: usize, highest: u64, budget: &Arc<TableMemory>) -> Option<Self> {
        let size_bytes = lines * CACHE_LINE_BYTES;
        let taken = budget.take_for_records(size_bytes as u64)?;
        let memory = ZeroedMemory::new(size_bytes);
        Some(RecordSequences { memory, slots: size_bytes / 4, highest, _taken: taken })
    }

    /// Sets the lower half of a slot's sequence number.
    pub(super) fn set(&mut self, slot: usize, half: u32) {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the slot lies within the memory, which nothing else uses yet.
        unsafe { self.memory.pointer().cast::<u32>().add(slot).write(half) };
    }

    /// The sequence number of a slot's record, if it is named.
    #[inline]
    pub(super) fn at(&self, slot: usize) -> Option<u64> {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the slot lies within the memory, which is never written again.
        let half = unsafe { self.memory.pointer().cast::<u32>().add(slot).read() };
        let below = (self.highest as u32).wrapping_sub(half);
        (half != 0).then(|| self.highest - u64::from(below))
    }

    /// Prefetches the slots of the line with this number.
    #[inline]
    pub(super) fn prefetch(&self, line: usize) {
        prefetch(self.memory.pointer().wrapping_add(line * CACHE_LINE_BYTES));
    }

    /// The memory of the array, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.memory.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_round_trip_across_a_32_bit_border() {
        let (budget, half) = (TableMemory::new(1 << 20), 1_u64 << 32);
        let highest = 3 * half + 5;
        let mut named = RecordSequences::new(2, highest, &budget).expect("there is room");
        let sequences = [highest, 3 * half + 1, 3 * half - 1, 2 * half + 6];
        for (slot, sequence) in sequences.into_iter().enumerate() {
            named.set(slot, sequence as u32);
        }
        for (slot, sequence) in sequences.into_iter().enumerate() {
            assert_eq!(named.at(slot), Some(sequence));
        }
        assert_eq!(named.at(31), None);
        assert_eq!(budget.used_bytes(), 128);
        assert!(RecordSequences::new(1 << 20, 1, &budget).is_none(), "beyond the budget");
    }
}
