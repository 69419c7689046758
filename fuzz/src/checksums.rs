//! Makes the checksums of a file right, wherever its fields say that they are (docs/format.md).
//! What makes no sense is left alone. Written from the format and not with the engine's own code,
//! so that the two check each other.

use crc32c::{crc32c, crc32c_append};

/// The file header, whose last 4 bytes are its checksum.
const HEADER_BYTES: usize = 64;
/// Of a record.
const RECORD_HEADER_BYTES: usize = 40;
/// The fixed part of a segment's footer.
const FOOTER_BYTES: usize = 32;
/// What a sealed segment ends with.
const FOOTER_MAGIC: &[u8] = b"PLSF";
/// Of a table.
const CLOSING_BYTES: usize = 96;

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*field)).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?))
}

fn offset_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

/// What a checksum is started with that is bound to numbers.
pub fn seed(numbers: &[u64]) -> u32 {
    numbers.iter().fold(0, |sum, number| crc32c_append(sum, &number.to_le_bytes()))
}

/// Writes the checksum of `covered` at `at`.
fn put(bytes: &mut [u8], at: usize, seed: u32, covered: std::ops::Range<usize>) -> Option<()> {
    let sum = crc32c_append(seed, bytes.get(covered)?);
    bytes.get_mut(at..at + 4)?.copy_from_slice(&sum.to_le_bytes());
    Some(())
}

/// The identity of the store and the number of the file by its header, which is made right.
fn header(file: &mut [u8]) -> Option<(u64, u64)> {
    let sum = crc32c(file.get(..HEADER_BYTES - 4)?);
    file.get_mut(HEADER_BYTES - 4..HEADER_BYTES)?.copy_from_slice(&sum.to_le_bytes());
    Some((u64_at(file, 16)?, u64_at(file, 24)?))
}

/// Makes the record at the front of `bytes` right and returns its length; nothing if its length
/// cannot be.
pub fn fix_record(bytes: &mut [u8], store_seed: u32) -> Option<usize> {
    let length = u32_at(bytes, 4)?;
    let possible = length >= RECORD_HEADER_BYTES && length <= bytes.len();
    possible.then(|| put(bytes, 0, store_seed, 4..length))??;
    Some(length)
}

/// Makes a segment right: its header, its records, those behind a gap too, and its footer.
pub fn fix_segment(file: &mut [u8]) -> Option<()> {
    let (identity, number) = header(file)?;
    let store_seed = seed(&[identity]);
    let fixed = file.len().checked_sub(FOOTER_BYTES)?;
    let is_sealed = file.ends_with(FOOTER_MAGIC);
    let begin = offset_at(file, fixed + 16).filter(|begin| is_sealed && *begin <= fixed);
    let end = begin.unwrap_or(file.len());
    let mut at = HEADER_BYTES;
    while at < end {
        let length = fix_record(&mut file[at..end], store_seed).unwrap_or(8);
        at += length.next_multiple_of(8);
    }
    let begin = begin?;
    put(file, fixed + 24, seed(&[identity, number]), begin..fixed + 24)
}

/// Makes a file right, whatever its magic says that it is.
pub fn fix_file(magic: &[u8], file: &mut [u8]) -> Option<()> {
    match magic.first_chunk()? {
        b"PLCDMANI" => fix_manifest(file),
        b"PLCDTABL" => fix_table(file),
        b"PLCDJRNL" => fix_segment(file),
        _ => None,
    }
}

/// Makes a manifest right.
pub fn fix_manifest(file: &mut [u8]) -> Option<()> {
    let (identity, edition) = header(file)?;
    let end = file.len().checked_sub(4)?;
    put(file, end, seed(&[identity, edition]), HEADER_BYTES..end)
}

/// Makes a table right: its header, its closing, and the parts that these and the index name.
pub fn fix_table(file: &mut [u8]) -> Option<()> {
    let (identity, number) = header(file)?;
    let closing = file.len().checked_sub(CLOSING_BYTES)?;
    put(file, closing + 88, seed(&[identity, number]), closing..closing + 88)?;
    let fix_part = |file: &mut [u8], begin: usize, length: usize| {
        let covered = begin.checked_add(4)?..begin.checked_add(length)?;
        put(file, begin, seed(&[identity, number, begin as u64]), covered)
    };
    let (filter, filter_length) = (offset_at(file, closing)?, offset_at(file, closing + 8)?);
    let (index, index_length) = (offset_at(file, closing + 16)?, offset_at(file, closing + 24)?);
    let _ = fix_part(file, filter, filter_length);
    fix_part(file, index, index_length)?;
    let blocks = u32_at(file, index + 8)?.min(index_length / 16);
    for block in 0..blocks {
        let place = index + 16 + 16 * block;
        let (begin, length) = (offset_at(file, place)?, u32_at(file, place + 8)?);
        let _ = fix_part(file, begin, length);
    }
    Some(())
}
