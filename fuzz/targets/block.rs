//! A data block of a table. Its checksum is looked at elsewhere: see the target `store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pellucid_engine::fuzzing::block(data));
