//! Follows slow and traced requests: writes a log line for each slow one, and exports the spans of
//! each traced one.
//!
//! The thread that drains the account sees every record. It passes the records of slow and traced
//! requests to a bounded queue and never waits: if the queue is full, the record is dropped. Then a
//! traced request is counted as lost, and a slow one as left out of the log. Another thread writes
//! the log and posts to the collector, which may both be slow.

mod collector;
mod context;
mod slow_log;
mod spans;
mod trace_registry;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_account::Record;
use pellucid_thread::{Job, start_job};
use serde_json::Value;

pub use collector::TraceCollector;
use slow_log::SlowLog;
use spans::{ClockAnchor, document, spans};
pub(crate) use trace_registry::{Trace, TraceRegistry};

use crate::observer::Observer;

/// The limit of records that wait for the log or the collector.
const QUEUE_MAX: usize = 2_048;
/// The limit of requests whose spans are posted together.
const BATCH_MAX: usize = 256;
/// The longest time that spans wait for others before they are posted.
const BATCH_PAUSE: Duration = Duration::from_secs(1);

/// The record of a slow or traced request.
struct ReportedRequest {
    record: Record,
    is_slow: bool,
    trace: Option<Trace>,
}

/// The thread behind the log of slow requests and the export of spans. When this is dropped, the
/// thread ends, once all records are written that it was given. So the account's drain has to end
/// before.
pub(crate) struct RequestReporter {
    observer: Arc<Observer>,
    thread: Option<JoinHandle<()>>,
}

impl RequestReporter {
    /// Starts to follow the requests that take `slow` or longer (none if it is zero), and those
    /// that are traced, if there is a collector in `export`.
    pub(crate) fn start(
        observer: &Arc<Observer>,
        slow: Duration,
        export: Option<TraceCollector>,
    ) -> io::Result<RequestReporter> {
        // Dropped by an error below, it lets go of the account.
        let mut follower = RequestReporter { observer: Arc::clone(observer), thread: None };
        if slow.is_zero() && export.is_none() {
            return Ok(follower);
        }
        let (followed, queue) = sync_channel(QUEUE_MAX);
        let slow_ns = u64::try_from(slow.as_nanos()).unwrap_or(u64::MAX);
        let account = observer.account.clone();
        let slow_ticks =
            if slow.is_zero() { u64::MAX } else { account.clock().ticks(slow_ns).max(1) };
        let (listening, following) = (Arc::clone(observer), Arc::clone(observer));
        account.listen(move |record: &Record, total_ticks: u64| {
            see(&listening, slow_ticks, &followed, record, total_ticks);
        });
        let run = move || {
            static FOLLOWING: Job = Job::new("following");
            let _job = start_job(&FOLLOWING);
            ReporterState::new(following, export).run(&queue);
        };
        let thread = std::thread::Builder::new().name("pellucid-follow".to_owned()).spawn(run)?;
        follower.thread = Some(thread);
        Ok(follower)
    }
}

impl Drop for RequestReporter {
    fn drop(&mut self) {
        self.observer.account.unlisten();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic message has been printed already.
            let _ = thread.join();
        }
    }
}

