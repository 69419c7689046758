//! The parts of a table file that are read when it is opened. The first byte chooses the filter,
//! the index (preceded by the offset at which the blocks end), the footer, or the footer with its
//! checksum corrected. The target `store` reads whole tables.

use pellucid_engine::fuzzing::{filter, index, table_footer};
use pellucid_fuzz::checksums::fix_table;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    match choice & 3 {
        0 => filter(bytes),
        1 => index(bytes),
        2 => table_footer(bytes),
        _ => {
            let mut bytes = bytes.to_vec();
            if bytes.len() >= 32 {
                // The target decodes the bytes as table 0 of store 0.
                bytes[16..32].fill(0);
            }
            let _ = fix_table(&mut bytes);
            table_footer(&bytes);
        }
    }
}
