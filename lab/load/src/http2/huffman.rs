//! The Huffman code of HPACK (RFC 7541, Appendix B), for reading.
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their
//! symbols. So the lengths alone say everything, and a value is read by comparing it with the first
//! code of each length.

use std::sync::OnceLock;

use crate::response::Malformed;

/// The longest code.
const LONGEST_BITS: usize = 30;
/// The symbol that ends nothing: it must not occur.
const END_OF_STRING: u16 = 256;
/// The lengths of the codes of all bytes and of the end of a string, run by run: how many symbols
/// in a row, and their length in bits.
const LENGTH_RUNS: &[(u16, u8)] = &[
    (1, 13),
    (1, 23),
    (7, 28),
    (1, 24),
    (1, 30),
    (2, 28),
    (1, 30),
    (8, 28),
    (1, 30),
    (9, 28),
    (1, 6),
    (2, 10),
    (1, 12),
    (1, 13),
    (1, 6),
    (1, 8),
    (1, 11),
    (2, 10),
    (1, 8),
    (1, 11),
    (1, 8),
    (3, 6),
    (3, 5),
    (7, 6),
    (1, 7),
    (1, 8),
    (1, 15),
    (1, 6),
    (1, 12),
    (1, 10),
    (1, 13),
    (1, 6),
    (22, 7),
    (1, 8),
    (1, 7),
    (1, 8),
    (1, 13),
    (1, 19),
    (1, 13),
    (1, 14),
    (1, 6),
    (1, 15),
    (1, 5),
    (1, 6),
    (1, 5),
    (1, 6),
    (1, 5),
    (3, 6),
    (1, 5),
    (2, 7),
    (3, 6),
    (1, 5),
    (1, 6),
    (1, 7),
    (1, 6),
    (2, 5),
    (1, 6),
    (5, 7),
    (1, 15),
    (1, 11),
    (1, 14),
    (1, 13),
    (1, 28),
    (1, 20),
    (1, 22),
    (2, 20),
    (3, 22),
    (1, 23),
    (1, 22),
    (5, 23),
    (1, 24),
    (1, 23),
    (2, 24),
    (1, 22),
    (1, 23),
    (1, 24),
    (4, 23),
    (1, 21),
    (1, 22),
    (1, 23),
    (1, 22),
    (2, 23),
    (1, 24),
    (1, 22),
    (1, 21),
    (1, 20),
    (2, 22),
    (2, 23),
    (1, 21),
    (1, 23),
    (2, 22),
    (1, 24),
    (1, 21),
    (1, 22),
    (2, 23),
    (2, 21),
    (1, 22),
    (1, 21),
    (1, 23),
    (1, 22),
    (2, 23),
    (1, 20),
    (3, 22),
    (1, 23),
    (2, 22),
    (1, 23),
    (2, 26),
    (1, 20),
    (1, 19),
    (1, 22),
    (1, 23),
    (1, 22),
    (1, 25),
    (3, 26),
    (2, 27),
    (1, 26),
    (1, 24),
    (1, 25),
    (1, 19),
    (1, 21),
    (1, 26),
    (2, 27),
    (1, 26),
    (1, 27),
    (1, 24),
    (2, 21),
    (2, 26),
    (1, 28),
    (3, 27),
    (1, 20),
    (1, 24),
    (1, 20),
    (1, 21),
    (1, 22),
    (2, 21),
    (1, 23),
    (2, 22),
    (2, 25),
    (2, 24),
    (1, 26),
    (1, 23),
    (1, 26),
    (1, 27),
    (2, 26),
    (5, 27),
    (1, 28),
    (5, 27),
    (1, 26),
    (1, 30),
];

/// The codes of one length.
#[derive(Clone, Copy, Debug, Default)]
struct Length {
    /// The first code.
    first: u32,
    /// How many there are.
    count: u32,
    /// Where their symbols begin in the list of all.
    begin: usize,
}

struct Code {
    lengths: [Length; LONGEST_BITS + 1],
    /// All symbols in the order of their codes.
    symbols: Vec<u16>,
}

fn code() -> &'static Code {
    static CODE: OnceLock<Code> = OnceLock::new();
    CODE.get_or_init(|| {
        let runs = LENGTH_RUNS.iter();
        let bits: Vec<u8> = runs
            .flat_map(|(count, bits)| std::iter::repeat_n(*bits, usize::from(*count)))
            .collect();
        let mut lengths = [Length::default(); LONGEST_BITS + 1];
        let mut symbols = Vec::with_capacity(bits.len());
        let mut next = 0_u32;
        for (length, codes) in lengths.iter_mut().enumerate() {
            next <<= 1;
            let begin = symbols.len();
            let of_length =
                bits.iter().enumerate().filter(|(_, bits)| usize::from(**bits) == length);
            symbols.extend(of_length.map(|(symbol, _)| symbol as u16));
            let count = (symbols.len() - begin) as u32;
            *codes = Length { first: next, count, begin };
            next += count;
        }
        Code { lengths, symbols }
    })
}

/// Appends what `bytes` stand for to `out`.
pub(super) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let code = code();
    let (mut value, mut length) = (0_u32, 0_usize);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |shift| byte >> shift & 1)) {
        value = value << 1 | u32::from(bit);
        length += 1;
        let Some(codes) = code.lengths.get(length) else { return Err(Malformed::Header) };
        let place = value.wrapping_sub(codes.first);
        if place < codes.count {
            let symbol = code.symbols[codes.begin + place as usize];
            if symbol == END_OF_STRING {
                return Err(Malformed::Header);
            }
            out.push(symbol as u8);
            (value, length) = (0, 0);
        }
    }
    // What is left over are ones, fewer than a byte.
    if length < 8 && value == (1 << length) - 1 { Ok(()) } else { Err(Malformed::Header) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<String, Malformed> {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    /// A code in which nothing is left out and nothing doubled fills the space of all codes.
    #[test]
    fn the_code_is_complete() {
        let bits = LENGTH_RUNS.iter().map(|(count, bits)| u64::from(*count) << (32 - bits));
        assert_eq!(bits.sum::<u64>(), 1 << 32);
        assert_eq!(LENGTH_RUNS.iter().map(|(count, _)| count).sum::<u16>(), END_OF_STRING + 1);
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        for (bytes, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"\x64\x02", "302"),
            (b"\xae\xc3\x77\x1a\x4b", "private"),
            (b"", ""),
        ] {
            assert_eq!(decoded(bytes).as_deref(), Ok(text));
        }
    }

    #[test]
    fn padding_of_a_byte_or_of_zeros_and_the_end_symbol_are_refused() {
        for bytes in [&b"\xa8\xeb\x10\x64\x9c\xbf\xff"[..], b"\x00", b"\xff\xff\xff\xff"] {
            assert_eq!(decoded(bytes), Err(Malformed::Header), "{bytes:?}");
        }
    }
}
