//! HTTP/2 (RFC 9113): bytes in, requests out, replies in, bytes out.
//!
//! The `h2` crate implements the protocol, and owns no thread, task or socket here. A
//! [`conn::Conn`] feeds it the bytes that were read and takes the bytes to write, both through a
//! [`pipe`]. It is polled with a waker that does nothing, because the event loop knows when there
//! is something to do. Each stream is a request with an account of its own.
//!
//! The protection against abuse is, beside the crate's own limits on resets, frames and headers:
//! streams and unsent bytes of a connection are bounded; nothing is read from a connection that
//! does not take its answers; a connection that sends much without a request is ended with
//! ENHANCE_YOUR_CALM.

pub(crate) mod conn;
mod heads;
mod pending_response;
mod pipe;
pub(crate) mod serve;
pub(crate) mod upgrade;
