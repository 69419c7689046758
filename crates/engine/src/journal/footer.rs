//! The footer of a sealed segment: the offsets of its records (`docs/format.md`), in units of 8
//! bytes.

use super::offset_bitmap;
use super::runs::Runs;
use crate::codec::{checksum, checksum_seed, read_u32, read_u64};

/// Length of the fixed part, which is at the end of the file, in bytes.
pub(crate) const FOOTER_FIXED_LENGTH: u64 = 32;
/// The last four bytes of a sealed segment.
const CLOSING_MAGIC: [u8; 4] = *b"PLSF";
/// Kind: the offset array has an entry for each sequence number from the first one on.
const KIND_DENSE: u32 = 0;
/// Kind: the offset array has pairs of sequence number and offset, for the remaining records.
const KIND_SPARSE: u32 = 1;
/// Kind: a bitmap of the sequence numbers whose records remain, and an offset for each of them.
const KIND_RANKED: u32 = 2;
/// Length of an entry of the dense array, in bytes.
pub(crate) const OFFSET_LENGTH: u64 = 4;
/// Length of an entry of the sparse array, in bytes.
pub(crate) const PAIR_LENGTH: u64 = 8;
/// The number of pairs from which on a search goes through them one by one.
const PAIRS_WALKED: usize = 8;

/// The form in which the offsets are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetForm {
    /// Every sequence number has its record.
    Dense,
    /// A collected segment: only the records that were needed remain.
    Sparse,
    /// As `Sparse`, with enough remaining records for a bitmap to take less space than pairs.
    Ranked {
        /// The number of sequence numbers that the segment covers.
        sequences: u64,
    },
}

/// Length of the footer of a segment with `count` records, in bytes.
pub(crate) fn footer_length(count: u64) -> u64 {
    (count * OFFSET_LENGTH).next_multiple_of(8) + FOOTER_FIXED_LENGTH
}

/// Length of the footer of a collected segment with `count` records, in bytes, as pairs.
fn sparse_footer_length(count: u64) -> u64 {
    count * PAIR_LENGTH + 8 + FOOTER_FIXED_LENGTH
}

/// Length of the footer of a collected segment with `count` records, in bytes, as a bitmap.
fn ranked_footer_length(sequences: u64, count: u64) -> u64 {
    let offsets = (count * OFFSET_LENGTH).next_multiple_of(8);
    offset_bitmap::units_length(sequences) + offsets + 8 + FOOTER_FIXED_LENGTH
}

/// A footer, decoded from its fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Offset of the footer's first byte in the file.
    pub(crate) offset: u64,
    /// Number of entries of the offset array.
    pub(crate) count: u32,
    /// The last sequence number of the segment.
    pub(crate) last_sequence: u64,
    /// The form in which the offsets are stored.
    pub(crate) form: OffsetForm,
    /// The sequence number up to which tombstones and expired values hide nothing in this segment;
    /// `None` if the segment was not collected.
    pub(crate) clean_sequence: Option<u64>,
}

/// The reason why the end of a file is not a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFooter {
    /// The file is not sealed: there is no closing magic.
    Unsealed,
    /// There is a closing magic, but the rest is invalid.
    Damaged,
}

impl Footer {
    /// Length of the footer in bytes. It ends the file.
    pub(crate) fn length(&self) -> u64 {
        match self.form {
            OffsetForm::Dense => footer_length(u64::from(self.count)),
            OffsetForm::Sparse => sparse_footer_length(u64::from(self.count)),
            OffsetForm::Ranked { sequences } => {
                ranked_footer_length(sequences, u64::from(self.count))
            }
        }
    }

    /// True if there is a record for each sequence number from the first to the last.
    #[inline]
    pub(super) fn is_dense(&self) -> bool {
        matches!(self.form, OffsetForm::Dense)
    }

    /// True if the offsets are stored as pairs, so that a record is found by a search.
    #[inline]
    pub(super) fn has_pairs(&self) -> bool {
        matches!(self.form, OffsetForm::Sparse)
    }

