//! A segment of the journal: its records up to a tear, what stands behind it, its footer. The first
//! byte says whether the checksums are made right first.

use pellucid_engine::fuzzing::segment;
use pellucid_fuzz::checksums::fix_segment;

/// The store and the segment that the target takes the bytes for.
const IDENTITY: u64 = 7;
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
