//! HTTP/1.1 as a client speaks it: URLs, TLS, responses that are read as they arrive, and single
//! questions over a connection of their own.

mod address;
mod chunked;
mod conversation;
mod error;
mod question;
mod response;
mod target;
mod tls;

pub use address::Address;
pub use chunked::{BadChunk, CHUNK_LINE_BYTES_MAX, Chunked};
pub use conversation::{Broken, Conversation, Take};
pub use error::HttpError;
pub use question::Question;
pub use response::{
    Captured, MAX_CAPTURED_BODY_BYTES, MAX_HEAD_BYTES, Malformed, Parsed, Response, ResponseParser,
    ServerTiming,
};
pub use target::{Header, Target, encoded};
pub use tls::{TlsOptions, TlsSetup, agreed, config, cure};
