//! The flags of `pellucid load`, and the [`Task`] that they describe.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use pellucid_load::{
    Arrivals, Header, Limit, LoadError, LoadOptions, Objectives, Pacer, ScriptOptions, Target,
    TlsOptions, Workload, parse_count, parse_duration, wrk2,
};

use super::measured_run::Run;
use super::outputs::Outputs;
use crate::Failure;

/// The default number of requests in flight on an HTTP/2 connection.
const DEFAULT_STREAMS: usize = 32;

/// Load an HTTP service, measure its latency, and say what the figures are worth.
///
/// With a rate, requests start on a schedule that slow answers do not delay, and latency counts
/// from the intended start. Without one, every connection sends as soon as it has its answer. Each
/// run ends with a verdict: stable, saturated, machine-limited, generator-limited, stalled or
/// errors, and why.
///
/// Example: pellucid load -c 64 -t 1 -d 20s -R 10000 -L -s put.lua http://127.0.0.1:8080
///
/// Example: pellucid load --http2 --streams 100 -c 4 --insecure https://127.0.0.1:8443/
///
/// Example: pellucid load --direct -c 64 -R 5000 -s get.lua http://127.0.0.1:8081
///
/// Example: pellucid load --work mix.toml --find-max --slo p99=5ms http://127.0.0.1:8080
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub(crate) struct LoadArguments {
    /// The URL to load; unix:/run/pellucid.sock:/v0/status is a path at a Unix socket.
    url: String,
    #[command(flatten)]
    pace: PaceArguments,
    #[command(flatten)]
    protocol: ProtocolArguments,
    #[command(flatten)]
    requests: RequestsArguments,
    #[command(flatten)]
    search: SearchArguments,
    #[command(flatten)]
    output: OutputArguments,
    /// Arguments of the script; those that begin with a dash stand behind `--`.
    #[arg(requires = "script")]
    arguments: Vec<String>,
}

// The flags of connections, rates and times.
#[derive(Args)]
struct PaceArguments {
    /// Connections to keep open [default: 10]; several numbers, such as 1,3,10,100, are compared.
    #[arg(short, long, value_delimiter = ',', value_parser = parse_count)]
    connections: Vec<u64>,
    /// With several numbers of connections: cores of the server, by which the rule is checked that
    /// it takes max(32, 2 × cores) of them [default: those of this machine].
    #[arg(long, value_name = "N", value_parser = parse_count)]
    server_cores: Option<u64>,
    /// Threads [default: 2].
    #[arg(short, long, value_parser = parse_count)]
    threads: Option<u64>,
    /// Duration of the run, such as 20s or 2m [default: 10s]; with --find-max, the time for which
    /// a rate that was held is confirmed [default: 30s, with --quick 5s].
    #[arg(short, long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Requests per second over all connections, such as 10k.
    #[arg(short = 'R', long, value_parser = parse_count)]
    rate: Option<u64>,
    /// The spread of the starts of requests, with a rate.
    #[arg(long, value_enum)]
    arrivals: Option<ArrivalsName>,
    /// The instrument that decides when requests are sent.
    #[arg(long, value_enum)]
    pacing: Option<PacingName>,
    /// The time that a request may take before it counts as timed out [default: 2s].
    #[arg(short = 'T', long, value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Leave requests that start within this time out of the histograms.
    #[arg(long, value_parser = parse_duration)]
    warm_up: Option<Duration>,
}

