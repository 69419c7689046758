//! HTTP/1.1 for clients: URLs, TLS, an incremental parser of responses, and single requests, each
//! on a connection of its own.

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
