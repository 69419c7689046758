//! Reading a damaged segment.

use super::footer::decode_footer;
use super::record::Record;
use super::scan::RecordSearch;
use crate::codec::FILE_HEADER_LENGTH;
use crate::header_form::RECORD_ALIGNMENT;

/// The sequence numbers of a segment span at most this many: a sparse footer has 4 bytes for the
/// distance from the first one.
const SEQUENCES_MAX: u64 = 1 << 32;

/// A stretch of a segment, as a walk through the segment finds it.
pub(crate) enum SegmentRange {
    /// An intact record; its length includes the padding.
    Record { sequence: u64, offset: u64, length: u64, batch_goes_on: bool },
    /// Bytes that are not a record, with the sequence numbers of the records before and behind
    /// them.
    Damage { offset: u64, length: u64, after: Option<u64>, before: Option<u64> },
}

/// Calls `visit` for everything that `file` holds: a segment with this store identity, number and
/// checksum seed. `first_sequence` is 0 if it is not known. Returns the last sequence number of the
/// footer, if there is one.
pub(crate) fn walk_records(
    file: &[u8],
    (identity, number, seed): (u64, u64, u32),
    first_sequence: u64,
    mut visit: impl FnMut(SegmentRange),
) -> Option<u64> {
    let footer = decode_footer(file, identity, number, first_sequence).ok();
    let last_sequence = footer.as_ref().map(|footer| footer.last_sequence);
    let end = footer.map_or(file.len(), |footer| footer.offset as usize);
    let bytes = &file[..end];
    // A sync mark at the beginning has the sequence number of the last record before it.
    let before_first = first_sequence.saturating_sub(1);
    let (mut offset, mut damaged_from, mut after) = (FILE_HEADER_LENGTH, None, None);
    let mut search = RecordSearch::new(bytes, seed);
    while offset < bytes.len() {
        match intact_record(&mut search, (bytes.len(), offset), after.unwrap_or(before_first)) {
            Some((record, length)) => {
                let is_mark = record.marked_sequence().is_some();
                if let Some(from) = damaged_from.take() {
                    let before = if is_mark { record.sequence + 1 } else { record.sequence };
                    report((from, offset), (after, Some(before)), &mut visit);
                }
                if !is_mark {
                    let Record { sequence, batch_goes_on, .. } = record;
                    let (offset, length) = (offset as u64, length as u64);
                    visit(SegmentRange::Record { sequence, offset, length, batch_goes_on });
                }
                after = Some(record.sequence);
                offset += length;
            }
            None => {
                damaged_from.get_or_insert(offset);
                offset += RECORD_ALIGNMENT as usize;
            }
        }
    }
    // Zeros behind the last record are not damage, unless there is a footer, which directly follows
    // it.
    let is_rest = |from| last_sequence.is_none() && bytes[from..].iter().all(|byte| *byte == 0);
    if let Some(from) = damaged_from.filter(|from| !is_rest(*from)) {
        report((from, bytes.len()), (after, None), &mut visit);
    }
    last_sequence
}

fn report(
    (from, to): (usize, usize),
    (after, before): (Option<u64>, Option<u64>),
    visit: &mut impl FnMut(SegmentRange),
) {
    let (offset, length) = (from as u64, (to - from) as u64);
    visit(SegmentRange::Damage { offset, length, after, before });
}

/// True if `bytes` are a valid record.
pub(crate) fn is_intact(bytes: &[u8], seed: u32) -> bool {
    Record::decode(bytes, seed).is_ok()
}

/// The record at `offset` of the `length` bytes that are searched, with its padded length, if its
/// sequence number is at least `lowest`.
fn intact_record<'a>(
    search: &mut RecordSearch<'a>,
    (length, offset): (usize, usize),
    lowest: u64,
) -> Option<(Record<'a>, usize)> {
    let highest = if lowest == 0 { u64::MAX } else { lowest.saturating_add(SEQUENCES_MAX) };
    let record = search.record_at(offset, &(lowest..=highest))?;
    let padded = record.padded_length() as usize;
    Some((record, padded)).filter(|(_, padded)| *padded <= length - offset)
}
