//! The checksum of everything on disk: crc32c, optimized for pieces of a few hundred bytes.
//!
//! The processor's crc32 instruction takes 8 bytes and three cycles, and three of them can run in
//! parallel. Libraries use that only from some 800 bytes on, because they combine the parts with
//! tables for a fixed length. A record of 300 bytes then waits for 40 instructions in sequence,
//! which was 7 % of a GET. Here any piece is cut into three, and the parts are combined by two
//! carry-less multiplications (Gopal et al., "Fast CRC Computation Using PCLMULQDQ Instruction",
//! Intel, 2009), with a constant for each length.

/// The crc32c of `bytes`; `seed` is the crc32c of preceding bytes, 0 if there are none.
#[inline]
pub(crate) fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has both features.
        return unsafe { three_way::checksum(seed, bytes) };
    }
    crc32c::crc32c_append(seed, bytes)
}

/// The polynomial, with its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// x to the power of 8 n 256^i at `[i][n]`: the factor that appends that many zero bytes.
const BYTE_POWERS: [[u32; 256]; 4] = byte_powers();

/// A polynomial times x, modulo [`POLYNOMIAL`].
const fn times_x(value: u32) -> u32 {
    (value >> 1) ^ (if value & 1 == 1 { POLYNOMIAL } else { 0 })
}

/// The product of two polynomials, modulo [`POLYNOMIAL`].
const fn product(one: u32, mut other: u32) -> u32 {
    let (mut sum, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if one & bit != 0 {
            sum ^= other;
        }
        other = times_x(other);
        bit >>= 1;
    }
    sum
}

const fn byte_powers() -> [[u32; 256]; 4] {
    let mut all = [[1 << 31; 256]; 4];
    // x to the power of 8.
    let mut step = 1 << 23;
    let mut digit = 0;
    while digit < 4 {
        let mut count = 1;
        while count < 256 {
            all[digit][count] = product(all[digit][count - 1], step);
            count += 1;
        }
        step = product(all[digit][255], step);
        digit += 1;
    }
    all
}

/// A raw sum, and bytes that follow those that it covers. A raw sum begins with 0 and is not
/// inverted at the end, so that raw sums can be combined by XOR.
pub(crate) type RawSum<'a> = (u32, &'a [u8]);

/// The crc32c, with `seed`, of `length` bytes between two places in a file. The raw sums cover the
/// file from its beginning to these places.
#[inline]
pub(crate) fn checksum_between(
    seed: u32,
    (before, to_start): RawSum<'_>,
    (whole, to_end): RawSum<'_>,
    length: u32,
) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has both features.
        return unsafe {
            three_way::checksum_between(seed, (before, to_start), (whole, to_end), length)
        };
    }
    let raw = |sum: u32, bytes| !crc32c::crc32c_append(!sum, bytes);
    !(raw(whole, to_end) ^ over_zeros(raw(before, to_start) ^ !seed, length))
}

/// The raw `sum` after appending `length` zero bytes.
fn over_zeros(sum: u32, length: u32) -> u32 {
    let digits = length.to_le_bytes();
    let nonzero = digits.iter().zip(&BYTE_POWERS).filter(|(digit, _)| **digit != 0);
    nonzero.fold(sum, |sum, (digit, powers)| product(sum, powers[usize::from(*digit)]))
}

