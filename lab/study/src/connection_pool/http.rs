//! The few requests that the study makes itself: it fills the collection, makes the index, and
//! takes the answer that the trivial server repeats.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::StudyError;

/// How long an answer may take: an index over 200,000 documents on a slow machine takes a while.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Sends a request on a connection of its own and returns the whole response. One that is refused
/// is an error.
pub(super) fn send(
    address: SocketAddr,
    target: &str,
    headers: &str,
    body: &[u8],
) -> Result<Vec<u8>, StudyError> {
    let failed = |error: std::io::Error| StudyError::Step(format!("POST {target}: {error}"));
    let mut socket = TcpStream::connect(address).map_err(failed)?;
    socket.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body)).map_err(failed)?;
    let mut response = Vec::new();
    let mut piece = [0; 16 * 1024];
    while !is_whole(&response) {
        match socket.read(&mut piece).map_err(failed)? {
            0 => break,
            count => response.extend_from_slice(&piece[..count]),
        }
    }
    if response.starts_with(b"HTTP/1.1 2") && is_whole(&response) {
        return Ok(response);
    }
    let said = String::from_utf8_lossy(&response).into_owned();
    Err(StudyError::Step(format!("POST {target} is refused: {said}")))
}

/// Whether a response is there as far as its length says.
fn is_whole(response: &[u8]) -> bool {
    let Some(head) = response.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&response[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0);
    response.len() >= head + 4 + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_whole_when_its_length_is_there() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n"));
    }
}
