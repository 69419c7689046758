//! What the transport itself refuses, before any service sees it.

use std::fmt;

/// Why a request is refused by the transport. The connection is closed after each of them but
/// [`Refusal::Overloaded`], because what follows on it can no longer be told apart from the
/// refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request line or a header is malformed; the text says which and how.
    Malformed(&'static str),
    /// The request line alone is longer than a head may be.
    TargetTooLong,
    /// The head is longer, or has more headers, than it may.
    HeadTooLarge,
    /// The body is, or is declared to be, longer than this many bytes.
    BodyTooLarge(usize),
    /// The body is longer than one may be whose sender has not said who he is. What follows are the
    /// challenges that tell him how to.
    Unauthorized(&'static [&'static [u8]]),
    /// A transfer coding other than `chunked`.
    UnknownCoding,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    UnknownVersion,
    /// An expectation other than `100-continue`.
    UnknownExpectation,
    /// The request was not sent within the time for one.
    TooSlow,
    /// More requests are in flight than may be.
    Overloaded,
    /// The request's code panicked.
    Failed,
    /// Anything but TLS where TLS is spoken.
    PlainText,
}

impl Refusal {
    /// The status code of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(_) | Refusal::PlainText => 400,
            Refusal::TargetTooLong => 414,
            Refusal::HeadTooLarge => 431,
            Refusal::BodyTooLarge(_) => 413,
            Refusal::Unauthorized(_) => 401,
            Refusal::UnknownCoding => 501,
            Refusal::UnknownVersion => 505,
            Refusal::UnknownExpectation => 417,
            Refusal::TooSlow => 408,
            Refusal::Overloaded => 503,
            Refusal::Failed => 500,
        }
    }

    /// Whether the connection can be used on.
    #[must_use]
    pub fn keeps_connection(&self) -> bool {
        matches!(self, Refusal::Overloaded)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(what) => f.write_str(what),
            Refusal::TargetTooLong => f.write_str("the request line is too long"),
            Refusal::HeadTooLarge => f.write_str("the request's head is too large"),
            Refusal::BodyTooLarge(limit) => {
                write!(f, "the request's body is larger than the limit of {limit} bytes")
            }
            Refusal::Unauthorized(_) => f.write_str(
                "this needs an account: send its name and password (Basic) or a token (Bearer)",
            ),
            Refusal::UnknownCoding => f.write_str("the only transfer coding known is `chunked`"),
            Refusal::UnknownVersion => f.write_str("the versions known are HTTP/1.0 and HTTP/1.1"),
            Refusal::UnknownExpectation => {
                f.write_str("the only expectation known is `100-continue`")
            }
            Refusal::TooSlow => f.write_str("the request was not sent in time"),
            Refusal::Failed => f.write_str(
                "a mistake in the server ended this request: its log says more",
            ),
            Refusal::PlainText => {
                f.write_str("this port speaks TLS: use https:// in place of http://")
            }
            Refusal::Overloaded => {
                f.write_str("too many requests are in flight: try again in a moment")
            }
        }
    }
}