/// Passes a record on if its request was slow or traced. It runs on the account's thread.
#[inline]
fn see(
    observer: &Observer,
    slow_ticks: u64,
    followed: &SyncSender<ReportedRequest>,
    record: &Record,
    total_ticks: u64,
) {
    let is_slow = total_ticks >= slow_ticks;
    let trace = observer.traced.end(record.facts.request);
    if !is_slow && trace.is_none() {
        return;
    }
    if is_slow {
        observer.followed.slow.fetch_add(1, Ordering::Relaxed);
    }
    let is_traced = trace.is_some();
    let is_lost = followed.try_send(ReportedRequest { record: *record, is_slow, trace }).is_err();
    if is_lost && is_slow {
        observer.followed.slow_dropped.fetch_add(1, Ordering::Relaxed);
    }
    if is_lost && is_traced {
        observer.followed.export_lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// The state of the thread.
struct ReporterState {
    observer: Arc<Observer>,
    export: Option<TraceCollector>,
    slow: SlowLog,
    batch: Vec<Value>,
    /// The number of requests in the batch.
    requests: usize,
    /// True if the last post failed, so that a lasting failure is logged once.
    is_failing: bool,
}

impl ReporterState {
    fn new(observer: Arc<Observer>, export: Option<TraceCollector>) -> ReporterState {
        let slow = SlowLog::new(observer.account.clock());
        ReporterState { observer, export, slow, batch: Vec::new(), requests: 0, is_failing: false }
    }

    fn run(mut self, queue: &Receiver<ReportedRequest>) {
        let clock = self.observer.account.clock();
        let mut batch_age = clock.stopwatch();
        loop {
            let pause_ns = u64::try_from(BATCH_PAUSE.as_nanos()).unwrap_or(u64::MAX);
            let left_ns = pause_ns.saturating_sub(batch_age.elapsed_ns()).min(self.slow.left_ns());
            let ended = match queue.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok(followed) => {
                    self.follow(&followed);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if ended || self.slow.left_ns() == 0 {
                self.slow.end_interval(&self.observer);
            }
            if ended || self.requests >= BATCH_MAX || batch_age.elapsed_ns() >= pause_ns {
                self.post();
                batch_age = clock.stopwatch();
            }
            if ended {
                return;
            }
        }
    }

    fn follow(&mut self, followed: &ReportedRequest) {
        if followed.is_slow {
            let context = followed.trace.as_ref().map(|trace| trace.context);
            self.slow.write(&followed.record, context, &self.observer);
        }
        if let (Some(trace), true) = (&followed.trace, self.export.is_some()) {
            let anchor = ClockAnchor::now(self.observer.account.clock());
            self.batch.extend(spans(
                &followed.record,
                trace,
                self.observer.account.names(),
                &anchor,
            ));
            self.requests += 1;
        }
    }

    fn post(&mut self) {
        let Some(export) = self.export.as_ref().filter(|_| self.requests > 0) else { return };
        let spans = std::mem::take(&mut self.batch);
        let requests = std::mem::take(&mut self.requests) as u64;
        let body = document(spans, self.observer.version).to_string();
        let figures = &self.observer.followed;
        match export.post(body.as_bytes()) {
            Ok(()) => {
                figures.exported.fetch_add(requests, Ordering::Relaxed);
                if std::mem::take(&mut self.is_failing) {
                    self.observer
                        .log
                        .info(&format!("the collector at {export:?} takes spans again"));
                }
            }
            Err(error) => {
                figures.export_lost.fetch_add(requests, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_failing, true) {
                    let line = format!("spans are lost: the collector at {export:?}: {error}");
                    self.observer.log.write(&line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pellucid_account::{Account, Accounting};
    use pellucid_clock::Clock;
    use pellucid_thread::Mutex;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::context::TraceContext;
    use super::*;
    use crate::documents::SlowQueries;
    use crate::keys::Keys;
    use crate::log::Log;
    use crate::names::NAMES;
    use crate::observer::ReportFigures;

    /// An observer, and the lines of its log.
    fn observer() -> (Arc<Observer>, Arc<Mutex<Vec<String>>>) {
        let (log, lines) = Log::kept();
        let observer = Observer {
            account: Account::new(Accounting::Full, Clock::system(), NAMES),
            keys: Arc::new(Keys::new(false)),
            traced: TraceRegistry::new(false, 0.0),
            followed: ReportFigures::default(),
            slow_queries: Arc::new(SlowQueries::default()),
            log,
            version: "test",
        };
        (Arc::new(observer), lines)
    }

    /// The number of lines of slow requests, and the sum of those that were left out.
    fn told(lines: &[String]) -> (usize, usize) {
        let left_out = lines.iter().filter_map(|line| line.split_once(" further slow requests"));
        let left_out = left_out.map(|(count, _)| count.parse::<usize>().unwrap());
        (lines.iter().filter(|line| line.starts_with("slow request")).count(), left_out.sum())
    }

    /// Regression: each post of spans also ended the interval of the limit, and requests that found
    /// the queue full were counted nowhere.
    #[test]
    fn slow_requests_are_logged_up_to_a_limit_in_each_second_and_all_others_counted() {
        let (observer, lines) = observer();
        let (followed, queue) = sync_channel(900);
        let context = TraceContext { trace: 1, parent: 0, span: 1 };
        for _ in 0..900 {
            let trace = Some(Trace { context, state: None, method: None });
            followed
                .send(ReportedRequest { record: Record::default(), is_slow: true, trace })
                .unwrap();
        }
        see(&observer, 1, &followed, &Record::default(), 1);
        drop(followed);
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let export = TraceCollector::to(&format!("http://{gone}"), None).unwrap();
        let age = Clock::system().stopwatch();
        ReporterState::new(Arc::clone(&observer), Some(export)).run(&queue);
        let seconds = (age.elapsed_ns() / 1_000_000_000) as usize;
        let (written, left_out) = told(&lines.lock());
        assert!(written <= 20 * (seconds + 1), "{written} in {seconds} s");
        assert_eq!(written + left_out, 901);
    }

    /// Regression: if its thread, or a later one, could not be started, the account kept the whole
    /// server, and the store stayed in use.
    #[test]
    fn a_follower_that_does_not_start_or_is_dropped_lets_go_of_the_server() {
        const NAME: &str = "reporter::tests::\
                            a_follower_that_does_not_start_or_is_dropped_lets_go_of_the_server";
        crate::isolated_process::run(NAME, || {
            let (observer, _) = observer();
            let start = || RequestReporter::start(&observer, Duration::from_secs(1), None);
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            let size_kb: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
            let limit = getrlimit(Resource::As);
            // The queue has room, the stack of a thread has none.
            let current = Some((size_kb << 10) + (3 << 19));
            setrlimit(Resource::As, Rlimit { current, ..limit }).unwrap();
            let refused = start();
            setrlimit(Resource::As, limit).unwrap();
            assert!(refused.is_err());
            assert_eq!(Arc::strong_count(&observer), 1);
            drop(start().unwrap());
            assert_eq!(Arc::strong_count(&observer), 1);
        });
    }
}
