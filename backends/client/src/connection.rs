//! One connection to a node: a request, its answer, and the next.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pellucid_topology::NodeUrl;

use crate::error::ClientError;
use crate::http::{HttpError, Parsed, ResponseParser, Target};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Connection {
    node: NodeUrl,
    socket: TcpStream,
    parser: ResponseParser,
    /// True if anything of the last answer has come.
    has_answered: bool,
}

/// An answer, freed of its framing.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }
}

impl Connection {
    pub(crate) fn open(node: &NodeUrl, patience: Duration) -> Result<Connection, ClientError> {
        let failed = |error| ClientError::Io(node.to_string(), error);
        let reached = Target::parse(node.as_str()).and_then(|target| target.reach(patience));
        let (_, socket) = reached.map_err(|error| match error {
            HttpError::Resolve { reason, .. } | HttpError::Connect { reason, .. } => failed(reason),
            other => ClientError::Answer(other.to_string()),
        })?;
        let set = socket
            .set_read_timeout(Some(patience))
            .and_then(|()| socket.set_write_timeout(Some(patience)));
        set.map_err(failed)?;
        let parser = ResponseParser::new(true);
        Ok(Connection { node: node.clone(), socket, parser, has_answered: false })
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<Answer, ClientError> {
        let host = self.node.authority();
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
        );
        self.has_answered = false;
        let sent = self.socket.write_all(&[head.as_bytes(), body].concat());
        sent.map_err(|error| self.failed(error))?;
        let mut buffer = vec![0; READ_BYTES];
        let response = loop {
            let count = match self.socket.read(&mut buffer) {
                Ok(0) => return Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed(error)),
            };
            self.has_answered = true;
            match self.parser.parse(&buffer[..count], false) {
                Ok(Parsed::More) => {}
                Ok(Parsed::Complete { response, consumed }) if consumed == count => break response,
                Ok(Parsed::Complete { .. }) => return Err(self.wrong("it answers unasked")),
                Err(malformed) => return Err(self.wrong(malformed.text())),
            }
        };
        let body = self.parser.captured().map(|captured| captured.body.clone());
        self.parser.forget_captured();
        let keep_alive = response.keep_alive;
        Ok(Answer { status: response.status, body: body.unwrap_or_default(), keep_alive })
    }

    /// True if anything of an answer to the last request has come.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    fn failed(&self, error: io::Error) -> ClientError {
        ClientError::Io(self.node.to_string(), error)
    }

    fn wrong(&self, text: &str) -> ClientError {
        ClientError::Answer(format!("{}: {text}", self.node))
    }
}
