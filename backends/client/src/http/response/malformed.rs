//! Faults of responses.

/// A fault that makes a response unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes do not begin with a status line of HTTP/1.
    StatusLine,
    /// The head is longer than [`MAX_HEAD_BYTES`](super::MAX_HEAD_BYTES).
    HeadTooLong,
    /// `Content-Length` is not a number, or there are two that differ.
    ContentLength,
    /// The size of a chunk is not a number, or a chunk does not end where it must.
    Chunk,
    /// The body is longer than what is kept for a script.
    BodyTooLong,
    /// Bytes arrived that answer no request.
    Unasked,
    /// The connection ended within a response.
    Truncated,
    /// Frames or headers of HTTP/2 are not ones that a server may send.
    Frame,
    /// The server sends more frames of HTTP/2 without content than a library puts up with.
    Flooded,
}

impl Malformed {
    /// A few words for messages.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Malformed::StatusLine => "the response has no HTTP/1 status line",
            Malformed::HeadTooLong => "the head of the response is longer than 64 KiB",
            Malformed::ContentLength => "the response has a bad Content-Length",
            Malformed::Chunk => "the response has a bad chunk",
            Malformed::BodyTooLong => "the body is too long to be passed to the script",
            Malformed::Unasked => "bytes arrived that answer no request",
            Malformed::Truncated => "the connection ended within a response",
            Malformed::Flooded => "the server floods the connection with frames of HTTP/2",
            Malformed::Frame => "the response is no HTTP/2",
        }
    }
}
