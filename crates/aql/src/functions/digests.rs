//! Digests of values, and unique identifiers.

use pellucid_value::{Value, index_key};
use ring::digest::{Algorithm, Context, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};

use super::encodings::hexadecimal;
use super::function::{Function, type_error, whole};
use super::makers::{STEP_BYTES, text};
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("MD5", 1, 1, |run, arguments| {
        let own = text(run, &arguments[0])?;
        Ok(hexadecimal(&md5(own.as_bytes(), run)?).into())
    }),
    Function::pure("SHA1", 1, 1, |run, arguments| {
        digest_of(run, arguments, &SHA1_FOR_LEGACY_USE_ONLY)
    }),
    Function::pure("SHA256", 1, 1, |run, arguments| digest_of(run, arguments, &SHA256)),
    Function::pure("SHA512", 1, 1, |run, arguments| digest_of(run, arguments, &SHA512)),
    Function::pure("CRC32", 1, 1, |run, arguments| {
        let own = text(run, &arguments[0])?;
        let mut sum = 0;
        for chunk in own.as_bytes().chunks(CHUNK_BYTES) {
            run.tick_by(CHUNK_BYTES / STEP_BYTES)?;
            sum = crc32c::crc32c_append(sum, chunk);
        }
        Ok(format!("{sum:X}").into())
    }),
    Function::pure("HASH", 1, 1, hash),
    Function::impure("UUID", 0, 0, uuid),
    Function::impure("RANDOM_TOKEN", 1, 1, random_token),
];

/// The most characters of a random token.
const TOKEN_CHARACTERS_MAX: i64 = 65_536;

/// The bytes of a message between two checks of whether the query has to end.
const CHUNK_BYTES: usize = 16 * STEP_BYTES;

/// Computes a digest by the library.
fn digest(algorithm: &'static Algorithm, message: &[u8], run: &mut QueryRun) -> Result<Digest> {
    let mut digest = Context::new(algorithm);
    for chunk in message.chunks(CHUNK_BYTES) {
        run.tick_by(CHUNK_BYTES / STEP_BYTES)?;
        digest.update(chunk);
    }
    Ok(digest.finish())
}

fn digest_of(
    run: &mut QueryRun,
    arguments: &[Value],
    algorithm: &'static Algorithm,
) -> Result<Value> {
    let own = text(run, &arguments[0])?;
    Ok(hexadecimal(digest(algorithm, own.as_bytes(), run)?.as_ref()).into())
}

/// Calls `each` with the blocks of a message, with the padding of MD5.
fn blocks(message: &[u8], run: &mut QueryRun, mut each: impl FnMut(&[u8; 64])) -> Result<()> {
    let (whole, rest) = message.as_chunks::<64>();
    for blocks in whole.chunks(STEP_BYTES / 64) {
        run.tick_by(4)?;
        blocks.iter().for_each(&mut each);
    }
    let mut padded = rest.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64).wrapping_mul(8).to_le_bytes());
    padded.as_chunks::<64>().0.iter().for_each(&mut each);
    Ok(())
}

/// Computes MD5 (RFC 1321). It is only for compatibility, because it is not secure.
fn md5(message: &[u8], run: &mut QueryRun) -> Result<[u8; 16]> {
    const SHIFTS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    // The table of the RFC: the whole part of 2^32 times the absolute value of the sine.
    let constants: [u32; 64] =
        std::array::from_fn(|at| ((at as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32);
    blocks(message, run, |block| {
        let word = |at: usize| {
            let bytes = &block[4 * at..];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let [mut a, mut b, mut c, mut d] = state;
        for at in 0..64 {
            let (mixed, place) = match at / 16 {
                0 => ((b & c) | (!b & d), at),
                1 => ((d & b) | (!d & c), (5 * at + 1) % 16),
                2 => (b ^ c ^ d, (3 * at + 5) % 16),
                _ => (c ^ (b | !d), (7 * at) % 16),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(constants[at]).wrapping_add(word(place));
            let next = b.wrapping_add(sum.rotate_left(SHIFTS[at / 16][at % 4]));
            (a, d, c, b) = (d, c, b, next);
        }
        for (total, value) in state.iter_mut().zip([a, b, c, d]) {
            *total = total.wrapping_add(value);
        }
    })?;
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(digest)
}

/// The most bytes of a value's encoded key for each byte of the value, with the spare capacity: a
/// zero byte of a text becomes two.
const KEY_BYTES_EACH: usize = 4;

/// Computes a hash that is the same for equal values and exact in a double.
fn hash(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let mut key = Vec::new();
    run.memory.take(arguments[0].size_bytes().saturating_mul(KEY_BYTES_EACH))?;
    run.check()?;
    index_key::encode(arguments[0].view(), &mut key);
    let digest = digest(&SHA256, &key, run)?;
    let bytes = digest.as_ref().first_chunk::<8>().copied().unwrap_or_default();
    Ok(Value::Int((u64::from_le_bytes(bytes) >> 11) as i64))
}

/// Makes a random UUID (version 4 of RFC 9562).
fn uuid(run: &mut QueryRun, _: &[Value]) -> Result<Value> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&run.random().to_le_bytes());
    bytes[8..].copy_from_slice(&run.random().to_le_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hexadecimal(&bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-").into())
}

fn random_token(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    const DIGITS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let count = whole(&arguments[0]);
    if !(0..=TOKEN_CHARACTERS_MAX).contains(&count) {
        return Err(type_error("RANDOM_TOKEN"));
    }
    let digit = |_| char::from(DIGITS[(run.random() % 62) as usize]);
    Ok((0..count).map(digit).collect::<String>().into())
}
