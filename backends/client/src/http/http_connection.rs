//! Requests and answers on one connection, one after the other or pipelined.

use std::fmt;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustls::StreamOwned;

use super::error::HttpError;
use super::response::{CapturedResponse, ParseOutcome, Response, ResponseError, ResponseParser};
use super::target::Target;
use super::tls::{TlsOptions, TlsSetup};

/// The text of the error for an answer that has not arrived in time.
const TOO_LATE: &str = "no answer came within the time that it may take";
/// Limit of one read in bytes.
const READ_BYTES: usize = 64 << 10;

/// A callback for the body of an answer: it gets the status and the bytes so far, and removes the
/// bytes that it has consumed.
pub type BodyCallback<'a> = dyn FnMut(u16, &mut Vec<u8>) -> Result<(), String> + 'a;

/// The reason why there is no answer.
#[derive(Debug)]
pub enum ConnectionError {
    /// There is no connection.
    Open(HttpError),
    /// The connection failed or ended.
    Io(io::Error),
    /// The bytes that arrived are not an HTTP response.
    Malformed(ResponseError),
    /// The callback has refused the body.
    Refused(String),
}

impl ConnectionError {
    /// True if the server closed the connection.
    #[must_use]
    pub fn is_of_closed_connection(&self) -> bool {
        matches!(self, ConnectionError::Io(error) if is_of_closed_connection(error))
    }
}

/// True if the other side closed the connection.
pub(crate) fn is_of_closed_connection(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionError::Open(error) => error.fmt(f),
            ConnectionError::Io(error) => error.fmt(f),
            ConnectionError::Malformed(malformed) => f.write_str(malformed.text()),
            ConnectionError::Refused(text) => f.write_str(text),
        }
    }
}

/// Turns the error for the end of a socket's time limit, `WouldBlock`, into `TimedOut`.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, TOO_LATE),
        _ => error,
    }
}

/// The byte stream of a connection, with or without TLS.
pub(crate) trait Stream: Read + Write + Send + Sync {}

impl<S: Read + Write + Send + Sync> Stream for S {}

/// A connection that carries requests and their answers.
pub struct HttpConnection<S> {
    stream: S,
    parser: ResponseParser,
    buffer: Vec<u8>,
    /// The part of the buffer that was read, and not yet parsed.
    unread: std::ops::Range<usize>,
    has_answered: bool,
    /// The time after which nothing more is read.
    deadline: Option<Instant>,
}

impl HttpConnection<Box<dyn Stream>> {
    /// Connects to a server. Connecting and each write end within `timeout`; the server may be
    /// silent for `patience`.
    ///
    /// # Errors
    /// [`HttpError::Resolve`], [`HttpError::Connect`] or [`HttpError::Tls`].
    pub(crate) fn open(
        target: &Target,
        tls: &TlsOptions,
        timeout: Duration,
        patience: Duration,
    ) -> Result<HttpConnection<Box<dyn Stream>>, HttpError> {
        let (_, socket) = target.reach(timeout)?;
        let failed = |reason| HttpError::Connect { address: target.address(), reason };
        socket.set_write_timeout(Some(timeout)).map_err(failed)?;
        socket.set_read_timeout(Some(patience)).map_err(failed)?;
        let stream: Box<dyn Stream> = if target.is_tls() {
            let setup = TlsSetup::new(tls, target.host(), false)?;
            Box::new(StreamOwned::new(setup.session().map_err(failed)?, socket))
        } else {
            Box::new(socket)
        };
        Ok(HttpConnection::over(stream))
    }
}

impl<S: Read + Write> HttpConnection<S> {
    /// A conversation over an open connection.
    pub fn over(stream: S) -> HttpConnection<S> {
        let (parser, buffer) = (ResponseParser::new(true), vec![0; READ_BYTES]);
        HttpConnection { stream, parser, buffer, unread: 0..0, has_answered: false, deadline: None }
    }

    /// Sets the time that is left for all answers of this connection; any if `None`.
    pub(crate) fn end_after(&mut self, limit: Option<Duration>) {
        self.deadline = limit.map(|limit| Instant::now() + limit);
    }

