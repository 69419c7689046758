//! A data block of a table. Its checksum is looked at elsewhere: see the target `store`.

pub(crate) fn fuzz(data: &[u8]) {
    pellucid_engine::fuzzing::block(data);
}
