//! `bench-http`: compares the server with nginx over HTTP/1.1 and HTTP/2, with a bare epoll loop,
//! and with itself without accounting.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::RunSettings;
use crate::bars::{Bar, judge, median, ratios, tell};
use crate::peers::{
    Server, processor_us, start_bare, start_nginx, start_nginx_http2, start_pellucid, text,
};
use crate::quiet_rounds::turns;
use crate::wrk::{full_throttle, full_throttle_put, h2load, median_latency_us};

/// The result of one run.
#[derive(Clone, Copy)]
pub struct Run {
    pub requests_per_second: f64,
    /// The processor time of all servers per request, in microseconds.
    pub cpu_us_per_request: f64,
}

pub const RATE: fn(&Run) -> f64 = |run| run.requests_per_second;
pub const CPU: fn(&Run) -> f64 = |run| run.cpu_us_per_request;

/// A function that loads the server at a URL for a number of seconds, and returns the number of
/// requests that were answered.
type LoadFunction = dyn Fn(&str, u64) -> Result<f64, String>;

/// Returns a load of GETs at full throttle over this many connections.
pub fn gets(connections: usize) -> impl Fn(&str, u64) -> Result<f64, String> {
    move |url, seconds| Ok(full_throttle(url, connections, seconds)? * seconds as f64)
}

/// Returns a load of PUTs at full throttle over this many connections.
pub fn puts(connections: usize) -> impl Fn(&str, u64) -> Result<f64, String> {
    move |url, seconds| Ok(full_throttle_put(url, connections, seconds)? * seconds as f64)
}

/// Loads a URL, and measures the processor time of these servers.
pub fn measure(
    servers: &[&Server],
    url: &str,
    load: &LoadFunction,
    seconds: u64,
) -> Result<Run, String> {
    let before = processor_us(servers);
    let requests = load(url, seconds)?;
    let cpu_us_per_request = (processor_us(servers) - before) / requests;
    Ok(Run { requests_per_second: requests / seconds as f64, cpu_us_per_request })
}

/// Runs both servers in turn. Each of them is first in every second round.
fn alternate(
    ours: &Server,
    theirs: &Server,
    load: &LoadFunction,
    effort: RunSettings,
) -> Result<Vec<(Run, Run)>, String> {
    for server in [ours, theirs] {
        load(&server.url, 1)?;
    }
    turns(effort.runs, |is_ours| {
        let server = if is_ours { ours } else { theirs };
        measure(&[server], &server.url, load, effort.seconds)
    })
}

fn show(what: &str, runs: &[(Run, Run)]) {
    let of = |side: fn(&(Run, Run)) -> &Run, figure: fn(&Run) -> f64| {
        median(&runs.iter().map(|run| figure(side(run))).collect::<Vec<_>>())
    };
    println!(
        "{what}: {:.0} against {:.0} requests/s, {:.2} against {:.2} µs of CPU per request",
        of(|run| &run.0, RATE),
        of(|run| &run.1, RATE),
        of(|run| &run.0, CPU),
        of(|run| &run.1, CPU),
    );
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let beside_nginx = run_beside_nginx(effort)?;
    let beside_bare = run_beside_bare(effort)?;
    let http2 = run_http2(effort)?;
    let idle = run_idle()?;
    Ok(run_accounting(effort)? && beside_nginx && beside_bare && http2 && idle)
}

