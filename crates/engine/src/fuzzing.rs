//! The decoders of all data from the disk, for fuzzers: arbitrary bytes must be decoded or refused,
//! without a panic, and without allocating memory in proportion to an invalid length.

use std::path::Path;

use crate::codec::{FileHeader, FileKind};
use crate::definition::Definition;
use crate::index_key::{put_index_key, split_index_key};
use crate::journal::{Record, decode_footer, find_stray, scan_records, walk_records};
use crate::ledger::{check_block, check_filter, check_footer, check_index};
use crate::manifest::check_manifest;

/// The checksum seed and store identity for fuzzed files.
const IDENTITY: u64 = 7;
/// The most sequence numbers of a segment that are looked up.
const SEQUENCES_MAX: u64 = 1_000;

/// Decodes a journal record, and its value, which may be compressed.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes, IDENTITY as u32) {
        let _ = record.unpacked();
    }
}

/// Decodes a whole journal segment: its header, its records, the bytes behind a tear, and its
/// footer.
pub fn segment(bytes: &[u8]) {
    let seed = crate::codec::checksum_seed(&[IDENTITY]);
    let _ = FileHeader::decode(bytes, FileKind::Journal, Path::new("fuzzed"));
    let scanned = scan_records(bytes, seed, 1);
    let _ = find_stray(bytes, seed, scanned.tear, scanned.missing_sequence, true);
    if let Ok(footer) = decode_footer(bytes, IDENTITY, 1, 1) {
        // Look up every sequence number of the range, even those whose records were collected.
        let range = footer.last_sequence.saturating_sub(1).min(SEQUENCES_MAX);
        (0..=range).for_each(|distance| {
            let _ = footer.record_offset(bytes, distance);
        });
    }
    walk_records(bytes, (IDENTITY, 1, seed), 1, |_| {});
}

/// Decodes a data block of a table.
pub fn block(bytes: &[u8]) {
    let _ = check_block(bytes);
}

/// Decodes the index of a table; the first 8 bytes are the offset at which the blocks end.
pub fn index(bytes: &[u8]) {
    let Some((end, index)) = bytes.split_first_chunk::<8>() else { return };
    let _ = check_index(index, u64::from_le_bytes(*end));
}

/// Decodes the filter of a table.
pub fn filter(bytes: &[u8]) {
    let _ = check_filter(bytes);
}

/// Decodes the footer of a table.
pub fn table_footer(bytes: &[u8]) {
    let _ = check_footer(bytes);
}

/// Decodes the definition of a table. An accepted one must round-trip.
pub fn definition(bytes: &[u8]) {
    if let Ok(definition) = Definition::decode(bytes) {
        assert_eq!(Definition::decode(&definition.encode()), Ok(definition));
    }
}

/// Decodes the key of an index entry. An accepted one must be the only encoding of its term and
/// object.
pub fn index_key(bytes: &[u8]) {
    let mut term = Vec::new();
    if let Some(key) = split_index_key(bytes, &mut term) {
        let mut again = Vec::new();
        let put = put_index_key(&mut again, &term, key);
        assert!(put.is_ok() && again == bytes, "two keys stand for one entry");
    }
}

/// Decodes a manifest.
pub fn manifest(bytes: &[u8]) {
    let _ = check_manifest(bytes);
}

#[cfg(test)]
mod tests {
    use pellucid_io::{Random, SeededRandom};

    /// A short run without a fuzzer, with plausible bytes in the places that matter.
    #[test]
    fn no_bytes_make_a_decoder_panic() {
        let decoders: [fn(&[u8]); 7] = [
            super::record,
            super::segment,
            super::block,
            super::index,
            super::filter,
            super::table_footer,
            super::manifest,
        ];
        let mut random = SeededRandom::new(5);
        for round in 0..20_000 {
            let length = random.below(300) as usize;
            let small = round % 3 == 0;
            let mut bytes: Vec<u8> = (0..length)
                .map(|_| {
                    let byte = random.next_u64() as u8;
                    if small && byte > 20 { 0 } else { byte }
                })
                .collect();
            if round % 5 == 0 && length >= 32 {
                let magic = if round % 10 == 0 { b"PLTF" } else { b"PLSF" };
                bytes[length - 4..].copy_from_slice(magic);
            }
            for decoder in decoders {
                decoder(&bytes);
            }
        }
    }
}
