//! Connections that end amid a handshake, a request, a body or a response; and connections beside
//! them, whose response times are measured.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::SockRef;

use super::h2_client;

/// Time after which a read of a connection fails.
const READ_MAX: Duration = Duration::from_secs(60);
/// Pause of a watched connection between two requests.
const WATCH_PAUSE: Duration = Duration::from_millis(2);

/// A client's way to end its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DisconnectKind {
    Reset,
    Closed,
    /// The client closes its sending side, and reads until the end.
    HalfClosed,
}

pub(crate) const ENDINGS: [DisconnectKind; 3] =
    [DisconnectKind::Reset, DisconnectKind::Closed, DisconnectKind::HalfClosed];

/// A connection whose reads or writes fail once a number of bytes was received or sent.
struct LimitedStream {
    socket: TcpStream,
    left_to_send: usize,
    left_to_receive: usize,
}

impl LimitedStream {
    fn end(self, ending: DisconnectKind) {
        let LimitedStream { mut socket, .. } = self;
        match ending {
            DisconnectKind::Reset => {
                SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap()
            }
            DisconnectKind::Closed => {}
            DisconnectKind::HalfClosed => {
                // Both fail if the server has ended the connection before.
                let _ = socket.shutdown(Shutdown::Write);
                let taken = io::copy(&mut socket, &mut io::sink());
                let is_late = taken.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
                assert!(!is_late, "the server has to end it, too");
            }
        }
    }
}

impl Read for LimitedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(self.left_to_receive);
        if room == 0 {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let count = self.socket.read(&mut buffer[..room])?;
        self.left_to_receive -= count;
        Ok(count)
    }
}

impl Write for LimitedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.left_to_send);
        if count == 0 {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let count = self.socket.write(&bytes[..count])?;
        self.left_to_send -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes that a client sends, and the kind of its connection.
pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) text: Vec<u8>,
    /// The timeout of its reads.
    pub(crate) patience: Duration,
}

impl Script {
    /// Sends at most `send` bytes, receives at most `receive` bytes, and ends the connection.
    /// Returns how many of each were left.
    pub(crate) fn play(
        &self,
        send: usize,
        receive: usize,
        ending: DisconnectKind,
    ) -> (usize, usize) {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(self.patience)).unwrap();
        let mut cut = LimitedStream { socket, left_to_send: send, left_to_receive: receive };
        // An error is the planned cut.
        let _ = match &self.tls {
            None => talk(&mut cut, &self.text),
            Some(config) => {
                let mut stream = StreamOwned::new(session(config), cut);
                let done = talk(&mut stream, &self.text);
                cut = stream.sock;
                done
            }
        };
        let left = (cut.left_to_send, cut.left_to_receive);
        cut.end(ending);
        left
    }
}

fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

/// Sends the text, and receives until the stream ends or is cut.
fn talk(stream: &mut (impl Read + Write), text: &[u8]) -> io::Result<()> {
    stream.write_all(text)?;
    stream.flush()?;
    io::copy(stream, &mut io::sink()).map(|_| ())
}

/// A function that makes the client's TLS configuration for an ALPN protocol.
pub(crate) type TlsConfig = fn(&str) -> Arc<ClientConfig>;

/// A request of a watched connection, and the body of its response.
#[derive(Clone, Copy)]
pub(crate) struct ProbeRequest {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: &'static str,
    pub(crate) answer: &'static str,
}

/// Counts of the responses to one watched connection.
#[derive(Default)]
struct ResponseCounts {
    count: AtomicUsize,
    /// The longest response time since [`ConnectionProbe::take_longest`] was last called.
    longest_us: AtomicU64,
}

impl ResponseCounts {
    fn note(&self, begun: Instant) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        std::thread::sleep(WATCH_PAUSE);
    }
}

