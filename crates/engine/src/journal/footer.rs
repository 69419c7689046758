//! The footer of a sealed segment: where each of its records begins (`docs/format.md`).

use crate::codec::{checksum, checksum_seed, read_u32, read_u64};

/// Length of the fixed part, which ends the file.
pub(crate) const FOOTER_FIXED_LENGTH: u64 = 32;
/// The last four bytes of a sealed segment.
const CLOSING_MAGIC: [u8; 4] = *b"PLSF";
/// The place array has an entry for each sequence number from the first on.
const KIND_DENSE: u32 = 0;
/// Bytes of an entry of the dense array.
pub(crate) const PLACE_LENGTH: u64 = 4;

/// Bytes that the footer of a segment with `count` records takes.
pub(crate) fn footer_length(count: u64) -> u64 {
    (count * PLACE_LENGTH).next_multiple_of(8) + FOOTER_FIXED_LENGTH
}

/// The footer, from its fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Offset of its first byte within the file.
    pub(crate) offset: u64,
    /// Entries of the place array.
    pub(crate) count: u32,
    /// The last sequence number of the segment.
    pub(crate) last_sequence: u64,
}

/// Why the end of a file is no footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFooter {
    /// The file is not sealed: there is no closing magic.
    Unsealed,
    /// There is a closing magic, but the rest is not right.
    Damaged,
}

/// The footer's bytes for `places`.
pub(crate) fn encode_footer(
    store_identity: u64,
    number: u64,
    first_sequence: u64,
    offset: u64,
    places: impl ExactSizeIterator<Item = u32>,
) -> Vec<u8> {
    let count = places.len() as u64;
    let mut bytes = Vec::with_capacity(footer_length(count) as usize);
    for place in places {
        bytes.extend_from_slice(&place.to_le_bytes());
    }
    bytes.resize((count * PLACE_LENGTH).next_multiple_of(8) as usize, 0);
    bytes.extend_from_slice(&KIND_DENSE.to_le_bytes());
    bytes.extend_from_slice(&(count as u32).to_le_bytes());
    bytes.extend_from_slice(&(first_sequence + count - 1).to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    let sum = checksum(checksum_seed(&[store_identity, number]), &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&CLOSING_MAGIC);
    bytes
}

/// Reads and checks the footer at the end of `file`, a whole segment.
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
    let expected = offset.checked_add(footer_length(u64::from(count)));
    let fits = expected == Some(file.len() as u64)
        && offset >= crate::codec::FILE_HEADER_LENGTH as u64
        && offset.is_multiple_of(8)
        && kind == KIND_DENSE
        && count > 0
        && first_sequence.checked_add(u64::from(count) - 1) == Some(last_sequence);
    if !fits {
        return Err(NoFooter::Damaged);
    }
    let covered = &file[offset as usize..fixed_offset + 24];
    if checksum(checksum_seed(&[store_identity, number]), covered) != read_u32(fixed, 24) {
        return Err(NoFooter::Damaged);
    }
    Ok(Footer { offset, count, last_sequence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut file = vec![0; 96];
        file.extend(encode_footer(5, 6, 100, 96, [8, 9, 10].into_iter()));
        file
    }

    #[test]
    fn a_footer_returns_and_every_flipped_bit_is_noticed() {
        let file = sealed();
        assert_eq!(file.len() as u64, 96 + footer_length(3));
        let footer = decode_footer(&file, 5, 6, 100).unwrap();
        assert_eq!(footer, Footer { offset: 96, count: 3, last_sequence: 102 });
        for bit in 96 * 8..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_footer(&flipped, 5, 6, 100).is_err(), "bit {bit}");
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
