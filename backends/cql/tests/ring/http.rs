//! A server on a store, and a minimal HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use pellucid_server::{Log, RunningServer, ServerOptions, start_on};
use pellucid_store::Store;
use serde_json::Value;
use tempfile::TempDir;

/// A running server; dropping it stops the server.
pub(crate) struct TestServer {
    server: Option<RunningServer>,
    _folder: TempDir,
}

/// A client of the server at this address.
#[derive(Clone, Copy)]
pub(crate) struct Client(SocketAddr);

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The value of a header; empty if the answer has no such header.
    pub(crate) fn header(&self, wanted: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.rfind(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map_or("", |(_, value)| value)
    }
}

impl Client {
    /// Sends a request, and reads its answer.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}");
        write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head[9..12].parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

impl TestServer {
    /// Starts a server on `store`.
    pub(crate) fn on(store: Arc<dyn Store>) -> TestServer {
        let folder = TempDir::new().unwrap();
        let mut options = ServerOptions::new(folder.path().to_owned());
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        // A slow machine must not make requests fail.
        options.limits.exchange = super::PATIENCE;
        let server = start_on(store, options, Log::new(|_| {})).unwrap();
        TestServer { server: Some(server), _folder: folder }
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        Client(self.server.as_ref().unwrap().address().unwrap())
    }

    /// Sends a request, and reads its answer.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.client().ask(method, path, headers, body)
    }

    /// Like [`TestServer::ask`], and asserts the status of the answer.
    pub(crate) fn expect(&self, status: u16, method: &str, path: &str, body: &str) -> Answer {
        let answer = self.ask(method, path, "", body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        answer
    }

    /// Repeats a request until its answer has this status.
    pub(crate) fn wait_for(&self, status: u16, method: &str, path: &str, body: &str) {
        super::wait_for(|| {
            let answer = self.ask(method, path, "", body);
            if answer.status == status { Ok(()) } else { Err(answer) }
        });
    }

    /// Stops the server cleanly.
    pub(crate) fn stop(mut self) {
        self.server.take().unwrap().stop().unwrap();
    }
}
