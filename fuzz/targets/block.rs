//! A data block of a table. The target `store` covers its checksum.

pub(crate) fn fuzz(data: &[u8]) {
    pellucid_engine::fuzzing::block(data);
}
