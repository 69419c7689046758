//! HTTP/1.1 for clients: URLs, TLS, an incremental parser of responses, and single requests, each
//! on a connection of its own.

mod address;
mod chunk_decoder;
mod error;
mod http_connection;
mod http_request;
mod response;
mod target;
mod tls;

pub use address::Address;
pub use chunk_decoder::{CHUNK_LINE_BYTES_MAX, ChunkDecoder, ChunkError};
pub use error::HttpError;
pub use http_connection::{BodyCallback, ConnectionError, HttpConnection};
pub(crate) use http_connection::{Stream, is_of_closed_connection};
pub use http_request::HttpRequest;
pub use response::{
    CapturedResponse, MAX_CAPTURED_BODY_BYTES, MAX_HEAD_BYTES, ParseOutcome, Response,
    ResponseError, ResponseParser, ServerTiming, parse_decimal,
};
pub use target::{Header, Target, encoded};
pub use tls::{TlsOptions, TlsSetup, agreed, config, cure};
