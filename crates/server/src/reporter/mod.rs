//! Follows slow and traced requests: writes a log line for each slow one, and exports the spans of
//! each traced one.
//!
//! The thread that drains the account sees every record. It passes the records of slow and traced
//! requests to bounded queues and never waits: if a queue is full, the record is dropped. Then a
//! traced request is counted as lost, and a slow one as left out of the log. One thread writes the
//! log, and another one posts to the collector, which may both be slow.

mod collector;
mod context;
mod exporter;
mod slow_log;
mod spans;
mod trace_registry;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use pellucid_account::Record;
use pellucid_thread::{Job, Mutex, start_job};

pub use collector::TraceCollector;
use exporter::{SpanExporter, TracedRequest};
use slow_log::{SlowLog, SlowRequest};
pub(crate) use trace_registry::{Trace, TraceRegistry};

use crate::observer::Observer;

/// The limit of records that wait for the log, and of those that wait for the collector.
const QUEUE_MAX: usize = 2_048;
/// The longest time for which the end of the server waits for the collector.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// The thread behind the log of slow requests, and that behind the export of spans. When this is
/// dropped, the threads end, once all records are written that they were given. So the account's
/// drain has to end before. Spans that the collector has not taken within [`END_PATIENCE`] are
/// lost.
pub(crate) struct RequestReporter {
    observer: Arc<Observer>,
    log: Option<JoinHandle<()>>,
    export: Option<ExportThread>,
}

struct ExportThread {
    thread: JoinHandle<()>,
    /// A channel that is closed when the work is done.
    ended: Mutex<Receiver<()>>,
    /// True if the end did not wait longer for the thread.
    is_abandoned: Arc<AtomicBool>,
}

/// The queues of the threads that were started.
struct ReportQueues {
    slow: Option<SyncSender<SlowRequest>>,
    traced: Option<SyncSender<TracedRequest>>,
}

impl RequestReporter {
    /// Starts to follow the requests that take `slow` or longer (none if it is zero), and those
    /// that are traced, if there is a collector in `export`.
    pub(crate) fn start(
        observer: &Arc<Observer>,
        slow: Duration,
        export: Option<TraceCollector>,
    ) -> io::Result<RequestReporter> {
        // Dropped by an error below, it ends what has started.
        let mut reporter = RequestReporter::new(observer);
        if slow.is_zero() && export.is_none() {
            return Ok(reporter);
        }
        let queues = ReportQueues {
            slow: (!slow.is_zero()).then(|| reporter.start_log()).transpose()?,
            traced: export.map(|collector| reporter.start_export(collector)).transpose()?,
        };
        let slow_ns = u64::try_from(slow.as_nanos()).unwrap_or(u64::MAX);
        let account = observer.account.clone();
        let slow_ticks =
            if slow.is_zero() { u64::MAX } else { account.clock().ticks(slow_ns).max(1) };
        let listening = Arc::clone(observer);
        account.listen(move |record: &Record, total_ticks: u64| {
            see(&listening, slow_ticks, &queues, record, total_ticks);
        });
        Ok(reporter)
    }

    fn new(observer: &Arc<Observer>) -> RequestReporter {
        RequestReporter { observer: Arc::clone(observer), log: None, export: None }
    }

    fn start_log(&mut self) -> io::Result<SyncSender<SlowRequest>> {
        let (requests, queue) = sync_channel(QUEUE_MAX);
        let observer = Arc::clone(&self.observer);
        let run = move || {
            static FOLLOWING: Job = Job::new("following");
            let _job = start_job(&FOLLOWING);
            SlowLog::new(observer.account.clock()).run(&queue, &observer);
        };
        self.log = Some(Builder::new().name("pellucid-follow".to_owned()).spawn(run)?);
        Ok(requests)
    }

    fn start_export(&mut self, collector: TraceCollector) -> io::Result<SyncSender<TracedRequest>> {
        let (requests, queue) = sync_channel(QUEUE_MAX);
        let (work, ended) = sync_channel(0);
        let (observer, is_abandoned) = (Arc::clone(&self.observer), Arc::<AtomicBool>::default());
        let exporter = SpanExporter::new(observer, collector, Arc::clone(&is_abandoned));
        let run = move || {
            static EXPORTING: Job = Job::new("exporting");
            let _job = start_job(&EXPORTING);
            exporter.run(&queue);
            drop(work);
        };
        let thread = Builder::new().name("pellucid-export".to_owned()).spawn(run)?;
        self.export = Some(ExportThread { thread, ended: Mutex::new(ended), is_abandoned });
        Ok(requests)
    }
}