    /// The entries of the footer of `file`, ascending: the distance of each sequence number from
    /// the first one, and the offset of its record.
    pub(crate) fn entries<'a>(&self, file: &'a [u8]) -> Entries<'a> {
        Entries { footer: *self, file, index: 0, distance: 0 }
    }

    /// Pair `index`: the distance of its sequence number from the first one, and the record's
    /// offset.
    #[inline]
    fn pair(&self, file: &[u8], index: u64) -> (u64, u64) {
        let pair = self.offset as usize + (index * PAIR_LENGTH) as usize;
        (u64::from(read_u32(file, pair)), u64::from(read_u32(file, pair + 4)) * 8)
    }

    /// The index, among the segment's records, of the record that is `distance` sequence numbers
    /// after the first one; `None` if there is no such record, or if finding it takes a search.
    #[inline]
    pub(super) fn number_of(&self, file: &[u8], distance: u64) -> Option<u64> {
        match self.form {
            OffsetForm::Dense => (distance < u64::from(self.count)).then_some(distance),
            OffsetForm::Ranked { sequences } if distance < sequences => {
                offset_bitmap::rank_of(file, self.offset as usize, distance)
            }
            OffsetForm::Ranked { .. } | OffsetForm::Sparse => None,
        }
    }

    /// The address of the bitmap entry that [`Footer::number_of`] reads, for a prefetch; `None` if
    /// it reads none.
    #[inline]
    pub(super) fn number_line(&self, file: &[u8], distance: u64) -> Option<*const u8> {
        match self.form {
            OffsetForm::Ranked { sequences } if distance < sequences => {
                let at = self.offset as usize + offset_bitmap::unit_offset(distance);
                file.get(at).map(std::ptr::from_ref)
            }
            _ => None,
        }
    }

    /// The offset of the offset array in the file; `None` if there are pairs instead.
    #[inline]
    fn array_offset(&self) -> Option<usize> {
        match self.form {
            OffsetForm::Dense => Some(self.offset as usize),
            OffsetForm::Ranked { sequences } => {
                Some(self.offset as usize + offset_bitmap::units_length(sequences) as usize)
            }
            OffsetForm::Sparse => None,
        }
    }

    /// The offsets as runs, if few runs describe them.
    pub(super) fn runs(&self, file: &[u8]) -> Option<Runs> {
        let array = file.get(self.array_offset()?..)?;
        let offsets = array.chunks_exact(OFFSET_LENGTH as usize).map(|offset| read_u32(offset, 0));
        Runs::of(offsets.take(self.count as usize))
    }

    /// The offset of the record that is `distance` sequence numbers after the first one of `file`.
    #[inline]
    pub(crate) fn record_offset(&self, file: &[u8], distance: u64) -> Option<u64> {
        let Some(array) = self.array_offset() else {
            return self.find(distance, |index| Some(self.pair(file, index)));
        };
        let number = self.number_of(file, distance)?;
        Some(u64::from(read_u32(file, array + (number * OFFSET_LENGTH) as usize)) * 8)
    }

    /// The address of the offset entry of the record that is `distance` sequence numbers after the
    /// first one, for a prefetch; `None` if finding it takes a search.
    #[inline]
    pub(crate) fn offset_line(&self, file: &[u8], distance: u64) -> Option<*const u8> {
        let number = self.number_of(file, distance)?;
        file.get(self.array_offset()? + (number * OFFSET_LENGTH) as usize).map(std::ptr::from_ref)
    }

    /// True if `is_here` holds for the offset of each pair of `file` that the search for a record
    /// looks at.
    pub(super) fn are_pairs_here(
        &self,
        file: &[u8],
        distance: u64,
        mut is_here: impl FnMut(u64) -> bool,
    ) -> bool {
        let mut are_here = true;
        self.find(distance, |index| {
            are_here = is_here(self.offset + index * PAIR_LENGTH);
            are_here.then(|| self.pair(file, index))
        });
        are_here
    }

    /// Searches the pairs, which `pair` reads; the search ends without a result where that is
    /// `None`. The remaining sequence numbers are usually spread evenly, so an interpolated guess
    /// is close. Every second guess is the middle, so that an uneven spread costs little.
    #[inline]
    fn find(&self, distance: u64, mut pair: impl FnMut(u64) -> Option<(u64, u64)>) -> Option<u64> {
        let (mut low, mut high) = (0_usize, self.count as usize);
        let mut is_guess = true;
        while high - low > PAIRS_WALKED {
            let (first, last) = (pair(low as u64)?.0, pair(high as u64 - 1)?.0);
            if distance < first || distance > last {
                return None;
            }
            let middle = if is_guess {
                let share = (distance - first) as u128 * (high - 1 - low) as u128;
                low + (share / u128::from((last - first).max(1))) as usize
            } else {
                low + (high - low) / 2
            };
            // A guess is off by a few, so it always leaves a pair on either side.
            let middle = middle.clamp(low + 1, high - 1);
            if pair(middle as u64)?.0 <= distance {
                low = middle;
            } else {
                high = middle;
            }
            is_guess = !is_guess;
        }
        (low as u64..high as u64)
            .map_while(pair)
            .find(|(found, _)| *found == distance)
            .map(|(_, offset)| offset)
    }
}

