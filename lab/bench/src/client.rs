//! A client for what a benchmark asks one by one, over one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::peers::text;

/// See the module.
pub struct Client {
    address: String,
    socket: BufReader<TcpStream>,
    request: Vec<u8>,
    body: Vec<u8>,
}

impl Client {
    /// Connects to the server of this address.
    pub fn connect(url: &str) -> Result<Client, String> {
        let address = url.trim_start_matches("http://").split('/').next().unwrap_or("").to_owned();
        let socket = TcpStream::connect(&address).map_err(text)?;
        socket.set_nodelay(true).map_err(text)?;
        let socket = BufReader::with_capacity(1 << 18, socket);
        Ok(Client { address, socket, request: Vec::new(), body: Vec::new() })
    }

    /// The same, of which no read of an answer waits for longer than `limit`.
    pub fn connect_within(url: &str, limit: Duration) -> Result<Client, String> {
        let client = Client::connect(url)?;
        client.socket.get_ref().set_read_timeout(Some(limit)).map_err(text)?;
        Ok(client)
    }

    /// Sends a request and returns the body of its answer, which has to be a success.
    pub fn call(&mut self, method: &str, target: &str, body: &str) -> Result<&[u8], String> {
        self.call_all([(method, target.to_owned(), body)])?;
        Ok(&self.body)
    }

    /// Sends requests one behind the other, then reads all answers.
    pub fn call_all<'a>(
        &mut self,
        calls: impl IntoIterator<Item = (&'a str, String, &'a str)>,
    ) -> Result<(), String> {
        self.request.clear();
        let mut targets = Vec::new();
        for (method, target, body) in calls {
            write!(
                self.request,
                "{method} {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
                self.address,
                body.len()
            )
            .map_err(text)?;
            targets.push(target);
        }
        self.socket.get_mut().write_all(&self.request).map_err(text)?;
        targets.iter().try_for_each(|target| self.answer(target))
    }

    fn answer(&mut self, target: &str) -> Result<(), String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).map_err(text)?;
        let is_success = line.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
        let (mut length, mut is_chunked) = (0, false);
        let status = line.trim().to_owned();
        loop {
            line.clear();
            if self.socket.read_line(&mut line).map_err(text)? == 0 {
                return Err(format!("{target}: the connection ended in an answer"));
            }
            let Some((name, value)) = line.trim().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(text)?;
            }
            is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        self.body.resize(length, 0);
        self.socket.read_exact(&mut self.body).map_err(text)?;
        while is_chunked && self.chunk()? {}
        if is_success {
            Ok(())
        } else {
            Err(format!("{target}: {status}: {}", String::from_utf8_lossy(&self.body)))
        }
    }

    /// Appends the next chunk to the body; false after the last (RFC 9112, 7.1).
    fn chunk(&mut self) -> Result<bool, String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).map_err(text)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(text)?;
        let begin = self.body.len();
        self.body.resize(begin + length, 0);
        self.socket.read_exact(&mut self.body[begin..]).map_err(text)?;
        line.clear();
        self.socket.read_line(&mut line).map_err(text)?;
        Ok(length > 0)
    }
}
