//! Checksums of any parts of a file, efficient for many and overlapping parts.

use std::ops::Range;

use crate::crc::{RawSum, checksum, checksum_between};

/// The distance of the sums that are kept, in bytes. Accessing more sums would cost more than
/// adding up the bytes between them: with 32, `make bench-opening` takes half as long again.
const STEP_BYTES: usize = 128;

/// The raw sums of a file's beginnings. The checksum of a part is the sum up to its end, minus
/// (XOR) the sum up to its start, carried over the length of the part.
pub(crate) struct PartSums<'a> {
    bytes: &'a [u8],
    /// The raw sum at each step, from the beginning of the file.
    sums: Vec<u32>,
    summed_bytes: u64,
}

impl<'a> PartSums<'a> {
    /// Sums up all of `bytes` once.
    pub(crate) fn new(bytes: &'a [u8]) -> PartSums<'a> {
        let mut sums = Vec::with_capacity(bytes.len() / STEP_BYTES + 1);
        sums.push(0);
        let mut sum = 0;
        for step in bytes.chunks_exact(STEP_BYTES) {
            sum = raw(sum, step);
            sums.push(sum);
        }
        PartSums { bytes, sums, summed_bytes: bytes.len() as u64 }
    }

    /// The crc32c of a part; `seed` is the crc32c of preceding bytes.
    #[inline]
    pub(crate) fn checksum(&mut self, seed: u32, part: Range<usize>) -> u32 {
        let length = part.len() as u32;
        let (before, whole) = (self.up_to(part.start), self.up_to(part.end));
        self.summed_bytes += (before.1.len() + whole.1.len()) as u64;
        checksum_between(seed, before, whole, length)
    }

    /// The raw sum up to the last step before `end`, and the bytes from there to `end`.
    #[inline]
    fn up_to(&self, end: usize) -> RawSum<'a> {
        let steps = end / STEP_BYTES;
        (self.sums[steps], &self.bytes[steps * STEP_BYTES..end])
    }

    /// The number of bytes summed up so far.
    pub(crate) fn summed_bytes(&self) -> u64 {
        self.summed_bytes
    }
}

fn raw(sum: u32, bytes: &[u8]) -> u32 {
    !checksum(!sum, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_every_part_is_its_checksum() {
        let bytes: Vec<u8> = (0..700_u32).map(|n| (n.wrapping_mul(77_777) >> 7) as u8).collect();
        let mut sums = PartSums::new(&bytes);
        for start in 0..bytes.len() {
            for end in (start..=bytes.len()).step_by(1 + start % 7) {
                let seed = (start * end) as u32;
                assert_eq!(sums.checksum(seed, start..end), checksum(seed, &bytes[start..end]));
            }
        }
    }
}