/// Iterates over the entries of a footer.
pub(crate) struct Entries<'a> {
    footer: Footer,
    file: &'a [u8],
    index: u64,
    /// For ranked offsets, the next distance to look at.
    distance: u64,
}

impl Iterator for Entries<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (footer, index) = (&self.footer, self.index);
        if index >= u64::from(footer.count) {
            return None;
        }
        self.index += 1;
        match footer.form {
            OffsetForm::Dense => Some((index, footer.record_offset(self.file, index)?)),
            OffsetForm::Sparse => Some(footer.pair(self.file, index)),
            OffsetForm::Ranked { sequences } => {
                let offset = (self.distance..sequences).find_map(|distance| {
                    footer.record_offset(self.file, distance).map(|offset| (distance, offset))
                })?;
                self.distance = offset.0 + 1;
                Some(offset)
            }
        }
    }
}

/// Encodes the footer of a segment with a record for each sequence number, at these `offsets`.
pub(crate) fn encode_footer(
    store_identity: u64,
    number: u64,
    first_sequence: u64,
    offset: u64,
    offsets: impl ExactSizeIterator<Item = u32>,
) -> Vec<u8> {
    let count = offsets.len() as u64;
    let mut bytes = Vec::with_capacity(footer_length(count) as usize);
    for offset in offsets {
        bytes.extend_from_slice(&offset.to_le_bytes());
    }
    bytes.resize((count * OFFSET_LENGTH).next_multiple_of(8) as usize, 0);
    let last_sequence = first_sequence + count - 1;
    close(bytes, [store_identity, number], KIND_DENSE, count, last_sequence, offset)
}

