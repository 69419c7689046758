//! The directory of a table: the place of each of its keys, in memory. A look-up reads one cache
//! line to learn that a key is absent, or which entry of which block it is.
//!
//! It replaces the filter and the index, with about 6 bytes per key, and as much again for the
//! records that it names ([`super::named`]). It is built while the table is written, or later by
//! the background thread, within a memory budget. A table without one answers from its filter and
//! its index. The key of the entry that is found is always compared, so a directory can make a
//! look-up fast, but not wrong.
//!
//! A line has 16 slots of 4 bytes. A slot is zero, or holds, from the top: a tag (some bits of the
//! key's hash, never zero), the block, and the entry within the block. Keys whose line is full are
//! put into the next one.

use std::sync::{Arc, OnceLock};

use pellucid_io::ZeroedMemory;

use super::filter::KEYS_A_PIECE;
use super::memory::TableMemory;
use super::memory_reservation::MemoryReservation;
use super::record_sequences::RecordSequences;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};

const SLOTS_A_LINE: usize = 16;
/// The number of keys per line: with 11 for 16 slots, one line in eleven is full.
const KEYS_A_LINE: usize = 11;
/// The fewest bits of a tag: with fewer, too many look-ups would read a block in vain.
const TAG_BITS_MIN: u32 = 8;
/// The distance ahead of the current key at which lines are prefetched.
const KEYS_AHEAD: usize = 12;

/// The memory of the directory of a table with `keys` keys, in bytes.
pub(super) fn directory_size_bytes(keys: u64) -> u64 {
    lines_for(keys as usize) as u64 * CACHE_LINE_BYTES as u64
}

fn lines_for(keys: usize) -> usize {
    keys.div_ceil(KEYS_A_LINE).max(1) + 1
}

/// Collects the hashes and places of a table's keys, with 14 bytes per key.
#[derive(Debug, Default)]
pub(crate) struct DirectoryBuilder {
    hashes: Vec<u64>,
    /// The entry of each key within its block: below 65,536.
    entries: Vec<u16>,
    /// For each block, the number of keys whose newest entries are in the blocks before it.
    blocks: Vec<u32>,
    entry_max: u64,
    /// The lower half of the sequence number of each key's record; 0 for none.
    records: Vec<u32>,
    /// The lowest and the highest of these sequence numbers.
    lowest_record: u64,
    highest_record: u64,
}

