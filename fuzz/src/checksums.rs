//! Recomputes the checksums of a file at the offsets that its own fields give (docs/format.md).
//! Parts whose offsets are out of range are skipped. It is written from the format, without the
//! engine's code, so that each checks the other.

use crc32c::{crc32c, crc32c_append};

/// Length of the file header, in bytes. Its last 4 bytes are its checksum.
pub const HEADER_BYTES: usize = 64;
/// Length of the shorter form of a record's header, in bytes.
const RECORD_LENGTH_MIN: usize = 24;
/// Length of the fixed part of a segment's footer, in bytes.
const FOOTER_BYTES: usize = 32;
/// The last bytes of a sealed segment.
const FOOTER_MAGIC: &[u8] = b"PLSF";
/// Length of a table's footer, in bytes.
pub const TABLE_FOOTER_BYTES: usize = 96;
/// Length of the header and of one entry of a table's index, in bytes.
const INDEX_ENTRY_BYTES: usize = 16;

/// Returns the length or number in the 4 bytes at `at`.
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*field)).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?))
}

fn offset_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

/// Returns the initial CRC of a checksum that also covers `numbers` (store identity, file number,
/// offset).
pub fn seed(numbers: &[u64]) -> u32 {
    numbers.iter().fold(0, |sum, number| crc32c_append(sum, &number.to_le_bytes()))
}

/// Writes the checksum of `covered` at `at`.
fn put(bytes: &mut [u8], at: usize, seed: u32, covered: std::ops::Range<usize>) -> Option<()> {
    let sum = crc32c_append(seed, bytes.get(covered)?);
    bytes.get_mut(at..at + 4)?.copy_from_slice(&sum.to_le_bytes());
    Some(())
}

/// Fixes the checksum of the file's header; returns the identity of the store and the number of
/// the file.
fn header(file: &mut [u8]) -> Option<(u64, u64)> {
    let sum = crc32c(file.get(..HEADER_BYTES - 4)?);
    file.get_mut(HEADER_BYTES - 4..HEADER_BYTES)?.copy_from_slice(&sum.to_le_bytes());
    Some((u64_at(file, 16)?, u64_at(file, 24)?))
}

/// Fixes the checksum of the record at the front of `bytes` and returns its length; `None` if its
/// length is out of range.
pub fn fix_record(bytes: &mut [u8], store_seed: u32) -> Option<usize> {
    let length = length_at(bytes, 4)?;
    let possible = length >= RECORD_LENGTH_MIN && length <= bytes.len();
    possible.then(|| put(bytes, 0, store_seed, 4..length))??;
    Some(length)
}

/// Fixes a segment: its header, its records, also those behind a gap, and its footer. Returns
/// `None` if there is no footer; header and records are fixed all the same.
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

/// Fixes the checksums of `file`, taken for the kind of file that `magic`, the first bytes of the
/// unchanged file, names. Returns `None` if the kind is unknown or a field is out of range.
pub fn fix_file(magic: &[u8], file: &mut [u8]) -> Option<()> {
    match magic.first_chunk()? {
        b"PLCDMANI" => fix_manifest(file),
        b"PLCDTABL" => fix_table(file),
        b"PLCDJRNL" => fix_segment(file),
        _ => None,
    }
}

/// Fixes a manifest: its header and its body.
pub fn fix_manifest(file: &mut [u8]) -> Option<()> {
    let (identity, edition) = header(file)?;
    let end = file.len().checked_sub(4)?;
    put(file, end, seed(&[identity, edition]), HEADER_BYTES..end)
}

/// Fixes a table: its header, its footer, and the parts that the footer and the index name.
pub fn fix_table(file: &mut [u8]) -> Option<()> {
    let (identity, number) = header(file)?;
    let footer = file.len().checked_sub(TABLE_FOOTER_BYTES)?;
    put(file, footer + 88, seed(&[identity, number]), footer..footer + 88)?;
    let fix_part = |file: &mut [u8], begin: usize, length: usize| {
        let covered = begin.checked_add(4)?..begin.checked_add(length)?;
        put(file, begin, seed(&[identity, number, begin as u64]), covered)
    };
    let (filter, filter_length) = (offset_at(file, footer)?, offset_at(file, footer + 8)?);
    let (index, index_length) = (offset_at(file, footer + 16)?, offset_at(file, footer + 24)?);
    let _ = fix_part(file, filter, filter_length);
    fix_part(file, index, index_length)?;
    let places = (index_length / INDEX_ENTRY_BYTES).saturating_sub(1);
    let blocks = length_at(file, index + 8)?.min(places);
    for block in 0..blocks {
        let place = index + INDEX_ENTRY_BYTES * (1 + block);
        let (begin, length) = (offset_at(file, place)?, length_at(file, place + 8)?);
        let _ = fix_part(file, begin, length);
    }
    Some(())
}