#[cfg(target_arch = "x86_64")]
mod three_way {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64,
        _mm_cvtsi64_si128, _mm_cvtsi128_si64,
    };

    use super::{BYTE_POWERS, POLYNOMIAL, RawSum, product, times_x};
    use crate::bytes::{read_u16, read_u32, read_u64};

    /// The longest third of a piece, in words of 8 bytes.
    const WORDS_MAX: usize = 64;
    /// Pieces below it are not worth cutting, in bytes.
    const CUT_MIN: usize = 96;
    /// For each number of words, the factor that appends that many words of zeros.
    const SHIFTS: [u32; 2 * WORDS_MAX + 1] = shifts();

    /// [`BYTE_POWERS`], each divided by x to the power of 33 (see [`shifts`]).
    static LESSER_BYTE_POWERS: [[u32; 256]; 4] = lesser_byte_powers();

    const fn lesser_byte_powers() -> [[u32; 256]; 4] {
        let (mut lesser, mut left) = (1_u32 << 31, 33);
        while left > 0 {
            // The polynomial has its highest bit set, so that bit tells whether it was added.
            let is_reduced = lesser & 1 << 31 != 0;
            lesser = if is_reduced { (lesser ^ POLYNOMIAL) << 1 | 1 } else { lesser << 1 };
            left -= 1;
        }
        let (mut all, mut digit) = (BYTE_POWERS, 0);
        while digit < 4 {
            let mut count = 0;
            while count < 256 {
                all[digit][count] = product(all[digit][count], lesser);
                count += 1;
            }
            digit += 1;
        }
        all
    }

    /// Computes the same as [`super::checksum_between`].
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub(super) fn checksum_between(
        seed: u32,
        (before, to_start): RawSum<'_>,
        (whole, to_end): RawSum<'_>,
        length: u32,
    ) -> u32 {
        let (before, whole) = (of_words(before, to_start), of_words(whole, to_end));
        !(whole ^ over_zeros(before ^ !seed, length))
    }

    /// Computes the same as [`super::over_zeros`].
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    pub(super) fn over_zeros(sum: u32, length: u32) -> u32 {
        let mut sum = u64::from(sum);
        for (digit, powers) in length.to_le_bytes().iter().zip(&LESSER_BYTE_POWERS) {
            if *digit != 0 {
                sum = times(sum, powers[usize::from(*digit)]);
            }
        }
        sum as u32
    }

    /// The product of a sum, a polynomial, and x to the power of 33.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    fn times(sum: u64, other: u32) -> u64 {
        let number = |value: u64| -> __m128i { _mm_cvtsi64_si128(value as i64) };
        let product = _mm_clmulepi64_si128::<0>(number(sum), number(u64::from(other)));
        _mm_crc32_u64(0, _mm_cvtsi128_si64(product) as u64)
    }

    /// x to the power of 64 n - 33 for n words: the product of two reflected polynomials is one
    /// power short, and the reduction multiplies by x to the power of 32.
    const fn shifts() -> [u32; 2 * WORDS_MAX + 1] {
        let mut all = [0; 2 * WORDS_MAX + 1];
        let mut power = 1 << 31;
        let mut exponent = 0;
        let mut words = 1;
        while words <= 2 * WORDS_MAX {
            while exponent < 64 * words - 33 {
                power = times_x(power);
                exponent += 1;
            }
            all[words] = power;
            words += 1;
        }
        all
    }

    /// The `sum` after appending `words` words of zeros.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    fn shifted(sum: u64, words: usize) -> u64 {
        times(sum, SHIFTS[words])
    }

    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub(super) fn checksum(seed: u32, mut bytes: &[u8]) -> u32 {
        let mut sum = u64::from(!seed);
        while bytes.len() >= CUT_MIN {
            let words = (bytes.len() / 24).min(WORDS_MAX);
            let (piece, rest) = bytes.split_at(24 * words);
            let (first, others) = piece.split_at(8 * words);
            let (second, third) = others.split_at(8 * words);
            let (mut sum_2, mut sum_3) = (0, 0);
            let thirds = first.chunks_exact(8).zip(second.chunks_exact(8));
            for ((one, two), three) in thirds.zip(third.chunks_exact(8)) {
                sum = _mm_crc32_u64(sum, read_u64(one, 0));
                sum_2 = _mm_crc32_u64(sum_2, read_u64(two, 0));
                sum_3 = _mm_crc32_u64(sum_3, read_u64(three, 0));
            }
            sum = shifted(sum, 2 * words) ^ shifted(sum_2, words) ^ sum_3;
            bytes = rest;
        }
        !of_words(sum as u32, bytes)
    }

    /// Appends some whole words and a rest of less than a word.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    fn of_words(sum: u32, bytes: &[u8]) -> u32 {
        let mut sum = u64::from(sum);
        let words = bytes.chunks_exact(8);
        let rest = words.remainder();
        for word in words {
            sum = _mm_crc32_u64(sum, read_u64(word, 0));
        }
        of_rest(sum as u32, rest)
    }

    /// Appends less than 8 bytes.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    fn of_rest(mut sum: u32, bytes: &[u8]) -> u32 {
        let mut at = 0;
        if bytes.len() & 4 != 0 {
            sum = _mm_crc32_u32(sum, read_u32(bytes, at));
            at += 4;
        }
        if bytes.len() & 2 != 0 {
            sum = _mm_crc32_u16(sum, read_u16(bytes, at));
            at += 2;
        }
        if bytes.len() & 1 != 0 {
            sum = _mm_crc32_u8(sum, bytes[at]);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::{checksum, checksum_between, over_zeros};

    /// Tests both implementations of appending zeros, with lengths of up to three digits.
    #[test]
    fn the_sum_between_two_places_is_that_of_the_bytes_between() {
        let raw = |bytes: &[u8]| !checksum(u32::MAX, bytes);
        let bytes: Vec<u8> = (0..70_000_u32).map(|n| (n.wrapping_mul(77_777) >> 7) as u8).collect();
        for (start, end) in [(0, 0), (3, 4), (9, 265), (1, 258), (40, 70_000)] {
            let sums = ((raw(&bytes[..start]), &[][..]), (raw(&bytes[..end]), &[][..]));
            let length = (end - start) as u32;
            let expected = checksum(7, &bytes[start..end]);
            assert_eq!(checksum_between(7, sums.0, sums.1, length), expected);
            assert_eq!(!(sums.1.0 ^ over_zeros(sums.0.0 ^ !7, length)), expected);
        }
    }

    #[test]
    fn the_checksum_is_crc32c_for_all_lengths_and_seeds() {
        // RFC 3720, B.4.
        assert_eq!(checksum(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(0, &[0xff; 32]), 0x62a8_ab43);
        assert_eq!(checksum(0, b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> =
            (0..5_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for length in (0..1_800).chain([2_047, 4_096, 4_999]) {
            for (begin, seed) in [(0, 0), (1, 7), (length % 9, u32::MAX - length as u32)] {
                let Some(piece) = bytes.get(begin..begin + length) else { continue };
                let expected = crc32c::crc32c_append(seed, piece);
                assert_eq!(checksum(seed, piece), expected, "{length} bytes from {begin}");
            }
        }
    }
}
