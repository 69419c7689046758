//! Refusals by the transport: the reasons, with their status codes and texts.

use std::fmt;

/// The answer to a client without valid credentials, in the format of the API that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The values of the `WWW-Authenticate` headers.
    pub challenges: &'static [&'static [u8]],
    /// The content type and the body; without them the body is a line of text.
    pub body: Option<(&'static str, &'static str)>,
}

/// The reason for which the transport refuses a request. In HTTP/1.1 the connection is closed after
/// each of them except [`Refusal::Overloaded`] and [`Refusal::ResponseTooLarge`], because the bytes
/// that follow can no longer be told apart from the refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request line or a header is malformed; the text says which and how.
    Malformed(&'static str),
    /// The request line alone is longer than a head may be.
    TargetTooLong,
    /// The head is longer than the limit.
    HeadTooLarge,
    /// The head has more header lines than this limit.
    TooManyHeaders(usize),
    /// The service refuses the request by its head, before its body comes.
    ByHead {
        /// The status.
        status: u16,
        /// The text for the client.
        line: Box<str>,
        /// The methods that the path allows, if this one is not among them.
        allow: Option<Box<str>>,
    },
    /// The body is, or is declared to be, longer than this many bytes.
    BodyTooLarge(usize),
    /// The head carries no credentials, or invalid ones.
    Unauthorized(Denial),
    /// The credentials cannot be checked now.
    TooManyAttempts {
        /// The text for the client.
        what: &'static str,
        /// The seconds after which the client may try again.
        seconds: u64,
    },
    /// The transfer coding is not `chunked`.
    UnknownCoding,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    UnknownVersion,
    /// The bytes are neither an HTTP/1 request nor the beginning of HTTP/2.
    UnknownProtocol,
    /// The expectation is not `100-continue`.
    UnknownExpectation,
    /// The request did not arrive within its time limit.
    TooSlow,
    /// The limit of requests in flight is reached.
    Overloaded,
    /// The request's code panicked.
    Failed,
    /// The incoming bodies leave no memory for this one. The text says which bodies: for example
    /// those "from this address".
    BodiesFull(&'static str),
    /// The body takes more than the whole memory of the bodies of which [`Refusal::BodiesFull`]
    /// tells.
    BodyOverMemory {
        /// That memory in bytes.
        bytes_max: usize,
        /// The text that says which bodies.
        whose: &'static str,
    },
    /// There is no memory for the response.
    ResponseTooLarge,
    /// The client sent plain text to a TLS listener.
    PlainText,
}

impl Refusal {
    /// The status code of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(_) | Refusal::UnknownProtocol | Refusal::PlainText => 400,
            Refusal::TargetTooLong => 414,
            Refusal::HeadTooLarge | Refusal::TooManyHeaders(_) => 431,
            Refusal::ByHead { status, .. } => *status,
            Refusal::BodyTooLarge(_) | Refusal::BodyOverMemory { .. } => 413,
            Refusal::Unauthorized(_) => 401,
            Refusal::TooManyAttempts { .. } => 429,
            Refusal::UnknownCoding => 501,
            Refusal::UnknownVersion => 505,
            Refusal::UnknownExpectation => 417,
            Refusal::TooSlow => 408,
            Refusal::Overloaded | Refusal::BodiesFull(_) | Refusal::ResponseTooLarge => 503,
            Refusal::Failed => 500,
        }
    }

    /// The seconds after which the client may send the request again; none if that is pointless.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Refusal::TooManyAttempts { seconds, .. } => Some(*seconds),
            _ => (self.status() == 503).then_some(1),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(what) | Refusal::TooManyAttempts { what, .. } => f.write_str(what),
            Refusal::TargetTooLong => f.write_str("the request line is too long"),
            Refusal::HeadTooLarge => f.write_str("the request's head is too large"),
            Refusal::TooManyHeaders(limit) => {
                write!(f, "the request has more than {limit} lines of headers")
            }
            Refusal::ByHead { line, .. } => f.write_str(line),
            Refusal::BodyTooLarge(limit) => {
                write!(f, "the request's body is larger than the limit of {limit} bytes")
            }
            Refusal::Unauthorized(_) => f.write_str(
                "this needs an account: send its name and password (Basic) or a token (Bearer)",
            ),
            Refusal::UnknownCoding => f.write_str("the only transfer coding known is `chunked`"),
            Refusal::UnknownVersion => f.write_str("the versions known are HTTP/1.0 and HTTP/1.1"),
            Refusal::UnknownProtocol => {
                f.write_str("this is neither a request of HTTP/1.1 nor the beginning of HTTP/2")
            }
            Refusal::UnknownExpectation => {
                f.write_str("the only expectation known is `100-continue`")
            }
            Refusal::TooSlow => f.write_str("the request was not sent in time"),
            Refusal::Failed => {
                f.write_str("an error within the server ended this request: see its log")
            }
            Refusal::PlainText => {
                f.write_str("this port speaks TLS: use https:// in place of http://")
            }
            Refusal::BodiesFull(whose) => write!(
                f,
                "the bodies that are coming in {whose} leave no room for this one: try again in a \
                 moment"
            ),
            Refusal::BodyOverMemory { bytes_max, whose } => write!(
                f,
                "the bodies that come in {whose} may take {bytes_max} bytes of memory, less than \
                 this one: send less at once, or raise `bodies-max` or `request-memory`"
            ),
            Refusal::ResponseTooLarge => f.write_str(
                "the responses that wait for their clients leave no memory for this one: try again \
                 in a moment",
            ),
            Refusal::Overloaded => {
                f.write_str("too many requests are in flight: try again in a moment")
            }
        }
    }
}
