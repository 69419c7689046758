//! HTTP/1.1 (RFC 9112): bytes in, requests out, replies in, bytes out.
//!
//! [`parse`], [`chunked`] and [`encode`] implement the grammar. [`conn`] is the state of one
//! connection, without sockets and services. [`serve`] passes its requests to the service, and the
//! replies to its output.

pub(crate) mod chunked;
pub(crate) mod conn;
pub(crate) mod encode;
pub(crate) mod host;
pub(crate) mod parse;
pub(crate) mod serve;
