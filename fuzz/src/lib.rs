//! What the fuzz targets share. Each target feeds arbitrary bytes to one decoder of bytes that come
//! from outside. Where it can, it asserts more than that nothing panics, such as that bytes mean
//! the same in one piece and in many.
//!
//! Files are guarded by checksums, which no fuzzer guesses. So a target of such files lets the
//! input choose whether they are made right first ([`checksums`]), as a broken writer would.

pub mod checksums;
pub mod documents;
pub mod store;

// The runtime that the coverage counters report to; without it no binary of this crate links.
use libfuzzer_sys as _;

/// Cuts `bytes` into pieces of `length` bytes, at least 1 each; the last one may be shorter.
pub fn pieces(bytes: &[u8], length: u8) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(usize::from(length).max(1))
}
