//! A record of the journal. The first byte says whether its checksum is made right first.

use pellucid_engine::fuzzing::record;
use pellucid_fuzz::checksums::fix_record;

/// What the target starts the checksums of records with.
const STORE_SEED: u32 = 7;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 {
        let _ = fix_record(&mut bytes, STORE_SEED);
    }
    record(&bytes);
}
