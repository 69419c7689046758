//! The definition of a table, or the key of an index entry; the first byte chooses.

use pellucid_engine::fuzzing::{definition, index_key};

pub(crate) fn fuzz(data: &[u8]) {
    match data.split_first() {
        Some((choice, bytes)) if choice & 1 == 0 => definition(bytes),
        Some((_, bytes)) => index_key(bytes),
        None => {}
    }
}
