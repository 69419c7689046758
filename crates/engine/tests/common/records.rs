//! The contents of a journal's files, decoded by `docs/format.md` and without the engine's code.

/// Length of the records of sealed segments according to their footers, without sync marks, in
/// bytes.
pub(crate) fn record_bytes(segments: impl Iterator<Item = Vec<u8>>) -> u64 {
    segments.map(|bytes| record_bytes_of(&bytes)).sum()
}

fn record_bytes_of(bytes: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = number(bytes.len() - 16) as usize;
    let (mut at, mut sum) = (64, 0);
    while at < end {
        let length = (number(at) >> 32) as usize;
        let kind = match bytes[at + 15] {
            0 => bytes[at + 34],
            marks => marks & 3,
        };
        assert!((1..=3).contains(&kind), "a record at {at}");
        if kind != 3 {
            sum += length.next_multiple_of(8) as u64;
        }
        at += length.next_multiple_of(8);
    }
    sum
}
