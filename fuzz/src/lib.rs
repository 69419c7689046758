//! Helpers that the fuzz targets share. Each target feeds arbitrary bytes to one decoder of
//! untrusted bytes. Beyond the absence of panics, targets assert properties where they can, such as
//! that the result is the same for bytes in one piece and in many.
//!
//! Checksums protect the files, and a fuzzer cannot guess a checksum. So in such a target the input
//! also chooses whether its checksums are corrected first ([`checksums`]). Then the decoder behind
//! the checksum is reached, as by the files of a writer with a bug.

pub mod checksums;
pub mod documents;
pub mod store;

// The runtime that the coverage counters report to. Without it, no binary of this crate links.
use libfuzzer_sys as _;

/// Cuts `bytes` into pieces of `length` bytes, at least 1 each; the last one may be shorter.
pub fn pieces(bytes: &[u8], length: u8) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(usize::from(length).max(1))
}
