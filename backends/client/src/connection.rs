//! One connection to a node: a request, its answer, and the next.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use pellucid_topology::NodeUrl;

use crate::error::ClientError;
use crate::http::{Broken, Conversation, HttpError, Target};

pub(crate) struct Connection {
    node: NodeUrl,
    conversation: Conversation<TcpStream>,
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
        Ok(Connection { node: node.clone(), conversation: Conversation::over(socket) })
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
        let sent = self.conversation.send(&[head.as_bytes(), body].concat());
        sent.map_err(|error| self.failed(error))?;
        let (response, captured) =
            self.conversation.answer(&mut |_, _| Ok(())).map_err(|broken| match broken {
                Broken::Io(error) => self.failed(error),
                broken => self.wrong(&broken.to_string()),
            })?;
        if self.conversation.has_more() {
            return Err(self.wrong("it answers unasked"));
        }
        Ok(Answer { status: response.status, body: captured.body, keep_alive: response.keep_alive })
    }

    /// True if anything of an answer to the last request has come.
    pub(crate) fn has_answered(&self) -> bool {
        self.conversation.has_answered()
    }

    fn failed(&self, error: io::Error) -> ClientError {
        ClientError::Io(self.node.to_string(), error)
    }

    fn wrong(&self, text: &str) -> ClientError {
        ClientError::Answer(format!("{}: {text}", self.node))
    }
}