fn run_beside_nginx(effort: RunSettings) -> Result<bool, String> {
    let (ours, nginx) = (start_pellucid("full")?, start_nginx()?);
    let many = alternate(&ours, &nginx, &gets(64), effort)?;
    show("GET: Pellucid against nginx, 64 connections", &many);
    let one = alternate(&ours, &nginx, &gets(1), effort)?;
    show("GET: Pellucid against nginx, 1 connection", &one);
    let puts = run_puts(&ours, &nginx, effort)?;
    let medians = turns(effort.runs, |is_ours| {
        median_latency_us(if is_ours { &ours.url } else { &nginx.url }, effort.seconds)
    })?;
    let held = [
        judge("http_cpu_per_get_vs_nginx", &ratios(&many, CPU), Bar::AtMost(0.85)),
        judge("http_cpu_per_put_vs_nginx", &ratios(&puts, CPU), Bar::AtMost(1.0)),
        judge("http_p50_1_vs_nginx", &ratios(&medians, |us| *us), Bar::AtMost(1.0)),
        judge("http_throughput_64_vs_nginx", &ratios(&many, RATE), Bar::AtLeast(0.95)),
        judge("http_throughput_1_vs_nginx", &ratios(&one, RATE), Bar::AtLeast(0.95)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}

/// Measures PUTs in two runs of equal length, and returns the second ones, which the bar judges. A
/// store that was idle has released its spare segments; in the first run it takes new memory, which
/// the system has to find and to zero. The result of the first run is printed without a bar.
fn run_puts(ours: &Server, nginx: &Server, effort: RunSettings) -> Result<Vec<(Run, Run)>, String> {
    let both = turns(effort.runs, |is_ours| {
        let server = if is_ours { ours } else { nginx };
        let measured = || measure(&[server], &server.url, &puts(64), effort.seconds);
        Ok([measured()?, measured()?])
    })?;
    let pairs = |run: usize| -> Vec<(Run, Run)> {
        both.iter().map(|(ours, nginx)| (ours[run], nginx[run])).collect()
    };
    let (first, further) = (pairs(0), pairs(1));
    show("PUT: Pellucid against nginx, 64 connections, from rest", &first);
    show("PUT: Pellucid against nginx, 64 connections", &further);
    tell("http_cpu_per_put_vs_nginx_from_rest", &ratios(&first, CPU));
    Ok(further)
}

fn run_beside_bare(effort: RunSettings) -> Result<bool, String> {
    let (ours, bare) = (start_pellucid("full")?, start_bare()?);
    let many = alternate(&ours, &bare, &gets(64), effort)?;
    show("GET: Pellucid against a bare epoll loop, 64 connections", &many);
    Ok(judge("http_cpu_per_get_vs_bare_epoll", &ratios(&many, CPU), Bar::AtMost(1.25)))
}

/// Compares GETs over HTTP/2: one stream at a time on each of 64 connections, and ten on each of
/// 16.
pub fn run_http2(effort: RunSettings) -> Result<bool, String> {
    let (ours, nginx) = (start_pellucid("full")?, start_nginx_http2()?);
    let mut held = true;
    for (connections, streams) in [(64, 1), (16, 10)] {
        let load = move |url: &str, seconds| h2load(url, connections, streams, seconds);
        let runs = alternate(&ours, &nginx, &load, effort)?;
        let what = format!("HTTP/2 GET against nginx, {connections} connections x {streams}");
        show(&what, &runs);
        let bar = format!("http2_cpu_per_get_vs_nginx_{connections}x{streams}");
        held &= judge(&bar, &ratios(&runs, CPU), Bar::AtMost(1.0));
    }
    Ok(held)
}

/// Measures the server's memory for each idle connection.
pub fn run_idle() -> Result<bool, String> {
    const CONNECTIONS: usize = 10_000;
    raise_descriptor_limit();
    let server = start_pellucid("full")?;
    let before = server.anonymous_bytes();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut socket = TcpStream::connect(server.address()).map_err(text)?;
        // Each connection has answered a request, like those of a connection pool.
        socket.write_all(b"GET /v0/entity?id=1 HTTP/1.1\r\nHost: a\r\n\r\n").map_err(text)?;
        open.push(socket);
    }
    for socket in &mut open {
        socket.read_exact(&mut [0; 12]).map_err(text)?;
    }
    let bytes = server.anonymous_bytes().saturating_sub(before) as f64 / CONNECTIONS as f64;
    println!("{CONNECTIONS} idle connections: {bytes:.0} bytes of the server's memory each");
    Ok(judge("http_bytes_per_idle_connection", &[bytes], Bar::AtMost(1_024.0)))
}

/// Raises the limit of open files to the highest that this process may have.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for both calls, which write and read it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Runs only the comparison of the server with itself without accounting.
pub fn run_accounting(effort: RunSettings) -> Result<bool, String> {
    let (full, off) = (start_pellucid("full")?, start_pellucid("off")?);
    let many = alternate(&full, &off, &gets(64), effort)?;
    show("Accounting full against off, 64 connections", &many);
    let one = alternate(&full, &off, &gets(1), effort)?;
    show("Accounting full against off, 1 connection", &one);
    let held = [
        judge("accounting_full_vs_off", &ratios(&many, RATE), Bar::AtLeast(0.99)),
        judge("accounting_full_vs_off_1", &ratios(&one, RATE), Bar::AtLeast(0.97)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}
