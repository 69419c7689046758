//! Reads from and writes to a socket by system calls, without the C library.
//!
//! In a process with threads, the C library's wrappers enable and disable thread cancellation
//! around each call. This costs a request 2 % of its time, and is not needed here.

use std::io;
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, SendFlags};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// `count` bytes were read; `filled` is true if more may be available.
    Bytes { count: usize, filled: bool },
    /// The stream has ended.
    End,
    /// The first byte on a TLS connection does not begin a handshake.
    NotTls,
}

/// Reads available bytes into `buffer`, and returns their number. Zero is the end of the stream.
pub(crate) fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Reads like [`receive`], and returns the result as [`ReadOutcome`].
pub(crate) fn receive_some(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
    Ok(match receive(socket, buffer)? {
        0 => ReadOutcome::End,
        count => ReadOutcome::Bytes { count, filled: count == buffer.len() },
    })
}

/// Writes as many of `bytes` as the socket takes, and returns their number. If the peer is gone,
/// that is an error and not the signal SIGPIPE.
pub(crate) fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}
