//! A service made for the tests of the transport, and a server around it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod endings;
pub(crate) mod frames;
pub(crate) mod h2_client;
pub(crate) mod tls_client;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use pellucid_account::{Account, Accounting, Names, Record, RequestFacts, Stamp, Timeline};
use pellucid_budget::Budget;
use pellucid_clock::Clock;
use pellucid_http::{
    AbortReason, Admission, AdmissionContext, BodySource, Certificates, Denial, DisconnectFigures,
    Endpoint, Exchange, FillResult, Head, Limits, LinkContext, ListenAddress, Listener, Refusal,
    Request, Response, Server, ServerStats, Service, ServiceResult, Ticket, listen,
};
use pellucid_thread::ContainedPanic;
use socket2::{Domain, SockRef, Socket, Type};

const NAMES: Names = Names {
    operations: &["echo", "refused"],
    outcomes: &["ok", "client_gone", "cut", "timed_out", "failed"],
    parts: &["nothing"],
    other_parts: &[],
};

/// Gates at which `/held` holds its event loop, by the number in its body. The states are: nobody
/// there (0), a loop waits, and open. No two tests of a binary may use the same gate.
static GATES: [AtomicU8; 18] = [const { AtomicU8::new(0) }; 18];
const WAITS: u8 = 1;
const OPEN: u8 = 2;

/// The kernel's buffers on both sides of a narrow connection: bytes in them do not count as waiting
/// for the client.
const KERNEL_BYTES: usize = 4 * 1024;
/// Bytes of the response of `/large`, and of the memory that the source of `/held-pieces` holds.
pub(crate) const LARGE_BYTES: usize = 1_000_000;
/// Time for a stop to begin.
const STOP_BEGINS: Duration = Duration::from_millis(50);
/// The time for which `/slow-large` executes before it responds like `/large`.
pub(crate) const SLOW_LARGE: Duration = Duration::from_millis(50);
/// The limit of the bodies of the test's account.
pub(crate) const ACCOUNT_BYTES: usize = 300_000;
static ACCOUNT: LazyLock<Budget> = LazyLock::new(|| Budget::new(ACCOUNT_BYTES));

/// Returns once a loop waits at the gate.
pub(crate) fn await_held(gate: usize) {
    await_gate(gate, WAITS);
}

/// Returns once `is_so` is true. Fails the test after a minute, which is longer than most time
/// limits of connections; `what` describes the failure.
pub(crate) fn await_that(is_so: impl Fn() -> bool, what: impl Fn() -> String) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not so: {}", what());
}

/// Opens the gate.
pub(crate) fn release(gate: usize) {
    GATES[gate].store(OPEN, Ordering::Release);
}

fn await_gate(gate: usize, state: u8) {
    let is_so = || GATES[gate].load(Ordering::Acquire) == state;
    await_that(is_so, || format!("gate {gate} is in state {state}"));
}

/// Stops a server while a request of `/held-later` waits at the gate, which opens once the stop has
/// had time to begin.
pub(crate) fn stop_beside(server: Server<Vec<u8>>, gate: usize) {
    await_held(gate);
    let stop = std::thread::spawn(move || server.stop().unwrap());
    std::thread::sleep(STOP_BEGINS);
    release(gate);
    stop.join().unwrap();
}

/// Blocks its caller until the gate is open.
fn hold(gate: &[u8]) {
    let gate = number_in(gate);
    GATES[gate].store(WAITS, Ordering::Release);
    await_gate(gate, OPEN);
}

/// The counts of clients of `/watched` that are gone, by the number in the body.
static GONE: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// The count of clients that are gone and sent this number to `/watched`.
pub(crate) fn gone(number: usize) -> usize {
    GONE[number].load(Ordering::Acquire)
}

fn number_in(body: &[u8]) -> usize {
    std::str::from_utf8(body).unwrap().parse().unwrap()
}

/// A service that echoes the body of each request. The path selects the way:
///
/// - `/slow` blocks its event loop for a while, `/held` until its gate is opened.
/// - `/later` answers from another thread, `/held-later` once its gate is opened, and `/watched`
///   when its client is gone.
/// - `/pieces` and `/endless` stream a body; `/waiting` streams one that never has a piece.
/// - `/put-by` answers when links are settled, with the number of requests that waited for that;
///   `/held-put-by` does so too, after it was held at its gate.
#[derive(Default)]
struct Echo {
    put_by: Vec<Ticket>,
}

