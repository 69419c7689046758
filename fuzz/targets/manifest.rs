//! A manifest. The first byte says whether the checksums are made right first.

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
