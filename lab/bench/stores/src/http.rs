//! The simplest client of a server.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::{Outcome, text};

/// Bytes that are read at once: more than any answer has here.
const PIECE_BYTES: usize = 8_192;

/// A connection.
pub struct Http {
    stream: TcpStream,
    address: String,
    answer: Vec<u8>,
}

impl Http {
    /// Connects to the server at `address`.
    pub fn open(address: &str) -> Outcome<Http> {
        let stream = TcpStream::connect(address).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        Ok(Http { stream, address: address.to_owned(), answer: Vec::new() })
    }

    /// Has an entity put or got, and waits until all of the answer is there.
    pub fn ask(&mut self, method: &str, key: &str, value: &[u8]) -> Outcome<()> {
        let (address, length) = (&self.address, value.len());
        let head = format!(
            "{method} /v0/entity?id={key} HTTP/1.1\r\nHost: {address}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(value);
        self.stream.write_all(&request).map_err(text)?;
        self.answer.clear();
        let mut piece = [0; PIECE_BYTES];
        loop {
            let count = self.stream.read(&mut piece).map_err(text)?;
            if count == 0 {
                return Err("the server hung up".to_owned());
            }
            self.answer.extend_from_slice(&piece[..count]);
            let Some(end) = self.answer.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&self.answer[..end]).to_ascii_lowercase();
            if !head.starts_with("http/1.1 20") {
                return Err(format!("{method} of {key} was answered {head}"));
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap_or("0").parse().map_err(text)?;
            if self.answer.len() >= end + 4 + length {
                return Ok(());
            }
        }
    }
}
