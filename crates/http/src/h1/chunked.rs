//! Takes the chunks off a body as they come in (RFC 9112, section 7.1).

use crate::limits::CHUNK_LINE_BYTES_MAX;
use crate::refusal::Refusal;

/// Digits of a chunk's size that are looked at: 16 MiB times the largest body are seven already.
const SIZE_DIGITS_MAX: u32 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expecting {
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
    Nothing,
}

/// A decoder that may be fed a body in any pieces.
#[derive(Debug)]
pub struct ChunkedDecoder {
    expecting: Expecting,
    size_digits: u32,
    size_bytes: usize,
    line_bytes: usize,
    body_bytes_max: usize,
    body: Vec<u8>,
}

impl ChunkedDecoder {
    /// A decoder of a body that may have at most `body_bytes_max` bytes.
    #[must_use]
    pub fn new(body_bytes_max: usize) -> ChunkedDecoder {
        ChunkedDecoder {
            expecting: Expecting::Size,
            size_digits: 0,
            size_bytes: 0,
            line_bytes: 0,
            body_bytes_max,
            body: Vec::new(),
        }
    }

    /// True if the whole body was fed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.expecting == Expecting::Nothing
    }

    /// The body as far as it is decoded.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The buffer that the body is decoded to, for room to be made in it.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }

    /// Decodes from the beginning of `bytes` and returns how many belonged to the body: all of
    /// them, unless the body ends within them.
    ///
    /// # Errors
    /// The refusal to answer with; the decoder is of no more use then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < bytes.len() && !self.is_complete() {
            if self.expecting == Expecting::Data {
                let taken = self.size_bytes.min(bytes.len() - at);
                self.body.extend_from_slice(&bytes[at..at + taken]);
                self.size_bytes -= taken;
                at += taken;
                if self.size_bytes == 0 {
                    self.expecting = Expecting::DataReturn;
                }
            } else {
                self.step(bytes[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<(), Refusal> {
        self.line_bytes += 1;
        if self.line_bytes > CHUNK_LINE_BYTES_MAX {
            return Err(Refusal::Malformed("a line within the chunked body is too long"));
        }
        self.expecting = match (self.expecting, byte) {
            (Expecting::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte)?,
            (Expecting::Size, b';' | b' ' | b'\t') if self.size_digits > 0 => Expecting::Extension,
            (Expecting::Size, b'\r') if self.size_digits > 0 => Expecting::SizeLineFeed,
            (Expecting::Extension, b'\r') => Expecting::SizeLineFeed,
            (Expecting::Extension, byte) if byte != b'\n' => Expecting::Extension,
            (Expecting::SizeLineFeed, b'\n') => self.begin_data(),
            (Expecting::DataReturn, b'\r') => Expecting::DataLineFeed,
            (Expecting::DataLineFeed, b'\n') => {
                (self.size_digits, self.line_bytes) = (0, 0);
                Expecting::Size
            }
            (Expecting::TrailerStart, b'\r') => Expecting::LastLineFeed,
            (Expecting::Trailer, b'\r') => Expecting::TrailerLineFeed,
            (Expecting::TrailerStart | Expecting::Trailer, byte) if byte != b'\n' => {
                Expecting::Trailer
            }
            (Expecting::TrailerLineFeed, b'\n') => Expecting::TrailerStart,
            (Expecting::LastLineFeed, b'\n') => Expecting::Nothing,
            _ => return Err(Refusal::Malformed("the chunked body is malformed")),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<Expecting, Refusal> {
        let value = char::from(byte).to_digit(16).unwrap_or(0) as usize;
        self.size_digits += 1;
        self.size_bytes = self.size_bytes * 16 + value;
        let room = self.body_bytes_max.saturating_sub(self.body.len());
        if self.size_bytes > room || self.size_digits > SIZE_DIGITS_MAX {
            return Err(Refusal::BodyTooLarge(self.body_bytes_max));
        }
        Ok(Expecting::Size)
    }

    fn begin_data(&mut self) -> Expecting {
        self.line_bytes = 0;
        if self.size_bytes == 0 { Expecting::TrailerStart } else { Expecting::Data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn decode(text: &[u8]) -> Result<(Vec<u8>, usize, bool), Refusal> {
        let mut decoder = ChunkedDecoder::new(1_000);
        let used = decoder.feed(text)?;
        Ok((decoder.body().to_vec(), used, decoder.is_complete()))
    }

    #[test]
    fn chunks_extensions_and_trailers() {
        let text =
            b"4\r\nWiki\r\n6;a=b\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX: y\r\n\r\nGET";
        let (body, used, complete) = decode(text).unwrap();
        assert_eq!(body, b"Wikipedia in \r\n\r\nchunks.");
        assert_eq!(&text[used..], b"GET");
        assert!(complete);
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for text in [
            &b"\r\n"[..],
            b"x\r\n",
            b"4\nWiki",
            b"4\r\nWikiX",
            b"-1\r\n",
            b"4\r\nWiki\n",
            b"0\r\n\n",
            b";\r\n",
        ] {
            assert_eq!(decode(text).unwrap_err().status(), 400, "{text:?}");
        }
        assert_eq!(decode(b"3E9\r\n").unwrap_err(), Refusal::BodyTooLarge(1_000));
        assert_eq!(decode(b"0000000000000\r\n").unwrap_err().status(), 413);
        let endless = [&b"1;"[..], &[b'x'; CHUNK_LINE_BYTES_MAX]].concat();
        assert_eq!(decode(&endless).unwrap_err().status(), 400);
    }

    proptest! {
        #[test]
        fn a_body_survives_any_split(
            chunks in vec(vec(any::<u8>(), 1..50), 0..8),
            cuts in vec(1_usize..20, 1..40),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend(format!("{:X}\r\n", chunk.len()).into_bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\n\r\n");
            let mut decoder = ChunkedDecoder::new(1_000);
            let (mut at, mut cuts) = (0, cuts.into_iter().cycle());
            while at < text.len() {
                let end = (at + cuts.next().unwrap()).min(text.len());
                prop_assert!(!decoder.is_complete());
                prop_assert_eq!(decoder.feed(&text[at..end]), Ok(end - at));
                at = end;
            }
            prop_assert!(decoder.is_complete());
            prop_assert_eq!(decoder.body(), chunks.concat());
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in vec(any::<u8>(), 0..300)) {
            let mut decoder = ChunkedDecoder::new(100);
            let _ = decoder.feed(&bytes);
            prop_assert!(decoder.body().len() <= 100);
        }
    }
}
