//! HTTP/2 (RFC 9113): bytes in, requests out, replies in, bytes out.
//!
//! The `h2` crate knows the protocol and owns no thread, task or socket here: a [`conn::Conn`]
//! feeds it what was read and takes from it what is to be written, by way of a [`pipe`], and polls
//! it with a waker that does nothing, because the event loop knows when there is something to do.
//! Each stream is a request with an account of its own.
//!
//! Against abuse stand, beside the crate's own limits on resets, frames and headers: streams and
//! unsent bytes of a connection are bounded, nothing is read from one that does not take its
//! answers, and one that keeps us busy without asking for anything is told to calm down.

pub(crate) mod conn;
mod heads;
mod pipe;
mod sending;
pub(crate) mod serve;
pub(crate) mod upgrade;