impl DirectoryBuilder {
    /// Notes that the newest entry of the key with this hash is entry `entry` of block `block`, and
    /// that a GET may instead read the record with the sequence number `record`.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, block: usize, entry: usize, record: Option<u64>) {
        if let Some(record) = record {
            let is_first = self.highest_record == 0;
            self.lowest_record = if is_first { record } else { self.lowest_record.min(record) };
            self.highest_record = self.highest_record.max(record);
        }
        self.records.push(record.unwrap_or(0) as u32);
        let keys = self.hashes.len() as u32;
        self.blocks.resize(self.blocks.len().max(block + 1), keys);
        self.hashes.push(hash);
        self.entries.push(entry as u16);
        self.entry_max = self.entry_max.max(entry as u64);
    }

    /// The hashes of all keys.
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The memory of the builder, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.hashes.len() * 14 + self.blocks.len() * 4) as u64
    }

    /// Removes all keys, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
        self.entries.clear();
        self.blocks.clear();
        self.entry_max = 0;
        self.records.clear();
        (self.lowest_record, self.highest_record) = (0, 0);
    }

    /// True if there are records to name, and their sequence numbers are so close together that the
    /// lower halves identify them.
    pub(super) fn names_records(&self) -> bool {
        self.highest_record > 0 && self.highest_record - self.lowest_record <= u32::MAX.into()
    }

    /// For each key its hash, the value of its slot, and the lower half of its record's sequence
    /// number.
    fn values(&self, directory: &Directory) -> impl Iterator<Item = (u64, u32, u32)> {
        let (mut block, entry_bits, place_bits) = (0, directory.entry_bits, directory.place_bits);
        let tags = self.hashes.iter().map(|hash| directory.tag_of(*hash));
        let keys = self.hashes.iter().zip(tags).zip(self.entries.iter().zip(&self.records));
        keys.enumerate().map(move |(key, ((hash, tag), (entry, record)))| {
            while self.blocks.get(block + 1).is_some_and(|first| *first as usize <= key) {
                block += 1;
            }
            let place = (block as u64) << entry_bits | u64::from(*entry);
            (*hash, tag << place_bits | place as u32, *record)
        })
    }

    /// Builds the directory of a table of `blocks` blocks; `None` if the budget has no room for it,
    /// or if the table is too large for slots of 4 bytes.
    pub(crate) fn finish(&self, blocks: usize, budget: &Arc<TableMemory>) -> Option<Directory> {
        let bits_for = |largest: u64| u64::BITS - largest.leading_zeros();
        let entry_bits = bits_for(self.entry_max);
        let place_bits = entry_bits + bits_for(blocks.saturating_sub(1) as u64);
        if place_bits + TAG_BITS_MIN > u32::BITS {
            return None;
        }
        let lines = lines_for(self.hashes.len());
        let taken = budget.take_for_directory((lines * CACHE_LINE_BYTES) as u64)?;
        let memory = ZeroedMemory::new(lines * CACHE_LINE_BYTES);
        let lines = u32::try_from(lines).ok()?;
        let records = OnceLock::new();
        let directory = Directory { memory, lines, place_bits, entry_bits, records, _taken: taken };
        // SAFETY: the memory holds that many slots, zeroed and aligned, and nothing else uses it.
        let slots = unsafe {
            let count = lines as usize * SLOTS_A_LINE;
            std::slice::from_raw_parts_mut(directory.memory.pointer().cast::<u32>(), count)
        };
        let names_records = self.names_records();
        let mut records = names_records
            .then(|| RecordSequences::new(lines as usize, self.highest_record, budget))
            .flatten();
        for (index, (hash, value, record)) in self.values(&directory).enumerate() {
            if index.is_multiple_of(KEYS_A_PIECE) {
                pellucid_thread::give_way();
            }
            if let Some(ahead) = self.hashes.get(index + KEYS_AHEAD) {
                let line = directory.line_of(*ahead);
                prefetch(slots.as_ptr().wrapping_add(line * SLOTS_A_LINE).cast());
                records.iter().for_each(|records| records.prefetch(line));
            }
            // There are more slots than keys, so one is free.
            let free = directory.slot_with(slots, hash, 0)?;
            slots[free] = value;
            if let Some(records) = &mut records {
                records.set(free, record);
            }
        }
        if let Some(records) = records {
            // The directory is new, so none are set yet.
            let _ = directory.records.set(records);
        }
        Some(directory)
    }
}

/// The directory of a table: the places of its keys.
#[derive(Debug)]
pub(crate) struct Directory {
    memory: ZeroedMemory,
    lines: u32,
    place_bits: u32,
    entry_bits: u32,
    /// The record of each slot, once there was memory for them.
    records: OnceLock<RecordSequences>,
    _taken: MemoryReservation,
}

/// A place where a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryLocation {
    pub(crate) block: usize,
    pub(crate) entry: usize,
}

