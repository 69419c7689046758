//! An HTTP/1.1 server in virtual time, which answers as the test that simulates it wants.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Service;
use crate::poller::Poller;
use crate::units::nanoseconds;

/// The largest number of bytes that one read takes.
const READ_BYTES: usize = 16 << 10;

/// A request as the server has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the request in the order of arrival, from zero.
    pub number: usize,
    /// The number of its connection in the order of opening, from zero.
    pub connection: usize,
    /// The time at which the server begins to process it: when it has arrived and earlier requests
    /// on its connection are answered. In nanoseconds since the start of the simulation.
    pub begin_ns: u64,
    /// The head, with all lines.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The request line.
    #[must_use]
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

/// The server's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    after: Option<Duration>,
    bytes: Vec<u8>,
    keep: bool,
    is_last: bool,
}

impl Reply {
    /// A reply with these bytes, at once.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Reply {
        Reply { after: Some(Duration::ZERO), bytes: bytes.to_vec(), keep: true, is_last: false }
    }

    /// A reply with status 200, at once.
    #[must_use]
    pub fn ok() -> Reply {
        Reply::new(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    }

    /// No reply, ever.
    #[must_use]
    pub fn never() -> Reply {
        Reply { after: None, ..Reply::new(b"") }
    }

    /// The same reply after a delay.
    #[must_use]
    pub fn after(self, delay: Duration) -> Reply {
        Reply { after: Some(delay), ..self }
    }

    /// The end of the server instead of a reply: all connections break when the request arrives,
    /// and no new one is accepted.
    #[must_use]
    pub fn last() -> Reply {
        Reply { is_last: true, ..Reply::never() }
    }

    /// The same reply, and then the end of the connection.
    #[must_use]
    pub fn closing(self) -> Reply {
        Reply { keep: false, ..self }
    }
}

/// The server's end of a connection.
struct Peer {
    /// The socket; `None` once it has ended.
    socket: Option<UnixStream>,
    input: Vec<u8>,
    /// Replies that are not sent yet, in their order.
    replies: VecDeque<Reply>,
    /// The time at which the last of these replies is sent.
    busy_until_ns: u64,
    output: Vec<u8>,
    ends: bool,
}

/// A simulated HTTP/1.1 server.
pub struct HttpServer {
    respond: Box<dyn FnMut(&Request) -> Reply + Send>,
    poller: Poller,
    peers: Vec<Peer>,
    /// The times at which connections have a reply to send, with their indexes.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    requests: usize,
    is_gone: bool,
}

impl HttpServer {
    /// A server that replies to each request as `respond` wants.
    ///
    /// # Panics
    /// If the system grants no descriptor.
    #[must_use]
    pub fn new(respond: impl FnMut(&Request) -> Reply + Send + 'static) -> HttpServer {
        HttpServer {
            respond: Box::new(respond),
            poller: Poller::new().expect("a process can have another epoll instance"),
            peers: Vec::new(),
            due: BinaryHeap::new(),
            requests: 0,
            is_gone: false,
        }
    }

    fn receive(&mut self, index: usize, now_ns: u64) {
        self.peers[index].read();
        while let Some((head, body)) = self.peers[index].take_request() {
            let begin_ns = now_ns.max(self.peers[index].busy_until_ns);
            let request =
                Request { number: self.requests, connection: index, begin_ns, head, body };
            self.requests += 1;
            let reply = (self.respond)(&request);
            if reply.is_last {
                self.is_gone = true;
                self.peers.iter_mut().for_each(|peer| peer.socket = None);
                return;
            }
            let peer = &mut self.peers[index];
            let after_ns = reply.after.map_or(u64::MAX, nanoseconds);
            peer.busy_until_ns = begin_ns.saturating_add(after_ns);
            peer.replies.push_back(reply);
            if peer.busy_until_ns < u64::MAX {
                self.due.push(Reverse((peer.busy_until_ns, index)));
            }
        }
    }
}

impl Service for HttpServer {
    fn accept(&mut self, socket: UnixStream) -> io::Result<()> {
        if self.is_gone {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.poller.register(socket.as_fd(), self.peers.len())?;
        self.peers.push(Peer {
            socket: Some(socket),
            input: Vec::new(),
            replies: VecDeque::new(),
            busy_until_ns: 0,
            output: Vec::new(),
            ends: false,
        });
        Ok(())
    }

    fn step(&mut self, now_ns: u64) -> Option<u64> {
        loop {
            let count = self.poller.wait(0).expect("a look at open sockets cannot fail");
            for place in 0..count {
                if let Some(event) = self.poller.event(place) {
                    self.peers[event.token].flush();
                    self.receive(event.token, now_ns);
                }
            }
            if count == 0 {
                break;
            }
        }
        while let Some(Reverse((due_ns, index))) = self.due.peek().copied() {
            if due_ns > now_ns {
                return Some(due_ns);
            }
            self.due.pop();
            self.peers[index].reply();
        }
        None
    }
}

impl Peer {
    fn read(&mut self) {
        let mut buffer = [0; READ_BYTES];
        while let Some(socket) = &mut self.socket {
            match socket.read(&mut buffer) {
                Ok(count) if count > 0 => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => self.socket = None,
            }
        }
    }

    /// The next request, if it has arrived completely: its head and its body.
    fn take_request(&mut self) -> Option<(String, Vec<u8>)> {
        let head_end = self.input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.input[..head_end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let end = head_end.checked_add(length.unwrap_or(0_usize))?;
        let body = self.input.get(head_end..end)?.to_vec();
        self.input.drain(..end);
        Some((head, body))
    }

    fn reply(&mut self) {
        if let Some(reply) = self.replies.pop_front() {
            self.output.extend_from_slice(&reply.bytes);
            self.ends |= !reply.keep;
            self.flush();
        }
    }

    fn flush(&mut self) {
        while let Some(socket) = self.socket.as_mut().filter(|_| !self.output.is_empty()) {
            match socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.socket = None,
            }
        }
        if self.ends {
            self.socket = None;
        }
    }
}
