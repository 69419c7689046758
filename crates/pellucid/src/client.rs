//! A minimal HTTP client for single questions to a server, such as for its account.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use pellucid_load::{Parsed, ResponseParser};

/// How long a question may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// A whole answer.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

/// Status and body of a GET.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<(u16, Vec<u8>), String> {
    let answer = ask(address, path)?;
    Ok((answer.status, answer.body))
}

fn ask(address: SocketAddr, path: &str) -> Result<Answer, String> {
    let failed = |error: std::io::Error| format!("GET http://{address}{path}: {error}");
    let mut socket = TcpStream::connect_timeout(&address, TIMEOUT).map_err(failed)?;
    socket.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).map_err(failed)?;
    read_answer(&mut socket).map_err(|text| format!("GET http://{address}{path}: {text}"))
}

/// Reads to the end of the answer, not of the connection: not every server closes it when asked to.
fn read_answer(socket: &mut impl Read) -> Result<Answer, String> {
    let mut parser = ResponseParser::new(true);
    let mut buffer = vec![0; READ_BYTES];
    let response = loop {
        let count = socket.read(&mut buffer).map_err(|error| error.to_string())?;
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
    Ok(Answer { status: response.status, body: kept.body.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_it_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let read = read_answer(&mut &answer[..]).unwrap();
        assert_eq!((read.status, read.body), (200, b"ok".to_vec()));
        for broken in ["", "HTTP/1.1 200 OK\r\n", "nonsense\r\n\r\n"] {
            assert!(read_answer(&mut broken.as_bytes()).is_err(), "{broken:?}");
        }
        let until_end = read_answer(&mut &b"HTTP/1.0 404 No\r\n\r\nbody"[..]).unwrap();
        assert_eq!((until_end.status, until_end.body), (404, b"body".to_vec()));
    }

    /// A server that kept the connection open made every question take half a minute.
    #[test]
    fn a_connection_that_stays_open_is_not_waited_for() {
        struct Open(&'static [u8]);
        impl Read for Open {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                assert!(!self.0.is_empty(), "nothing more may be asked for");
                self.0.read(buffer)
            }
        }
        let mut socket = Open(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(read_answer(&mut socket).unwrap().status, 200);
    }
}
