//! Connections that end at every byte: reset, closed, or closed by half, amid a handshake, a
//! request, a body and a response, over HTTP/1.1, HTTP/2 and TLS, while others are served.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, greeting, headers, post,
};
use common::tls_client::{certificates, client_config_for, client_of};
use common::{Running, connect, start_with};
use pellucid_http::Limits;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::SockRef;

/// How a client ends its connection.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Reset,
    Closed,
    /// It sends no more, and takes what comes.
    HalfClosed,
}

const ENDINGS: [Ending; 3] = [Ending::Reset, Ending::Closed, Ending::HalfClosed];

/// A connection that ends once so many bytes were sent, or received.
struct Cut {
    socket: TcpStream,
    left_to_send: usize,
    left_to_receive: usize,
}

impl Cut {
    fn end(self, ending: Ending) {
        let Cut { mut socket, .. } = self;
        match ending {
            Ending::Reset => SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap(),
            Ending::Closed => {}
            Ending::HalfClosed => {
                // Both fail where the server has ended the connection before.
                let _ = socket.shutdown(Shutdown::Write);
                let taken = io::copy(&mut socket, &mut io::sink());
                let is_late = taken.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
                assert!(!is_late, "the server has to end it, too");
            }
        }
    }
}

impl Read for Cut {
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

impl Write for Cut {
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

/// What a client sends, on which kind of connection.
struct Script {
    running: Arc<Running>,
    tls: Option<Arc<ClientConfig>>,
    text: Vec<u8>,
    /// How long it waits for more.
    patience: Duration,
}

impl Script {
    /// Sends so many bytes at most, receives so many, and ends. Returns how many were left of
    /// either.
    fn play(&self, send: usize, receive: usize, ending: Ending) -> (usize, usize) {
        let socket = connect(&self.running);
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(self.patience)).unwrap();
        let mut cut = Cut { socket, left_to_send: send, left_to_receive: receive };
        // It fails where it is cut.
        let _ = match &self.tls {
            None => talk(&mut cut, &self.text),
            Some(config) => {
                let name = ServerName::try_from("localhost").unwrap();
                let session = ClientConnection::new(Arc::clone(config), name).unwrap();
                let mut stream = StreamOwned::new(session, cut);
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

/// Sends the text, and receives until the stream ends or is cut.
fn talk(stream: &mut (impl Read + Write), text: &[u8]) -> io::Result<()> {
    stream.write_all(text)?;
    stream.flush()?;
    io::copy(stream, &mut io::sink()).map(|_| ())
}

/// A body by its length, one in chunks, a request that is handed over, and a stream.
fn text_of_http1() -> Vec<u8> {
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
      POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
      POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\
      GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n"
        .to_vec()
}

/// The same as streams, the last of which is reset.
fn text_of_http2() -> Vec<u8> {
    let end = END_STREAM | END_HEADERS;
    [
        greeting(),
        frame(HEADERS, END_HEADERS, 1, &post("/")),
        frame(DATA, END_STREAM, 1, b"hello"),
        frame(HEADERS, end, 3, &headers("/later")),
        frame(HEADERS, end, 5, &headers("/pieces")),
        frame(HEADERS, end, 7, &headers("/pieces")),
        frame(RST_STREAM, 0, 7, &8_u32.to_be_bytes()),
    ]
    .concat()
}

/// How one of the watched connections is served.
#[derive(Default)]
struct Served {
    count: AtomicUsize,
    /// Its longest wait for an answer since this was last asked for.
    longest_us: AtomicU64,
}

impl Served {
    fn note(&self, begun: Instant) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

/// Connections that ask again and again, all the time.
struct Watched {
    is_over: Arc<AtomicBool>,
    served: Vec<Arc<Served>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Watched {
    fn start(running: &Arc<Running>, tls: bool) -> Watched {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut served, mut threads) = (Vec::new(), Vec::new());
        for is_http2 in [false, true] {
            let (running, is_over) = (Arc::clone(running), Arc::clone(&is_over));
            let count = Arc::new(Served::default());
            served.push(Arc::clone(&count));
            threads.push(std::thread::spawn(move || {
                let protocol = if is_http2 { "h2" } else { "http/1.1" };
                let config = client_config_for("first", rustls::ALL_VERSIONS, &[protocol]);
                match (tls, is_http2) {
                    (false, false) => ask_http1(connect(&running), &is_over, &count),
                    (true, false) => ask_http1(client_of(&running, &config), &is_over, &count),
                    (false, true) => {
                        let socket = connect(&running);
                        socket.set_nonblocking(true).unwrap();
                        ask_http2(socket, &is_over, &count);
                    }
                    (true, true) => {
                        let mut client = client_of(&running, &config);
                        while client.conn.is_handshaking() {
                            client.conn.complete_io(&mut client.sock).unwrap();
                        }
                        client.sock.set_nonblocking(true).unwrap();
                        ask_http2(client, &is_over, &count);
                    }
                }
            }));
        }
        Watched { is_over, served, threads }
    }

    fn counts(&self) -> impl Iterator<Item = usize> {
        self.served.iter().map(|served| served.count.load(Ordering::Relaxed))
    }

    /// The longest wait of any of them since the last call.
    fn take_longest(&self) -> Duration {
        let longest = self.served.iter().map(|served| served.longest_us.swap(0, Ordering::Relaxed));
        Duration::from_micros(longest.max().unwrap_or(0))
    }

    /// Returns once each was served some more.
    fn await_served(&self) {
        let before: Vec<_> = self.counts().collect();
        let are_served = || self.counts().zip(&before).all(|(now, before)| now > before + 2);
        common::await_that(are_served, || "a watched connection is not served".to_owned());
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn ask_http1(mut stream: impl Read + Write, is_over: &AtomicBool, served: &Served) {
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let text = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nwatched";
        stream.write_all(text).unwrap();
        stream.flush().unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nwatched") {
            let mut piece = [0; 256];
            let received = stream.read(&mut piece).unwrap();
            assert!(received > 0, "a watched connection was ended");
            answer.extend_from_slice(&piece[..received]);
        }
        served.note(begun);
    }
}

fn ask_http2(stream: impl Read + Write + Unpin, is_over: &AtomicBool, served: &Served) {
    let mut client = common::h2_client::Client::new(stream);
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let (_, body) = client.exchange(&[("/", b"watched")]).remove(0).unwrap();
        assert_eq!(body, b"watched");
        served.note(begun);
    }
}

/// Ends connections after every byte that is sent, and after some that are received.
fn end_everywhere(tls: bool, protocol: &str) {
    let limits = Limits { idle: Duration::from_secs(600), ..Limits::default() };
    let running = Arc::new(start_with(limits, tls.then(|| certificates("first"))));
    let watched = Watched::start(&running, tls);
    let script = Script {
        running: Arc::clone(&running),
        tls: tls.then(|| client_config_for("first", rustls::ALL_VERSIONS, &[protocol])),
        text: if protocol == "h2" { text_of_http2() } else { text_of_http1() },
        patience: Duration::from_secs(60),
    };
    for ending in ENDINGS {
        let (mut send, mut is_whole) = (0, false);
        while !is_whole {
            // What is received decides how much a client of TLS sends, so that is not limited here.
            let receive = if tls { 4_096 } else { 0 };
            is_whole = script.play(send, receive, ending).0 > 0;
            send += 1;
        }
        assert!(send > script.text.len(), "{send}");
        watched.await_served();
        let first = if tls { 4_000..4_010 } else { 0..200 };
        // Streams of HTTP/2 have only the window that they begin with.
        let most = if protocol == "h2" { 50_000 } else { 1_000_000 };
        for receive in first.chain([20_000, most / 2, most]) {
            assert_eq!(script.play(usize::MAX, receive, ending).1, 0, "there is more to receive");
        }
        watched.await_served();
    }
    watched.end();
    running.until("nothing is left", |stats| {
        stats.connections_open == 0 && stats.requests_in_flight == 0 && stats.body_bytes == 0
    });
}

#[test]
fn resets_at_every_byte_of_http_1_hold_nobody_up() {
    end_everywhere(false, "http/1.1");
}

#[test]
fn resets_at_every_byte_of_http_2_hold_nobody_up() {
    end_everywhere(false, "h2");
}

#[test]
fn resets_at_every_byte_of_http_1_in_tls_hold_nobody_up() {
    end_everywhere(true, "http/1.1");
}

#[test]
fn resets_at_every_byte_of_http_2_in_tls_hold_nobody_up() {
    end_everywhere(true, "h2");
}

/// The loop's buffer went with the connection, and nobody else was served from then on; in TLS the
/// process ended.
#[test]
fn a_reset_behind_the_preface_takes_nothing_with_it() {
    for tls in [false, true] {
        let running = Arc::new(start_with(Limits::default(), tls.then(|| certificates("first"))));
        let script = Script {
            running: Arc::clone(&running),
            tls: tls.then(|| client_config_for("first", rustls::ALL_VERSIONS, &["h2"])),
            text: greeting(),
            patience: Duration::from_millis(20),
        };
        for _ in 0..50 {
            // Once all is there that the server has to say, so that the connection speaks HTTP/2.
            script.play(usize::MAX, usize::MAX, Ending::Reset);
        }
        let watched = Watched::start(&running, tls);
        watched.await_served();
        watched.end();
    }
}

/// Seconds of the soak, unless the environment says otherwise.
const SOAK_SECONDS: u64 = 3;
/// A watched connection that waits for longer was forgotten, however busy the machine is.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Numbers without a pattern, the same ones each time (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Connections of all kinds end anyhow and anywhere, beside eight that are watched. For an hour:
/// `make soak-resets`, which says what the eight waited for at most, and what they do without that.
#[test]
fn resets_at_random_hold_nobody_up() {
    let seconds = std::env::var("PELLUCID_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(SOAK_SECONDS));
    let servers = [false, true]
        .map(|tls| Arc::new(start_with(Limits::default(), tls.then(|| certificates("first")))));
    let watched: Vec<_> = [false, true, false, true]
        .map(|tls| Watched::start(&servers[usize::from(tls)], tls))
        .into_iter()
        .collect();
    let longest = || watched.iter().map(Watched::take_longest).max().unwrap_or_default();
    watched.iter().for_each(Watched::await_served);
    longest();
    std::thread::sleep(time.min(Duration::from_secs(30)));
    let idle = longest();
    let mut scripts = Vec::new();
    for (tls, protocol) in [(false, "h1"), (false, "h2"), (true, "http/1.1"), (true, "h2")] {
        scripts.push(Script {
            running: Arc::clone(&servers[usize::from(tls)]),
            tls: tls.then(|| client_config_for("first", rustls::ALL_VERSIONS, &[protocol])),
            text: if protocol == "h2" { text_of_http2() } else { text_of_http1() },
            // Who half closes takes what comes, which is more than the window in HTTP/2.
            patience: Duration::from_secs(60),
        });
    }
    let (begun, mut random, mut ended) = (Instant::now(), Random(0x9e37_79b9_7f4a_7c15), 0_u64);
    while begun.elapsed() < time {
        let script = &scripts[random.below(4)];
        let ending = ENDINGS[random.below(3)];
        let (send, receive) = match random.below(2) {
            0 => (random.below(script.text.len() + 1_200), random.below(4_096)),
            _ => (usize::MAX, random.below(50_000)),
        };
        // Where all is sent, what is received is what ends it.
        script.play(send, receive, ending);
        ended += 1;
    }
    watched.iter().for_each(Watched::await_served);
    let waited = longest();
    println!("{ended} connections ended; the longest wait: {waited:?}, and {idle:?} without them");
    assert!(ended > 0 && waited < WAIT_MAX, "{waited:?}");
    watched.into_iter().for_each(Watched::end);
    for running in &servers {
        running.until("nothing is left", |stats| {
            stats.connections_open == 0 && stats.requests_in_flight == 0 && stats.body_bytes == 0
        });
    }
}