    /// Sends one or more encoded requests.
    ///
    /// # Errors
    /// If the connection is broken. A server that refuses a long body may close the connection
    /// before it has read all of it; its answer may be there all the same.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.has_answered = false;
        self.stream.write_all(requests).map_err(in_time)
    }

    /// Reads the next answer, to a request with this method, up to its own end: an answer to HEAD
    /// has no body, whatever length its head announces. Calls `take` with the status and the body's
    /// bytes so far; bytes that it does not remove are in the returned body.
    ///
    /// # Errors
    /// If there is no valid answer; the connection cannot be used any more.
    pub fn answer_to(
        &mut self,
        method: &str,
        take: &mut BodyCallback<'_>,
    ) -> Result<(Response, CapturedResponse), ConnectionError> {
        let is_bodiless = method == "HEAD";
        loop {
            let unread = std::mem::take(&mut self.unread);
            if !unread.is_empty() {
                let parsed = self.parser.parse(&self.buffer[unread.clone()], is_bodiless);
                let parsed = parsed.map_err(ConnectionError::Malformed)?;
                if let Some((status, body)) = self.parser.captured_body() {
                    take(status, body).map_err(ConnectionError::Refused)?;
                }
                if let ParseOutcome::Complete { consumed, response } = parsed {
                    self.unread = unread.start + consumed..unread.end;
                    return Ok((response, self.parser.take_captured()));
                }
            }
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                let late = io::Error::new(io::ErrorKind::TimedOut, TOO_LATE);
                return Err(ConnectionError::Io(late));
            }
            let count = match self.stream.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A TLS connection that ends without a `close_notify`.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(ConnectionError::Io(in_time(error))),
            };
            self.unread = 0..count;
            if count == 0 {
                let ended = self.parser.end().map_err(ConnectionError::Malformed)?;
                let response = ended
                    .ok_or_else(|| ConnectionError::Io(io::ErrorKind::UnexpectedEof.into()))?;
                return Ok((response, self.parser.take_captured()));
            }
            self.has_answered = true;
        }
    }

    /// True if any bytes have arrived since the last request.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// True if bytes have arrived that belong to no answer so far.
    pub fn has_more(&self) -> bool {
        !self.unread.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::MAX_CAPTURED_BODY_BYTES;

    /// A connection that stays open behind its bytes. Regression: the client waited for the end of
    /// the connection, so each request took half a minute.
    struct OpenStream(&'static [u8]);

    impl Read for OpenStream {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "nothing more may be read");
            self.0.read(buffer)
        }
    }

    impl Write for OpenStream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_of_any_length_is_consumed_in_pieces() {
        let length = MAX_CAPTURED_BODY_BYTES + 1;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let bytes: &[u8] = [head.as_bytes(), &vec![b'x'; length]].concat().leak();
        let mut taken = 0;
        let mut conversation = HttpConnection::over(OpenStream(bytes));
        let answer = conversation.answer_to("GET", &mut |status, body| {
            assert_eq!(status, 200);
            taken += body.len();
            body.clear();
            Ok(())
        });
        let (response, rest) = answer.unwrap();
        assert_eq!((response.status, taken, rest.body.len()), (200, length, 0));
        let mut conversation = HttpConnection::over(OpenStream(bytes));
        assert!(conversation.answer_to("GET", &mut |_, _| Ok(())).is_err());
    }

    /// An endless answer. Regression: each byte of it renewed the time that was left.
    struct EndlessStream;

    impl Read for EndlessStream {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(1));
            b"HTTP/1.1 100 Continue\r\n\r\n".as_slice().read(buffer)
        }
    }

    impl Write for EndlessStream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_endless_answer_is_late() {
        let mut conversation = HttpConnection::over(EndlessStream);
        conversation.end_after(Some(Duration::from_millis(20)));
        let answer = conversation.answer_to("GET", &mut |_, _| Ok(()));
        assert_eq!(answer.unwrap_err().to_string(), TOO_LATE);
    }

    /// Regression: the client waited for the body that the head of an answer to HEAD announces,
    /// until the time limit.
    #[test]
    fn an_answer_to_head_ends_with_its_head() {
        let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            HTTP/1.1 200 OK\r\n\r\n";
        let mut conversation = HttpConnection::over(OpenStream(answers));
        for has_more in [true, true, false] {
            let answer = conversation.answer_to("HEAD", &mut |_, _| Ok(()));
            let (response, read) = answer.unwrap();
            assert_eq!((response.status, read.body.len()), (200, 0));
            assert_eq!(conversation.has_more(), has_more);
        }
    }

    #[test]
    fn an_answer_ends_at_its_length_and_the_next_follows() {
        let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
            HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n";
        let mut conversation = HttpConnection::over(OpenStream(answers));
        for (status, body, has_more) in [(200, b"ok", true), (404, b"no", false)] {
            let (response, read) = conversation.answer_to("GET", &mut |_, _| Ok(())).unwrap();
            assert_eq!((response.status, &*read.body), (status, &body[..]));
            assert_eq!(conversation.has_more(), has_more);
        }
    }
}
