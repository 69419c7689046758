//! `bench protocols`: measures the processor time of a request on both sides for pipelined
//! HTTP/1.1, HTTP/2 and the frames of the peer protocol, over one connection with many requests in
//! flight.
//!
//! The server is the same node with the same event loop, on the first core. The client is one loop
//! on the other core: it adds requests up to the limit in flight, sends them with one call, reads,
//! and consumes the answers. So the protocols differ only in how a request becomes bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::RunSettings;
use crate::bars::median;
use crate::client::Client;
use crate::peers::{BODY_BYTES, LOAD_CORE, Server, pin_to, start_node, text};
use crate::wire_protocols::{Frames, Http2, Pipelined, WireProtocol, WireRequest};

/// The requests in flight on the connection: as many as the study has connections.
const IN_FLIGHT: usize = 64;
/// The number of keys.
const KEYS: usize = 1_000;
/// The greatest number of bytes of one read, like that of nodes.
const READ_BYTES: usize = 64 * 1024;

/// The name of a protocol, and a function that makes the state of a new connection.
type Protocol = (&'static str, fn() -> Box<dyn WireProtocol>);

const PROTOCOLS: [Protocol; 3] = [
    ("HTTP/1.1, pipelined", || Box::new(Pipelined::default())),
    ("HTTP/2", || Box::new(Http2::default())),
    ("frames", || Box::new(Frames::default())),
];

/// The processor time of a request on both sides, and the requests per second.
#[derive(Clone, Copy)]
struct Cost {
    client_us: f64,
    server_us: f64,
    per_second: f64,
}

/// Measures and prints a table. There is no bar: it says which protocol nodes should speak.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    pin_to(LOAD_CORE)?;
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(text)?;
        listener.local_addr().map_err(text)?.to_string()
    };
    let server = start_node(&address, &format!("http://{address}"), None)?;
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number:07}")).collect();
    let value = vec![b'v'; BODY_BYTES];
    let mut client = Client::connect(&address)?;
    let body = String::from_utf8_lossy(&value).into_owned();
    for some in keys.chunks(100) {
        client.call_all(some.iter().map(|key| ("PUT", format!("/v0/entity?id={key}"), &*body)))?;
    }
    println!("µs of processor time for a request, {IN_FLIGHT} under way on one connection:");
    for (name, is_put) in [("GET", false), ("PUT", true)] {
        let mut costs: [Vec<Cost>; 3] = [const { Vec::new() }; 3];
        for _ in 0..effort.runs {
            for ((_, begin), costs) in PROTOCOLS.iter().zip(&mut costs) {
                let value = is_put.then_some(&*value);
                costs.push(measure(&mut *begin(), &server, &address, &keys, value, effort)?);
            }
        }
        let figures = |of: fn(&Cost) -> f64| {
            costs.each_ref().map(|costs| median(&costs.iter().map(of).collect::<Vec<_>>()))
        };
        let both = figures(|cost| cost.client_us + cost.server_us);
        let (asks, answers) = (figures(|c| c.client_us), figures(|c| c.server_us));
        let rates = figures(|cost| cost.per_second);
        for (place, (protocol, _)) in PROTOCOLS.iter().enumerate() {
            println!(
                "{name}  {protocol:<22} asker {:>6.2}  owner {:>6.2}  both {:>6.2}  {:>5.2} of \
                 frames  {:>8.0}/s",
                asks[place],
                answers[place],
                both[place],
                both[place] / both[2],
                rates[place]
            );
        }
    }
    Ok(true)
}

/// Measures one run over a connection of its own.
fn measure(
    wire: &mut dyn WireProtocol,
    server: &Server,
    address: &str,
    keys: &[String],
    value: Option<&[u8]>,
    effort: RunSettings,
) -> Result<Cost, String> {
    let mut socket = TcpStream::connect(address).map_err(text)?;
    socket.set_nodelay(true).map_err(text)?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).map_err(text)?;
    wire.open(&mut socket, address)?;
    let (server_before, own_before) = (server.cpu_seconds(), own_cpu_seconds());
    let (begun, span) = (Instant::now(), Duration::from_secs(effort.seconds));
    let (mut out, mut input, mut filled) = (Vec::new(), vec![0; 2 * READ_BYTES], 0);
    let (mut under_way, mut answered, mut next) = (0, 0, 0);
    loop {
        let is_over = begun.elapsed() >= span;
        if is_over && under_way == 0 {
            break;
        }
        let question = |next: usize| WireRequest { key: &keys[next % keys.len()], value };
        while !is_over && under_way < IN_FLIGHT && wire.may_ask(question(next)) {
            wire.ask(question(next), &mut out);
            (under_way, next) = (under_way + 1, next + 1);
        }
        if !out.is_empty() {
            wire.close(&mut out);
            socket.write_all(&out).map_err(text)?;
            out.clear();
        }
        let count = socket.read(&mut input[filled..filled + READ_BYTES]).map_err(text)?;
        if count == 0 {
            return Err("the node has ended the connection".to_owned());
        }
        filled += count;
        let (used, answers) = wire.take(&mut input[..filled], &mut out)?;
        input.copy_within(used..filled, 0);
        filled -= used;
        (under_way, answered) = (under_way - answers, answered + answers);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let us = |seconds: f64| seconds * 1e6 / answered as f64;
    let client_us = us(own_cpu_seconds() - own_before);
    let server_us = us(server.cpu_seconds() - server_before);
    Ok(Cost { client_us, server_us, per_second: answered as f64 / seconds })
}

fn own_cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a local variable that the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
