//! A service made for the tests of the transport, and a server around it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod h2_client;
pub(crate) mod tls_client;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use pellucid_account::{Account, Accounting, Names, RequestFacts, Stamp, Timeline};
use pellucid_clock::Clock;
use pellucid_http::{
    BodySource, Certificates, CutFigures, Endpoint, Exchange, Filled, Handled, Head, Limits,
    LinkTurn, Refusal, Request, Response, Server, Service, Ticket, listen,
};
use pellucid_thread::Panicked;

const NAMES: Names = Names {
    operations: &["echo", "refused"],
    outcomes: &["ok"],
    parts: &["nothing"],
    other_parts: &[],
};

/// Gates at which `/held` holds up its event loop, by the number that is its body: nobody there,
/// somebody waits, open.
static GATES: [AtomicU8; 7] = [const { AtomicU8::new(0) }; 7];
const WAITS: u8 = 1;
const OPEN: u8 = 2;

/// Returns once somebody waits at the gate.
pub(crate) fn await_held(gate: usize) {
    await_gate(gate, WAITS);
}

/// Opens the gate.
pub(crate) fn release(gate: usize) {
    GATES[gate].store(OPEN, Ordering::Release);
}

fn await_gate(gate: usize, state: u8) {
    while GATES[gate].load(Ordering::Acquire) != state {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Holds up its caller until the gate is open.
fn hold(gate: &[u8]) {
    let gate: usize = std::str::from_utf8(gate).unwrap().parse().unwrap();
    GATES[gate].store(WAITS, Ordering::Release);
    await_gate(gate, OPEN);
}

/// Answers with what it was sent: at once, after having held up its event loop (`/slow` for a
/// while, `/held` until it is released), from another thread (`/later`), or in pieces (`/pieces`,
/// `/endless`); or, when links are settled, with how many were put by for that (`/put-by`, and
/// `/held-put-by`, which is held before).
#[derive(Default)]
struct Echo {
    put_by: Vec<Ticket>,
}

struct Pieces {
    left: usize,
    broken: bool,
}

impl BodySource for Pieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        self.left -= 1;
        out.extend(std::iter::repeat_n(b'a' + (self.left % 26) as u8, 50_000));
        match (self.left, self.broken) {
            (0, true) => Filled::Broken,
            (0, false) => Filled::Last,
            _ => Filled::More,
        }
    }
}

/// What a hand-over brings back that makes its resumption panic.
const PANIC: &[u8] = b"panic";
/// Panics that services were told of.
pub(crate) static PANICKED: AtomicUsize = AtomicUsize::new(0);

struct Panicking;

impl BodySource for Panicking {
    fn fill(&mut self, _out: &mut Vec<u8>) -> Filled {
        panic!("on purpose, in a body")
    }
}

impl Service for Echo {
    type Later = Vec<u8>;

    fn body_bytes_max(&self, _head: &Head<'_, '_>) -> usize {
        1_000_000
    }

    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Exchange<'_, Vec<u8>>,
    ) -> Handled {
        for stamp in [Stamp::Routed, Stamp::Started, Stamp::Executed] {
            exchange.timeline.stamp(stamp);
        }
        match request.path {
            "/later" => {
                let (completer, body) = (exchange.completer(), request.body.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    completer.complete(body);
                });
                Handled::Later
            }
            "/slow" => {
                std::thread::sleep(Duration::from_millis(100));
                response.status(200).finish(request.body);
                Handled::Done
            }
            "/held" => {
                hold(request.body);
                response.status(200).finish(request.body);
                Handled::Done
            }
            "/put-by" | "/held-put-by" => {
                if request.path == "/held-put-by" {
                    hold(request.body);
                }
                self.put_by.push(exchange.ticket());
                Handled::Later
            }
            "/pieces" | "/broken" => {
                response.status(200).finish_streamed(None);
                let broken = request.path == "/broken";
                Handled::Stream(Box::new(Pieces { left: 40, broken }))
            }
            "/endless" => {
                response.status(200).finish_streamed(None);
                Handled::Stream(Box::new(Pieces { left: usize::MAX, broken: true }))
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
                Handled::Later
            }
            "/panic-resumed" => {
                let completer = exchange.completer();
                std::thread::spawn(move || completer.complete(PANIC.to_vec()));
                Handled::Later
            }
            "/panic-body" => {
                response.status(200).finish_streamed(None);
                Handled::Stream(Box::new(Panicking))
            }
            _ => {
                response.status(200).finish(request.body);
                Handled::Done
            }
        }
    }

    fn panicked(
        &mut self,
        panicked: Option<&Panicked>,
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
    ) -> Handled {
        assert_ne!(later, PANIC, "on purpose, coming back");
        response.status(202).finish(&later);
        Handled::Done
    }

    fn has_to_settle(&self) -> bool {
        !self.put_by.is_empty()
    }

    fn settle(&mut self, turn: &mut LinkTurn<'_, Vec<u8>>) -> bool {
        let count = format!("{} together", self.put_by.len());
        for ticket in self.put_by.drain(..) {
            turn.complete(ticket, count.clone().into_bytes());
        }
        false
    }

    fn facts_of_refusal(&self, _refusal: &Refusal) -> RequestFacts {
        RequestFacts { operation: 1, ..RequestFacts::default() }
    }
}

pub(crate) struct Running {
    pub(crate) server: Option<Server<Vec<u8>>>,
    pub(crate) account: Account,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// What was refused or cut until now.
    pub(crate) fn cuts(&self) -> CutFigures {
        self.server.as_ref().unwrap().gauge().stats().cuts
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
    }
}

pub(crate) fn start(limits: Limits) -> Running {
    start_with(limits, None)
}

pub(crate) fn start_with(limits: Limits, certificates: Option<Arc<Certificates>>) -> Running {
    start_at(listener(), limits, certificates)
}

/// A socket to serve at.
pub(crate) fn listener() -> TcpListener {
    listen("127.0.0.1:0".parse().unwrap()).unwrap()
}

pub(crate) fn start_at(
    listener: TcpListener,
    limits: Limits,
    certificates: Option<Arc<Certificates>>,
) -> Running {
    start_endpoint(Endpoint { listener, limits, certificates }, 2)
}

/// One event loop for all connections.
pub(crate) fn start_single() -> Running {
    let (listener, limits) = (listener(), Limits::default());
    start_endpoint(Endpoint { listener, limits, certificates: None }, 1)
}

fn start_endpoint(endpoint: Endpoint, loops: usize) -> Running {
    let account = Account::new(Accounting::Full, Clock::system(), NAMES);
    let server = Server::start(endpoint, &account, loops, |_| Echo::default()).unwrap();
    let address = server.address();
    Running { server: Some(server), account, address }
}

pub(crate) fn connect(running: &Running) -> TcpStream {
    let socket = TcpStream::connect(running.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}