struct Pieces {
    left: usize,
    broken: bool,
    held_bytes: usize,
}

impl BodySource for Pieces {
    fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        self.left -= 1;
        out.extend(std::iter::repeat_n(b'a' + (self.left % 26) as u8, 50_000));
        match (self.left, self.broken) {
            (0, true) => FillResult::Broken,
            (0, false) => FillResult::Last,
            _ => FillResult::More,
        }
    }
}

/// The value of a hand-over that makes its resumption panic.
const PANIC: &[u8] = b"panic";
/// The number of panics that services were told of.
pub(crate) static PANICKED: AtomicUsize = AtomicUsize::new(0);

struct PanickingBody;

impl BodySource for PanickingBody {
    fn fill(&mut self, _out: &mut Vec<u8>) -> FillResult {
        panic!("on purpose, in a body")
    }
}

/// A body that never has a piece.
struct WaitingBody;

impl BodySource for WaitingBody {
    fn fill(&mut self, _out: &mut Vec<u8>) -> FillResult {
        FillResult::Waiting
    }
}

/// The body that a path streams; `None` for any other path.
fn source_of(path: &str) -> Option<Box<dyn BodySource>> {
    let pieces = |left, broken, held_bytes| Box::new(Pieces { left, broken, held_bytes });
    let source: Box<dyn BodySource> = match path {
        "/pieces" | "/broken" => pieces(40, path == "/broken", 0),
        "/held-pieces" => pieces(40, false, LARGE_BYTES),
        "/endless" => pieces(usize::MAX, true, 0),
        "/waiting" => Box::new(WaitingBody),
        "/panic-body" => Box::new(PanickingBody),
        _ => return None,
    };
    Some(source)
}

impl Service for Echo {
    type LoopMessage = Vec<u8>;

    fn body_bytes_max(&self, _method: &str, _path: &str, _query: Option<&str>) -> usize {
        1_000_000
    }

