//! Reading a segment that is not sealed, from its beginning to its tear.

use std::ops::RangeInclusive;

use super::record::{Damage, RECORD_LENGTH_MIN, Record, peek};
use crate::codec::{FILE_HEADER_LENGTH, read_u32};
use crate::header_form::RECORD_ALIGNMENT;
use crate::part_sums::PartSums;

/// Records up to this length, in bytes, get their checksum computed directly.
const SHORT_LENGTH_MAX: usize = 64;

/// The records of a segment up to its end or its tear.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScannedSegment {
    /// The offsets of the records of all complete batches, in units of 8 bytes.
    pub(crate) offsets: Vec<u32>,
    /// The end of the last complete batch, and of the sync marks behind it.
    pub(crate) end: u64,
    /// The offset of the first bytes that are not the next record.
    pub(crate) tear: u64,
    /// The reason why they are not.
    pub(crate) damage: Damage,
    /// The sequence number of the record that is missing at the tear.
    pub(crate) missing_sequence: u64,
}

/// Reads the records of `file`, a whole segment that begins with `first_sequence`.
pub(crate) fn scan_records(file: &[u8], store_seed: u32, first_sequence: u64) -> ScannedSegment {
    let start = FILE_HEADER_LENGTH as u64;
    let mut scanned = ScannedSegment {
        offsets: Vec::new(),
        end: start,
        tear: start,
        damage: Damage::Nothing,
        missing_sequence: first_sequence,
    };
    // The offsets of the current batch, which are discarded with it if its end is missing.
    let mut offsets = Vec::new();
    let mut is_within_batch = false;
    loop {
        let rest = file.get(scanned.tear as usize..).unwrap_or_default();
        let record = match Record::decode(rest, store_seed) {
            Ok(record) => record,
            Err(damage) => {
                scanned.damage = damage;
                return scanned;
            }
        };
        let is_mark = record.marked_sequence().is_some();
        let expected = scanned.missing_sequence.saturating_sub(u64::from(is_mark));
        if record.sequence != expected {
            scanned.damage = Damage::Fields;
            return scanned;
        }
        if !is_mark {
            offsets.push((scanned.tear / RECORD_ALIGNMENT) as u32);
            is_within_batch = record.batch_goes_on;
            scanned.missing_sequence += 1;
        }
        scanned.tear += record.padded_length();
        if !is_within_batch {
            scanned.end = scanned.tear;
            scanned.offsets.append(&mut offsets);
        }
    }
}

/// A record behind a tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StrayRecord {
    /// The offset of the record in the file.
    pub(crate) offset: u64,
    /// The sequence number up to which it guarantees durability, if it is a sync mark.
    pub(crate) marked_sequence: Option<u64>,
}

/// The records that prove that the bytes before them were durable.
struct DurabilityProof {
    missing_sequence: u64,
    any_record_counts: bool,
}

impl DurabilityProof {
    /// The sequence numbers of these records. There is no highest one: any number of records may
    /// have been between the tear and a later segment.
    fn sequences(&self) -> RangeInclusive<u64> {
        self.missing_sequence..=u64::MAX
    }

    /// True for a record with one of these sequence numbers that marks this one, if any.
    fn contains(&self, marked_sequence: Option<u64>) -> bool {
        let vouches = marked_sequence.is_some_and(|marked| marked >= self.missing_sequence);
        vouches || self.any_record_counts
    }
}

/// True if `file`, whose header says that it was never used, holds only zeros behind its header.
pub(crate) fn is_unused(file: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    let rest = file.get(FILE_HEADER_LENGTH..).unwrap_or_default();
    rest.chunks(ZEROS.len()).all(|piece| *piece == ZEROS[..piece.len()])
}

/// A search for records at any offset. Values may consist of words that each look like the start of
/// a long record; the amount of checksum computation does not depend on them.
pub(crate) struct RecordSearch<'a> {
    bytes: &'a [u8],
    store_seed: u32,
    /// Computed when the first long record is met.
    sums: Option<PartSums<'a>>,
    short_bytes: u64,
}

impl<'a> RecordSearch<'a> {
    /// A search within `bytes`, the beginning of a segment.
    pub(crate) fn new(bytes: &'a [u8], store_seed: u32) -> RecordSearch<'a> {
        RecordSearch { bytes, store_seed, sums: None, short_bytes: 0 }
    }

    /// The record at `offset`, if it is intact and its sequence number is in `sequences`.
    pub(crate) fn record_at(
        &mut self,
        offset: usize,
        sequences: &RangeInclusive<u64>,
    ) -> Option<Record<'a>> {
        let rest = self.bytes.get(offset..).filter(|rest| rest.len() >= RECORD_LENGTH_MIN)?;
        // A quick check of two fields rules out nearly every offset, above all zeros.
        let (length, sequence) = peek(rest)?;
        if !(RECORD_LENGTH_MIN..=rest.len()).contains(&length) || !sequences.contains(&sequence) {
            return None;
        }
        if length > SHORT_LENGTH_MAX {
            let (bytes, seed) = (self.bytes, self.store_seed);
            let sums = self.sums.get_or_insert_with(|| PartSums::new(bytes));
            let sum = sums.checksum(seed, offset + size_of::<u32>()..offset + length);
            if sum != read_u32(rest, 0) {
                return None;
            }
        }
        self.short_bytes += length.min(SHORT_LENGTH_MAX) as u64;
        Record::decode(rest, self.store_seed).ok()
    }

