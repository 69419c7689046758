//! Follows slow and traced requests: writes a log line for each slow one, and exports the spans of
//! each traced one.
//!
//! The thread that drains the account sees every record. It passes the records of slow and traced
//! requests to a bounded queue and never waits: if the queue is full, the record is dropped, and
//! traced ones are counted as lost. Another thread writes the log and posts to the collector, which
//! may both be slow.

mod collector;
mod context;
mod slow;
mod spans;
mod traced;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_account::Record;
use pellucid_thread::{Job, start_job};
use serde_json::Value;

pub use collector::Export;
use slow::SlowLog;
use spans::{Anchor, document, spans};
pub(crate) use traced::{Trace, Traced};

use crate::observer::Observer;

/// The limit of records that wait for the log or the collector.
const QUEUE_MAX: usize = 2_048;
/// The limit of requests whose spans are posted together.
const BATCH_MAX: usize = 256;
/// The longest time that spans wait for others before they are posted.
const BATCH_PAUSE: Duration = Duration::from_secs(1);

/// The record of a slow or traced request.
struct Followed {
    record: Record,
    is_slow: bool,
    trace: Option<Trace>,
}

/// The thread behind the log of slow requests and the export of spans.
pub(crate) struct Follower {
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts to follow the requests that take `slow` or longer (none if it is zero), and those
    /// that are traced, if there is a collector in `export`.
    pub(crate) fn start(
        observer: &Arc<Observer>,
        slow: Duration,
        export: Option<Export>,
    ) -> io::Result<Follower> {
        if slow.is_zero() && export.is_none() {
            return Ok(Follower { thread: None });
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
            Following::new(following, export).run(&queue);
        };
        let thread = std::thread::Builder::new().name("pellucid-follow".to_owned()).spawn(run)?;
        Ok(Follower { thread: Some(thread) })
    }

    /// Waits until all records are written. It must be called after the account's drain has ended.
    pub(crate) fn finish(self, observer: &Observer) {
        observer.account.unlisten();
        if let Some(thread) = self.thread {
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
    followed: &SyncSender<Followed>,
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
    let is_lost = followed.try_send(Followed { record: *record, is_slow, trace }).is_err();
    if is_lost && is_traced {
        observer.followed.export_lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// The state of the thread.
struct Following {
    observer: Arc<Observer>,
    export: Option<Export>,
    slow: SlowLog,
    batch: Vec<Value>,
    /// The number of requests in the batch.
    requests: usize,
    /// True if the last post failed, so that a lasting failure is logged once.
    is_failing: bool,
}

impl Following {
    fn new(observer: Arc<Observer>, export: Option<Export>) -> Following {
        let slow = SlowLog::default();
        Following { observer, export, slow, batch: Vec::new(), requests: 0, is_failing: false }
    }

    fn run(mut self, queue: &Receiver<Followed>) {
        let clock = self.observer.account.clock();
        let mut batch_age = clock.stopwatch();
        loop {
            let pause_ns = u64::try_from(BATCH_PAUSE.as_nanos()).unwrap_or(u64::MAX);
            let left_ns = pause_ns.saturating_sub(batch_age.elapsed_ns());
            let ended = match queue.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok(followed) => {
                    self.follow(&followed);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if ended || self.requests >= BATCH_MAX || batch_age.elapsed_ns() >= pause_ns {
                self.post();
                self.slow.end_interval(&self.observer.log);
                batch_age = clock.stopwatch();
            }
            if ended {
                return;
            }
        }
    }

    fn follow(&mut self, followed: &Followed) {
        if followed.is_slow {
            let context = followed.trace.as_ref().map(|trace| trace.context);
            self.slow.write(&followed.record, context, &self.observer);
        }
        if let (Some(trace), true) = (&followed.trace, self.export.is_some()) {
            let anchor = Anchor::now(self.observer.account.clock());
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
