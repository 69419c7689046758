//! Single questions: a request over a connection of its own, and the whole answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::response::{Captured, Parsed, ResponseParser};
use super::target::Target;
use super::tls::{TlsOptions, TlsSetup};

/// The time that opening and writing may take, and an answer unless asked otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// Receives the body of an answer of this status, and removes the bytes that it has dealt with.
pub type Take<'a> = dyn FnMut(u16, &mut Vec<u8>) -> Result<(), String> + 'a;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path and query.
    pub path: &'a str,
    /// Further header lines, each with its end.
    pub headers: &'a str,
    /// Its body.
    pub body: &'a [u8],
    /// The time for which the server may be silent before and while it answers.
    pub patience: Duration,
}

impl<'a> Question<'a> {
    /// A GET, whose answer may take ten seconds.
    #[must_use]
    pub fn get(path: &'a str) -> Question<'a> {
        Question { method: "GET", path, headers: "", body: b"", patience: TIMEOUT }
    }

    /// Status, head and body of the answer.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn ask(&self, target: &Target, tls: &TlsOptions) -> Result<(u16, Captured), String> {
        self.ask_in_pieces(target, tls, &mut |_, _| Ok(()))
    }

    /// As [`Question::ask`], for an answer of any length: `take` gets the status and the body as
    /// far as it has come, and removes the bytes that it wants. The rest stays in the answer.
    ///
    /// # Errors
    /// Those of [`Question::ask`], and those of `take`.
    pub fn ask_in_pieces(
        &self,
        target: &Target,
        tls: &TlsOptions,
        take: &mut Take<'_>,
    ) -> Result<(u16, Captured), String> {
        let answered = self.ask_plainly(target, tls, take);
        answered.map_err(|text| {
            format!("{} {} of {}: {text}", self.method, self.path, target.address())
        })
    }

    fn ask_plainly(
        &self,
        target: &Target,
        tls: &TlsOptions,
        take: &mut Take<'_>,
    ) -> Result<(u16, Captured), String> {
        let (_, mut socket) = target.reach(TIMEOUT).map_err(|error| error.to_string())?;
        set_limits(&socket, self.patience).map_err(|error| error.to_string())?;
        let Question { method, path, headers, body, .. } = self;
        let host = target.host_header();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}");
        if !body.is_empty() {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        let request = [request.as_bytes(), b"\r\n", body].concat();
        if !target.is_tls() {
            return exchange(&mut socket, &request, take);
        }
        let setup = TlsSetup::new(tls, target.host(), false).map_err(|error| error.to_string())?;
        let mut session = setup.session().map_err(|error| error.to_string())?;
        exchange(&mut rustls::Stream::new(&mut session, &mut socket), &request, take)
    }
}

fn set_limits(socket: &TcpStream, patience: Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(TIMEOUT))
}

/// Reads to the end of the answer, not of the connection: not every server closes it when asked to.
fn exchange(
    socket: &mut (impl Read + Write),
    request: &[u8],
    take: &mut Take<'_>,
) -> Result<(u16, Captured), String> {
    // A server that refuses a long body may close before it has all of it: its answer says why.
    let sent = socket.write_all(request);
    let mut parser = ResponseParser::new(true);
    let mut buffer = vec![0; READ_BYTES];
    let response = loop {
        let count = match socket.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(sent.err().unwrap_or(error).to_string()),
        };
        if count == 0 {
            let ended = parser.end().map_err(|malformed| malformed.text().to_owned())?;
            break ended.ok_or("the connection ended before the answer")?;
        }
        let parsed = parser.parse(&buffer[..count], false);
        let parsed = parsed.map_err(|malformed| malformed.text().to_owned())?;
        if let Some((status, body)) = parser.captured_body() {
            take(status, body)?;
        }
        if let Parsed::Complete { response, .. } = parsed {
            break response;
        }
    };
    let kept = parser.captured().ok_or("the answer was not kept")?;
    Ok((response.status, Captured { head: kept.head.clone(), body: kept.body.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let length = super::super::MAX_CAPTURED_BODY_BYTES + 1;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let bytes: &[u8] = [head.as_bytes(), &vec![b'x'; length]].concat().leak();
        let mut taken = 0;
        let (status, rest) = exchange(&mut Open(bytes), b"", &mut |status, body| {
            assert_eq!(status, 200);
            taken += body.len();
            body.clear();
            Ok(())
        })
        .unwrap();
        assert_eq!((status, taken, rest.body.len()), (200, length, 0));
        assert!(exchange(&mut Open(bytes), b"", &mut |_, _| Ok(())).is_err());
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let (status, read) = exchange(&mut Open(answer), b"", &mut |_, _| Ok(())).unwrap();
        assert_eq!((status, read.body), (200, b"ok".to_vec()));
    }
}
