//! Compression of values and blocks.
//!
//! Compressed bytes begin with the length of the original, 4 bytes, so that they can be
//! decompressed into memory of the right size. The length comes from disk, so memory is allocated
//! only for a length that the compressed bytes can really expand to.

use std::sync::Arc;

use crate::codec::read_u32;

/// The compression of values or blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// The block format of LZ4: fast to decompress, and usually saves a third to a half of text.
    Lz4,
}

/// The size of the length in front of compressed bytes.
const LENGTH_SIZE_BYTES: usize = 4;
/// The most bytes that one byte of LZ4 data can expand to.
const UNFOLDING_MAX: usize = 255;
/// Compression has to save one in this many of the bytes to be worth the decompression.
const SAVING_SHARE: usize = 8;

impl Compression {
    /// The number of this compression in files.
    pub(crate) fn number(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 1,
        }
    }

    /// The compression with this number; `None` if it is unknown.
    pub(crate) fn from_number(number: u8) -> Option<Compression> {
        match number {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            _ => None,
        }
    }
}

/// Compresses `bytes` and appends the result to `out`, if that saves at least an eighth. Otherwise
/// leaves `out` unchanged and returns false.
pub(crate) fn pack(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let Ok(length) = u32::try_from(bytes.len()) else { return false };
    let most = lz4_flex::block::get_maximum_output_size(bytes.len());
    out.resize(begin + LENGTH_SIZE_BYTES + most, 0);
    out[begin..begin + LENGTH_SIZE_BYTES].copy_from_slice(&length.to_le_bytes());
    let packed = lz4_flex::block::compress_into(bytes, &mut out[begin + LENGTH_SIZE_BYTES..]);
    let allowed = bytes.len() - bytes.len().div_ceil(SAVING_SHARE).min(bytes.len());
    match packed {
        Ok(size) if LENGTH_SIZE_BYTES + size <= allowed => {
            out.truncate(begin + LENGTH_SIZE_BYTES + size);
            true
        }
        _ => {
            out.truncate(begin);
            false
        }
    }
}

/// The length of the original of `packed`; `None` if `packed` cannot expand to that length, or if
/// it is above `limit`.
pub(crate) fn unpacked_length(packed: &[u8], limit: usize) -> Option<usize> {
    let rest = packed.len().checked_sub(LENGTH_SIZE_BYTES)?;
    let length = read_u32(packed, 0) as usize;
    (length <= limit && length <= rest.saturating_mul(UNFOLDING_MAX)).then_some(length)
}

/// Decompresses the output of [`pack`]; `None` if it is damaged or expands to more than `limit`
/// bytes.
pub(crate) fn unpack(packed: &[u8], limit: usize) -> Option<Arc<[u8]>> {
    let length = unpacked_length(packed, limit)?;
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
    let target = Arc::get_mut(&mut bytes)?;
    let unpacked = lz4_flex::block::decompress_into(&packed[LENGTH_SIZE_BYTES..], target).ok()?;
    (unpacked == length).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn bytes_are_packed_only_if_that_saves_an_eighth() {
        let mut out = vec![9];
        assert!(!pack(b"", &mut out));
        assert!(!pack(b"0123456789abcdef", &mut out));
        assert_eq!(out, [9], "what was there stays");
        assert!(pack(&[7; 1_000], &mut out));
        assert!(out.len() < 100);
        assert_eq!(*unpack(&out[1..], LIMIT).unwrap(), [7; 1_000]);
        assert!(unpack(&out[1..], 999).is_none(), "above the limit");
    }

    #[test]
    fn an_impossible_length_takes_no_memory() {
        let lie = [&u32::MAX.to_le_bytes()[..], &[0; 10]].concat();
        assert_eq!(unpacked_length(&lie, usize::MAX), None);
        assert!(unpack(&lie, usize::MAX).is_none());
        assert!(unpack(&[1, 0], LIMIT).is_none());
    }

    proptest! {
        #[test]
        fn packed_bytes_round_trip(bytes in prop::collection::vec(0_u8..4, 0..3_000)) {
            let mut packed = Vec::new();
            if pack(&bytes, &mut packed) {
                prop_assert!(packed.len() <= bytes.len() - bytes.len() / 8);
                prop_assert_eq!(&*unpack(&packed, LIMIT).unwrap(), &bytes[..]);
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes, LIMIT);
        }
    }
}