impl Drop for RequestReporter {
    fn drop(&mut self) {
        self.observer.account.unlisten();
        // If a thread panicked, the panic message has been printed already.
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
        let Some(ExportThread { thread, ended, is_abandoned }) = self.export.take() else { return };
        if ended.lock().recv_timeout(END_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            is_abandoned.store(true, Ordering::Relaxed);
            let line = "spans are lost: the collector does not take them before the end";
            return self.observer.log.write(line);
        }
        let _ = thread.join();
    }
}

/// Passes a record on if its request was slow or traced. It runs on the account's thread.
#[inline]
fn see(
    observer: &Observer,
    slow_ticks: u64,
    queues: &ReportQueues,
    record: &Record,
    total_ticks: u64,
) {
    let trace = observer.traced.end(record.facts.request);
    if total_ticks >= slow_ticks {
        observer.followed.slow.fetch_add(1, Ordering::Relaxed);
        let context = trace.as_ref().map(|trace| trace.context);
        if !passes(queues.slow.as_ref(), SlowRequest { record: *record, context }) {
            observer.followed.slow_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    if let Some(trace) = trace
        && !passes(queues.traced.as_ref(), TracedRequest { record: *record, trace })
    {
        observer.followed.export_lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Passes a request to its queue, if there is one. Returns false if the queue is full.
fn passes<T>(queue: Option<&SyncSender<T>>, request: T) -> bool {
    queue.is_none_or(|queue| queue.try_send(request).is_ok())
}

#[cfg(test)]
mod tests {
    use pellucid_account::{Account, Accounting};
    use pellucid_clock::Clock;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::context::TraceContext;
    use super::exporter::BATCH_MAX;
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

    /// Regression: requests that found the queue full were counted nowhere.
    #[test]
    fn slow_requests_are_logged_up_to_a_limit_in_each_second_and_all_others_counted() {
        let (observer, lines) = observer();
        let (slow, queue) = sync_channel(900);
        let queues = ReportQueues { slow: Some(slow), traced: None };
        (0..901).for_each(|_| see(&observer, 1, &queues, &Record::default(), 1));
        drop(queues);
        let age = Clock::system().stopwatch();
        SlowLog::new(Clock::system()).run(&queue, &observer);
        let seconds = (age.elapsed_ns() / 1_000_000_000) as usize;
        let (written, left_out) = told(&lines.lock());
        assert!(written <= 20 * (seconds + 1), "{written} in {seconds} s");
        assert_eq!(written + left_out, 901);
    }

    /// Regression: an end waited for one post after the other, so that the server's stop was taken
    /// for stuck; later, it lost the lines of slow requests behind a post.
    #[test]
    fn an_end_waits_for_the_log_and_not_for_a_silent_collector() {
        let (observer, lines) = observer();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let collector = TraceCollector::to(&url, None).unwrap();
        let mut reporter = RequestReporter::new(&observer);
        let traced = reporter.start_export(collector).unwrap();
        let context = TraceContext { trace: 1, parent: 0, span: 1 };
        let record = Record::default();
        for _ in 0..QUEUE_MAX {
            let trace = Trace { context, state: None, method: None };
            traced.send(TracedRequest { record, trace }).unwrap();
        }
        let slow = reporter.start_log().unwrap();
        slow.send(SlowRequest { record, context: Some(context) }).unwrap();
        drop((traced, slow));
        drop(reporter);
        assert_eq!(told(&lines.lock()), (1, 0));
        // Each post is closed without an answer.
        let end_posts = || std::iter::from_fn(|| silent.accept().ok()).count();
        let posts = end_posts();
        while observer.followed.export_lost.load(Ordering::Relaxed) < QUEUE_MAX as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let posts = posts + end_posts();
        assert!(posts < QUEUE_MAX / BATCH_MAX, "{posts} posts");
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
