//! A whole run: prepares it, divides it among threads, and merges their results.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use crate::connection::ConnectionSettings;
use crate::control::ThreadControl;
use crate::error::LoadError;
use crate::host_monitor::HostMonitor;
use crate::http2;
use crate::options::{Limit, LoadOptions};
use crate::pool::PoolPlan;
use crate::progress::Progress;
use crate::recorder::{Recorder, RecorderSettings};
use crate::request_factory::{RequestFactory, RequestOrigin};
use crate::request_routing::Nodes;
use crate::result::{LoadResult, OfferedLoad, RunHistory, ThreadResult};
use crate::schedule::Plan;
use crate::script::{Script, ThreadScript};
use crate::source::ThreadShare;
use crate::trace_sampler::TraceSampler;
use crate::units::nanoseconds;
use crate::waits::{ProcessorWaits, ThreadSamples};
use crate::worker::{Limits, WorkerTask};
use crate::worker_group::{RunMeasurement, WorkerGroup};
use pellucid_client::http::{Address, HttpError, TlsSetup, cure};

/// The address that is reported for a simulated service (RFC 5737: reserved for documentation).
const SIMULATED_ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80));

/// Runs a load.
///
/// # Errors
/// If the options are invalid, the target or (with `direct`) a node cannot be reached at the start,
/// the script raises an error before the first request, or the system refuses what every run needs.
/// Errors of single requests are counted. An error that ends the run later is in
/// [`LoadResult::failure`], beside what was measured until then.
pub fn run(
    options: &LoadOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<LoadResult, LoadError> {
    options.check()?;
    let opening = reach(options)?;
    let nodes = options.direct.then(|| Nodes::find(options)).transpose()?;
    let address = &opening.address;
    let clock = options.clock();
    let controls: Vec<Arc<ThreadControl>> = (0..options.threads).map(|_| Arc::default()).collect();
    let script = Script::load(options, address, &controls)?;
    let (script, works) = divide(options, &opening, nodes.as_ref(), &controls, script)?;
    progress(Progress::Ready);
    let surroundings = match options.simulation {
        Some(_) => HostMonitor::default(),
        None => HostMonitor::of(address),
    };
    let crew = WorkerGroup::start(works, clock, surroundings)?;
    let measured = crew.watch(options, &controls, clock, progress)?;
    Ok(put_together(options, nodes.as_ref(), measured, script))
}

/// Finds the address of the target, and checks that it can be reached and, over TLS, that it speaks
/// the protocol of the run.
fn reach(options: &LoadOptions) -> Result<ConnectionSettings, LoadError> {
    let target = &options.target;
    let (http2_streams, simulation) = (options.http2_streams, options.simulation.clone());
    if simulation.is_some() {
        let address = Address::Tcp(SIMULATED_ADDRESS);
        return Ok(ConnectionSettings {
            address,
            tls: None,
            http2_streams,
            capture: false,
            simulation,
        });
    }
    let http2 = options.http2_streams.is_some();
    let tls = match target.is_tls() {
        true => Some(Arc::new(TlsSetup::new(&options.tls, target.host(), http2)?)),
        false => None,
    };
    let (address, mut socket) = target.reach(options.timeout)?;
    if let Some(tls) = &tls {
        let limit = Some(options.timeout);
        let outcome = socket
            .set_read_timeout(limit)
            .and_then(|()| socket.set_write_timeout(limit))
            .and_then(|()| tls.check(&mut socket, http2));
        outcome.map_err(|error| {
            HttpError::Tls(format!("{} cannot be used: {}", target.address(), cure(&error)))
        })?;
    }
    Ok(ConnectionSettings { address, tls, http2_streams, capture: false, simulation })
}

/// True if the caller's headers contain one that watched requests would get.
fn has_own_trace(options: &LoadOptions) -> bool {
    let ours = ["traceparent", "prefer"];
    options.headers.iter().any(|header| ours.iter().any(|n| header.name.eq_ignore_ascii_case(n)))
}

/// Divides connections and requests among the threads.
fn divide(
    options: &LoadOptions,
    opening: &ConnectionSettings,
    nodes: Option<&Nodes>,
    controls: &[Arc<ThreadControl>],
    script: Option<(Script, Vec<ThreadScript>)>,
) -> Result<(Option<Script>, Vec<WorkerTask>), LoadError> {
    let (script, thread_scripts) = match script {
        Some((script, threads)) => (Some(script), threads.into_iter().map(Some).collect()),
        None => (None, Vec::new()),
    };
    let mut thread_scripts: Vec<Option<ThreadScript>> = thread_scripts;
    thread_scripts.resize_with(options.threads, || None);
    let (duration, quota) = match options.effective_limit() {
        Limit::Duration(duration) => (Some(duration), None),
        Limit::Requests(requests) => (None, Some(requests)),
    };
    let profile = Arc::new(options.profile());
    let sources = options.sources.as_deref();
    let operations = sources.map_or_else(Vec::new, |sources| sources.operations());
    let operations = if operations.len() > 1 { operations } else { Vec::new() };
    let mut works = Vec::new();
    for (thread, mut thread_script) in thread_scripts.into_iter().enumerate() {
        let share = ThreadShare::of(thread, options.threads, quota);
        let requests = make_requests(options, share, thread_script.as_mut())?;
        let requests_per_send = thread_script.as_ref().map_or(1, ThreadScript::requests_per_send);
        if requests_per_send > 1 && options.direct {
            let text = "a script that returns several requests at once cannot be used with \
                        --direct, as each has its own way";
            return Err(LoadError::Script(text.to_owned()));
        }
        if requests_per_send > 1 && options.http2_streams.is_some() {
            let text = "a script that returns several requests at once needs HTTP/1.1";
            return Err(LoadError::Script(text.to_owned()));
        }
        let plan = options.is_paced().then(|| Plan {
            profile: Arc::clone(&profile),
            constant_rate: options.rate_per_second,
            arrivals: options.arrivals,
            pacer: options.pacer,
            requests_per_send,
            threads: options.threads,
        });
        let wants_answers = sources.is_some_and(|sources| sources.wants_answers());
        let wants_responses = thread_script.as_ref().is_some_and(ThreadScript::wants_responses);
        let address = thread_script.as_ref().map_or(&opening.address, ThreadScript::address);
        let seed = options.clock().wall().unix_ms() ^ (thread as u64) << 48;
        let asks = options.ask_timing && !has_own_trace(options);
        let rate = options.rate_per_second.map(|rate| rate / options.threads as u64);
        let capture = wants_responses || wants_answers;
        works.push(WorkerTask {
            thread,
            pool: PoolPlan {
                opening: ConnectionSettings {
                    address: address.clone(),
                    capture,
                    ..opening.clone()
                },
                directions: nodes.map(Nodes::directions),
                places: (thread..options.connections).step_by(options.threads).collect(),
                profile: Arc::clone(&profile),
                keep_alive: options.keep_alive,
            },
            maker: RequestFactory::new(
                requests,
                thread_script,
                wants_answers,
                options.target.is_tls(),
            ),
            depth: options.http2_streams.unwrap_or(options.pipeline_depth),
            scope: RecorderSettings {
                apart: plan.is_some() || !options.keep_alive,
                measures_batches: options.measures_batches,
                expected_ns: duration.map_or(0, nanoseconds),
                operations: operations.clone(),
                accepted_statuses: options.accepted_statuses.clone(),
            },
            watcher: TraceSampler::new(seed, asks, rate),
            plan,
            limits: Limits {
                duration,
                quota: share.requests,
                timeout: options.timeout,
                warm_up: options.warm_up,
                control: Arc::clone(&controls[thread]),
                stop: Arc::clone(&options.stop),
            },
        });
    }
    Ok((script, works))
}

fn make_requests(
    options: &LoadOptions,
    share: ThreadShare,
    script: Option<&mut ThreadScript>,
) -> Result<RequestOrigin, LoadError> {
    if let Some(sources) = &options.sources {
        return Ok(RequestOrigin::Source(sources.source(share)));
    }
    let mut bytes = Vec::new();
    match script {
        Some(script) if script.makes_requests() => return Ok(RequestOrigin::Script),
        Some(script) => script.request(&mut bytes)?,
        None => bytes = options.target.plain_request(&options.headers, options.keep_alive),
    }
    if options.http2_streams.is_some() {
        let (request, body_at) = http2::request::parse(&bytes, options.target.is_tls())?;
        return Ok(RequestOrigin::FixedStream { request, body: bytes.split_off(body_at).into() });
    }
    let bodiless = bytes.starts_with(b"HEAD ");
    Ok(RequestOrigin::Fixed { bytes, bodiless })
}

fn put_together(
    options: &LoadOptions,
    nodes: Option<&Nodes>,
    measured: RunMeasurement,
    script: Option<Script>,
) -> LoadResult {
    let directions = measured.outcomes.iter().filter_map(|outcome| outcome.directions.as_ref());
    let direct = nodes.map(|nodes| nodes.result(directions));
    let mut sum: Option<Recorder> = None;
    let (mut per_thread, mut thread_scripts, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    let (mut unanswered, mut stopped_early, mut failure) = (0, false, None);
    for outcome in measured.outcomes {
        failure = failure.or(outcome.failure);
        per_thread.push(ThreadResult {
            requests: outcome.recorder.requests,
            mean_response_time_ns: outcome.recorder.times.response.mean(),
            cpu_time: outcome.cpu_time,
        });
        unanswered += outcome.unanswered;
        stopped_early |= outcome.stopped_early;
        thread_scripts.extend(outcome.script);
        let samples = outcome.recorder.samples.clone().into_sorted();
        slow.push(ThreadSamples { samples, waits: outcome.waits });
        match &mut sum {
            Some(sum) => sum.merge(outcome.recorder),
            None => sum = Some(outcome.recorder),
        }
    }
    let recorder = sum.expect("a run has at least one thread");
    let mut times = recorder.times;
    let response = &times.response;
    let slow_ns = response.value_at_quantile(ProcessorWaits::QUANTILE);
    let at_ns = [response.lowest_equivalent(slow_ns), response.value_at_quantile(0.99)];
    let server_waits = measured.server_waits.as_ref();
    let processor_waits = ProcessorWaits::of(&slow, server_waits, at_ns, measured.others_share);
    if !options.is_paced() && options.keep_alive {
        times.service = times.response.clone();
    }
    LoadResult {
        load: offered(options, measured.duration),
        started: measured.started,
        duration: measured.duration,
        requests: recorder.requests,
        unanswered,
        bytes: recorder.bytes,
        errors: recorder.errors,
        sent_again: recorder.sent_again,
        direct,
        first_error: recorder.first_error,
        status_classes: recorder.status_classes,
        times,
        course: RunHistory {
            throughput_per_second: recorder.throughput.finish(),
            request_rates: recorder.rates.finish(),
            timeline: recorder.timeline.into_intervals(nanoseconds(measured.duration)),
            silence: recorder.silence.finish(),
            samples: recorder.samples.into_sorted(),
        },
        traces: recorder.traces.finish(),
        processor_waits,
        operations: recorder.operations,
        per_thread,
        stopped_early,
        failure,
        script: script.map(|script| script.finish(thread_scripts)),
    }
}

/// The load that was offered to the service in a run of this length.
fn offered(options: &LoadOptions, duration: Duration) -> OfferedLoad {
    let paced = options.is_paced();
    let seconds = duration.as_secs_f64();
    let mean = options.profile().count_at(seconds * 1e9) / seconds.max(f64::MIN_POSITIVE);
    OfferedLoad {
        url: options.target.url().to_owned(),
        threads: options.threads,
        connections: options.connections,
        keep_alive: options.keep_alive,
        protocol: if options.http2_streams.is_some() { "HTTP/2" } else { "HTTP/1.1" },
        rate_per_second: options.rate_per_second,
        paced,
        offered_per_second: paced.then_some(mean),
        arrivals: options.arrivals,
        pacer: options.pacer,
    }
}
