//! The contents of a journal's files, decoded according to `docs/format.md`, without the engine's
//! code.

/// Length of a file's header in bytes.
const FILE_HEADER: usize = 64;
/// Distance of the footer's offset from the end of the file, in bytes.
const FOOTER_OFFSET_FROM_END: usize = 16;
/// The kind of a record that marks what is durable.
const SYNC_MARK: u8 = 3;

/// Bytes of the records of sealed segments, with their padding and without sync marks.
pub(crate) fn record_bytes(segments: impl Iterator<Item = Vec<u8>>) -> u64 {
    segments.map(|bytes| record_bytes_of(&bytes)).sum()
}

fn record_bytes_of(bytes: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = number(bytes.len() - FOOTER_OFFSET_FROM_END) as usize;
    let (mut at, mut sum) = (FILE_HEADER, 0);
    while at < end {
        // The upper half of the first 8 bytes.
        let length = (number(at) >> 32) as usize;
        // A long header has zero here, and its kind at 34.
        let kind = match bytes[at + 15] {
            0 => bytes[at + 34],
            marks => marks & 3,
        };
        assert!((1..=3).contains(&kind), "no kind {kind} at {at}");
        if kind != SYNC_MARK {
            sum += length.next_multiple_of(8) as u64;
        }
        at += length.next_multiple_of(8);
    }
    sum
}
