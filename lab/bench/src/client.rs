//! A client for the single requests of a benchmark, over one connection.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use pellucid_client::http::HttpConnection;

use crate::text;

/// A client with one connection.
pub struct Client {
    address: String,
    conversation: HttpConnection<TcpStream>,
    request: Vec<u8>,
    body: Vec<u8>,
}

impl Client {
    /// Connects to the server of this URL.
    pub fn connect(url: &str) -> Result<Client, String> {
        Client::open(url, None)
    }

    /// Connects to the server of this URL; a read that waits longer than `limit` fails.
    pub fn connect_within(url: &str, limit: Duration) -> Result<Client, String> {
        Client::open(url, Some(limit))
    }

    fn open(url: &str, limit: Option<Duration>) -> Result<Client, String> {
        let address = url.trim_start_matches("http://").split('/').next().unwrap_or("").to_owned();
        let socket = TcpStream::connect(&address).map_err(text)?;
        socket.set_nodelay(true).map_err(text)?;
        socket.set_read_timeout(limit).map_err(text)?;
        let conversation = HttpConnection::over(socket);
        Ok(Client { address, conversation, request: Vec::new(), body: Vec::new() })
    }

    /// Sends a request and returns the body of its answer; a status other than 2xx is an error.
    pub fn call(&mut self, method: &str, target: &str, body: &str) -> Result<&[u8], String> {
        self.call_all([(method, target.to_owned(), body)])?;
        Ok(&self.body)
    }

    /// Sends all requests in a pipeline, then reads all answers.
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
        self.conversation.send(&self.request).map_err(text)?;
        targets.iter().try_for_each(|target| self.answer(target))
    }

    fn answer(&mut self, target: &str) -> Result<(), String> {
        let answer = self.conversation.answer_to("GET", &mut |_, _| Ok(()));
        let (response, captured) = answer.map_err(|broken| format!("{target}: {broken}"))?;
        self.body = captured.body;
        match response.status {
            200..300 => Ok(()),
            status => Err(refusal_start(target, status) + &String::from_utf8_lossy(&self.body)),
        }
    }
}

/// The beginning of the error for an answer with this status; the body of the answer follows.
pub fn refusal_start(target: &str, status: u16) -> String {
    format!("{target}: {status}: ")
}
