//! A client of a Pellucid node, or of a sharded cluster: it learns from any node which there are,
//! and goes to each key's owner directly, so that nothing is forwarded.
//!
//! It is blocking and small: one connection to each node, one request at a time. A node that was
//! asked for another's key forwards the request, so an old list costs time and never correctness.
//!
//! ```no_run
//! let mut client = pellucid_client::Client::connect("http://127.0.0.1:8080")?;
//! client.put(b"key", b"value")?;
//! assert_eq!(client.get(b"key")?.as_deref(), Some(b"value".as_slice()));
//! # Ok::<(), pellucid_client::ClientError>(())
//! ```

#![forbid(unsafe_code)]

/// The program of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod connection;
mod error;
pub mod http;
mod way;

use std::time::Duration;

use pellucid_topology::{NodeList, NodeUrl};

use connection::{Answer, Connection};
pub use error::ClientError;
pub use way::Way;

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the crate.
pub struct Client {
    nodes: NodeList,
    connections: Vec<Option<Connection>>,
}

/// The nodes that the one at `url` knows, itself among them: one alone if it is in no cluster.
///
/// # Errors
/// If it cannot be asked, or does not answer as a Pellucid node does.
pub fn topology(url: &str) -> Result<NodeList, ClientError> {
    topology_within(url, PATIENCE)
}

/// As [`topology`], for whom an answer may take so long.
///
/// # Errors
/// As [`topology`].
pub fn topology_within(url: &str, patience: Duration) -> Result<NodeList, ClientError> {
    let node = NodeUrl::parse(url)?;
    let answer = Connection::open(&node, patience)?.call("GET", "/v0/cluster", b"")?;
    let nodes = match answer.status {
        200 => nodes_of(&answer)?,
        status => return Err(ClientError::Refused { status, what: answer.text() }),
    };
    if nodes.is_empty() { Ok(NodeList::new(vec![node])?) } else { Ok(NodeList::new(nodes)?) }
}

fn nodes_of(answer: &Answer) -> Result<Vec<NodeUrl>, ClientError> {
    let wrong = || ClientError::Answer("the list of nodes is not what it has to be".to_owned());
    let page: serde_json::Value = serde_json::from_slice(&answer.body).map_err(|_| wrong())?;
    let nodes = page["nodes"].as_array().ok_or_else(wrong)?;
    let urls = nodes.iter().map(|node| {
        let url = node["url"].as_str().ok_or_else(wrong)?;
        Ok(NodeUrl::parse(url)?)
    });
    urls.collect()
}

impl Client {
    /// A client of the cluster that the node at `url` is in, or of that node alone.
    ///
    /// # Errors
    /// As [`topology`].
    pub fn connect(url: &str) -> Result<Client, ClientError> {
        let nodes = topology(url)?;
        let connections = nodes.nodes().iter().map(|_| None).collect();
        Ok(Client { nodes, connections })
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeList {
        &self.nodes
    }

    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// If the key's owner cannot be asked, or refuses.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        let answer = self.call("GET", key, b"")?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            status => Err(ClientError::Refused { status, what: answer.text() }),
        }
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// As [`Client::get`]. Where the connection broke, the write may have happened, or twice.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        self.write("PUT", key, value, 201)
    }

    /// Deletes a key, also where there is none.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<(), ClientError> {
        self.write("DELETE", key, b"", 202)
    }

    fn write(
        &mut self,
        method: &str,
        key: &[u8],
        value: &[u8],
        done: u16,
    ) -> Result<(), ClientError> {
        let answer = self.call(method, key, value)?;
        match answer.status {
            status if status == done => Ok(()),
            status => Err(ClientError::Refused { status, what: answer.text() }),
        }
    }

    /// Asks the key's owner. Every method here may be sent twice without harm, and a connection
    /// that was kept may have been closed meanwhile as idle: then a new one is tried, once.
    fn call(&mut self, method: &str, key: &[u8], body: &[u8]) -> Result<Answer, ClientError> {
        let (owner, target) = (self.nodes.owner(key), target_of(key));
        if let Some(mut kept) = self.connections[owner].take() {
            match kept.call(method, &target, body) {
                Err(error) if error.is_of_closed_connection() && !kept.has_answered() => {}
                answer => return self.keep(owner, kept, answer?),
            }
        }
        let mut connection = Connection::open(&self.nodes.nodes()[owner], PATIENCE)?;
        let answer = connection.call(method, &target, body)?;
        self.keep(owner, connection, answer)
    }

    /// Keeps a connection for the next request, if its node does. One that failed is not kept.
    fn keep(
        &mut self,
        owner: usize,
        connection: Connection,
        answer: Answer,
    ) -> Result<Answer, ClientError> {
        if answer.keep_alive {
            self.connections[owner] = Some(connection);
        }
        Ok(answer)
    }
}

/// The path of a key, with every byte percent-encoded that could be mistaken.
fn target_of(key: &[u8]) -> String {
    let mut target = "/v0/entity?id=".to_owned();
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                target.push(char::from(*byte));
            }
            _ => target += &format!("%{byte:02X}"),
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A client of a node that answers so many requests on each connection in turn, then closes it;
    /// what is left in the channel at the end are the beginnings of requests that it has read.
    fn client_of(answers: &'static [usize]) -> (Client, std::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, seen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for count in answers {
                let (mut socket, _) = listener.accept().unwrap();
                for _ in 0..*count {
                    let mut request = [0; 4_096];
                    let length = socket.read(&mut request).unwrap();
                    let text = String::from_utf8_lossy(&request[..length]).into_owned();
                    sender.send(text).unwrap();
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
                    socket.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        let nodes = NodeList::parse(&url).unwrap();
        (Client { nodes, connections: vec![None] }, seen)
    }

    /// The caller got the error, though nothing was wrong but the time since its last request.
    #[test]
    fn a_connection_that_was_closed_as_idle_costs_one_try_on_a_new_one() {
        let (mut client, seen) = client_of(&[1, 2]);
        for _ in 0..3 {
            assert_eq!(client.get(b"key").unwrap().as_deref(), Some(&b"x"[..]));
        }
        assert_eq!(seen.iter().count(), 3);
    }

    #[test]
    fn a_new_connection_that_is_closed_is_an_error() {
        let (mut client, _seen) = client_of(&[1, 0, 1]);
        assert!(client.get(b"key").is_ok());
        let error = client.get(b"key").unwrap_err();
        assert!(matches!(error, ClientError::Io(..)), "{error}");
        assert!(client.get(b"key").is_ok(), "the next request begins anew");
    }

    #[test]
    fn any_key_has_a_path() {
        assert_eq!(target_of(b"a-Z_0.~"), "/v0/entity?id=a-Z_0.~");
        assert_eq!(target_of(b"\n&=\xff %"), "/v0/entity?id=%0A%26%3D%FF%20%25");
    }
}
