//! The filter of a table: one cache line tells that a key is not in the table (docs/format.md,
//! Filter).

use crate::codec::{read_u32, read_u64};

/// Length of the header before the lines, in bytes.
pub(super) const FILTER_HEADER_SIZE_BYTES: usize = 64;
const LINE_SIZE_BYTES: usize = 64;
const LINE_BITS: u32 = 512;
const PROBES_MAX: u32 = 16;
/// The number of keys between two checks, in loops over all keys of a table, whether another thread
/// waits for the processor: some 100 µs of work.
pub(super) const KEYS_A_PIECE: usize = 4096;

/// The line of a hash.
#[inline]
fn line_of(hash: u64, lines: u32) -> usize {
    (((hash >> 32) * u64::from(lines)) >> 32) as usize
}

/// The bits in its line that a hash sets.
#[inline]
fn bits_of(hash: u64, probes: u32) -> impl Iterator<Item = u32> {
    let first = hash as u32 & 0xffff;
    let step = (hash as u32 >> 16) | 1;
    (0..probes).map(move |probe| first.wrapping_add(probe.wrapping_mul(step)) % LINE_BITS)
}

/// Appends the filter for keys with these hashes to `out`, with zeros in place of its checksum.
pub(super) fn build_filter(hashes: &[u64], bits_per_key: u32, out: &mut Vec<u8>) {
    let bits = hashes.len() as u64 * u64::from(bits_per_key);
    let lines = bits.div_ceil(u64::from(LINE_BITS)).clamp(1, u64::from(u32::MAX)) as u32;
    // The best number of probes is bits per key times ln 2.
    let probes = (bits_per_key * 69 / 100).clamp(1, PROBES_MAX);
    let begin = out.len();
    out.resize(begin + FILTER_HEADER_SIZE_BYTES + lines as usize * LINE_SIZE_BYTES, 0);
    out[begin + 4..begin + 8].copy_from_slice(&lines.to_le_bytes());
    out[begin + 8..begin + 12].copy_from_slice(&probes.to_le_bytes());
    let bytes = &mut out[begin + FILTER_HEADER_SIZE_BYTES..];
    for piece in hashes.chunks(KEYS_A_PIECE) {
        pellucid_thread::give_way();
        for hash in piece {
            let line = &mut bytes[line_of(*hash, lines) * LINE_SIZE_BYTES..][..LINE_SIZE_BYTES];
            for bit in bits_of(*hash, probes) {
                line[bit as usize / 8] |= 1 << (bit % 8);
            }
        }
    }
}

/// The parameters of a filter, from its header; the lines stay in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterParameters {
    lines: u32,
    probes: u32,
}

impl FilterParameters {
    /// Reads the header of a filter that fills `bytes`; an error describes the fault.
    pub(super) fn read(bytes: &[u8]) -> Result<FilterParameters, &'static str> {
        if bytes.len() < FILTER_HEADER_SIZE_BYTES {
            return Err("the filter is shorter than its header");
        }
        let shape = FilterParameters { lines: read_u32(bytes, 4), probes: read_u32(bytes, 8) };
        let expected =
            FILTER_HEADER_SIZE_BYTES as u64 + u64::from(shape.lines) * LINE_SIZE_BYTES as u64;
        if shape.lines == 0 || expected != bytes.len() as u64 {
            return Err("the number of lines in the filter does not fit its length");
        }
        if !(1..=PROBES_MAX).contains(&shape.probes) {
            return Err("the number of probes in the filter makes no sense");
        }
        Ok(shape)
    }

    /// True if the filter in `bytes`, which has this shape, may contain the hash.
    #[inline]
    pub(super) fn passes(self, bytes: &[u8], hash: u64) -> bool {
        let begin = FILTER_HEADER_SIZE_BYTES + line_of(hash, self.lines) * LINE_SIZE_BYTES;
        let line = &bytes[begin..begin + LINE_SIZE_BYTES];
        bits_of(hash, self.probes).all(|bit| {
            let word = read_u64(line, (bit / 64 * 8) as usize);
            word >> (bit % 64) & 1 == 1
        })
    }
}

/// Checks a filter as the opening of a table does, except for its checksum.
pub(crate) fn check_filter(bytes: &[u8]) -> Result<(), &'static str> {
    let shape = FilterParameters::read(bytes)?;
    shape.passes(bytes, u64::MAX);
    shape.passes(bytes, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::key_hash;

    #[test]
    fn all_keys_pass_the_filter_and_few_others() {
        let hashes: Vec<u64> = (0..20_000_u32).map(|key| key_hash(&key.to_le_bytes())).collect();
        let mut bytes = Vec::new();
        build_filter(&hashes, 10, &mut bytes);
        let shape = FilterParameters::read(&bytes).unwrap();
        assert!(hashes.iter().all(|hash| shape.passes(&bytes, *hash)));
        let others = (20_000..120_000_u32).map(|key| key_hash(&key.to_le_bytes()));
        let passed = others.filter(|hash| shape.passes(&bytes, *hash)).count();
        assert!(passed < 2_500, "{passed} of 100,000 false positives");
    }

    #[test]
    fn nothing_passes_an_empty_filter() {
        let mut bytes = Vec::new();
        build_filter(&[], 10, &mut bytes);
        assert!(!FilterParameters::read(&bytes).unwrap().passes(&bytes, 7));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            lines in 0_u8..4,
        ) {
            if bytes.len() >= 12 {
                bytes[4..12].copy_from_slice(&[lines, 0, 0, 0, 7, 0, 0, 0]);
            }
            let _ = check_filter(&bytes);
            bytes.resize(64 + 64 * usize::from(lines), 1);
            bytes[4..12].copy_from_slice(&[lines, 0, 0, 0, 7, 0, 0, 0]);
            prop_assert_eq!(check_filter(&bytes).is_ok(), lines > 0);
        }
    }
}
