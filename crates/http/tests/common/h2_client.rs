//! The HTTP/2 client of the `h2` crate, driven by the test's own thread over a plain socket or TLS.

use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A nonblocking socket with the asynchronous interface that the client needs.
pub(crate) struct Socket<T>(pub(crate) T);

fn polled<V>(result: io::Result<V>) -> Poll<io::Result<V>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl<T: Read + Unpin> AsyncRead for Socket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = vec![0; buffer.remaining()];
        polled(self.0.read(&mut bytes)).map_ok(|count| buffer.put_slice(&bytes[..count]))
    }
}

impl<T: Write + Unpin> AsyncWrite for Socket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        polled(self.0.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        polled(self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls until there is a result. Fails the test if that takes more than a minute.
pub(crate) fn wait<V>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<V>) -> V {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Poll::Ready(value) = poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    panic!("it takes too long");
}

/// A client with its connection.
pub(crate) struct Client<T: Read + Write + Unpin> {
    pub(crate) send: SendRequest<Bytes>,
    pub(crate) connection: Connection<Socket<T>, Bytes>,
}

/// A response and all of its body.
pub(crate) type Answer = (http::response::Parts, Vec<u8>);

impl<T: Read + Write + Unpin> Client<T> {
    pub(crate) fn new(socket: T) -> Client<T> {
        // Answers are taken one after another. With a large window of the connection, a waiting one
        // does not block the others; each stream has its usual window.
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(16 << 20);
        let mut handshake = pin!(builder.handshake(Socket(socket)));
        let (send, connection) = wait(|context| handshake.as_mut().poll(context)).unwrap();
        Client { send, connection }
    }

    /// Polls `poll` and the connection until `poll` is ready.
    pub(crate) fn run<V>(&mut self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<V>) -> V {
        wait(|context| {
            let _ = Pin::new(&mut self.connection).poll(context);
            poll(context)
        })
    }

    /// Returns once the server has ended the connection.
    pub(crate) fn until_closed(self) {
        let Client { send, mut connection } = self;
        drop(send);
        // For this client it is an error if the server closes the socket first.
        let _ = wait(|context| Pin::new(&mut connection).poll(context));
    }

    /// Sends all of `requests` as POST, and then takes the answers.
    pub(crate) fn exchange(
        &mut self,
        requests: &[(&str, &[u8])],
    ) -> Vec<Result<Answer, h2::Error>> {
        self.exchange_with(&[], requests)
    }

    /// Exchanges like [`Client::exchange`], with these headers on each request.
    pub(crate) fn exchange_with(
        &mut self,
        headers: &[(&str, &str)],
        requests: &[(&str, &[u8])],
    ) -> Vec<Result<Answer, h2::Error>> {
        let posts: Vec<_> = requests.iter().map(|(path, body)| ("POST", *path, *body)).collect();
        self.call_all(headers, &posts)
    }

    /// Exchanges like [`Client::exchange_with`], for requests of method, path and body.
    pub(crate) fn call_all(
        &mut self,
        headers: &[(&str, &str)],
        requests: &[(&str, &str, &[u8])],
    ) -> Vec<Result<Answer, h2::Error>> {
        let mut pending = Vec::new();
        for (method, path, body) in requests {
            let mut send = self.send.clone();
            self.run(|context| send.poll_ready(context)).unwrap();
            let uri = format!("http://localhost{path}");
            let request = http::Request::builder().method(*method).uri(uri);
            let request =
                headers.iter().fold(request, |all, (name, value)| all.header(*name, *value));
            let request = request.body(()).unwrap();
            let (response, mut stream) = send.send_request(request, body.is_empty()).unwrap();
            if !body.is_empty() {
                stream.send_data(Bytes::copy_from_slice(body), true).unwrap();
            }
            pending.push(response);
        }
        pending.into_iter().map(|response| self.collect(response)).collect()
    }

    fn collect(&mut self, response: h2::client::ResponseFuture) -> Result<Answer, h2::Error> {
        let mut response = pin!(response);
        let (parts, mut stream) = self.run(|context| response.as_mut().poll(context))?.into_parts();
        let mut body = Vec::new();
        while let Some(data) = self.run(|context| stream.poll_data(context)) {
            let data = data?;
            body.extend_from_slice(&data);
            stream.flow_control().release_capacity(data.len())?;
        }
        Ok((parts, body))
    }
}
