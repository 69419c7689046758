//! A small HTTP server for the tests, and options for runs against it or in virtual time.

pub(crate) mod secure;
pub(crate) mod streams;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pellucid_load::simulation::{HttpServer, Reply, Request as Asked, Simulation};
use pellucid_load::{
    Limit, LoadOptions, LoadResult, RequestSource, RequestSources, Target, ThreadShare, run,
};

/// A request as the server has read it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of the request in the order of arrival, from zero.
    pub(crate) number: usize,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let find = |line: &'_ str| line.split_once(": ").filter(|(n, _)| *n == name).is_some();
        let line = self.head.lines().find(|line| find(line))?;
        line.split_once(": ").map(|(_, value)| value)
    }
}

pub(crate) fn answer(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

pub(crate) fn ok() -> Vec<u8> {
    answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

/// A running server on a real socket. Its threads end with the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(respond: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let respond = Arc::new(respond);
        let (log, count) = (Arc::clone(&requests), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let (respond, log) = (Arc::clone(&respond), Arc::clone(&log));
                std::thread::spawn(move || serve(stream, &*respond, &log));
            }
        });
        Server { address, requests, connections }
    }

    pub(crate) fn options(&self) -> LoadOptions {
        let target = Target::parse(&format!("http://{}", self.address)).unwrap();
        let mut options = LoadOptions::new(target);
        options.threads = 1;
        options.connections = 1;
        options.limit = Limit::Duration(Duration::from_millis(300));
        // A short timeout would need a punctual machine, such as a simulated one.
        options.timeout = Duration::from_secs(60);
        options
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.line().to_owned()).collect()
    }
}

fn serve(
    mut stream: TcpStream,
    respond: &dyn Fn(&Request) -> Vec<u8>,
    log: &Mutex<Vec<Request>>,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut bytes = Vec::new();
    loop {
        let (head, body) = read_request(&mut stream, &mut bytes)?;
        let request = {
            let mut log = log.lock().unwrap();
            let number = log.len();
            log.push(Request { number, head, body });
            log.last()?.clone()
        };
        stream.write_all(&respond(&request)).ok()?;
    }
}

fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(stream, bytes)?;
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        read_more(stream, bytes)?;
    }
    let body = bytes[head_end..head_end + length].to_vec();
    bytes.drain(..head_end + length);
    Some((head, body))
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4_096];
    let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
    bytes.extend_from_slice(&buffer[..count]);
    Some(())
}

pub(crate) fn load(options: &LoadOptions) -> LoadResult {
    run(options, &mut |_| {}).unwrap()
}

/// Sources that make each request by `make`.
pub(crate) fn made_by(make: fn(&mut Vec<u8>)) -> Option<Arc<dyn RequestSources>> {
    Some(Arc::new(move |_: ThreadShare| -> Box<dyn RequestSource> { Box::new(make) }))
}

/// Sources of PUTs of the numbers of the requests in the run, so that a request that is lost or
/// sent twice is noticed.
pub(crate) fn numbered() -> Option<Arc<dyn RequestSources>> {
    Some(Arc::new(|share: ThreadShare| -> Box<dyn RequestSource> {
        let mut number = share.first_request;
        Box::new(move |out: &mut Vec<u8>| {
            let body = number.to_string();
            let head = format!("PUT /{body} HTTP/1.1\r\nHost: h\r\nContent-Length: {}", body.len());
            out.extend_from_slice(format!("{head}\r\n\r\n{body}").as_bytes());
            number += 1;
        })
    }))
}

/// Options for a run in virtual time.
pub(crate) fn simulated(
    simulation: &Arc<Simulation>,
    connections: usize,
    seconds: u64,
) -> LoadOptions {
    let mut options = LoadOptions::new(Target::parse("http://simulated/").unwrap());
    (options.threads, options.connections) = (1, connections);
    options.limit = Limit::Duration(Duration::from_secs(seconds));
    options.simulation = Some(Arc::clone(simulation));
    options
}

/// Options for a run of 300 ms in virtual time, over one connection, against a server that replies
/// to each request by `respond`.
pub(crate) fn against(respond: impl FnMut(&Asked) -> Reply + Send + 'static) -> LoadOptions {
    let simulation = Simulation::new(HttpServer::new(respond));
    let limit = Limit::Duration(Duration::from_millis(300));
    LoadOptions { limit, ..simulated(&simulation, 1, 1) }
}

/// The number of connections that the runs with these options have opened.
pub(crate) fn opened(options: &LoadOptions) -> u64 {
    options.simulation.as_ref().map_or(0, |simulation| simulation.connections() as u64)
}

/// Options for a run in virtual time at a constant rate.
pub(crate) fn paced_in(
    simulation: &Arc<Simulation>,
    rate: u64,
    connections: usize,
    seconds: u64,
) -> LoadOptions {
    LoadOptions { rate_per_second: Some(rate), ..simulated(simulation, connections, seconds) }
}

/// A server with an exact capacity of requests per second; each takes at least a millisecond.
#[derive(Clone, Copy)]
pub(crate) struct ServerCapacity {
    pub(crate) per_second: u32,
    /// Above this rate, one request in fifty takes 50 ms.
    pub(crate) slow_above_per_second: Option<u32>,
}

impl ServerCapacity {
    pub(crate) fn of(per_second: u32) -> ServerCapacity {
        ServerCapacity { per_second, slow_above_per_second: None }
    }

    pub(crate) fn server(self) -> HttpServer {
        let second_ns = 1_000_000_000;
        let interval_ns = second_ns / u64::from(self.per_second);
        let slow_below_ns =
            self.slow_above_per_second.map_or(0, |rate| second_ns / u64::from(rate));
        let (mut next_ns, mut before_ns) = (0, 0);
        HttpServer::new(move |request| {
            let slot_ns = request.begin_ns.max(next_ns);
            next_ns = slot_ns + interval_ns;
            let dense = request.begin_ns - before_ns < slow_below_ns;
            before_ns = request.begin_ns;
            let least_ms = if dense && request.number % 50 == 0 { 50 } else { 1 };
            let queue = Duration::from_nanos(slot_ns - request.begin_ns);
            Reply::ok().after(queue + Duration::from_millis(least_ms))
        })
    }
}