impl Directory {
    /// The memory of the directory, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.memory.length() + self.records.get().map_or(0, RecordSequences::size_bytes)
    }

    /// True if the directory does not name records, and the budget has room for that.
    pub(super) fn wants_records(&self, budget: &TableMemory) -> bool {
        self.records.get().is_none() && budget.has_room_for_records(self.memory.length() as u64)
    }

    /// Sets the records of the keys, if the budget has room for them. `builder` must hold the keys
    /// from which the directory was built.
    pub(super) fn name_records(&self, builder: &DirectoryBuilder, budget: &Arc<TableMemory>) {
        if !builder.names_records() {
            return;
        }
        let lines = self.lines as usize;
        let Some(mut records) = RecordSequences::new(lines, builder.highest_record, budget) else {
            return;
        };
        for (hash, value, record) in builder.values(self) {
            if let Some(slot) = self.slot_with(self.slots(), hash, value) {
                records.set(slot, record);
            }
        }
        // If another thread was faster, it has set the same records.
        let _ = self.records.set(records);
    }

    /// The sequence number of the record of the key in a slot, if it is named.
    #[inline]
    pub(super) fn record_at(&self, slot: usize) -> Option<u64> {
        self.records.get()?.at(slot)
    }

    /// All slots.
    fn slots(&self) -> &[u32] {
        let count = self.lines as usize * SLOTS_A_LINE;
        // SAFETY: the memory holds that many aligned slots, and is never written again.
        unsafe { std::slice::from_raw_parts(self.memory.pointer().cast::<u32>(), count) }
    }

    /// The first slot that holds `value`, searched from the line of this hash on.
    #[inline]
    fn slot_with(&self, slots: &[u32], hash: u64, value: u32) -> Option<usize> {
        let (lines, _) = slots.as_chunks::<SLOTS_A_LINE>();
        let first = self.line_of(hash);
        (first..lines.len()).chain(0..first).find_map(|line| {
            let matches = matches_in(&lines[line], 0, value);
            (matches != 0).then(|| line * SLOTS_A_LINE + matches.trailing_zeros() as usize)
        })
    }

    #[inline]
    fn tag_of(&self, hash: u64) -> u32 {
        // The line is chosen by the upper half of the hash. A tag of zero becomes one.
        (hash as u32 >> self.place_bits).max(1)
    }

    #[inline]
    fn line_of(&self, hash: u64) -> usize {
        (((hash >> 32) * u64::from(self.lines)) >> 32) as usize
    }

    #[inline]
    fn line(&self, line: usize) -> &[u32; SLOTS_A_LINE] {
        debug_assert!(line < self.lines as usize);
        // SAFETY: the memory holds `lines` lines of 16 aligned slots, and is never written again.
        unsafe { &*self.memory.pointer().cast::<[u32; SLOTS_A_LINE]>().add(line) }
    }

    /// Prefetches the line of a hash, and, if `with_records`, the records that it names.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, with_records: bool) {
        let line = self.line_of(hash);
        prefetch(self.line(line).as_ptr().cast());
        if with_records && let Some(records) = self.records.get() {
            records.prefetch(line);
        }
    }

    /// Calls `visit` with each place where the key with this hash may be, and with its slot, until
    /// `visit` returns a value.
    #[inline]
    pub(crate) fn find<T>(
        &self,
        hash: u64,
        mut visit: impl FnMut(EntryLocation, usize) -> Option<T>,
    ) -> Option<T> {
        let tag = self.tag_of(hash);
        let mut at = self.line_of(hash);
        for _ in 0..self.lines {
            let line = self.line(at);
            let mut matches = matches_in(line, self.place_bits, tag);
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                let place = line[slot % SLOTS_A_LINE] & ((1 << self.place_bits) - 1);
                let place = EntryLocation {
                    block: (place >> self.entry_bits) as usize,
                    entry: (place & ((1 << self.entry_bits) - 1)) as usize,
                };
                if let Some(found) = visit(place, at * SLOTS_A_LINE + slot) {
                    return Some(found);
                }
            }
            if line[SLOTS_A_LINE - 1] == 0 {
                return None;
            }
            at = if at + 1 == self.lines as usize { 0 } else { at + 1 };
        }
        None
    }
}

