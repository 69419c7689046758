//! One connection to a node: a request, its answer, and the next.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use pellucid_topology::NodeUrl;

use crate::error::ClientError;

/// Headers that an answer may have.
const HEADERS_MAX: usize = 64;
/// Bytes that the head of an answer may have.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes that the body of an answer may have.
const BODY_BYTES_MAX: usize = 1 << 30;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Connection {
    node: NodeUrl,
    socket: TcpStream,
    unread: Vec<u8>,
}

/// An answer, freed of its framing.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }
}

/// What the head of an answer says.
struct Head {
    status: u16,
    head_bytes: usize,
    body_bytes: usize,
    keep_alive: bool,
}

impl Connection {
    pub(crate) fn open(node: &NodeUrl, patience: Duration) -> Result<Connection, ClientError> {
        let open = || {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for address in node.authority().to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, patience) {
                    Ok(socket) => {
                        socket.set_nodelay(true)?;
                        socket.set_read_timeout(Some(patience))?;
                        socket.set_write_timeout(Some(patience))?;
                        return Ok(socket);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        let socket = open().map_err(|error| ClientError::Io(node.to_string(), error))?;
        Ok(Connection { node: node.clone(), socket, unread: Vec::new() })
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<Response, ClientError> {
        let host = self.node.authority();
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
        );
        let sent = self.socket.write_all(&[head.as_bytes(), body].concat());
        sent.map_err(|error| self.failed(error))?;
        let head = loop {
            if let Some(head) = self.head()? {
                break head;
            }
            self.read()?;
        };
        self.unread.drain(..head.head_bytes);
        while self.unread.len() < head.body_bytes {
            self.read()?;
        }
        let rest = self.unread.split_off(head.body_bytes);
        let body = std::mem::replace(&mut self.unread, rest);
        Ok(Response { status: head.status, body, keep_alive: head.keep_alive })
    }

    /// Whether anything of an answer has come that was not taken yet.
    pub(crate) fn has_answered(&self) -> bool {
        !self.unread.is_empty()
    }

    fn head(&self) -> Result<Option<Head>, ClientError> {
        let wrong = |what: &str| Err(ClientError::Answer(format!("{}: {what}", self.node)));
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        let head_bytes = match parsed.parse(&self.unread) {
            Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
            Ok(_) if self.unread.len() <= HEAD_BYTES_MAX => return Ok(None),
            _ => return wrong("what it answers is not HTTP"),
        };
        let value = |name: &str| {
            let found = parsed.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
            found.and_then(|header| std::str::from_utf8(header.value).ok())
        };
        let status = parsed.code.unwrap_or(0);
        let body_bytes = match value("content-length").map(str::parse::<usize>) {
            Some(Ok(length)) if length <= BODY_BYTES_MAX => length,
            None if matches!(status, 204 | 304) => 0,
            _ => return wrong("the length of its answer is not known"),
        };
        let closes = value("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
        Ok(Some(Head { status, head_bytes, body_bytes, keep_alive: !closes }))
    }

    fn read(&mut self) -> Result<(), ClientError> {
        let begin = self.unread.len();
        self.unread.resize(begin + READ_BYTES, 0);
        let read = self.socket.read(&mut self.unread[begin..]);
        self.unread.truncate(begin + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.failed(error)),
            Ok(_) => Ok(()),
        }
    }

    fn failed(&self, error: io::Error) -> ClientError {
        ClientError::Io(self.node.to_string(), error)
    }
}
