//! The parts of a table that are read when it is opened. The first byte chooses: the filter, the
//! index behind the offset at which the blocks end, the closing, or the closing with its checksum
//! made right. Whole tables are read by the target `store`.

use pellucid_engine::fuzzing::{closing, filter, index};
use pellucid_fuzz::checksums::fix_table;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    match choice & 3 {
        0 => filter(bytes),
        1 => index(bytes),
        2 => closing(bytes),
        _ => {
            let mut bytes = bytes.to_vec();
            if bytes.len() >= 32 {
                // The target takes the bytes for table 0 of store 0.
                bytes[16..32].fill(0);
            }
            let _ = fix_table(&mut bytes);
            closing(&bytes);
        }
    }
}
