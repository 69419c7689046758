//! A segment of the journal: its records up to a torn one, the bytes after that, and its footer.
//! The first byte chooses whether the checksums are corrected first.

use pellucid_engine::fuzzing::segment;
use pellucid_fuzz::checksums::fix_segment;

/// The identity of the store that the segment belongs to in this target.
const IDENTITY: u64 = 7;
/// The number of the segment in this target.
const NUMBER: u64 = 1;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 && bytes.len() >= 32 {
        bytes[16..24].copy_from_slice(&IDENTITY.to_le_bytes());
        bytes[24..32].copy_from_slice(&NUMBER.to_le_bytes());
        let _ = fix_segment(&mut bytes);
    }
    segment(&bytes);
}