// The flags of the protocol that carries the requests.
#[derive(Args)]
struct ProtocolArguments {
    /// Open a connection for each request.
    #[arg(long)]
    no_keep_alive: bool,
    /// Speak HTTP/2. Over TLS it is negotiated; without TLS it is not, so the server must accept
    /// HTTP/2 from the first byte on.
    #[arg(long, conflicts_with = "no_keep_alive")]
    http2: bool,
    /// With --http2: requests in flight on a connection [default: 32].
    #[arg(long, requires = "http2", value_name = "N", value_parser = parse_count)]
    streams: Option<u64>,
    /// Send each request to the node of a sharded cluster that owns its key. The server of the URL
    /// names the nodes (`GET /v0/cluster`). Every connection has a socket to each of them.
    #[arg(long, conflicts_with_all = ["http2", "no_keep_alive"])]
    direct: bool,
    /// With https: trust the authorities of this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE.pem")]
    ca: Option<PathBuf>,
    /// With https: trust any certificate.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

// The flags of the requests themselves.
#[derive(Args)]
struct RequestsArguments {
    /// A wrk or wrk2 script.
    #[arg(short, long)]
    script: Option<PathBuf>,
    /// A description of work, as docs/load.md has it.
    #[arg(long, conflicts_with = "script", value_name = "FILE.toml")]
    work: Option<PathBuf>,
    /// Record one latency for each batch of requests that a script sends at once, from the batch's
    /// start to its last answer, and none for each request.
    #[arg(short = 'B', long = "batch_latency", alias = "batch-latency")]
    batch_latency: bool,
    /// A header of every request, as `Name: value`.
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
    /// Statuses from 400 on that are right answers, such as 404 where keys that are not there are
    /// asked for on purpose; a description of work says it in `expect`.
    #[arg(long, value_delimiter = ',', value_name = "STATUS", conflicts_with = "work")]
    accept: Vec<u16>,
    /// Send nothing that asks the server for its own account of requests (`Prefer: timing`,
    /// `traceparent`); otherwise up to about a thousand a second do.
    #[arg(long)]
    no_timing: bool,
}

// The flags of objectives and of the search for the highest rate.
#[derive(Args)]
pub(super) struct SearchArguments {
    /// The objectives to keep, such as p99=5ms or p50=1ms,p99.9=20ms,errors=0.1%; else exit code 1.
    #[arg(long, value_parser = Objectives::parse)]
    pub(super) slo: Option<Objectives>,
    /// Search for the highest rate at which the --slo is kept.
    #[arg(long, requires = "slo", conflicts_with_all = ["rate", "latency"])]
    pub(super) find_max: bool,
    /// With --find-max: shorter trials and one search instead of three.
    #[arg(long, requires = "find_max")]
    pub(super) quick: bool,
}

// The flags of the output.
#[derive(Args)]
pub(super) struct OutputArguments {
    /// Show the way of the requests around this percentile of the response time, too.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    around: Option<f64>,
    /// Print the distribution of latency and its detailed spectrum.
    #[arg(short = 'L', long)]
    latency: bool,
    /// With a rate: print the distribution from the actual send, too, without the wait for it.
    #[arg(short = 'U', long = "u_latency", alias = "u-latency")]
    uncorrected: bool,
    /// Print the result as JSON instead.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) files: Outputs,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalsName {
    /// At equal distances.
    Constant,
    /// At random and independent of each other.
    Poisson,
}

#[derive(Clone, Copy, ValueEnum)]
enum PacingName {
    /// To microseconds, on whichever connection is free.
    Exact,
    /// As wrk2: each connection by itself, by timers of whole milliseconds.
    Wrk2,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').parse().ok();
    let known = number.filter(|percent| (0.0..=100.0).contains(percent));
    known.ok_or_else(|| format!("'{text}' is no percentile such as 99.9"))
}

/// The task that the flags describe.
pub(crate) struct Task {
    pub(crate) options: LoadOptions,
    /// The numbers of connections to compare; with one number or none, there is no comparison.
    pub(crate) connections: Vec<usize>,
    /// The number of the server's cores, if given.
    pub(crate) server_cores: Option<usize>,
    pub(crate) distributions: wrk2::Distributions,
    /// The duration, if given.
    pub(super) duration: Option<Duration>,
    pub(super) search: SearchArguments,
    pub(super) output: OutputArguments,
}

impl Task {
    /// Reads the flags. They take precedence over the description of work.
    pub(super) fn of(arguments: LoadArguments) -> Result<Task, Failure> {
        let target = Target::parse(&arguments.url).map_err(usage_of)?;
        if target.url() != arguments.url {
            let text = "the URL has a user, which is not sent: give -H 'Authorization: Basic …'";
            return Err(Failure::usage(text));
        }
        let mut options = LoadOptions::new(target);
        let workload = arguments.requests.work.as_deref().map(Workload::read).transpose();
        let workload = workload.map_err(usage_of)?;
        if let Some(workload) = &workload {
            workload.apply_settings(&mut options);
        }
        set_flags(&arguments, &mut options)?;
        if let Some(workload) = workload {
            workload.use_in(&mut options);
        }
        let connections: Vec<usize> =
            arguments.pace.connections.iter().map(|n| small(*n)).collect();
        if arguments.search.find_max && connections.len() > 1 {
            return Err(Failure::usage("--find-max takes one number of connections"));
        }
        if arguments.search.find_max && !options.stages.is_empty() {
            return Err(Failure::usage("--find-max sets the rate itself: leave the stages out"));
        }
        let files = arguments.requests.script.iter().chain(&arguments.protocol.ca);
        files.map(PathBuf::as_path).try_for_each(can_be_read)?;
        let script_arguments = arguments.arguments;
        options.script = arguments
            .requests
            .script
            .map(|path| ScriptOptions { path, arguments: script_arguments });
        if connections.len() < 2 && !arguments.search.find_max {
            options.check().map_err(usage_of)?;
        }
        let task = Task {
            options,
            connections,
            server_cores: arguments.pace.server_cores.map(small),
            distributions: match (arguments.output.uncorrected, arguments.output.latency) {
                (true, _) => wrk2::Distributions::Both,
                (false, true) => wrk2::Distributions::Corrected,
                (false, false) => wrk2::Distributions::None,
            },
            duration: arguments.pace.duration,
            search: arguments.search,
            output: arguments.output,
        };
        task.output.files.check()?;
        Ok(task)
    }