/// Two connections, of HTTP/1.1 and HTTP/2, that ask the same questions again and again.
pub(crate) struct ConnectionProbe {
    is_over: Arc<AtomicBool>,
    served: Vec<Arc<ResponseCounts>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl ConnectionProbe {
    /// Watches a server, with TLS if `tls` is given.
    pub(crate) fn start(
        address: SocketAddr,
        tls: Option<TlsConfig>,
        questions: &'static [ProbeRequest],
    ) -> ConnectionProbe {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut served, mut threads) = (Vec::new(), Vec::new());
        for protocol in ["http/1.1", "h2"] {
            let config = tls.map(|config| config(protocol));
            let (is_over, count) = (Arc::clone(&is_over), Arc::new(ResponseCounts::default()));
            served.push(Arc::clone(&count));
            threads.push(std::thread::spawn(move || {
                let socket = TcpStream::connect(address).unwrap();
                socket.set_nodelay(true).unwrap();
                socket.set_read_timeout(Some(READ_MAX)).unwrap();
                match (config, protocol) {
                    (None, "h2") => {
                        socket.set_nonblocking(true).unwrap();
                        ask_http2(socket, questions, &is_over, &count);
                    }
                    (None, _) => ask_http1(socket, questions, &is_over, &count),
                    (Some(config), _) => {
                        let mut client = StreamOwned::new(session(&config), socket);
                        while client.conn.is_handshaking() {
                            client.conn.complete_io(&mut client.sock).unwrap();
                        }
                        if protocol == "h2" {
                            client.sock.set_nonblocking(true).unwrap();
                            ask_http2(client, questions, &is_over, &count);
                        } else {
                            ask_http1(client, questions, &is_over, &count);
                        }
                    }
                }
            }));
        }
        ConnectionProbe { is_over, served, threads }
    }

    fn counts(&self) -> impl Iterator<Item = usize> {
        self.served.iter().map(|served| served.count.load(Ordering::Relaxed))
    }

    /// The longest response time of both connections since the last call.
    pub(crate) fn take_longest(&self) -> Duration {
        let longest = self.served.iter().map(|served| served.longest_us.swap(0, Ordering::Relaxed));
        Duration::from_micros(longest.max().unwrap_or(0))
    }

    /// Returns once both connections were served some more. Fails the test if that takes more than
    /// a minute.
    pub(crate) fn await_served(&self) {
        let before: Vec<_> = self.counts().collect();
        let begun = Instant::now();
        while !self.counts().zip(&before).all(|(now, before)| now > before + 2) {
            assert!(begun.elapsed() < READ_MAX, "a watched connection is not served");
            std::thread::sleep(WATCH_PAUSE);
        }
    }

    /// Ends both, and returns how many responses they got.
    pub(crate) fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let count = self.counts().sum();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        count
    }
}

fn ask_http1(
    mut stream: impl Read + Write,
    questions: &[ProbeRequest],
    is_over: &AtomicBool,
    served: &ResponseCounts,
) {
    for ProbeRequest { method, path, body, answer } in questions.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let begun = Instant::now();
        stream.write_all(text.as_bytes()).unwrap();
        stream.flush().unwrap();
        let mut response = Vec::new();
        while !is_whole(&response) {
            let mut piece = [0; 1024];
            let received = stream.read(&mut piece).unwrap();
            assert!(received > 0, "a watched connection was ended");
            response.extend_from_slice(&piece[..received]);
        }
        served.note(begun);
        let response = String::from_utf8_lossy(&response);
        assert!(response.starts_with("HTTP/1.1 2") && response.ends_with(answer), "{response}");
    }
}

/// True if the response has a complete head, and as many bytes of a body as the head announces.
fn is_whole(response: &[u8]) -> bool {
    let text = String::from_utf8_lossy(response);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.lines().next());
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

fn ask_http2(
    stream: impl Read + Write + Unpin,
    questions: &[ProbeRequest],
    is_over: &AtomicBool,
    served: &ResponseCounts,
) {
    let mut client = h2_client::Client::new(stream);
    for ProbeRequest { method, path, body, answer } in questions.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let begun = Instant::now();
        let mut responses = client.call_all(&[], &[(method, path, body.as_bytes())]);
        let (head, body) = responses.remove(0).unwrap();
        served.note(begun);
        assert!(head.status.is_success(), "{head:?}");
        assert_eq!(String::from_utf8_lossy(&body), *answer);
    }
}
