//! Decoding of chunked bodies (RFC 9112, section 7.1), in requests and responses.

/// Limit in bytes of a size line with its extensions, and of all trailers together.
pub const CHUNK_LINE_BYTES_MAX: usize = 8 * 1024;

/// Limit of the digits of a chunk's size: more do not fit into 64 bits.
const SIZE_DIGITS_MAX: usize = 16;

/// The reason why a chunked body is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The framing is malformed.
    Malformed,
    /// The size of a chunk has too many digits.
    TooLong,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    FirstDigit,
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

/// A decoder of one chunked body. It keeps only its position in the framing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkDecoder {
    expecting: ChunkState,
    /// Bytes of the chunk's data that have not arrived; while the size is read, its value so far.
    remaining: u64,
    line_bytes: usize,
}

impl ChunkDecoder {
    /// Takes some bytes from the beginning of `input`, which must not be empty. Returns their
    /// number, and true if they are data of the body, false if they are framing.
    ///
    /// # Errors
    /// If the framing is malformed; the rest of the stream cannot be used. A bare line feed is such
    /// an error: programs that accept it as the end of a line and programs that do not would see
    /// different bodies (request smuggling).
    ///
    /// # Panics
    /// If `input` is empty.
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, bool), ChunkError> {
        if self.expecting != ChunkState::Data {
            return self.take_framing(input[0]).map(|()| (1, false));
        }
        let here = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(input.len());
        self.remaining -= here as u64;
        if self.remaining == 0 {
            self.expecting = ChunkState::DataReturn;
        }
        Ok((here, true))
    }

    /// Bytes of the current chunk's data that have not arrived.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// True once the last byte of the body was taken.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.expecting == ChunkState::Nothing
    }

    fn take_framing(&mut self, byte: u8) -> Result<(), ChunkError> {
        self.line_bytes += 1;
        if self.line_bytes > CHUNK_LINE_BYTES_MAX {
            return Err(ChunkError::Malformed);
        }
        self.expecting = match (self.expecting, byte) {
            (ChunkState::FirstDigit | ChunkState::Size, byte) if byte.is_ascii_hexdigit() => {
                self.take_digit(byte)?
            }
            (ChunkState::Size, b';' | b' ' | b'\t') => ChunkState::Extension,
            (ChunkState::Size | ChunkState::Extension, b'\r') => ChunkState::SizeLineFeed,
            (ChunkState::Extension, byte) if byte != b'\n' => ChunkState::Extension,
            (ChunkState::SizeLineFeed, b'\n') => self.begin_data(),
            (ChunkState::DataReturn, b'\r') => ChunkState::DataLineFeed,
            (ChunkState::DataLineFeed, b'\n') => {
                self.line_bytes = 0;
                ChunkState::FirstDigit
            }
            (ChunkState::TrailerStart, b'\r') => ChunkState::LastLineFeed,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLineFeed,
            (ChunkState::TrailerStart | ChunkState::Trailer, byte) if byte != b'\n' => {
                ChunkState::Trailer
            }
            (ChunkState::TrailerLineFeed, b'\n') => ChunkState::TrailerStart,
            (ChunkState::LastLineFeed, b'\n') => ChunkState::Nothing,
            _ => return Err(ChunkError::Malformed),
        };
        Ok(())
    }

    fn take_digit(&mut self, byte: u8) -> Result<ChunkState, ChunkError> {
        if self.line_bytes > SIZE_DIGITS_MAX {
            return Err(ChunkError::TooLong);
        }
        let digit = char::from(byte).to_digit(16).ok_or(ChunkError::Malformed)?;
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(ChunkState::Size)
    }

    fn begin_data(&mut self) -> ChunkState {
        self.line_bytes = 0;
        if self.remaining == 0 { ChunkState::TrailerStart } else { ChunkState::Data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text`. Returns the data, the length of the body in `text`, and true if it is
    /// complete.
    fn decode(text: &[u8]) -> Result<(Vec<u8>, usize, bool), ChunkError> {
        let (mut chunked, mut data, mut at) = (ChunkDecoder::default(), Vec::new(), 0);
        while at < text.len() && !chunked.is_complete() {
            let (taken, is_data) = chunked.step(&text[at..])?;
            if is_data {
                data.extend_from_slice(&text[at..at + taken]);
            }
            at += taken;
        }
        Ok((data, at, chunked.is_complete()))
    }

    #[test]
    fn chunks_with_extensions_and_trailers_are_decoded() {
        let text =
            b"4\r\nWiki\r\n6;a=b\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX: y\r\n\r\nGET";
        let body = b"Wikipedia in \r\n\r\nchunks.".to_vec();
        assert_eq!(decode(text), Ok((body, text.len() - 3, true)));
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
            assert_eq!(decode(text), Err(ChunkError::Malformed), "{text:?}");
        }
        for text in [&b"10000000000000000\r\n"[..], b"00000000000000001\r\n"] {
            assert_eq!(decode(text), Err(ChunkError::TooLong), "{text:?}");
        }
        for begin in ["1;", "0\r\nX: "] {
            let endless = [begin.as_bytes(), &[b'x'; CHUNK_LINE_BYTES_MAX]].concat();
            assert_eq!(decode(&endless), Err(ChunkError::Malformed));
        }
    }
}
