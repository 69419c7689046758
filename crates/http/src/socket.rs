//! Reading from and writing to a socket, past the C library.
//!
//! In a process with threads, each of its calls arms and disarms thread cancellation, which costs
//! a request 2 % of its time; the system calls themselves need none of it.

use std::io;
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, SendFlags};

/// Reads what is there, up to the length of `buffer`. Zero is the end of the stream.
pub(crate) fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Writes as much of `bytes` as the socket takes. A peer that is gone is an error, not a signal.
pub(crate) fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}