    /// Runs a load. The server is asked for its account only if the output will show it.
    pub(super) fn measure(&self, options: &LoadOptions, header: &str) -> Result<Run, Failure> {
        let is_shown = self.output.json || self.output.files.html.is_some();
        Run::measure(options, header, is_shown, self.output.around)
    }
}

fn set_flags(arguments: &LoadArguments, options: &mut LoadOptions) -> Result<(), Failure> {
    if let [connections] = arguments.pace.connections[..] {
        options.connections = small(connections);
    }
    options.threads = arguments.pace.threads.map_or(options.threads, small);
    if arguments.pace.rate.is_some() || arguments.pace.duration.is_some() {
        options.stages.clear();
    }
    if let Some(duration) = arguments.pace.duration {
        options.limit = Limit::Duration(duration);
    }
    options.rate_per_second = arguments.pace.rate.or(options.rate_per_second);
    if arguments.search.find_max {
        options.rate_per_second = None;
    }
    options.arrivals = match arguments.pace.arrivals {
        Some(ArrivalsName::Constant) => Arrivals::Constant,
        Some(ArrivalsName::Poisson) => Arrivals::Poisson,
        None => options.arrivals,
    };
    options.pacer = match arguments.pace.pacing {
        Some(PacingName::Wrk2) => Pacer::Wrk2,
        Some(PacingName::Exact) | None => options.pacer,
    };
    options.measures_batches = arguments.requests.batch_latency;
    options.keep_alive &= !arguments.protocol.no_keep_alive;
    if arguments.protocol.http2 {
        options.http2_streams = Some(arguments.protocol.streams.map_or(DEFAULT_STREAMS, small));
    }
    options.tls = TlsOptions {
        ca_file: arguments.protocol.ca.clone(),
        insecure: arguments.protocol.insecure,
    };
    options.direct = arguments.protocol.direct;
    options.ask_timing = !arguments.requests.no_timing;
    options.accepted_statuses.clone_from(&arguments.requests.accept);
    options.timeout = arguments.pace.timeout.unwrap_or(options.timeout);
    options.warm_up = arguments.pace.warm_up.unwrap_or(options.warm_up);
    let headers = arguments.requests.headers.iter().map(|text| Header::parse(text));
    options.headers = headers.collect::<Result<_, _>>().map_err(usage_of)?;
    // Servers refuse a request with two of them. The last one counts, as with wrk.
    let is_host = |header: &Header| header.name.eq_ignore_ascii_case("host");
    let mut hosts = options.headers.iter().filter(|header| is_host(header)).count();
    options.headers.retain(|header| {
        let is_earlier = is_host(header) && hosts > 1;
        hosts -= usize::from(is_earlier);
        !is_earlier
    });
    Ok(())
}

/// Checks that a file can be opened. If not, it is a usage error, as for `--work`; errors in its
/// content are reported when it is read.
fn can_be_read(path: &Path) -> Result<(), Failure> {
    let opened = File::open(path).map(drop);
    opened.map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn usage_of(error: impl Into<LoadError>) -> Failure {
    Failure::usage(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: every request had both, so that servers refused it.
    #[test]
    fn the_last_of_several_hosts_counts() {
        let headers = ["-H", "Host: a", "-H", "X-Note: 1", "-H", "host: b", "-H", "X-Note: 2"];
        let command = ["load", "http://127.0.0.1:1/"].iter().chain(&headers);
        let task = Task::of(LoadArguments::try_parse_from(command).unwrap()).unwrap();
        let headers = task.options.headers.iter().map(|Header { name, value }| (&**name, &**value));
        let expected = [("X-Note", "1"), ("host", "b"), ("X-Note", "2")];
        assert_eq!(headers.collect::<Vec<_>>(), expected);
    }
}
