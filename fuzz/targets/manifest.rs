//! A manifest. The first byte chooses whether the checksums are corrected first.

use pellucid_engine::fuzzing::manifest;
use pellucid_fuzz::checksums::fix_manifest;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 {
        let _ = fix_manifest(&mut bytes);
    }
    manifest(&bytes);
}
