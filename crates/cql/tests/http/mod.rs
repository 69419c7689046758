//! A server on a store, and the simplest client of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use pellucid_server::{Log, RunningServer, ServerOptions, start_on};
use pellucid_store::Store;
use tempfile::TempDir;

/// A server that runs for as long as it is held.
pub(crate) struct Running {
    server: Option<RunningServer>,
    _folder: TempDir,
}

impl Running {
    /// Serves from `store`.
    pub(crate) fn on(store: Arc<dyn Store>) -> Running {
        let folder = TempDir::new().unwrap();
        let mut options = ServerOptions::new(folder.path().to_owned());
        options.listen = "127.0.0.1:0".parse().unwrap();
        let server = start_on(store, options, Log::new(|_| {})).unwrap();
        Running { server: Some(server), _folder: folder }
    }

    /// The status of the answer to a request.
    pub(crate) fn status(&self, method: &str, path: &str, body: &str) -> u16 {
        self.ask(method, path, body).0
    }

    /// The answer to a request: status, and all that follows the status line.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.server.as_ref().unwrap().address()).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (status, rest) = answer.split_at(12);
        (status[9..].parse().unwrap(), rest.to_owned())
    }

    /// Ends it cleanly.
    pub(crate) fn stop(mut self) {
        self.server.take().unwrap().stop().unwrap();
    }
}