    /// Decides by the header `x-admit`: `no` refuses; `account` grants with the budget of an
    /// account; `later` and `not-later` let another thread grant or refuse once a gate is open.
    fn admit(
        &mut self,
        head: &Head<'_, '_>,
        applicant: &AdmissionContext<'_, Vec<u8>>,
    ) -> Admission {
        let header = head.headers.iter().find(|header| header.name == "x-admit");
        let value = header.map_or("", |header| std::str::from_utf8(header.value).unwrap());
        let denial = Denial { challenges: &[b"Basic"], body: None };
        let (how, gate) = value.split_once(' ').unwrap_or((value, ""));
        let (gate, judge) = (gate.to_owned(), applicant.judge());
        let later = |admission| {
            std::thread::spawn(move || {
                hold(gate.as_bytes());
                judge.decide(admission);
            });
            Admission::Pending
        };
        match how {
            "no" => Admission::Refused(Refusal::Unauthorized(denial)),
            "account" => Admission::Granted(Some(ACCOUNT.clone())),
            "later" => later(Admission::Granted(None)),
            "not-later" => later(Admission::Refused(Refusal::Unauthorized(denial))),
            _ => Admission::Granted(None),
        }
    }

    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Exchange<'_, Vec<u8>>,
    ) -> ServiceResult {
        for stamp in [Stamp::Routed, Stamp::Started] {
            exchange.timeline.stamp(stamp);
        }
        if request.path == "/slow-large" {
            std::thread::sleep(SLOW_LARGE);
        }
        exchange.timeline.stamp(Stamp::Executed);
        if let Some(source) = source_of(request.path) {
            response.status(200).finish_streamed(None);
            return ServiceResult::Stream(source);
        }
        match request.path {
            "/later" => {
                let (completer, body) = (exchange.completer(), request.body.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    completer.complete(body);
                });
                ServiceResult::Later
            }
            "/held-later" => {
                let (completer, body) = (exchange.completer(), request.body.to_vec());
                std::thread::spawn(move || {
                    hold(&body);
                    completer.complete(body);
                });
                ServiceResult::Later
            }
            "/watched" => {
                let (completer, number) = (exchange.completer(), number_in(request.body));
                exchange.client_watch().when_gone(move || {
                    completer.complete(b"gone".to_vec());
                    GONE[number].fetch_add(1, Ordering::Release);
                });
                ServiceResult::Later
            }
            "/slow" => {
                std::thread::sleep(Duration::from_millis(100));
                response.status(200).finish(request.body);
                ServiceResult::Done
            }
            "/held" => {
                hold(request.body);
                response.status(200).finish(request.body);
                ServiceResult::Done
            }
            "/put-by" | "/held-put-by" => {
                if request.path == "/held-put-by" {
                    hold(request.body);
                }
                self.put_by.push(exchange.ticket());
                ServiceResult::Later
            }
            "/large" | "/slow-large" => {
                response.status(200).finish(&vec![b'x'; LARGE_BYTES]);
                ServiceResult::Done
            }
            "/panic" => {
                response.status(200).header("X-Begun", b"as if all were well");
                panic!("on purpose, with half of a response")
            }
            "/panic-taken" => {
                let completer = exchange.completer();
                std::thread::spawn(move || completer.complete(b"nobody waits".to_vec()));
                panic!("on purpose, handed over all the same")
            }
            "/panic-dropped" => {
                let _completer = exchange.completer();
                panic!("on purpose, with what would bring it back")
            }
            "/panic-later" => {
                let completer = exchange.completer();
                std::thread::spawn(move || {
                    let _completer = completer;
                    std::thread::sleep(Duration::from_millis(20));
                    panic!("on purpose, on another thread")
                });
                ServiceResult::Later
            }
            "/panic-resumed" => {
                let completer = exchange.completer();
                std::thread::spawn(move || completer.complete(PANIC.to_vec()));
                ServiceResult::Later
            }
            _ => {
                response.status(200).finish(request.body);
                ServiceResult::Done
            }
        }
    }

    fn panicked(
        &mut self,
        panicked: Option<&ContainedPanic>,
        _timeline: &Timeline,
        facts: &RequestFacts,
    ) {
        assert_eq!(facts.operation, 0, "what was routed is known");
        assert!(panicked.is_none_or(|panicked| panicked.to_string().contains("on purpose")));
        PANICKED.fetch_add(1, Ordering::AcqRel);
    }

    fn resume(
        &mut self,
        later: Vec<u8>,
        response: &mut Response<'_>,
        _exchange: &mut Exchange<'_, Vec<u8>>,
    ) -> ServiceResult {
        assert_ne!(later, PANIC, "on purpose, coming back");
        response.status(202).finish(&later);
        ServiceResult::Done
    }

    fn has_to_settle(&self) -> bool {
        !self.put_by.is_empty()
    }

    fn settle(&mut self, turn: &mut LinkContext<'_, Vec<u8>>) -> bool {
        let count = format!("{} together", self.put_by.len());
        for ticket in self.put_by.drain(..) {
            turn.complete(ticket, count.clone().into_bytes());
        }
        false
    }

    fn outcome_of(&self, ending: AbortReason) -> u8 {
        1 + ending as u8
    }

    fn facts_of_refusal(&self, _refusal: &Refusal) -> RequestFacts {
        RequestFacts { operation: 1, ..RequestFacts::default() }
    }
}

pub(crate) struct TestServer {
    pub(crate) server: Option<Server<Vec<u8>>>,
    pub(crate) account: Account,
    pub(crate) address: SocketAddr,
}

impl TestServer {
    /// The transport's figures now.
    pub(crate) fn stats(&self) -> ServerStats {
        self.server.as_ref().unwrap().gauge().stats()
    }

    /// The counts of refused and cut connections until now.
    pub(crate) fn cuts(&self) -> DisconnectFigures {
        self.stats().cuts
    }

    /// The records of the first `count` requests, in order; fails if there are more.
    pub(crate) fn records(&self, count: usize) -> Vec<Record> {
        let recent = || self.account.recent(600, 1_000).records;
        await_that(|| recent().len() >= count, || format!("{} of {count}", recent().len()));
        let mut records = recent();
        assert_eq!(records.len(), count);
        records.sort_by_key(|record| record.facts.request);
        records
    }

    /// Returns once no connection, no request in flight and no body is left.
    pub(crate) fn until_nothing_is_left(&self) {
        self.until("nothing is left", |stats| {
            stats.connections_open == 0 && stats.requests_in_flight == 0 && stats.body_bytes == 0
        });
    }

