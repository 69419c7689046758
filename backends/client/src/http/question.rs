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
        let answered = self.ask_plainly(target, tls);
        answered.map_err(|text| {
            format!("{} {} of {}: {text}", self.method, self.path, target.address())
        })
    }

    fn ask_plainly(&self, target: &Target, tls: &TlsOptions) -> Result<(u16, Captured), String> {
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
            return exchange(&mut socket, &request);
        }
        let setup = TlsSetup::new(tls, target.host(), false).map_err(|error| error.to_string())?;
        let mut session = setup.session().map_err(|error| error.to_string())?;
        exchange(&mut rustls::Stream::new(&mut session, &mut socket), &request)
    }
}

fn set_limits(socket: &TcpStream, patience: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(TIMEOUT))
}

/// Reads to the end of the answer, not of the connection: not every server closes it when asked to.
fn exchange(socket: &mut (impl Read + Write), request: &[u8]) -> Result<(u16, Captured), String> {
    socket.write_all(request).map_err(|error| error.to_string())?;
    let mut parser = ResponseParser::new(true);
    let mut buffer = vec![0; READ_BYTES];
    let response = loop {
        let count = match socket.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error.to_string()),
        };
        if count == 0 {
            let ended = parser.end().map_err(|malformed| malformed.text().to_owned())?;
            break ended.ok_or("the connection ended before the answer")?;
        }
        match parser.parse(&buffer[..count], false) {
            Ok(Parsed::More) => {}
            Ok(Parsed::Complete { response, .. }) => break response,
            Err(malformed) => return Err(malformed.text().to_owned()),
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
    fn an_answer_ends_where_it_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let (status, read) = exchange(&mut Open(answer), b"").unwrap();
        assert_eq!((status, read.body), (200, b"ok".to_vec()));
    }
}
