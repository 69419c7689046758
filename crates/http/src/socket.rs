//! Reading from and writing to a socket, past the C library.
//!
//! In a process with threads, each of its calls arms and disarms thread cancellation, which costs
//! a request 2 % of its time; the system calls themselves need none of it.

use std::io;
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, SendFlags};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes; `filled` if more may be there already.
    Bytes { count: usize, filled: bool },
    /// The end of the stream.
    End,
    /// On a connection that has to speak TLS: something else.
    NotTls,
}

/// Reads what is there, up to the length of `buffer`. Zero is the end of the stream.
pub(crate) fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// As [`receive`], in the terms of a connection.
pub(crate) fn receive_some(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    Ok(match receive(socket, buffer)? {
        0 => Received::End,
        count => Received::Bytes { count, filled: count == buffer.len() },
    })
}

/// Writes as much of `bytes` as the socket takes. A peer that is gone is an error, not a signal.
pub(crate) fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}
