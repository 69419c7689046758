//! The bodies of requests: of a fixed or random length, from a file, or a text with keys.

use std::sync::Arc;

use crate::workload::template::Template;
use pellucid_io::{Random, SeededRandom};

/// The length of the longest body.
pub(crate) const VALUE_BYTES_MAX: u64 = 256 << 20;
/// The number of offsets at which bodies begin in the shared bytes that they are cut from.
const OFFSETS: usize = 4_096;
/// The letters of random bodies: they do not compress well, and nothing has to escape them.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The source of bodies.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Random letters; the length is drawn evenly from a range.
    Sized { least: usize, greatest: usize, letters: Arc<[u8]> },
    /// The same bytes for every request.
    Same(Arc<[u8]>),
    /// A text with places for the key.
    Text(Template),
}

impl Values {
    /// Bodies of `least` to `greatest` bytes.
    pub(crate) fn sized(least: usize, greatest: usize) -> Values {
        let mut random = SeededRandom::of_stream(0xB0D1E5, 0);
        let letters = (0..greatest + OFFSETS).map(|_| LETTERS[(random.next_u64() >> 58) as usize]);
        Values::Sized { least, greatest, letters: letters.collect() }
    }

    /// Appends the `Content-Length` header, the empty line, and the body.
    #[inline]
    pub(crate) fn write(&self, key: u64, random: &mut SeededRandom, out: &mut Vec<u8>) {
        match self {
            Values::Sized { least, greatest, letters } => {
                let length = least + random.below((greatest - least) as u64 + 1) as usize;
                let begin = random.below(OFFSETS as u64) as usize;
                write_body(&letters[begin..begin + length], out);
            }
            Values::Same(bytes) => write_body(bytes, out),
            Values::Text(template) => {
                let mut body = Vec::new();
                template.write(key, &mut body);
                write_body(&body, out);
            }
        }
    }
}

fn write_body(body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    super::template::write_number(body.len() as u64, 0, out);
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}
