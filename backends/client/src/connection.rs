//! A connection to a server, for one request after the other.

use std::io;

use crate::error::ClientError;
use crate::http::{ConnectionError, HttpConnection, HttpError, HttpRequest, Stream, Target};
use crate::options::ClientOptions;

/// A connection to a server.
pub(crate) struct Connection {
    /// The address of the server, for messages.
    server: String,
    /// The value of the `Host` header.
    host: String,
    /// The `Authorization` header line, with its line end; empty without credentials.
    credentials: String,
    conversation: HttpConnection<Box<dyn Stream>>,
}

/// An answer without its framing.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl Answer {
    /// The answer, if it has this status.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it has another.
    pub(crate) fn accepted(self, status: u16) -> Result<Answer, ClientError> {
        if self.status == status {
            return Ok(self);
        }
        let what = String::from_utf8_lossy(&self.body).trim().to_owned();
        Err(ClientError::Refused { status: self.status, what })
    }
}

impl Connection {
    pub(crate) fn open(
        target: &Target,
        options: &ClientOptions,
    ) -> Result<Connection, ClientError> {
        let (server, patience) = (target.address(), options.patience);
        let opened = HttpConnection::open(target, &options.tls, patience, patience);
        let conversation = opened.map_err(|error| match error {
            HttpError::Resolve { reason, .. } | HttpError::Connect { reason, .. } => {
                ClientError::Io(server.clone(), reason)
            }
            other => ClientError::Target(other),
        })?;
        let credentials = options.credentials.header_line()?;
        Ok(Connection { server, host: target.host_header(), credentials, conversation })
    }

    pub(crate) fn call(&mut self, question: &HttpRequest<'_>) -> Result<Answer, ClientError> {
        let HttpRequest { method, path, headers, body, .. } = question;
        let (host, credentials, length) = (&self.host, &self.credentials, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{credentials}{headers}\
             Content-Length: {length}\r\n\r\n"
        );
        let sent = self.conversation.send(&[head.as_bytes(), body].concat());
        // A server that refuses a long body answers before it has read all of it.
        let answer = self.conversation.answer_to(method, &mut |_, _| Ok(()));
        let is_sent = sent.is_ok();
        let (response, captured) = answer.map_err(|broken| match broken {
            ConnectionError::Io(error) => self.failed(sent.err().unwrap_or(error)),
            broken => self.wrong(&broken.to_string()),
        })?;
        if self.conversation.has_more() {
            return Err(self.wrong("it answers unasked"));
        }
        let keep_alive = response.keep_alive && is_sent;
        Ok(Answer { status: response.status, body: captured.body, keep_alive })
    }

    /// True if any bytes of an answer to the last request have arrived.
    pub(crate) fn has_answered(&self) -> bool {
        self.conversation.has_answered()
    }

    fn failed(&self, error: io::Error) -> ClientError {
        ClientError::Io(self.server.clone(), error)
    }

    fn wrong(&self, text: &str) -> ClientError {
        ClientError::Answer(format!("{}: {text}", self.server))
    }
}
