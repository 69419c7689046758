//! A minimal HTTP client for single questions to a server, such as for its account.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a question may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that an answer may have.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Status and body of a GET.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<(u16, Vec<u8>), String> {
    let answer = ask(address, path, "")?;
    split(&answer).ok_or_else(|| format!("GET http://{address}{path}: the answer is no HTTP"))
}

/// Status line and headers of the answer to a GET with further headers.
pub(crate) fn head(address: SocketAddr, path: &str, headers: &str) -> Result<String, String> {
    let answer = ask(address, path, headers)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    Ok(String::from_utf8_lossy(&answer[..end]).into_owned())
}

fn ask(address: SocketAddr, path: &str, headers: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("GET http://{address}{path}: {error}");
    let mut socket = TcpStream::connect_timeout(&address, TIMEOUT).map_err(failed)?;
    socket.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    Ok(answer)
}

fn split(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer[end + 4..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_split() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(split(answer), Some((200, b"ok".to_vec())));
        assert_eq!(split(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(split(b"nonsense\r\n\r\n"), None);
    }
}
