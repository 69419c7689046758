//! A record of the journal. The first byte chooses whether its checksum is corrected first.

use pellucid_engine::fuzzing::record;
use pellucid_fuzz::checksums::fix_record;

/// The initial value of the checksums of records in this target.
const STORE_SEED: u32 = 7;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 {
        let _ = fix_record(&mut bytes, STORE_SEED);
    }
    record(&bytes);
}
