//! The offsets of a collected segment in which many records remain: a bitmap of the sequence
//! numbers that have a record, with a running count every few bits. Finding an offset takes one
//! access to the bitmap, which is small enough for a processor's cache, and one to the offsets.
//! Pairs of sequence number and offset would take twice the space, and a search with three or four
//! cache misses.

use crate::codec::{read_u32, read_u64};

/// Length of a unit in bytes: the number of bits set in all units before it, and its own bits.
const UNIT_LENGTH: usize = 16;
/// Sequence numbers per unit.
const UNIT_BITS: u64 = 96;
/// The offset of the bits within a unit.
const BITS_OFFSET: usize = 4;

/// The number of units for `sequences` sequence numbers.
pub(super) fn units_for(sequences: u64) -> u64 {
    sequences.div_ceil(UNIT_BITS)
}

/// Length of the units for `sequences` sequence numbers, in bytes.
pub(super) fn units_length(sequences: u64) -> u64 {
    units_for(sequences) * UNIT_LENGTH as u64
}

/// Encodes the units for `sequences` sequence numbers; `distances`, ascending, are those that have
/// a record, counted from the first one.
pub(super) fn encode_units(distances: impl Iterator<Item = u32>, sequences: u64) -> Vec<u8> {
    let mut bytes = vec![0; units_length(sequences) as usize];
    let (mut rank, mut counted) = (0_u32, 0);
    for distance in distances.map(u64::from) {
        assert!(distance < sequences, "a record lies within what its segment stands for");
        let unit = (distance / UNIT_BITS) as usize;
        while counted <= unit {
            bytes[counted * UNIT_LENGTH..][..BITS_OFFSET].copy_from_slice(&rank.to_le_bytes());
            counted += 1;
        }
        let bit = (distance % UNIT_BITS) as usize;
        bytes[unit * UNIT_LENGTH + BITS_OFFSET + bit / 8] |= 1 << (bit % 8);
        rank += 1;
    }
    for unit in counted..units_for(sequences) as usize {
        bytes[unit * UNIT_LENGTH..][..BITS_OFFSET].copy_from_slice(&rank.to_le_bytes());
    }
    bytes
}

/// The bits of the unit at `at`: the lower 32 and the upper 64.
#[inline]
fn bits_at(bytes: &[u8], at: usize) -> (u32, u64) {
    (read_u32(bytes, at + BITS_OFFSET), read_u64(bytes, at + BITS_OFFSET + 4))
}

/// The offset of the unit of the sequence number at `distance`, from the beginning of the units.
#[inline]
pub(super) fn unit_offset(distance: u64) -> usize {
    (distance / UNIT_BITS) as usize * UNIT_LENGTH
}

/// The number of records before the one at `distance`; `None` if there is none at `distance`. The
/// units begin at `begin` in `bytes`, and must include `distance`.
#[inline]
pub(super) fn rank_of(bytes: &[u8], begin: usize, distance: u64) -> Option<u64> {
    let at = begin + unit_offset(distance);
    let bit = (distance % UNIT_BITS) as u32;
    let (low, high) = bits_at(bytes, at);
    let before = match bit.checked_sub(32) {
        None if low >> bit & 1 == 0 => return None,
        None => (low & ((1 << bit) - 1)).count_ones(),
        Some(bit) if high >> bit & 1 == 0 => return None,
        Some(bit) => low.count_ones() + (high & ((1 << bit) - 1)).count_ones(),
    };
    Some(u64::from(read_u32(bytes, at)) + u64::from(before))
}

/// True if the units for `sequences` sequence numbers, which begin at `begin`, are consistent: the
/// counts agree with the bits, `count` bits are set in all, and none beyond the last sequence
/// number.
pub(super) fn are_sound(bytes: &[u8], begin: usize, sequences: u64, count: u64) -> bool {
    let mut rank = 0;
    for unit in 0..units_for(sequences) {
        let at = begin + unit as usize * UNIT_LENGTH;
        let (low, high) = bits_at(bytes, at);
        if u64::from(read_u32(bytes, at)) != rank {
            return false;
        }
        rank += u64::from(low.count_ones() + high.count_ones());
        let all = u128::from(low) | u128::from(high) << 32;
        let inside = (sequences - unit * UNIT_BITS).min(UNIT_BITS);
        if all >> inside != 0 {
            return false;
        }
    }
    rank == count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_the_distances(
            distances in prop::collection::btree_set(0_u32..1_000, 0..400),
            more in 0_u64..200,
        ) {
            let sequences = 1_000 + more;
            let mut bytes = vec![7; 24];
            bytes.extend(encode_units(distances.iter().copied(), sequences));
            prop_assert_eq!(bytes.len() as u64, 24 + units_length(sequences));
            let count = distances.len() as u64;
            prop_assert!(are_sound(&bytes, 24, sequences, count));
            prop_assert!(!are_sound(&bytes, 24, sequences, count + 1));
            for distance in 0..sequences {
                let rank = distances.range(..distance as u32).count() as u64;
                let expected = distances.contains(&(distance as u32)).then_some(rank);
                prop_assert_eq!(rank_of(&bytes, 24, distance), expected);
            }
        }
    }

    #[test]
    fn wrong_counts_and_bits_beyond_the_end_are_noticed() {
        let bytes = encode_units([1, 5, 97].into_iter(), 100);
        assert!(are_sound(&bytes, 0, 100, 3));
        assert!(!are_sound(&bytes, 0, 97, 3), "97 lies beyond");
        let mut wrong = bytes.clone();
        wrong[UNIT_LENGTH] += 1;
        assert!(!are_sound(&wrong, 0, 100, 3));
    }
}
