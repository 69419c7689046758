//! A connection that carries one request after the other, or some behind each other.

use std::fmt;
use std::io::{self, Read, Write};

use super::response::{Captured, Malformed, Parsed, Response, ResponseParser};

/// The text of an answer that has not come in time.
const TOO_LATE: &str = "no answer came within the time that it may take";
/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// Receives the body of an answer of this status, and removes the bytes that it has dealt with.
pub type Take<'a> = dyn FnMut(u16, &mut Vec<u8>) -> Result<(), String> + 'a;

/// A reason for which there is no answer.
#[derive(Debug)]
pub enum Broken {
    /// The connection failed or ended.
    Io(io::Error),
    /// The bytes that came are no answer.
    Malformed(Malformed),
    /// The receiver of the body does not want it.
    Refused(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Io(error) => error.fmt(f),
            Broken::Malformed(malformed) => f.write_str(malformed.text()),
            Broken::Refused(text) => f.write_str(text),
        }
    }
}

/// The error of a socket, which calls the end of its time that it would block.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, TOO_LATE),
        _ => error,
    }
}

/// See the module.
pub struct Conversation<S> {
    stream: S,
    parser: ResponseParser,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet looked at.
    unread: std::ops::Range<usize>,
    has_answered: bool,
}

impl<S: Read + Write> Conversation<S> {
    /// A conversation over a connection that is open.
    pub fn over(stream: S) -> Conversation<S> {
        let (parser, buffer) = (ResponseParser::new(true), vec![0; READ_BYTES]);
        Conversation { stream, parser, buffer, unread: 0..0, has_answered: false }
    }

    /// Sends a request, or several.
    ///
    /// # Errors
    /// The connection is broken. A server that refuses a long body may close before it has all of
    /// it: its answer may be there all the same.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.has_answered = false;
        self.stream.write_all(requests).map_err(in_time)
    }

    /// Reads the next answer, to its end and not to that of the connection. `take` gets the status
    /// and the body as far as it has come; what it leaves of the body is in what is returned.
    ///
    /// # Errors
    /// There is no answer, and there will be none.
    pub fn answer(&mut self, take: &mut Take<'_>) -> Result<(Response, Captured), Broken> {
        loop {
            let unread = std::mem::take(&mut self.unread);
            if !unread.is_empty() {
                let parsed = self.parser.parse(&self.buffer[unread.clone()], false);
                let parsed = parsed.map_err(Broken::Malformed)?;
                if let Some((status, body)) = self.parser.captured_body() {
                    take(status, body).map_err(Broken::Refused)?;
                }
                if let Parsed::Complete { consumed, response } = parsed {
                    self.unread = unread.start + consumed..unread.end;
                    return Ok((response, self.parser.take_captured()));
                }
            }
            let count = match self.stream.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // TLS that ends without saying so.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(Broken::Io(in_time(error))),
            };
            self.unread = 0..count;
            if count == 0 {
                let ended = self.parser.end().map_err(Broken::Malformed)?;
                let response =
                    ended.ok_or_else(|| Broken::Io(io::ErrorKind::UnexpectedEof.into()))?;
                return Ok((response, self.parser.take_captured()));
            }
            self.has_answered = true;
        }
    }

    /// True if anything of an answer has come since the last request.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// True if bytes were read that no answer took.
    pub fn has_more(&self) -> bool {
        !self.unread.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::MAX_CAPTURED_BODY_BYTES;

    /// A server that kept the connection open made every question take half a minute.
    struct Open(&'static [u8]);

    impl Read for Open {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "nothing more may be asked for");
            self.0.read(buffer)
        }
    }

    impl Write for Open {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_of_any_length_is_taken_as_it_comes() {
        let length = MAX_CAPTURED_BODY_BYTES + 1;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let bytes: &[u8] = [head.as_bytes(), &vec![b'x'; length]].concat().leak();
        let mut taken = 0;
        let answer = Conversation::over(Open(bytes)).answer(&mut |status, body| {
            assert_eq!(status, 200);
            taken += body.len();
            body.clear();
            Ok(())
        });
        let (response, rest) = answer.unwrap();
        assert_eq!((response.status, taken, rest.body.len()), (200, length, 0));
        assert!(Conversation::over(Open(bytes)).answer(&mut |_, _| Ok(())).is_err());
    }

    #[test]
    fn an_answer_ends_where_it_says_and_the_next_follows() {
        let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
            HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n";
        let mut conversation = Conversation::over(Open(answers));
        for (status, body, has_more) in [(200, b"ok", true), (404, b"no", false)] {
            let (response, read) = conversation.answer(&mut |_, _| Ok(())).unwrap();
            assert_eq!((response.status, &*read.body), (status, &body[..]));
            assert_eq!(conversation.has_more(), has_more);
        }
    }
}
