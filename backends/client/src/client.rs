//! The client: reads and writes entities by key, each at the node that owns the key.

use pellucid_topology::NodeList;

use crate::connection::{Answer, Connection};
use crate::error::ClientError;
use crate::http::{HttpRequest, Target, encoded};
use crate::options::ClientOptions;
use crate::topology::nodes_known_to;

/// A client of a server or of a cluster. It has one connection to each node.
pub struct Client {
    /// The nodes, if the client sends each request to the owner of the key.
    nodes: Option<NodeList>,
    /// The servers, in the order of the nodes; without nodes, the one server of the client.
    targets: Vec<Target>,
    connections: Vec<Option<Connection>>,
    options: ClientOptions,
}

impl Client {
    /// A client of the server at `url`, without credentials.
    ///
    /// # Errors
    /// As [`Client::connect_with`].
    pub fn connect(url: &str) -> Result<Client, ClientError> {
        Client::connect_with(url, ClientOptions::default())
    }

    /// A client of the server at `url`: `http://host:port`, `https://host:port` or
    /// `unix:/path/of/socket`.
    ///
    /// If the URL is an `http` URL of a node of a cluster, the client sends each request to the
    /// owner of the key. With `https` and `unix` URLs, it sends all requests to this one server,
    /// which forwards them: the nodes' list has only URLs without TLS, and credentials must not be
    /// sent to these.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or does not answer as a Pellucid server does.
    pub fn connect_with(url: &str, options: ClientOptions) -> Result<Client, ClientError> {
        let target = Target::parse(url)?;
        let stays = target.is_tls() || target.socket().is_some();
        let mut connection = Connection::open(&target, &options)?;
        let (nodes, _) = nodes_known_to(&mut connection)?;
        if stays || nodes.is_empty() {
            let (targets, connections) = (vec![target], vec![Some(connection)]);
            return Ok(Client { nodes: None, targets, connections, options });
        }
        let nodes = NodeList::new(nodes)?;
        let targets = nodes.nodes().iter().map(|node| Target::parse(node.as_str()));
        let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
        let connections = targets.iter().map(|_| None).collect();
        Ok(Client { nodes: Some(nodes), targets, connections, options })
    }

    /// The nodes of the cluster, if the client sends each request to the owner of the key.
    #[must_use]
    pub fn nodes(&self) -> Option<&NodeList> {
        self.nodes.as_ref()
    }

    /// The value of a key; `None` if the key is not there.
    ///
    /// # Errors
    /// If the key's owner cannot be reached, or refuses.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        let answer = self.call("GET", key, b"")?;
        match answer.status {
            404 => Ok(None),
            _ => answer.accepted(200).map(|answer| Some(answer.body)),
        }
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// As [`Client::get`]. If the connection broke, the write may have happened, even twice.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ClientError> {
        self.call("PUT", key, value)?.accepted(201).map(drop)
    }

    /// Deletes a key. It is no error if the key is not there.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<(), ClientError> {
        self.call("DELETE", key, b"")?.accepted(202).map(drop)
    }

    /// Sends a request to the owner of a key. The server may have closed the kept connection as
    /// idle; then the request is sent once more, on a new connection. That is safe, because all
    /// methods here are idempotent.
    fn call(&mut self, method: &str, key: &[u8], body: &[u8]) -> Result<Answer, ClientError> {
        let owner = self.nodes.as_ref().map_or(0, |nodes| nodes.owner(key));
        let path = path_of(key);
        let question = HttpRequest { method, body, ..HttpRequest::get(&path) };
        if let Some(mut kept) = self.connections[owner].take() {
            match kept.call(&question) {
                Err(error) if error.is_of_closed_connection() && !kept.has_answered() => {}
                answer => return self.keep(owner, kept, answer?),
            }
        }
        let mut connection = Connection::open(&self.targets[owner], &self.options)?;
        let answer = connection.call(&question)?;
        self.keep(owner, connection, answer)
    }

    /// Keeps a connection for the next request, if the server keeps it open.
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

/// The path of a key.
pub(crate) fn path_of(key: &[u8]) -> String {
    format!("/v0/entity?id={}", encoded(key))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A client of a stub that answers this number of requests on each successive connection, then
    /// closes it. The channel gets the requests that the stub has read.
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
        let client = Client {
            nodes: None,
            targets: vec![Target::parse(&url).unwrap()],
            connections: vec![None],
            options: ClientOptions::default(),
        };
        (client, seen)
    }

    /// Regression: a request after a long pause failed, because its connection was closed as idle.
    #[test]
    fn a_request_on_a_connection_closed_as_idle_is_sent_again() {
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
        assert!(client.get(b"key").is_ok(), "the next request opens a new connection");
    }

    /// Regression: a server that refuses a body closes the connection before it has read all of
    /// it. The refusal was not read, so the error was that of the broken connection, and on a kept
    /// connection the whole body was sent a second time.
    #[test]
    fn a_refusal_of_a_long_body_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = [0; 4_096];
            assert!(socket.read(&mut head).unwrap() > 0);
            let answer = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo long";
            socket.write_all(answer.as_bytes()).unwrap();
        });
        let mut client = Client {
            nodes: None,
            targets: vec![Target::parse(&url).unwrap()],
            connections: vec![None],
            options: ClientOptions::default(),
        };
        let error = client.put(b"key", &vec![0; 32 << 20]).unwrap_err();
        assert!(matches!(error, ClientError::Refused { status: 413, .. }), "{error}");
        assert!(client.connections[0].is_none(), "the rest of the body was not sent");
        server.join().unwrap();
    }

    #[test]
    fn any_key_has_a_path() {
        assert_eq!(path_of(b"a-Z_0.~"), "/v0/entity?id=a-Z_0.~");
        assert_eq!(path_of(b"\n&=\xff %"), "/v0/entity?id=%0A%26%3D%FF%20%25");
    }
}