    /// Returns once `is_so` is true for the figures; `what` describes a failure.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&ServerStats) -> bool) {
        await_that(|| is_so(&self.stats()), || format!("{what}: {:?}", self.stats()));
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
    }
}

pub(crate) fn start(limits: Limits) -> TestServer {
    start_with(limits, None)
}

/// Starts a server like [`start`], and connects to it.
pub(crate) fn start_connected(limits: Limits) -> (TestServer, TcpStream) {
    let running = start(limits);
    let socket = connect(&running);
    (running, socket)
}

pub(crate) fn start_with(limits: Limits, certificates: Option<Arc<Certificates>>) -> TestServer {
    try_start(vec![listener()], limits, certificates, 2).unwrap()
}

/// Starts a server with one event loop.
pub(crate) fn start_single(limits: Limits) -> TestServer {
    try_start(vec![listener()], limits, None, 1).unwrap()
}

/// Starts a server of whose responses the kernel holds only a few bytes.
pub(crate) fn start_narrow(limits: Limits, certificates: Option<Arc<Certificates>>) -> TestServer {
    let socket = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    SockRef::from(&socket).set_send_buffer_size(KERNEL_BYTES).unwrap();
    try_start(vec![Listener::over_tcp(socket).unwrap()], limits, certificates, 2).unwrap()
}

/// A listener on a free port.
pub(crate) fn listener() -> Listener {
    Listener::open(&ListenAddress::Tcp("127.0.0.1:0".parse().unwrap()), 0).unwrap()
}

/// Starts a server; an error if the system lacks resources.
pub(crate) fn try_start(
    listeners: Vec<Listener>,
    limits: Limits,
    certificates: Option<Arc<Certificates>>,
    loops: usize,
) -> io::Result<TestServer> {
    let endpoint = Endpoint { listeners, limits, certificates };
    let account = Account::new(Accounting::Full, Clock::system(), NAMES);
    let server = Server::start(endpoint, &account, loops, |_| Echo::default())?;
    let address = server.addresses()[0].tcp().unwrap();
    Ok(TestServer { server: Some(server), account, address })
}

/// A POST request in HTTP/1.1, with additional header lines.
pub(crate) fn request(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
}

/// Sends bytes, and returns all that comes until the connection ends.
pub(crate) fn answers(mut socket: impl Read + Write, sent: impl AsRef<[u8]>) -> String {
    socket.write_all(sent.as_ref()).unwrap();
    rest(socket)
}

/// Reads all that comes until the connection ends.
pub(crate) fn rest(mut socket: impl Read) -> String {
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    String::from_utf8_lossy(&rest).into_owned()
}

/// Reads until all that has come ends with `end`.
pub(crate) fn read_to(mut socket: impl Read, end: &str) -> String {
    let (mut read, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    while !read.ends_with(end.as_bytes()) {
        let count = socket.read(&mut piece).unwrap();
        assert!(count > 0, "closed after {:.200}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(read).unwrap()
}

/// Reads the beginning of the next answer, and returns its status.
pub(crate) fn status(socket: &mut impl Read) -> String {
    let mut begin = [0; 12];
    socket.read_exact(&mut begin).unwrap();
    assert!(begin.starts_with(b"HTTP/1.1 "), "{begin:?}");
    String::from_utf8_lossy(&begin[9..]).into_owned()
}

/// An HTTP/2 client, connected to the server.
pub(crate) fn client_of_http2(running: &TestServer) -> h2_client::Client<TcpStream> {
    let socket = connect(running);
    socket.set_nonblocking(true).unwrap();
    h2_client::Client::new(socket)
}

pub(crate) fn connect(running: &TestServer) -> TcpStream {
    connect_by(running, new_socket())
}

/// A connection of which the kernel holds only a few received bytes.
pub(crate) fn connect_narrow(running: &TestServer) -> TcpStream {
    let socket = new_socket();
    socket.set_recv_buffer_size(KERNEL_BYTES).unwrap();
    connect_by(running, socket)
}

/// A connection from another address than those of [`connect`].
pub(crate) fn connect_from_elsewhere(running: &TestServer) -> TcpStream {
    let socket = new_socket();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    connect_by(running, socket)
}

fn new_socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

fn connect_by(running: &TestServer, socket: Socket) -> TcpStream {
    socket.connect(&running.address.into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.into()
}
