//! Decodes a chunked body as it comes in, up to a limit of its length.

use pellucid_client::http::{ChunkDecoder, ChunkError};

use crate::refusal::Refusal;

/// An incremental decoder of a chunked body, which may be fed in pieces of any size.
#[derive(Debug)]
pub struct ChunkedDecoder {
    framing: ChunkDecoder,
    body_bytes_max: usize,
    body: Vec<u8>,
}

impl ChunkedDecoder {
    /// A decoder of a body that may have at most `body_bytes_max` bytes.
    #[must_use]
    pub fn new(body_bytes_max: usize) -> ChunkedDecoder {
        ChunkedDecoder { framing: ChunkDecoder::default(), body_bytes_max, body: Vec::new() }
    }

    /// True if the whole body was fed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.framing.is_complete()
    }

    /// The body as far as it is decoded.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The buffer that the body is decoded into, so that the caller can reserve room.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }

    /// Decodes from the beginning of `bytes` and returns how many belonged to the body: all of
    /// them, unless the body ends within them.
    ///
    /// # Errors
    /// The refusal to answer with, if the framing is malformed or the body too large. The decoder
    /// must not be used after that.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < bytes.len() && !self.is_complete() {
            let step = self.framing.step(&bytes[at..]);
            let (taken, is_data) = step.map_err(|bad| match bad {
                ChunkError::Malformed => Refusal::Malformed("the chunked body is malformed"),
                ChunkError::TooLong => Refusal::BodyTooLarge(self.body_bytes_max),
            })?;
            if is_data {
                self.body.extend_from_slice(&bytes[at..at + taken]);
            }
            at += taken;
            let room = self.body_bytes_max.saturating_sub(self.body.len());
            if self.framing.remaining() > room as u64 {
                return Err(Refusal::BodyTooLarge(self.body_bytes_max));
            }
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_body_that_is_malformed_or_too_large_is_refused() {
        let refused = |text: &[u8]| ChunkedDecoder::new(1_000).feed(text).unwrap_err();
        assert_eq!(refused(b"4\nWiki").status(), 400);
        assert_eq!(refused(b"3E9"), Refusal::BodyTooLarge(1_000));
        let second = [&b"3E8\r\n"[..], &[b'x'; 1_000], b"\r\n1"].concat();
        assert_eq!(refused(&second), Refusal::BodyTooLarge(1_000));
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