/// Encodes the footer of a collected segment that covers the sequence numbers from `first_sequence`
/// to `last_sequence`. `pairs` are ascending, each the distance from the first sequence number and
/// the offset of a record. They are stored in the form that takes less space.
pub(crate) fn encode_collected_footer(
    store_identity: u64,
    number: u64,
    first_sequence: u64,
    (last_sequence, clean_sequence): (u64, u64),
    offset: u64,
    pairs: &[(u32, u32)],
) -> Vec<u8> {
    let (count, sequences) = (pairs.len() as u64, last_sequence.saturating_sub(first_sequence) + 1);
    let is_ranked = ranked_footer_length(sequences, count) <= sparse_footer_length(count);
    let mut bytes = Vec::new();
    if is_ranked {
        bytes = offset_bitmap::encode_units(pairs.iter().map(|(distance, _)| *distance), sequences);
        let offsets = bytes.len();
        bytes.extend(pairs.iter().flat_map(|(_, offset)| offset.to_le_bytes()));
        bytes.resize(offsets + (count * OFFSET_LENGTH).next_multiple_of(8) as usize, 0);
    } else {
        for (distance, offset) in pairs {
            bytes.extend_from_slice(&distance.to_le_bytes());
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&clean_sequence.to_le_bytes());
    let kind = if is_ranked { KIND_RANKED } else { KIND_SPARSE };
    close(bytes, [store_identity, number], kind, count, last_sequence, offset)
}

fn close(
    mut bytes: Vec<u8>,
    seed: [u64; 2],
    kind: u32,
    count: u64,
    last_sequence: u64,
    offset: u64,
) -> Vec<u8> {
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&(count as u32).to_le_bytes());
    bytes.extend_from_slice(&last_sequence.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    let sum = checksum(checksum_seed(&seed), &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&CLOSING_MAGIC);
    bytes
}

/// The offset of the footer whose fixed part ends a file of `length` bytes, if the closing magic is
/// there and the offset lies within the file. Nothing else is checked.
pub(super) fn footer_offset(
    fixed: &[u8; FOOTER_FIXED_LENGTH as usize],
    length: u64,
) -> Option<u64> {
    let offset = read_u64(fixed, 16);
    (fixed[28..32] == CLOSING_MAGIC && offset < length).then_some(offset)
}

/// Reads and validates the footer at the end of `file`, a whole segment.
pub(crate) fn decode_footer(
    file: &[u8],
    store_identity: u64,
    number: u64,
    first_sequence: u64,
) -> Result<Footer, NoFooter> {
    let fixed_offset =
        file.len().checked_sub(FOOTER_FIXED_LENGTH as usize).ok_or(NoFooter::Unsealed)?;
    let fixed = &file[fixed_offset..];
    if fixed[28..32] != CLOSING_MAGIC {
        return Err(NoFooter::Unsealed);
    }
    let (kind, count) = (read_u32(fixed, 0), read_u32(fixed, 4));
    let (last_sequence, offset) = (read_u64(fixed, 8), read_u64(fixed, 16));
    let range = last_sequence.checked_sub(first_sequence).ok_or(NoFooter::Damaged)?;
    // At most as many bits as the file has: a footer that does not fit is refused below.
    let sequences = range.saturating_add(1).min(file.len() as u64 * 8);
    let form = match kind {
        KIND_DENSE => OffsetForm::Dense,
        KIND_SPARSE => OffsetForm::Sparse,
        KIND_RANKED => OffsetForm::Ranked { sequences },
        _ => return Err(NoFooter::Damaged),
    };
    let footer = Footer { offset, count, last_sequence, form, clean_sequence: None };
    let fits = offset.checked_add(footer.length()) == Some(file.len() as u64)
        && offset >= crate::codec::FILE_HEADER_LENGTH as u64
        && offset.is_multiple_of(8);
    if !fits {
        return Err(NoFooter::Damaged);
    }
    let covered = &file[offset as usize..fixed_offset + 24];
    if checksum(checksum_seed(&[store_identity, number]), covered) != read_u32(fixed, 24) {
        return Err(NoFooter::Damaged);
    }
    let is_sound = match form {
        OffsetForm::Dense => count > 0 && u64::from(count) - 1 == range,
        OffsetForm::Sparse => is_ascending(&footer, file, range),
        OffsetForm::Ranked { sequences } => {
            offset_bitmap::are_sound(file, offset as usize, sequences, u64::from(count))
        }
    };
    let is_collected = !footer.is_dense();
    let clean_sequence = is_collected.then(|| read_u64(file, fixed_offset - 8));
    if is_sound { Ok(Footer { clean_sequence, ..footer }) } else { Err(NoFooter::Damaged) }
}

/// True if the distances of the pairs ascend, up to `range`.
fn is_ascending(footer: &Footer, file: &[u8], range: u64) -> bool {
    let mut next = 0;
    (0..u64::from(footer.count)).all(|index| {
        let (distance, _) = footer.pair(file, index);
        let ascends = distance >= next && distance <= range;
        next = distance + 1;
        ascends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut file = vec![0; 96];
        file.extend(encode_footer(5, 6, 100, 96, [8, 9, 10].into_iter()));
        file
    }

    fn collected(distances: impl Iterator<Item = u32>, last_sequence: u64) -> Vec<u8> {
        let pairs: Vec<_> = distances.map(|distance| (distance, distance + 12)).collect();
        let mut file = vec![0; 96];
        file.extend(encode_collected_footer(5, 6, 100, (last_sequence, 77), 96, &pairs));
        file
    }

    fn check_flips(file: &[u8]) {
        for bit in 96 * 8..file.len() * 8 {
            let mut flipped = file.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_footer(&flipped, 5, 6, 100).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_footer_round_trips_and_every_flipped_bit_is_noticed() {
        let file = sealed();
        assert_eq!(file.len() as u64, 96 + footer_length(3));
        let fixed = file.last_chunk().unwrap();
        assert_eq!(footer_offset(fixed, file.len() as u64), Some(96));
        assert_eq!((footer_offset(fixed, 96), footer_offset(&[0; 32], 500)), (None, None));
        let footer = decode_footer(&file, 5, 6, 100).unwrap();
        let form = OffsetForm::Dense;
        let expected =
            Footer { offset: 96, count: 3, last_sequence: 102, form, clean_sequence: None };
        assert_eq!(footer, expected);
        assert_eq!(footer.record_offset(&file, 2), Some(80));
        assert_eq!(footer.record_offset(&file, 3), None);
        check_flips(&file);
    }

    #[test]
    fn the_footer_of_a_collected_segment_round_trips_even_if_empty() {
        let file = collected((10..14).chain(20..40), 150);
        let footer = decode_footer(&file, 5, 6, 100).unwrap();
        let (form, clean_sequence) = (OffsetForm::Ranked { sequences: 51 }, Some(77));
        let expected = Footer { offset: 96, count: 24, last_sequence: 150, form, clean_sequence };
        assert_eq!(footer, expected);
        check_flips(&file);
        let file = collected([2, 3, 8].into_iter(), 110);
        let footer = decode_footer(&file, 5, 6, 100).unwrap();
        let form = OffsetForm::Sparse;
        let expected = Footer { offset: 96, count: 3, last_sequence: 110, form, clean_sequence };
        assert_eq!(footer, expected);
        check_flips(&file);
        let empty = collected(std::iter::empty(), 110);
        let footer = decode_footer(&empty, 5, 6, 100).unwrap();
        assert_eq!((footer.count, footer.record_offset(&empty, 0)), (0, None));
        let beyond = collected([2, 11].into_iter(), 110);
        assert_eq!(decode_footer(&beyond, 5, 6, 100), Err(NoFooter::Damaged));
        let disordered = collected([2, 2].into_iter(), 110);
        assert_eq!(decode_footer(&disordered, 5, 6, 100), Err(NoFooter::Damaged));
    }

    /// Evenly spread pairs, clusters, and a single pair far away: each is found, and nothing else.
    #[test]
    fn every_pair_is_found_and_no_other() {
        let even: Vec<u32> = (0..500).map(|index| index * 3 + 1).collect();
        let many: Vec<u32> = (0..500_000).map(|index| index * 9 + 1).collect();
        let mut clusters: Vec<u32> = (0..300).chain(90_000..90_200).collect();
        clusters.push(4_000_000);
        for distances in [even, many, clusters, vec![7], Vec::new()] {
            let file = collected(distances.iter().copied(), 5_000_000);
            let footer = decode_footer(&file, 5, 6, 100).unwrap();
            let entries = footer.entries(&file).map(|(distance, _)| distance as u32);
            assert!(entries.eq(distances.iter().copied()));
            let around = distances.iter().flat_map(|at| [at.saturating_sub(1), *at, at + 1]);
            for distance in around.chain([0, 5_000]).take(5_000) {
                let expected = distances.binary_search(&distance).is_ok();
                let offset = footer.record_offset(&file, u64::from(distance));
                assert_eq!(offset, expected.then_some((u64::from(distance) + 12) * 8));
            }
        }
    }

    /// Regression: a read that must not wait found a record only if all pairs were in memory, and
    /// the reads that wait bring in only those that they look at.
    #[test]
    fn a_search_needs_only_the_pairs_that_it_looks_at() {
        let file = collected((0..100_000).map(|index| index * 45 + 1), 5_000_000);
        let footer = decode_footer(&file, 5, 6, 100).unwrap();
        assert!(footer.has_pairs());
        for distance in [1, 2, 9_001, 4_000_000, 4_499_956] {
            let mut offsets = Vec::new();
            let note = |offset| {
                offsets.push(offset);
                true
            };
            assert!(footer.are_pairs_here(&file, distance, note));
            assert!(offsets.len() < 100, "{}", offsets.len());
            for away in offsets {
                assert!(!footer.are_pairs_here(&file, distance, |offset| offset != away));
            }
        }
    }

    #[test]
    fn a_footer_in_the_wrong_file_is_refused() {
        let file = sealed();
        assert_eq!(decode_footer(&file, 6, 6, 100), Err(NoFooter::Damaged));
        assert_eq!(decode_footer(&file, 5, 7, 100), Err(NoFooter::Damaged));
        assert_eq!(decode_footer(&file, 5, 6, 99), Err(NoFooter::Damaged));
        assert_eq!(decode_footer(&file[..100], 5, 6, 100), Err(NoFooter::Unsealed));
    }
}
