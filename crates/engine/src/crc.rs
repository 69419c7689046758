//! The checksum of everything on disk, crc32c, for pieces of a few hundred bytes.
//!
//! The processor's instruction takes 8 bytes and three cycles, and three of them can be under way
//! at once. Libraries make use of that from some 800 bytes on, because they put the parts together
//! by tables for a fixed length; a record of 300 bytes then waits for 40 instructions in a row, and
//! that was 7 % of a GET. Here any piece is cut into three, and put together by two carry-less
//! multiplications (Gopal et al., "Fast CRC Computation Using PCLMULQDQ Instruction", Intel, 2009),
//! for which there is a constant for each length.

/// crc32c of `bytes`, started with `seed` (0 for none).
#[inline]
pub(crate) fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has both features.
        return unsafe { three_way::checksum(seed, bytes) };
    }
    crc32c::crc32c_append(seed, bytes)
}

/// The polynomial, its lowest power first.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// x to the power of 8 n 256^i at `[i][n]`: what goes on over so many bytes of zeros.
static BYTE_POWERS: [[u32; 256]; 4] = byte_powers();

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

/// The raw `sum` as it is after `length` bytes of zeros more. Raw sums begin with 0, are not turned
/// at their end, and add up.
pub(crate) fn over_zeros(sum: u32, length: u32) -> u32 {
    let digits = length.to_le_bytes();
    let nonzero = digits.iter().zip(&BYTE_POWERS).filter(|(digit, _)| **digit != 0);
    nonzero.fold(sum, |sum, (digit, powers)| times(sum, powers[usize::from(*digit)]))
}

/// [`product`], by the processor if it can.
#[inline]
fn times(one: u32, other: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has both features.
        return unsafe { three_way::product(one, other) };
    }
    product(one, other)
}

#[cfg(target_arch = "x86_64")]
mod three_way {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64,
        _mm_cvtsi64_si128, _mm_cvtsi128_si64,
    };

    use super::{POLYNOMIAL, times_x};
    use crate::bytes::{read_u16, read_u32, read_u64};

    /// The longest third of a piece, in words of 8 bytes.
    const WORDS_MAX: usize = 64;
    /// Pieces below it are not worth cutting, in bytes.
    const CUT_MIN: usize = 96;
    /// For each number of words, what a checksum is multiplied by to go on over as many words of
    /// zeros.
    const SHIFTS: [u32; 2 * WORDS_MAX + 1] = shifts();

    /// x to the power of -66: each of two products is followed by a multiplication with x to the
    /// power of 33 (see [`shifts`]).
    const CORRECTION_TWICE: u32 = correction();

    const fn correction() -> u32 {
        let (mut power, mut left) = (1_u32 << 31, 66);
        while left > 0 {
            // The polynomial has its highest bit set: this tells whether it was added.
            let is_reduced = power & 1 << 31 != 0;
            power = if is_reduced { (power ^ POLYNOMIAL) << 1 | 1 } else { power << 1 };
            left -= 1;
        }
        power
    }

    /// The product of two polynomials, modulo [`POLYNOMIAL`].
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    pub(super) fn product(one: u32, other: u32) -> u32 {
        let number = |value: u64| -> __m128i { _mm_cvtsi64_si128(value as i64) };
        let times = |one: u64, other: u64| {
            let product = _mm_clmulepi64_si128::<0>(number(one), number(other));
            _mm_crc32_u64(0, _mm_cvtsi128_si64(product) as u64)
        };
        times(times(u64::from(one), u64::from(other)), u64::from(CORRECTION_TWICE)) as u32
    }

    /// x to the power of 64 n - 33: the product of two reflected polynomials is one power short,
    /// and the reduction multiplies by x to the power of 32.
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

    /// `sum` as it is after `words` words of zeros more.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline]
    fn shifted(sum: u64, words: usize) -> u64 {
        let number = |value: u64| -> __m128i { _mm_cvtsi64_si128(value as i64) };
        let product = _mm_clmulepi64_si128::<0>(number(sum), number(u64::from(SHIFTS[words])));
        _mm_crc32_u64(0, _mm_cvtsi128_si64(product) as u64)
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
        let words = bytes.chunks_exact(8);
        let rest = words.remainder();
        for word in words {
            sum = _mm_crc32_u64(sum, read_u64(word, 0));
        }
        !of_rest(sum as u32, rest)
    }

    /// Goes on over less than 8 bytes.
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
    use super::{checksum, over_zeros, product, times};

    #[test]
    fn raw_sums_go_on_over_zeros() {
        let raw = |sum: u32, bytes: &[u8]| !checksum(!sum, bytes);
        for length in [0, 1, 7, 255, 256, 257, 70_000, 1 << 20] {
            let zeros = vec![0; length];
            for sum in [0, 1, 0x8000_0000, 0x1234_5678, u32::MAX] {
                assert_eq!(over_zeros(sum, length as u32), raw(sum, &zeros), "{length}");
                let other = sum.rotate_left(9) ^ length as u32;
                assert_eq!(times(sum, other), product(sum, other));
            }
        }
    }

    #[test]
    fn it_is_crc32c_for_all_lengths_and_seeds() {
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
