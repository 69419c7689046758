//! The bare server: it does nothing but answer. If a client is no faster against it than against
//! Pellucid, the client is the limit.
//!
//! It has one thread with an event loop. It finds the end of each request by its `Content-Length`,
//! and sends the same bytes for each: an answer that Pellucid gave.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// The most events per poll.
const EVENTS_MAX: usize = 1_024;
/// The size of the read buffer in bytes.
const READ_BYTES: usize = 64 * 1024;
/// The longest request in bytes.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

const LISTENER: Token = Token(usize::MAX);

pub(super) struct TrivialServer {
    listener: TcpListener,
    answer: Vec<u8>,
}

struct Connection {
    socket: TcpStream,
    unread: Vec<u8>,
    unsent: Vec<u8>,
}

impl TrivialServer {
    /// Listens on a free port of the loopback address.
    pub(super) fn listen(answer: Vec<u8>) -> io::Result<TrivialServer> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        // The backlog of connections is the same as Pellucid's.
        let listener = pellucid_http::listen(any)?;
        Ok(TrivialServer { listener: TcpListener::from_std(listener), answer })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends.
    pub(super) fn serve(mut self) -> io::Result<()> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(EVENTS_MAX);
        poll.registry().register(&mut self.listener, LISTENER, Interest::READABLE)?;
        let mut connections: HashMap<usize, Connection> = HashMap::new();
        let mut next = 0;
        loop {
            match poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                if event.token() == LISTENER {
                    while let Ok((mut socket, _)) = self.listener.accept() {
                        socket.set_nodelay(true)?;
                        let both = Interest::READABLE | Interest::WRITABLE;
                        poll.registry().register(&mut socket, Token(next), both)?;
                        let (unread, unsent) = (Vec::new(), Vec::new());
                        connections.insert(next, Connection { socket, unread, unsent });
                        next += 1;
                    }
                    continue;
                }
                let Token(number) = event.token();
                let Some(connection) = connections.get_mut(&number) else { continue };
                if !connection.go_on(&self.answer) {
                    connections.remove(&number);
                }
            }
        }
    }
}

impl Connection {
    /// Reads requests and sends answers without waiting; returns false if the connection is to be
    /// closed.
    fn go_on(&mut self, answer: &[u8]) -> bool {
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        while let Some(length) = request_length(&self.unread) {
            self.unread.drain(..length);
            self.unsent.extend_from_slice(answer);
        }
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.unread.len() <= REQUEST_BYTES_MAX
    }
}

/// The length of the first request in `bytes`; `None` if it is not complete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let lines = std::str::from_utf8(&bytes[..head]).ok()?.split("\r\n");
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = head.checked_add(length.unwrap_or(0))?;
    (bytes.len() >= whole).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_the_answer() {
        let trivial =
            TrivialServer::listen(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
        let trivial = trivial.unwrap();
        let address = trivial.address().unwrap();
        std::thread::spawn(move || trivial.serve());
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        let request = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        // The second request arrives in two pieces.
        socket.write_all(request).unwrap();
        socket.write_all(&request[..10]).unwrap();
        let mut answer = [0; 38];
        socket.read_exact(&mut answer).unwrap();
        socket.write_all(&request[10..]).unwrap();
        socket.read_exact(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    }

    #[test]
    fn the_length_of_a_request_is_found() {
        assert_eq!(request_length(b"GET / HTTP/1.1\r\n\r\nmore"), Some(18));
        assert_eq!(request_length(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nabc"), None);
        assert_eq!(request_length(b"GET / HTT"), None);
    }
}
