//! A whole run: prepare, start the threads together, watch them, put their notes together.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_clock::{Clock, Ticks, WallTime};

use crate::error::LoadError;
use crate::options::{Limit, LoadOptions};
use crate::recorder::Recorder;
use crate::result::{LoadResult, ThreadResult};
use crate::script::{Script, ThreadScript};
use crate::source::ThreadShare;
use crate::worker::{Outcome, Requests, ThreadControl, Work, Worker, nanoseconds};

/// How often the caller's wish to stop is looked at while threads are waited for.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// How often the caller hears of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Between the moment when all threads are ready and the first intended start, so that all of them
/// are awake by then.
const START_DELAY: Duration = Duration::from_millis(1);

/// What the caller of a run hears while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The target is reachable and the script has begun; the first request goes out next.
    Ready,
    /// About once a second.
    Running {
        /// Since the first request.
        elapsed: Duration,
        /// Answers so far.
        requests: u64,
        /// Errors of all kinds so far.
        errors: u64,
    },
}

/// Runs a load.
///
/// # Errors
/// When the options make no sense, the target cannot be reached at the start, the script raises an
/// error, or the system refuses what every run needs. Errors of single requests are counted.
pub fn run(
    options: &LoadOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<LoadResult, LoadError> {
    options.check()?;
    let address = options.target.reachable_address(options.timeout)?;
    let clock = Clock::system();
    let controls: Vec<Arc<ThreadControl>> = (0..options.threads).map(|_| Arc::default()).collect();
    let script = Script::load(options, address, &controls)?;
    let (script, works) = divide(options, address, &controls, script)?;
    progress(Progress::Ready);
    let crew = Crew::start(works, clock)?;
    let (outcomes, start, started, end) = crew.watch(options, &controls, clock, progress)?;
    let duration = Duration::from_nanos(clock.nanoseconds(end.since(start)));
    Ok(put_together(options, outcomes, script, started, duration))
}

/// Divides connections and requests among the threads.
fn divide(
    options: &LoadOptions,
    address: SocketAddr,
    controls: &[Arc<ThreadControl>],
    script: Option<(Script, Vec<ThreadScript>)>,
) -> Result<(Option<Script>, Vec<Work>), LoadError> {
    let (script, thread_scripts) = match script {
        Some((script, threads)) => (Some(script), threads.into_iter().map(Some).collect()),
        None => (None, Vec::new()),
    };
    let mut thread_scripts: Vec<Option<ThreadScript>> = thread_scripts;
    thread_scripts.resize_with(options.threads, || None);
    let (duration, quota) = match options.limit {
        Limit::Duration(duration) => (Some(duration), None),
        Limit::Requests(requests) => (None, Some(requests)),
    };
    let mut works = Vec::new();
    for (thread, mut thread_script) in thread_scripts.into_iter().enumerate() {
        let share = ThreadShare::of(thread, options.threads, quota);
        let requests = make_requests(options, share, thread_script.as_mut())?;
        works.push(Work {
            address: thread_script.as_ref().map_or(address, ThreadScript::address),
            requests,
            requests_per_send: thread_script.as_ref().map_or(1, ThreadScript::requests_per_send),
            script: thread_script,
            depth: options.pipeline_depth,
            connections: (thread..options.connections).step_by(options.threads).collect(),
            all_connections: options.connections,
            rate_per_second: options.rate_per_second,
            duration,
            quota: share.requests,
            timeout: options.timeout,
            warm_up: options.warm_up,
            control: Arc::clone(&controls[thread]),
            stop: Arc::clone(&options.stop),
        });
    }
    Ok((script, works))
}

fn make_requests(
    options: &LoadOptions,
    share: ThreadShare,
    script: Option<&mut ThreadScript>,
) -> Result<Requests, LoadError> {
    if let Some(sources) = &options.sources {
        return Ok(Requests::Source(sources.source(share)));
    }
    let mut bytes = Vec::new();
    match script {
        Some(script) if script.makes_requests() => return Ok(Requests::Script),
        Some(script) => script.request(&mut bytes)?,
        None => bytes = options.target.plain_request(&options.headers),
    }
    let bodiless = bytes.starts_with(b"HEAD ");
    Ok(Requests::Fixed { bytes, bodiless })
}

type ThreadOutcome = Result<Outcome, LoadError>;

/// The threads of a run.
struct Crew {
    handles: Vec<JoinHandle<()>>,
    outcomes: Receiver<(usize, ThreadOutcome)>,
    ready: Arc<Barrier>,
    start: Arc<OnceLock<Ticks>>,
    go: Arc<Barrier>,
}

impl Crew {
    fn start(works: Vec<Work>, clock: Clock) -> Result<Crew, LoadError> {
        let (sender, outcomes) = sync_channel(works.len());
        let both = works.len() + 1;
        let mut crew = Crew {
            handles: Vec::new(),
            outcomes,
            ready: Arc::new(Barrier::new(both)),
            start: Arc::new(OnceLock::new()),
            go: Arc::new(Barrier::new(both)),
        };
        for (index, work) in works.into_iter().enumerate() {
            crew.spawn(index, work, clock, sender.clone())?;
        }
        Ok(crew)
    }

    fn spawn(
        &mut self,
        index: usize,
        work: Work,
        clock: Clock,
        sender: SyncSender<(usize, ThreadOutcome)>,
    ) -> Result<(), LoadError> {
        let (ready, go) = (Arc::clone(&self.ready), Arc::clone(&self.go));
        let start = Arc::clone(&self.start);
        let body = move || {
            let prepared = Worker::new(work, clock).and_then(|mut worker| {
                worker.open_connections()?;
                Ok(worker)
            });
            ready.wait();
            go.wait();
            let start = *start.get().expect("the start is set before the threads go");
            let outcome = prepared.and_then(|worker| worker.run(start));
            // Nobody listens only if the run has failed already.
            drop(sender.send((index, outcome)));
        };
        let builder = std::thread::Builder::new().name(format!("load-{index}"));
        self.handles.push(builder.spawn(body).map_err(LoadError::system("start a thread"))?);
        Ok(())
    }

    /// Lets the threads go, and waits for all of them.
    fn watch(
        self,
        options: &LoadOptions,
        controls: &[Arc<ThreadControl>],
        clock: Clock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Vec<Outcome>, Ticks, WallTime, Ticks), LoadError> {
        self.ready.wait();
        let start = Ticks(clock.now().0 + clock.ticks(nanoseconds(START_DELAY)));
        let started = clock.wall();
        self.start.get_or_init(|| start);
        self.go.wait();
        let mut outcomes: Vec<Option<Outcome>> = controls.iter().map(|_| None).collect();
        let mut failure = None;
        let mut next_progress = PROGRESS_INTERVAL;
        let mut missing = controls.len();
        while missing > 0 {
            match self.outcomes.recv_timeout(WATCH_INTERVAL) {
                Ok((index, Ok(outcome))) => {
                    outcomes[index] = Some(outcome);
                    missing -= 1;
                }
                Ok((_, Err(error))) => {
                    missing -= 1;
                    failure.get_or_insert(error);
                    stop_all(controls);
                }
                Err(RecvTimeoutError::Timeout) if options.stop.load(Ordering::Relaxed) => {
                    stop_all(controls);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // A thread has panicked: the join below carries its panic on.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let elapsed = Duration::from_nanos(clock.nanoseconds(clock.now().since(start)));
            if elapsed >= next_progress && missing > 0 {
                next_progress = elapsed + PROGRESS_INTERVAL;
                progress(running(elapsed, controls));
            }
        }
        let end = clock.now();
        for handle in self.handles {
            if let Err(panic) = handle.join() {
                std::panic::resume_unwind(panic);
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok((outcomes.into_iter().flatten().collect(), start, started, end)),
        }
    }
}

fn stop_all(controls: &[Arc<ThreadControl>]) {
    controls.iter().for_each(|control| control.stop.store(true, Ordering::Relaxed));
}

fn running(elapsed: Duration, controls: &[Arc<ThreadControl>]) -> Progress {
    let requests = controls.iter().map(|control| control.requests.load(Ordering::Relaxed)).sum();
    let errors = controls.iter().map(|control| control.errors.load(Ordering::Relaxed)).sum();
    Progress::Running { elapsed, requests, errors }
}

fn put_together(
    options: &LoadOptions,
    outcomes: Vec<Outcome>,
    script: Option<Script>,
    started: WallTime,
    duration: Duration,
) -> LoadResult {
    let mut sum: Option<Recorder> = None;
    let (mut per_thread, mut thread_scripts) = (Vec::new(), Vec::new());
    let (mut unanswered, mut stopped_early) = (0, false);
    for outcome in outcomes {
        per_thread.push(ThreadResult {
            requests: outcome.recorder.requests,
            mean_response_time_ns: outcome.recorder.response_time.mean(),
        });
        unanswered += outcome.unanswered;
        stopped_early |= outcome.stopped_early;
        thread_scripts.extend(outcome.script);
        match &mut sum {
            Some(sum) => sum.merge(outcome.recorder),
            None => sum = Some(outcome.recorder),
        }
    }
    let recorder = sum.expect("a run has at least one thread");
    let paced = options.rate_per_second.is_some();
    let service_time = if paced { recorder.service_time } else { recorder.response_time.clone() };
    LoadResult {
        url: options.target.url().to_owned(),
        started,
        duration,
        threads: options.threads,
        connections: options.connections,
        rate_per_second: options.rate_per_second,
        requests: recorder.requests,
        unanswered,
        bytes: recorder.bytes,
        errors: recorder.errors,
        first_error: recorder.first_error,
        status_classes: recorder.status_classes,
        response_time: recorder.response_time,
        service_time,
        send_lateness: recorder.send_lateness,
        request_rates: recorder.request_rates,
        throughput_per_second: recorder.throughput_per_second,
        samples: recorder.samples.into_sorted(),
        per_thread,
        stopped_early,
        script: script.map(|script| script.finish(thread_scripts)),
    }
}
