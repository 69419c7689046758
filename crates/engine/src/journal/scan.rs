//! Reading a segment that was not sealed, from its beginning to its tear.

use super::record::{Damage, RECORD_LENGTH_MIN, Record, peek};
use crate::codec::FILE_HEADER_LENGTH;
use crate::header_form::RECORD_ALIGNMENT;

/// The records of a segment up to its end or its tear.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// The offset of each record of a batch that is there in full.
    pub(crate) offsets: Vec<u32>,
    /// The end of the last batch that is there in full, and of the marks behind it.
    pub(crate) end: u64,
    /// The offset of the first bytes that are no next record.
    pub(crate) tear: u64,
    /// The reason why they are none.
    pub(crate) damage: Damage,
    /// The sequence number of the record that is missing at the tear.
    pub(crate) missing_sequence: u64,
}

/// Reads the records of `file`, a whole segment that begins with `first_sequence`.
pub(crate) fn scan_records(file: &[u8], store_seed: u32, first_sequence: u64) -> Scanned {
    let start = FILE_HEADER_LENGTH as u64;
    let mut scanned = Scanned {
        offsets: Vec::new(),
        end: start,
        tear: start,
        damage: Damage::Nothing,
        missing_sequence: first_sequence,
    };
    // The offsets of the batch being read: dropped with it if its end is missing.
    let mut offsets = Vec::new();
    let mut is_within_batch = false;
    loop {
        let rest = file.get(scanned.tear as usize..).unwrap_or_default();
        let record = match Record::decode(rest, store_seed) {
            Ok(record) => record,
            Err(damage) => {
                scanned.damage = damage;
                return scanned;
            }
        };
        let is_mark = record.marked_sequence().is_some();
        let expected =
            if is_mark { scanned.missing_sequence - 1 } else { scanned.missing_sequence };
        if record.sequence != expected {
            scanned.damage = Damage::Fields;
            return scanned;
        }
        if !is_mark {
            offsets.push((scanned.tear / RECORD_ALIGNMENT) as u32);
            is_within_batch = record.batch_goes_on;
            scanned.missing_sequence += 1;
        }
        scanned.tear += record.padded_length();
        if !is_within_batch {
            scanned.end = scanned.tear;
            scanned.offsets.append(&mut offsets);
        }
    }
}

/// A record that stands behind a tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// The sequence number that it vouches for, if it is a sync mark.
    pub(crate) marked_sequence: Option<u64>,
}

/// Looks behind a tear for a record which shows that the bytes there had been safe: the first valid record at
/// or above `missing_sequence` if `any_record_counts`, otherwise the first sync mark that vouches
/// for that sequence number.
pub(crate) fn find_stray(
    file: &[u8],
    store_seed: u32,
    from: u64,
    missing_sequence: u64,
    any_record_counts: bool,
) -> Option<Stray> {
    let possible = missing_sequence.saturating_add(file.len() as u64 / RECORD_LENGTH_MIN as u64);
    let last = file.len().checked_sub(RECORD_LENGTH_MIN)?;
    for offset in (from as usize..=last).step_by(RECORD_ALIGNMENT as usize) {
        // A cheap look at two fields leaves out nearly every offset, zeros above all.
        let (length, sequence) = peek(&file[offset..]);
        if length < RECORD_LENGTH_MIN || length > file.len() - offset {
            continue;
        }
        if sequence < missing_sequence.saturating_sub(1) || sequence > possible {
            continue;
        }
        let Ok(record) = Record::decode(&file[offset..], store_seed) else { continue };
        let marked_sequence = record.marked_sequence();
        let vouched = marked_sequence.is_some_and(|marked| marked >= missing_sequence);
        let follows = any_record_counts && record.sequence >= missing_sequence;
        if vouched || follows {
            return Some(Stray { offset: offset as u64, marked_sequence });
        }
    }
    None
}