/// A bit for each slot whose upper bits, from `shift` on, are `tag`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn matches_in(line: &[u32; SLOTS_A_LINE], shift: u32, tag: u32) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi32, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_srl_epi32,
    };
    // SAFETY: SSE2 belongs to every x86-64 processor; the four loads cover the line's 64 bytes.
    unsafe {
        let (shift, tag) = (_mm_cvtsi32_si128(shift as i32), _mm_set1_epi32(tag as i32));
        let equal = |quarter: usize| {
            let slots = _mm_loadu_si128(line.as_ptr().cast::<__m128i>().add(quarter));
            _mm_cmpeq_epi32(_mm_srl_epi32(slots, shift), tag)
        };
        let low = _mm_packs_epi32(equal(0), equal(1));
        let high = _mm_packs_epi32(equal(2), equal(3));
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

/// A bit for each slot whose upper bits, from `shift` on, are `tag`.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn matches_in(line: &[u32; SLOTS_A_LINE], shift: u32, tag: u32) -> u32 {
    let slots = line.iter().enumerate();
    slots.fold(0, |matches, (slot, value)| matches | u32::from(value >> shift == tag) << slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::key_hash;

    fn hash_of(key: u32) -> u64 {
        key_hash(&key.to_le_bytes())
    }

    #[test]
    fn all_keys_are_found_and_few_others() {
        let budget = TableMemory::new(1 << 20);
        let mut builder = DirectoryBuilder::default();
        // Some keys have no named record.
        let is_named = |key: u32| !key.is_multiple_of(5);
        let record = |key: u32| is_named(key).then(|| 7_000_000_000 + 3 * u64::from(key));
        for key in 0..20_000_u32 {
            builder.add(hash_of(key), key as usize / 27, key as usize % 27, record(key));
        }
        let directory = builder.finish(741, &budget).expect("the budget is large enough");
        assert_eq!(budget.used_bytes(), directory.size_bytes() as u64);
        for key in 0..20_000_u32 {
            let expected = EntryLocation { block: key as usize / 27, entry: key as usize % 27 };
            let found = directory.find(hash_of(key), |place, slot| {
                (place == expected).then(|| directory.record_at(slot))
            });
            assert_eq!(found, Some(record(key)));
        }
        let others = 20_000..120_000_u32;
        let passed = others
            .filter(|key| directory.find(hash_of(*key), |place, _| Some(place)).is_some())
            .count();
        assert!(passed < 200, "{passed} of 100,000 false positives");
        drop(directory);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn full_lines_overflow_into_the_next_and_wrap_around() {
        let budget = TableMemory::new(1 << 20);
        let mut builder = DirectoryBuilder::default();
        // All keys belong into the last line.
        let hash = |key: u64| 0xffff_ffff_0000_0000 | key << 24;
        for key in 1..100 {
            builder.add(hash(key), 0, key as usize, None);
        }
        let directory = builder.finish(1, &budget).expect("the budget is large enough");
        for key in 1..100 {
            let find = |place: EntryLocation, _: usize| {
                (place.entry == key as usize).then_some(place.block)
            };
            assert_eq!(directory.find(hash(key), find), Some(0));
        }
        assert_eq!(directory.find(hash(200), |place, _| Some(place)), None);
    }

    #[test]
    fn no_directory_is_built_without_memory_or_bits() {
        let mut builder = DirectoryBuilder::default();
        (0..100).for_each(|key| builder.add(hash_of(key), 5, 9, None));
        assert!(builder.finish(6, &TableMemory::new(500)).is_none());
        let budget = TableMemory::new(1 << 20);
        assert!(builder.finish(1 << 21, &budget).is_none(), "25 bits of place leave 7 of tag");
        assert_eq!(budget.used_bytes(), 0);
        assert!(builder.finish(1 << 20, &budget).is_some());
    }

    #[test]
    fn slots_match_only_by_their_tags() {
        let mut line = [0; SLOTS_A_LINE];
        line[3] = 0x8001_2345;
        line[9] = 0x8001_0000;
        line[15] = 0x8002_2345;
        assert_eq!(matches_in(&line, 16, 0x8001), 1 << 3 | 1 << 9);
        assert_eq!(matches_in(&line, 16, 0x8002), 1 << 15);
        assert_eq!(matches_in(&line, 0, 0x8001_0000), 1 << 9);
    }
}