    /// The first wanted record from an offset on.
    fn find(&mut self, from: usize, wanted: &DurabilityProof) -> Option<StrayRecord> {
        let end = (self.bytes.len() + 1).saturating_sub(RECORD_LENGTH_MIN);
        let sequences = wanted.sequences();
        (from..end).step_by(RECORD_ALIGNMENT as usize).find_map(|offset| {
            let marked_sequence = self.record_at(offset, &sequences)?.marked_sequence();
            let is_wanted = wanted.contains(marked_sequence);
            is_wanted.then_some(StrayRecord { offset: offset as u64, marked_sequence })
        })
    }

    /// Bytes whose checksums were computed so far, except those of long intact records.
    #[allow(dead_code, reason = "tests look at it")]
    pub(crate) fn summed_bytes(&self) -> u64 {
        self.short_bytes + self.sums.as_ref().map_or(0, PartSums::summed_bytes)
    }
}

/// Searches behind a tear for a record that proves that the bytes there were durable: the first
/// valid record at or above `missing_sequence` if `any_record_counts`, otherwise the first sync
/// mark that guarantees the durability of that sequence number.
pub(crate) fn find_stray(
    file: &[u8],
    store_seed: u32,
    from: u64,
    missing_sequence: u64,
    any_record_counts: bool,
) -> Option<StrayRecord> {
    let wanted = DurabilityProof { missing_sequence, any_record_counts };
    RecordSearch::new(file, store_seed).find(from as usize, &wanted)
}

/// Calls `visit` for all intact records from offset `from` on, except sync marks.
pub(crate) fn for_each_record(
    file: &[u8],
    store_seed: u32,
    from: u64,
    mut visit: impl FnMut(&Record<'_>),
) {
    let (mut search, mut offset) = (RecordSearch::new(file, store_seed), from as usize);
    while offset < file.len() {
        let record = search.record_at(offset, &(0..=u64::MAX));
        record.iter().filter(|record| record.marked_sequence().is_none()).for_each(&mut visit);
        offset += record.map_or(RECORD_ALIGNMENT, |record| record.padded_length()) as usize;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::journal::RecordKind;

    /// Regression: every word that looked like the start of a record had its whole record
    /// checksummed, so opening a store took 14 s for 2 MiB, and four times as long for twice as
    /// much. `make bench-opening` shows the times.
    #[test]
    fn a_value_that_looks_like_records_does_not_slow_a_search() {
        const BYTES: usize = 32 << 20;
        // A plausible sequence number, and the marks of a short header of a put.
        const FIRST_WORD: u64 = 1_000 | 0x81 << 56;
        // A checksum and a length of 1 MiB.
        const FRONT_WORD: u64 = (1 << 20) << 32 | 7;
        for (candidates, words) in
            [(0, [FIRST_WORD, FIRST_WORD]), (BYTES / 16, [FRONT_WORD, FIRST_WORD])]
        {
            let mut file = vec![0; FILE_HEADER_LENGTH];
            while file.len() < BYTES {
                words.iter().for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
            }
            let begin = Instant::now();
            let mut search = RecordSearch::new(&file, 5);
            let wanted = DurabilityProof { missing_sequence: 990, any_record_counts: true };
            assert_eq!(search.find(FILE_HEADER_LENGTH, &wanted), None);
            let seconds = begin.elapsed().as_secs_f64() * (1 << 30) as f64 / BYTES as f64;
            println!("{candidates} beginnings in {BYTES} bytes: {seconds:.2} s a GiB");
            let all_bytes = if candidates == 0 { 0 } else { BYTES as u64 };
            let (summed, limit) = (search.summed_bytes(), all_bytes + candidates as u64 * 256);
            assert!((all_bytes..=limit).contains(&summed), "{summed} bytes of {all_bytes}");
        }
    }

    /// Regression: a mark behind more records than the searched file has room for, all of them in
    /// the segment with the tear, was not found, and durable records were cut off as a torn tail.
    #[test]
    fn a_mark_far_above_the_missing_record_is_found() {
        const SEED: u32 = 5;
        let mark = Record {
            sequence: 100_990,
            kind: RecordKind::SyncMark,
            value: &100_980_u64.to_le_bytes(),
            ..Record::EMPTY
        };
        let mut file = vec![0_u8; 1 << 20];
        assert!(file.as_ptr().cast::<u64>().is_aligned());
        // SAFETY: the mark fits there, and the offset is aligned because the buffer is, which was
        // checked above.
        unsafe { mark.lay_down(file[FILE_HEADER_LENGTH..].as_mut_ptr(), SEED) };
        let offset = FILE_HEADER_LENGTH as u64;
        let find = |missing| find_stray(&file, SEED, offset, missing, false);
        let stray = StrayRecord { offset, marked_sequence: Some(100_980) };
        assert_eq!(find(990), Some(stray));
        assert_eq!(find(100_981), None);
    }

    #[test]
    fn the_first_stray_is_found_even_if_it_ends_with_the_file() {
        const SEED: u32 = 5;
        let record = Record {
            sequence: 1_000,
            written_at_ms: 1,
            key: b"\0\x01k",
            value: &[7; 500],
            ..Record::EMPTY
        };
        let start = FILE_HEADER_LENGTH;
        let mut file = vec![0_u8; 1 << 20];
        assert!(file.as_ptr().cast::<u64>().is_aligned());
        let last = file.len() - record.padded_length() as usize;
        let find = |file: &[u8]| find_stray(file, SEED, start as u64, 990, true);
        assert_eq!(find(&file), None);
        for offset in [last, (1 << 19) + 8, start] {
            // SAFETY: the record fits there, and the offset is aligned because the buffer is, which
            // was checked above.
            unsafe { record.lay_down(file[offset..].as_mut_ptr(), SEED) };
            assert_eq!(find(&file).map(|stray| stray.offset), Some(offset as u64));
        }
    }
}
