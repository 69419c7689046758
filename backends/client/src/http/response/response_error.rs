//! Errors of malformed responses.

/// The reason why a response is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// The response does not begin with an HTTP/1 status line.
    StatusLine,
    /// The head is longer than [`MAX_HEAD_BYTES`](super::MAX_HEAD_BYTES).
    HeadTooLong,
    /// `Content-Length` is not a number, or there are two different ones.
    ContentLength,
    /// The size of a chunk is not a number, or a chunk does not end where it must.
    Chunk,
    /// The body is longer than [`MAX_CAPTURED_BODY_BYTES`](super::MAX_CAPTURED_BODY_BYTES).
    BodyTooLong,
    /// Bytes arrived without a request.
    Unasked,
    /// The connection ended within a response.
    Truncated,
    /// The server has sent invalid frames or headers of HTTP/2.
    Frame,
    /// The server has sent more HTTP/2 frames without content than the library accepts.
    Flooded,
}

impl ResponseError {
    /// The reason in words, for messages.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            ResponseError::StatusLine => "the response has no HTTP/1 status line",
            ResponseError::HeadTooLong => "the head of the response is longer than 64 KiB",
            ResponseError::ContentLength => "the response has a bad Content-Length",
            ResponseError::Chunk => "the response has a bad chunk",
            ResponseError::BodyTooLong => "the body is too long to be passed to the script",
            ResponseError::Unasked => "bytes arrived that answer no request",
            ResponseError::Truncated => "the connection ended within a response",
            ResponseError::Flooded => "the server floods the connection with frames of HTTP/2",
            ResponseError::Frame => "the response is no HTTP/2",
        }
    }
}
